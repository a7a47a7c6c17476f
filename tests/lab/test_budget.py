"""Time budgets: what is recorded, what is reported, and that no time fails a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labsim.lab.budget import DELIVERED, SOLVED, budget_of, load_budgets, update_budget
from labsim.lab.runner import run

from .notebook_builder import write

LIMITS = {"deadline_s": 60, "memory_cap_bytes": 2 * 10**9}
COURSE = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def test_budgets_are_those_of_notebooks_that_exist() -> None:
    """A notebook without one is reported where it runs (`tests/notebooks`)."""
    assert set(load_budgets()) <= {path.stem for path in COURSE}
    assert len(load_budgets()) >= 10


@pytest.mark.parametrize(
    ("seconds", "solve", "over"), [(14.0, True, False), (16.0, True, True), (6.0, False, False), (7.6, False, True)]
)
def test_a_regression_is_one_and_a_half_times_the_record(seconds: float, solve: bool, over: bool) -> None:
    budget = budget_of(Path("01_t.ipynb"), seconds, solve, {"01_t": {SOLVED: 10.0, DELIVERED: 5.0}})
    assert budget.over is over
    assert f"01_t.ipynb: {seconds:.1f} s of processor time, {budget.ratio:.1f} times its budget" in budget.text


def test_no_record_no_time_and_no_second_say_nothing() -> None:
    assert budget_of(Path("02_t.ipynb"), 5.0, True, {"01_t": {SOLVED: 1.0}}) is None
    assert budget_of(Path("01_t.ipynb"), None, True, {"01_t": {SOLVED: 1.0}}) is None
    assert not budget_of(Path("01_t.ipynb"), 1.9, True, {"01_t": {SOLVED: 1.0}}).over, "a kernel's start takes as much"


def test_what_is_recorded_is_read_back_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "budgets.json"
    update_budget(Path("02_b.ipynb"), 2.04, True, path)
    update_budget(Path("01_a.ipynb"), 7.0, False, path)
    update_budget(Path("02_b.ipynb"), 3.0, False, path)
    assert load_budgets(path) == {"01_a": {DELIVERED: 7.0}, "02_b": {SOLVED: 2.0, DELIVERED: 3.0}}
    assert list(load_budgets(path)) == ["01_a", "02_b"]


@pytest.mark.parametrize(
    "document", [[], {"01_a": 3}, {"01_a": {"solved": "fast"}}, {"01_a": {"warm": 1}}, {"01_a": {"solved": 0}}]
)
def test_a_bad_file_is_named(tmp_path: Path, document: object) -> None:
    (tmp_path / "budgets.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"budgets\.json"):
        load_budgets(tmp_path / "budgets.json")


def test_processor_time_is_that_of_the_kernel_and_of_what_it_starts(tmp_path: Path) -> None:
    """Sleep costs nothing; a child that computes counts as much as the kernel itself."""
    burn = "import time; until = time.process_time() + 1.0\\nwhile time.process_time() < until: pass"
    idle = run(write(tmp_path / "01_idle.ipynb", "import time; time.sleep(2)"), **LIMITS)
    busy = run(
        write(
            tmp_path / "02_busy.ipynb",
            "import subprocess, sys, time\nuntil = time.process_time() + 1.0\nwhile time.process_time() < until: pass",
            f"subprocess.run([sys.executable, '-c', '{burn}'], check=True)",
        ),
        **LIMITS,
    )
    assert 1.8 < busy.cpu_s - idle.cpu_s < 4.0
