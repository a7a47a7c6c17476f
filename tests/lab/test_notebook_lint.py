"""The lint: each rule broken once, and every notebook of the course clean. Solutions files are part of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell, new_output

from labsim.lab.notebooks import check_parameters, lint, parameters, parse_value, read_notebook
from labsim.lab.solutions import apply_solutions, load_solutions, parse_solutions

from .notebook_builder import PARAMETERS, code, notebook, write

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
Node = nbformat.NotebookNode


def _good() -> Node:
    return notebook(
        "%matplotlib inline\nfrom labsim.lab.metrics import record\nx = [n + 1 for n in range(3)]\nassert x[0] == 1",
        code("def f():\n    return 1", exercise="01.1"),
        "x[0] == 1",
    )


SOLUTIONS = {"01.1": "def f():\n    return 2"}


def test_a_good_notebook_is_clean() -> None:
    assert lint(_good(), SOLUTIONS) == []


def _set(cell: int, key: str, value: object) -> Callable[[Node], None]:
    return lambda nb: nb.cells[cell].__setitem__(key, value)


def _append(cell: Node) -> Callable[[Node], None]:
    return lambda nb: nb.cells.insert(-1, cell)


def _words(text: str) -> Node:
    return new_markdown_cell(text, metadata={"slideshow": {"slide_type": "subslide"}})


BROKEN: dict[str, tuple[Callable[[Node], None], str]] = {
    "no tag": (lambda nb: nb.cells[1].metadata.pop("tags"), "the first code cell is not tagged 'parameters'"),
    "not first": (lambda nb: nb.cells.insert(1, code("1")), "the first code cell is not tagged 'parameters'"),
    "tagged twice": (_append(code("a: int = 1", tags=["parameters"])), "2 cells are tagged 'parameters'"),
    "not annotated": (_set(1, "source", PARAMETERS + "\nk = 5"), "'k = 5'; allowed: name: type = literal"),
    "derived": (_set(1, "source", PARAMETERS + "\nk: int = 2 * seed"), "k is '2 * seed'; allowed: a literal"),
    "wrong literal": (_set(1, "source", PARAMETERS + "\nk: int = 2.0"), "k is 2.0; allowed: a literal of type int"),
    "bool for int": (_set(1, "source", PARAMETERS + "\nk: int = True"), "k is True; allowed: a literal of type int"),
    "other type": (_set(1, "source", PARAMETERS + "\nk: list = []"), "type is 'list'; allowed: str, int, float, bool"),
    "code there": (_set(1, "source", PARAMETERS + "\nimport os"), "'import os'; allowed: name: type = literal"),
    "assigned twice": (_set(1, "source", PARAMETERS + "\nseed: int = 0"), "'seed' is assigned twice"),
    "no seed": (_set(1, "source", 'scale: str = "ci"\nsolve: bool = False'), "parameter seed is missing"),
    "other scale": (_set(1, "source", PARAMETERS.replace("ci", "full")), "parameter scale is 'full'"),
    "no slide type": (lambda nb: nb.cells[2].metadata.pop("slideshow"), "cell 3: slideshow.slide_type is None"),
    "odd slide type": (_set(0, "metadata", {"slideshow": {"slide_type": "sldie"}}), "cell 1: slideshow.slide_type"),
    "outputs": (_set(2, "outputs", [new_output("stream", text="x")]), "cell 3: has outputs"),
    "count": (_set(2, "execution_count", 3), "cell 3: has execution count 3"),
    "widgets": (lambda nb: nb.metadata.update(widgets={}), "metadata.widgets is the trace of a run"),
    "kernel": (lambda nb: nb.metadata.update(kernelspec={"name": "conda-env"}), "kernelspec is 'conda-env'"),
    "injected": (_append(code("1", tags=["injected-parameters"])), "is an injected parameters cell"),
    "def": (_append(code("if x:\n    def g(): pass")), "defines 'g'"),
    "async def": (_append(code("async def g(): pass")), "defines 'g'"),
    "class": (_append(code("%time y = 1\nclass G: pass")), "defines 'G'"),
    "no python": (_append(code("x = = 1")), "is not Python"),
    "bare comparison": (_append(code("x == 1\ny = 2")), "compares without assert: 'x == 1'"),
    "no id": (lambda nb: nb.cells[3].metadata.pop("labsim"), "tagged 'exercise' with labsim.exercise None"),
    "no exercise tag": (lambda nb: nb.cells[3].metadata.pop("tags"), "but not the tag 'exercise'"),
    "copied cell": (lambda nb: nb.cells.append(nb.cells[3]), "exercise 01.1 is in cell 4 and in cell 6"),
    "misplaced": (
        lambda nb: nb.cells.insert(3, code("1", exercise="01.2")),
        "exercise 01.1 (cell 5) stands behind 01.2; allowed: numbered by place",
    ),
    "no solution": (_append(code("1", exercise="01.2")), "exercise 01.2 (cell 5) has no solution"),
    "no exercise": (lambda nb: nb.cells.pop(3), "solution 01.1 has no exercise"),
    "source alone": (_append(code("show_source(f)")), "cell 5: a page of source alone"),
    "task alone": (_append(_words("Try: another K.")), "cell 5: a page begins with 'Try:'"),
    "claim by its id": (_append(_words("So claim A7 holds.")), "cell 5: says 'claim A7'"),
    "no glossary": (_set(0, "source", "# docs/glossary.md is only named"), "no markdown cell links docs/glossary.md"),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_each_rule_broken_once(rule: str) -> None:
    damage, says = BROKEN[rule]
    damaged = _good()
    damage(damaged)
    problems = lint(damaged, SOLUTIONS)
    assert any(says in problem for problem in problems), problems


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_of_the_course(path: Path) -> None:
    nbformat.validate(nbformat.read(path, as_version=4))
    assert lint(read_notebook(path), load_solutions(path)) == []


def test_reading_agrees_with_nbformat(tmp_path: Path) -> None:
    path = write(tmp_path / "01_t.ipynb", "a = 1\nb = 2", "é")
    ours, theirs = read_notebook(path), nbformat.read(path, as_version=4)
    assert [cell["source"] for cell in ours["cells"]] == [cell.source for cell in theirs.cells]


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", '{"nbformat": 3, "worksheets": []}', '{"nbformat": 4}', "[" * 100_000, "\xff"),
        *(
            f'{{"nbformat": 4, "cells": [{cell}]}}'
            for cell in (
                "3",
                '{"source": "", "metadata": {}}',
                '{"cell_type": "code", "metadata": {}}',
                '{"cell_type": "code", "source": [3], "metadata": {}}',
                '{"cell_type": "code", "source": "", "metadata": []}',
            )
        ),
    ],
)
def test_a_file_that_is_no_notebook(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.ipynb").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"x\.ipynb is not a notebook"):
        read_notebook(tmp_path / "x.ipynb")


SCHEMA = parameters(notebook(parameters='a: int = 1\nb: float = 1\nc: str = "x = y # z"\nd: bool = True'))


def test_schema_reads_what_a_line_pattern_cannot() -> None:
    assert [(p.type, p.default) for p in SCHEMA.values()] == [
        (int, 1),
        (float, 1.0),
        (str, "x = y # z"),
        (bool, True),
    ]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("a", "-3", -3),
        ("b", "1e-3", 1e-3),
        ("b", "2", 2.0),
        ("c", "10", "10"),
        ("d", "False", False),
        ("d", "true", True),
    ],
)
def test_typed_text_is_read_as_the_parameters_type(name: str, text: str, value: object) -> None:
    parsed = parse_value(SCHEMA[name], text)
    assert parsed == value and type(parsed) is type(value)
    assert check_parameters(SCHEMA, {name: parsed}) == {name: value}


@pytest.mark.parametrize(("name", "text"), [("a", "1.5"), ("a", "x"), ("b", "x"), ("d", "1"), ("d", "")])
def test_typed_text_of_the_wrong_type(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"parameter {name} is '{text}'; allowed"):
        parse_value(SCHEMA[name], text)


TEXT = '"""Solutions."""\n\nfrom x import y\n\n# %% 01.1 the first\ndef f():\n    return 1\n\n\n# %% 01.2\nz = 1\n'


def test_solutions_are_split_at_their_headers() -> None:
    assert parse_solutions(TEXT) == {"01.1": "def f():\n    return 1", "01.2": "z = 1"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# %%\nx = 1", "s.py:1: block header is '# %%'; allowed: '# %% 01.1'"),
        ("# %% [markdown]\nx = 1", "block header"),
        ("# %% 01.1\nx = 1\n# %% 01.1\nx = 2", "s.py:3: exercise 01.1 has two blocks"),
        ("# %% 01.1\n# only a comment\n", "block 01.1 is empty"),
        ("# %% 01.1\nx = = 1\n", "block 01.1 is not Python"),
        ("x = 1\n# %% 01.1\nx = 2\n", "s.py:1: code before the first block never runs"),
    ],
)
def test_solutions_files_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_solutions(text, "s.py")
    assert says in str(caught.value)


def test_apply_solutions_changes_the_exercise_cells_of_a_copy() -> None:
    before = _good()
    untouched = copy.deepcopy(before)
    solved = apply_solutions(before, SOLUTIONS)
    assert before == untouched
    changed = [i for i, (a, b) in enumerate(zip(before.cells, solved.cells, strict=True)) if a.source != b.source]
    assert changed == [3] and solved.cells[3].source == SOLUTIONS["01.1"]


@pytest.mark.parametrize(
    ("solutions", "says"),
    [
        ({}, "exercise 01.1 (cell 4) has no solution; add a block '# %% 01.1' (blocks there: none)"),
        ({"01.1": "x = 1", "01.11": "x = 1"}, "exercise in the solutions file: '01.11'; did you mean '01.1'?"),
    ],
)
def test_exercises_and_solutions_must_match(solutions: dict, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        apply_solutions(_good(), solutions)
    assert says in str(caught.value)


def test_a_notebook_without_a_solutions_file_has_no_solutions(tmp_path: Path) -> None:
    assert load_solutions(tmp_path / "01_t.ipynb") == {}
