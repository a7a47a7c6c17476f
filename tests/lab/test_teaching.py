"""The instructors' run sheet: counted by hand on a small notebook, and docs/teaching.md is current."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from labsim.commands.teaching import command
from labsim.lab.exercise import registry
from labsim.lab.overview import course_folder
from labsim.lab.run_sheet import NOT_MEASURED, PLANS, Part, Plan, plan_section, sheet
from labsim.lab.teaching import check_seconds, facts, shipped_answers

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def cell(kind: str, source: str, slide: str, **metadata: object) -> dict:
    made = {"cell_type": kind, "source": source, "metadata": {"slideshow": {"slide_type": slide}, **metadata}}
    return made | ({"outputs": [], "execution_count": None} if kind == "code" else {})


SMALL = [
    cell("markdown", "# 01 A title\n\nTime: 45 minutes. Before: [00](00_start_here.ipynb). No GPU.", "slide"),
    cell("code", "import math", "skip"),
    cell("markdown", "## To move\n\nAs Notebook 00 says; notebook 15 says more.", "slide"),
    cell("code", "explorer = what()\nexplorer", "-"),
    cell("code", "show(figure)", "subslide"),
    cell("markdown", "### Now you", "fragment"),
    cell("code", '@exercise("01.1")\ndef f(): ...', "-", tags=["exercise"], labsim={"exercise": "01.1"}),
]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "01_small.py").write_text(
        'from labsim.lab.course import exercise\n\n# %% 01.1\n# why\n\n@exercise("01.1")\ndef f(alpha, k):\n'
        "    return sum(alpha**i for i in range(k + 1))\n"
    )
    path = tmp_path / "01_small.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": SMALL}))
    return path


def test_what_stands_in_the_sheet_is_counted(small: Path) -> None:
    found = facts(small)
    assert (found.title, found.minutes, found.needs) == ("01 A title", 45, "Before: 00. No GPU.")
    assert (found.slides, found.widgets, found.before) == (3, ("To move",), ("00",))
    (one,) = found.exercises
    assert (one.exercise.id, one.place, one.solution_lines) == ("01.1", "Now you", 3)
    assert one.named_mistakes == len(registry()["01.1"].check.misconceptions) > 0
    assert found.exercise_minutes == registry()["01.1"].minutes


def test_a_notebook_without_a_time_is_refused(small: Path) -> None:
    small.write_text(small.read_text().replace("Time: 45 minutes", "Takes a while"))
    with pytest.raises(ValueError, match=r"01_small.ipynb has no heading, or no 'Time: 45 minutes\.'"):
        facts(small)


def test_the_time_of_a_check_is_that_of_a_right_answer(small: Path) -> None:
    (seconds,) = check_seconds(small).values()
    assert 0 < seconds < 30
    solution = small.parent / "solutions" / "01_small.py"
    solution.write_text(solution.read_text().replace("k + 1", "k"))
    with pytest.raises(ValueError, match=r"the solution to 01\.1 in .*01_small\.py does not pass"):
        check_seconds(small)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_shipped_answer_is_found(notebook: Path) -> None:
    assert set(shipped_answers(notebook)) == {one.exercise.id for one in facts(notebook).exercises}


def test_measured_seconds_stand_where_they_belong(small: Path) -> None:
    page = sheet([facts(small)], {"01.1": 0.123}, {"01_small": 12.3})
    assert re.search(r"^\| 01\.1 .* \| 3 lines \| \d+ \| 0\.123 s \|$", page, re.MULTILINE)
    assert re.search(r"^\| \[01 A title\]\(#01-a-title\) \| 45 \| .* \| 12\.3 s \| 00 \|", page, re.MULTILINE)
    assert sheet([facts(small)], {}, {}).count(NOT_MEASURED) == 2


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.title)
def test_a_plans_minutes_add_up(plan: Plan) -> None:
    """The rows of the page against minutes taken from the notebooks and exercises themselves."""
    page = (ROOT / "docs" / "teaching.md").read_text()
    section = page.partition(f"### {plan.title}\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (\d+):(\d\d) \| (\d+):(\d\d) \| (.+?) \| (\d+) \| (.*?) \|$", section, re.MULTILINE)
    assert len(rows) == len(plan.parts)
    now = 0
    for hours, minutes, until, until_minutes, what, length, home in rows:
        assert int(hours) * 60 + int(minutes) == now
        now += int(length)
        assert int(until) * 60 + int(until_minutes) == now
        if number := re.match(r"\[(\d\d) ", what):
            text = next(path for path in NOTEBOOKS if path.name.startswith(number[1])).read_text()
            left_out = sum(registry()[one].minutes for one in home.split(", ") if one)
            assert int(re.search(r"Time: (?:about )?(\d+) minutes", text)[1]) == int(length) + left_out
        else:
            assert what in ("pause", "lunch") and not home
    assert f"{now // 60} h {now % 60} min.\n" in section
    assert now <= (230 if plan.title.startswith("Half") else 400)


def test_the_plans_together_teach_every_notebook() -> None:
    taught = {part.notebook for plan in PLANS for part in plan.parts if isinstance(part, Part)}
    assert taught == {path.name[:2] for path in NOTEBOOKS}


def test_a_plan_leaves_hard_exercises_for_home_and_names_what_it_builds_on(small: Path) -> None:
    found = facts(small)
    hard = replace(found.exercises[0], exercise=replace(found.exercises[0].exercise, difficulty="hard", minutes=10))
    one = replace(found, exercises=(hard,))
    section = plan_section(Plan("A", "For you.", (Part("01", hard=False), 50, Part("01"))), {"01": one})
    assert "For you. It builds on 00. 1 h 20 min of course, 50 min of pauses: 2 h 10 min." in section
    assert section.splitlines()[-3:] == [
        "| 0:00 | 0:35 | [01 A title](#01-a-title) | 35 | 01.1 |",
        "| 0:35 | 1:25 | lunch | 50 |  |",
        "| 1:25 | 2:10 | [01 A title](#01-a-title) | 45 |  |",
    ]
    assert "## Plans" not in sheet([found], {}, {}), "a plan needs all of its notebooks"


def test_the_page_in_docs_is_current_but_for_measured_seconds() -> None:
    page = (ROOT / "docs" / "teaching.md").read_text()
    wanted = sheet([facts(path) for path in NOTEBOOKS], {}, {})
    assert without_seconds(page) == without_seconds(wanted), "run: labsim teaching"
    checks = re.findall(r"^\| \d\d\.\d+ .*\| ([^|]+) \|$", page, re.MULTILINE)
    assert len(checks) == sum(len(facts(path).exercises) for path in NOTEBOOKS)
    assert all(re.fullmatch(r"\d+\.\d+ s", one) for one in checks), "every check is measured"


def test_the_command_writes_the_page_with_the_times_of_a_report(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.parent)
    report = small.parent / "report.json"
    report.write_text(json.dumps({"notebooks": [{"notebook": "notebooks/01_small.ipynb", "cpu_s": 7.04}]}))
    out = small.parent / "page.md"
    said = CliRunner().invoke(command, ["--out", str(out), "--runs", str(report), "--json"])
    document = json.loads(said.stdout)
    assert (document["notebooks"], document["run_seconds"]) == (1, {"01_small": 7.04})
    assert set(document["check_seconds"]) == {"01.1"}
    assert "| 7.0 s | 00 |" in out.read_text()


@pytest.mark.parametrize("text", ["{", "[]", '{"notebooks": 3}', '{"notebooks": [{}]}'])
def test_a_report_that_is_none_is_named(small: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(small.parent)
    report = small.parent / "report.json"
    report.write_text(text)
    said = CliRunner().invoke(command, ["--out", str(small.parent / "page.md"), "--runs", str(report)])
    assert said.exit_code == 2
    assert "report.json is no output of `labsim run --json`" in said.stderr
    assert not (small.parent / "page.md").exists()


def without_seconds(page: str) -> str:
    return re.sub(rf"\| (\d+(\.\d+)? s|{NOT_MEASURED}) \|", "| measured |", page)


def test_the_course_is_found_from_below_and_from_elsewhere(tmp_path: Path) -> None:
    assert course_folder(ROOT / "notebooks" / "solutions") == ROOT / "notebooks"
    assert course_folder(tmp_path) == ROOT / "notebooks"
