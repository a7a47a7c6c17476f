"""Exercises in a notebook: what a cell shows, what is kept, and how hints and solutions come."""

from __future__ import annotations

import json

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from labsim.lab import exercise as module
from labsim.lab import progress
from labsim.lab.exercise import (
    answer,
    exercise,
    find_exercise,
    find_notebooks,
    hint,
    measured,
    registry,
    solution,
    task,
)
from labsim.lab.verdict import EXERCISE_MIME


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("LABSIM_HOME", str(folder))
    monkeypatch.delenv("LABSIM_RUN_ID", raising=False)
    return folder


@pytest.fixture(autouse=True)
def shell(home, monkeypatch):
    """A real IPython shell, so that display() has somewhere to go."""
    monkeypatch.setenv("IPYTHONDIR", str(home.parent / "ipython"))
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    yield shell
    InteractiveShell.clear_instance()


def run(function):
    """What a cell displays: the bundles."""
    with capture_output() as captured:
        function()
    return [output.data for output in captured.outputs]


def test_the_decorator_shows_the_verdict_and_returns_the_learners_own_function():
    def mine(accepted):
        return sum(accepted) / len(accepted)

    kept = []
    (bundle,) = run(lambda: kept.append(exercise("00.1")(mine)))
    assert kept == [mine] and mine.passed is False
    assert bundle[EXERCISE_MIME] == {
        "id": "00.1",
        "status": "misconception",
        "misconception": "the target's own token is missing",
    }
    assert "the target&#x27;s own token" in bundle["text/html"].lower()
    assert bundle["text/plain"].startswith("00.1 Tokens per target forward: ✗ not yet.")
    assert 'hint("00.1")' in bundle["text/plain"]


def test_a_solved_exercise_is_kept_on_disk_and_only_then(home):
    run(lambda: exercise("00.1")(lambda accepted: 0))
    assert progress.solved() == frozenset()
    (bundle,) = run(lambda: exercise("00.1")(lambda accepted: sum(accepted) / len(accepted) + 1))
    assert bundle[EXERCISE_MIME]["status"] == "passed"
    assert progress.solved() == {"00.1"}
    assert json.loads((home / "progress.json").read_text()) == {"solved": ["00.1"]}
    assert [path.name for path in home.iterdir()] == ["progress.json"]


def test_a_run_of_the_runner_leaves_progress_alone(home, monkeypatch):
    monkeypatch.setenv("LABSIM_RUN_ID", "abc")
    run(lambda: exercise("00.1")(lambda accepted: sum(accepted) / len(accepted) + 1))
    assert list(home.iterdir()) == []


def test_a_damaged_progress_file_costs_no_verdict_and_is_said(home):
    (home / "progress.json").write_text("{")
    (bundle,) = run(lambda: exercise("00.1")(lambda accepted: sum(accepted) / len(accepted) + 1))
    assert bundle[EXERCISE_MIME]["status"] == "passed"
    assert "not saved" in bundle["text/plain"]
    assert (home / "progress.json").read_text() == "{"


def test_answer_shows_a_verdict_and_returns_nothing():
    (bundle,) = run(lambda: answer("00.1", None))
    # 00.1 takes an argument, so a value is told apart from a function of it.
    assert "takes `()`" in bundle["text/plain"]


def test_without_a_notebook_the_verdict_is_printed(shell, capsys):
    InteractiveShell.clear_instance()
    exercise("00.1")(lambda accepted: 0)
    assert capsys.readouterr().out.startswith("00.1 Tokens per target forward: ✗ not yet.")


def test_what_the_page_has_measured_is_tried_when_the_cell_runs(monkeypatch):
    def mine(accepted):
        return sum(accepted) / len(accepted) + (1 if len(accepted) < 100 else 0)

    monkeypatch.setattr(module, "_measured", {})
    (bundle,) = run(lambda: exercise("00.1")(mine))
    assert bundle[EXERCISE_MIME]["status"] == "passed"
    for _ in range(2):  # a cell that runs again puts its cases in place of the old ones
        measured("00.1", [(([1] * 200,), 2.0), (([3],), 4.0)])
    assert len(module._measured["00.1"]) == 2
    (bundle,) = run(lambda: exercise("00.1")(mine))
    assert bundle[EXERCISE_MIME]["status"] == "wrong"
    (bundle,) = run(lambda: exercise("00.1")(lambda accepted: sum(accepted) / len(accepted) + 1))
    assert "Inputs measured on this page: 2." in bundle["text/plain"]
    with pytest.raises(ValueError, match="unknown exercise"):
        measured("00.9", [])


def test_hints_come_in_turn_and_by_number(monkeypatch):
    monkeypatch.setattr(module, "_turns", module._Turns())
    shown = [run(lambda: hint("00.1"))[0]["text/plain"] for _ in range(4)]
    assert [text.split(":")[0] for text in shown] == [f"00.1, hint {n} of 3" for n in (1, 2, 3, 3)]
    assert shown[0].split("\n")[0].endswith(registry()["00.1"].hints[0])
    assert 'solution("00.1")' in shown[2]
    assert "hint 2 of 3" in run(lambda: hint("00.1", 2))[0]["text/plain"]
    with pytest.raises(ValueError, match="number is 4; allowed: 1, 2 or 3"):
        hint("00.1", 4)


def test_the_solution_is_found_from_anywhere_and_passes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (find_notebooks(tmp_path) / "solutions" / "00_start_here.py").exists()
    (bundle,) = run(lambda: solution("00.1"))
    source = bundle["text/markdown"].split("```python\n")[1].split("```")[0]
    (verdict,) = run(lambda: exec(source, {"exercise": exercise}))
    assert verdict[EXERCISE_MIME]["status"] == "passed"


def test_the_task_card_has_time_and_difficulty():
    (bundle,) = run(lambda: task("00.1"))
    assert bundle["text/plain"].startswith("00.1 Tokens per target forward (3 min, warm-up)")


def test_an_unknown_id_is_refused_with_the_nearest_match():
    with pytest.raises(ValueError, match=r"^unknown exercise '00\.9'; did you mean '00\.1'\? known: 00\.1$"):
        find_exercise("00.9")
    with pytest.raises(ValueError, match=r"^unknown exercise '0\.1'; did you mean '00\.1'\? known: 00\.1$"):
        find_exercise("0.1")
    with pytest.raises(ValueError, match=r"^exercise is '99\.1'; right: a notebook and a number in it"):
        find_exercise("99.1")


@pytest.mark.parametrize(
    "change", [{"id": "1.2"}, {"difficulty": "brutal"}, {"hints": ("a", "b")}, {"hints": ("a", "b", "")}]
)
def test_a_badly_described_exercise_is_refused(change):
    from dataclasses import replace

    with pytest.raises(ValueError, match="allowed"):
        replace(registry()["00.1"], **change)
