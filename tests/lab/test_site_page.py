"""A notebook's page: what a reader sees at once, what is folded, and what is not there at all."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from labsim.lab.exercise import find_exercise
from labsim.lab.site.page import page_of, without_paths
from labsim.lab.solutions import exercise_cells, load_solutions

from .site_course import NOTEBOOKS, ROOT, ran, source

ALPHA = NOTEBOOKS[0]


def page(**options: object) -> nbformat.NotebookNode:
    options = {"solutions": load_solutions(ALPHA), "private": {ROOT: "labsim"}, **options}
    return page_of(source(ALPHA), ran(ALPHA), **options)


def test_the_exercise_stands_empty_with_hints_mistakes_and_solution_folded() -> None:
    cells = page().cells
    at = next(i for i, cell in enumerate(cells) if '@exercise("01.1")' in cell.source)
    assert cells[at].source == source(ALPHA)["cells"][exercise_cells(source(ALPHA))["01.1"]]["source"]
    assert cells[at].outputs == []
    folds = re.findall(r"<details><summary>(.*?)</summary>(.*?)</details>", cells[at + 1].source, re.DOTALL)
    exercise = find_exercise("01.1")
    titles = [title for title, _ in folds]
    assert titles == [f"Hint {n} of 3" for n in (1, 2, 3)] + [
        "Mistakes that the check knows by name",
        "One right answer",
    ]
    assert all(one.name in folds[3][1] for one in exercise.check.misconceptions)
    assert load_solutions(ALPHA)["01.1"] in folds[4][1] and "Right: 01.1." in folds[4][1]
    outside = re.sub(r"<details>.*?</details>", "", cells[at + 1].source, flags=re.DOTALL)
    assert outside.split() == ["<div", 'class="labsim-folds">', "</div>"], "something of it is not folded"


def test_a_students_page_holds_no_solution_and_no_verdict() -> None:
    text = nbformat.writes(page(solutions={}))
    assert "One right answer" not in text and "Right: 01.1." not in text and "Hint 3 of 3" in text
    for solution in load_solutions(ALPHA).values():
        assert solution.splitlines()[-1].strip() not in text


def test_parameters_and_imports_are_folded_and_what_papermill_put_in_is_gone() -> None:
    cells = page().cells
    assert not any(cell.source == "solve = True" for cell in cells)
    folded = {cell.metadata.mystnb.code_prompt_show: cell for cell in cells if "mystnb" in cell.metadata}
    assert set(folded) == {"Parameters", "Imports"}
    assert all("hide-cell" in cell.metadata.tags for cell in folded.values())
    assert not any(
        re.match("task|quiz", cell.source) for cell in cells if "remove-input" not in cell.metadata.get("tags", ())
    )
    assert folded["Imports"].outputs[0].text == "Python at labsim/.venv/bin/python; scale ci\n"


def test_widgets_have_become_what_draws_them() -> None:
    made = page()
    assert "widgets" not in made.metadata
    drawn = [
        o
        for c in made.cells
        for o in c.get("outputs", ())
        if "labsim-standalone" in o.get("data", {}).get("text/html", "")
    ]
    assert len(drawn) == 2


def test_a_run_of_another_version_is_refused() -> None:
    other = source(ALPHA)
    del other["cells"][exercise_cells(other)["01.2"]]
    with pytest.raises(ValueError, match=r"run the notebook again"):
        page_of(other, ran(ALPHA), solutions={})


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("at /home/x/labsim/.venv/bin/python;", "at here/.venv/bin/python;"),
        ("in /home/x/labsim.", "in here/."),
        ("in /home/x/labsim, there", "in here/, there"),
        ("/srv/home/x/labsim/a", "/srv/home/x/labsim/a"),
        ("/home/x/labsim-2/a", "~/labsim-2/a"),
        ("/home/xy/a", "/home/xy/a"),
    ],
)
def test_directories_of_this_machine_are_not_told(text: str, left: str) -> None:
    assert without_paths(text, {Path("/home/x/labsim"): "here", Path("/home/x"): "~"}) == left
