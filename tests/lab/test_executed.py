"""An executed notebook is used again while nothing that it shows can have changed, and not a moment longer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labsim.lab import executed
from labsim.lab.executed import ExecutionFailed, bring_up_to_date, inputs_digest, is_current

from .notebook_builder import code, write


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository's skeleton, its package in place of ours."""
    for name in ("labsim/sim/a.py", "labsim/lab/site/b.py", "labsim/commands/c.py", "data/d.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    (tmp_path / "notebooks/solutions").mkdir(parents=True)
    (tmp_path / "notebooks/solutions/01_a.py").write_text("# %% 01.1\n1\n")
    write(tmp_path / "notebooks/01_a.ipynb", "1 + 1")
    monkeypatch.setattr(executed, "PACKAGE", tmp_path / "labsim")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("notebooks/01_a.ipynb", True),
        ("notebooks/solutions/01_a.py", True),
        ("labsim/sim/a.py", True),
        ("data/d.csv", True),
        ("labsim/lab/site/b.py", False),
        ("labsim/commands/c.py", False),
    ],
)
def test_what_can_move_a_number_counts_and_what_only_presents_does_not(
    repository: Path, path: str, counts: bool
) -> None:
    notebook = repository / "notebooks/01_a.ipynb"
    before = inputs_digest(notebook, solve=True)
    assert inputs_digest(notebook, solve=True) == before
    (repository / path).write_text((repository / path).read_text() + " ")
    assert (inputs_digest(notebook, solve=True) != before) == counts


def test_solutions_count_where_they_run_only(repository: Path) -> None:
    notebook = repository / "notebooks/01_a.ipynb"
    before = {solve: inputs_digest(notebook, solve=solve) for solve in (True, False)}
    assert before[True] != before[False]
    (repository / "notebooks/solutions/01_a.py").write_text("# %% 01.1\n2\n")
    assert inputs_digest(notebook, solve=True) != before[True]
    assert inputs_digest(notebook, solve=False) == before[False]


def test_a_notebook_runs_once_then_again_when_it_changes_and_a_failed_run_says_why(repository: Path) -> None:
    notebook, folder = repository / "notebooks/01_a.ipynb", repository / "ran"
    write(notebook, "print(6 * 7)")
    told: list[str] = []
    (ran,) = bring_up_to_date([notebook], folder, solve=False, say=told.append)
    assert told == ["to execute: 01_a.ipynb", f"executed {ran}"] and is_current(notebook, ran, solve=False)
    assert "42" in ran.read_text() and not is_current(notebook, ran, solve=True)
    first = ran.stat().st_mtime_ns
    bring_up_to_date([notebook], folder, solve=False, say=told.append)
    assert ran.stat().st_mtime_ns == first and len(told) == 2

    write(notebook, code("raise KeyError('planted')"))
    assert not is_current(notebook, ran, solve=False)
    with pytest.raises(ExecutionFailed, match="planted"):
        bring_up_to_date([notebook], folder, solve=False)
    assert not is_current(notebook, ran, solve=False)


def test_what_is_no_executed_notebook_is_not_current(tmp_path: Path) -> None:
    notebook = write(tmp_path / "01_a.ipynb", "1")
    assert not is_current(notebook, tmp_path / "gone.ipynb", solve=True)
    (tmp_path / "broken.ipynb").write_text("{")
    assert not is_current(notebook, tmp_path / "broken.ipynb", solve=True)
    document = json.loads(notebook.read_text())
    document["metadata"]["labsim"] = {"made_from": "another"}
    (tmp_path / "other.ipynb").write_text(json.dumps(document))
    assert not is_current(notebook, tmp_path / "other.ipynb", solve=True)
