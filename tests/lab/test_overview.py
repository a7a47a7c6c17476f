"""Progress over all notebooks: what is solved, what comes next, and a file that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from labsim.commands.progress import command
from labsim.lab.overview import next_step, overview, progress
from labsim.lab.progress import mark_solved

from .test_teaching import cell


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("LABSIM_HOME", str(folder))
    monkeypatch.delenv("LABSIM_RUN_ID", raising=False)
    return folder


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two notebooks: 00 with one exercise, 01 with two."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for number, ids in (("00", ["00.1"]), ("01", ["01.1", "01.2"])):
        cells = [cell("markdown", f"# {number} Title", "slide")]
        for name in ids:
            cells.append(cell("markdown", f"text\n\n## Before {name}", "slide"))
            cells.append(cell("code", "...", "-", tags=["exercise"], labsim={"exercise": name}))
        document = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
        (folder / f"{number}_name.ipynb").write_text(json.dumps(document))
    monkeypatch.chdir(folder)
    return folder


def keep(home: Path, content: dict) -> None:
    (home / "progress.json").write_text(json.dumps(content))


def test_it_counts_what_is_solved_and_names_what_comes_next(course: Path, home: Path) -> None:
    assert [len(one.solved) for one in overview()] == [0, 0]
    assert next_step(overview()) == 'Next: 00.1 in 00_name.ipynb, under "Before 00.1".'
    keep(home, {"solved": ["00.1", "01.2", "99.9"], "quiz": {"00.q1": 2, "00.q9": 1}})
    first, second = overview()
    assert (first.title, first.solved, first.next, first.answered, first.questions) == (
        "00 Title",
        {"00.1"},
        None,
        1,
        3,
    )
    assert (second.solved, second.next, second.answered) == ({"01.2"}, ("01.1", "Before 01.1"), 0)
    assert next_step(overview()) == 'Next: 01.1 in 01_name.ipynb, under "Before 01.1".'
    keep(home, {"solved": ["00.1", "01.1", "01.2"]})
    assert next_step(overview()) == "All exercises are solved."


def test_a_duplicate_of_a_notebook_counts_nothing_twice(course: Path, home: Path) -> None:
    keep(home, {"solved": ["00.1"]})
    for copy in ("00_name-Copy1.ipynb", "01_name-Copy12.ipynb"):
        (course / copy).write_text((course / f"{copy[:7]}.ipynb").read_text())
    document = json.loads(CliRunner().invoke(command, ["--json"]).stdout)
    assert (document["solved"], document["exercises"], len(document["notebooks"])) == (1, 3, 2)


def test_the_command_says_the_same_as_text_and_as_json(course: Path, home: Path) -> None:
    keep(home, {"solved": ["00.1"], "quiz": {"00.q1": 1}})
    said = CliRunner().invoke(command, [])
    assert said.exit_code == 0
    assert said.stdout.splitlines() == [
        "00 Title  ■   1 of 1 exercises, 1 of 3 questions",
        "01 Title  □□  0 of 2 exercises, 0 of 5 questions",
        'Next: 01.1 in 01_name.ipynb, under "Before 01.1".',
    ]
    document = json.loads(CliRunner().invoke(command, ["--json"]).stdout)
    assert document["file"] == str(home / "progress.json")
    assert (document["solved"], document["exercises"]) == (1, 3)
    assert (document["answered"], document["questions"]) == (1, 8)
    assert document["next"] == {"notebook": "01_name.ipynb", "exercise": "01.1"}
    assert document["notebooks"][1]["exercises"] == ["01.1", "01.2"]


def test_a_file_that_is_none_of_ours_is_named(course: Path, home: Path) -> None:
    (home / "progress.json").write_text('{"solved": 3}')
    said = CliRunner().invoke(command, [])
    assert said.exit_code == 2
    assert "progress.json is not a progress file" in said.stderr and "correct or delete it" in said.stderr


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"solved": [], "quiz": {"00.q1": 1e999}}', '{"solved": "00.1"}'],
    ids=["deep", "inf", "text"],
)
def test_no_damage_of_the_file_is_a_traceback_or_is_saved_over(course: Path, home: Path, text: str) -> None:
    (home / "progress.json").write_text(text)
    said = CliRunner().invoke(command, ["--json"])
    assert (said.exit_code, said.stdout) == (2, "")
    assert "progress.json is not a progress file" in said.stderr
    assert "not saved" in mark_solved("00.1")
    assert (home / "progress.json").read_text() == text


def test_a_folder_without_notebooks_is_named(course: Path, tmp_path: Path) -> None:
    said = CliRunner().invoke(command, ["--notebooks", str(tmp_path / "home")])
    assert said.exit_code == 2
    assert "no notebook such as 01_name.ipynb in" in said.stderr


def test_in_a_notebook_a_bad_file_raises_nothing(course: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(home, {"solved": ["00.1"]})
    progress()
    assert "00 Title, 1 of 1, 0 of 3" in capsys.readouterr().out
    (home / "progress.json").write_text("[]")
    progress()
    assert "Your progress cannot be shown" in capsys.readouterr().out


def test_a_run_of_the_runner_shows_nobodys_progress(course: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(home, {"solved": ["00.1"]})
    monkeypatch.setenv("LABSIM_RUN_ID", "abc")
    assert [len(one.solved) for one in overview()] == [0, 0]
