"""Every notebook of the course, executed whole, with its exercises solved and as it is handed out.

Both runs have the same limits and the same goldens: no number of a notebook may depend on what a learner has typed. A
run that takes more than 1.5 times its recorded processor time is reported as a warning; timings never decide.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from labsim.lab.budget import budget_of, load_budgets
from labsim.lab.claims.findings import RULES
from labsim.lab.claims.judge import finding
from labsim.lab.claims.store import load_directory, metrics_directory, values
from labsim.lab.claims.table import read_claims
from labsim.lab.golden import golden_path
from labsim.lab.runner import run

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
DEADLINE_S = 900  # against what hangs: a busy machine takes many times as long as an idle one
MEMORY_CAP_BYTES = 4 * 10**9


class SlowNotebookWarning(UserWarning):
    """A notebook takes clearly more processor time than its budget, or has none."""


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS, f"no notebook in {ROOT / 'notebooks'}: an empty course must not be green"


@pytest.mark.notebook
@pytest.mark.timeout(DEADLINE_S + 60)
@pytest.mark.parametrize("solve", [True, False], ids=["solved", "delivered"])
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(notebook: Path, solve: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(
        notebook,
        tmp_path / notebook.name,
        {"scale": "ci", "seed": 0},
        deadline_s=DEADLINE_S,
        memory_cap_bytes=MEMORY_CAP_BYTES,
        solve=solve,
        golden=golden_path(notebook),
        threads=1,  # as the other tests: two run at a time, and a second thread costs a fifth more processor time
    )
    assert result.goldens_checked == len(result.metrics) > 0, "a notebook without a single number checks nothing"
    if not solve:
        assert set(result.exercises.values()) == {"not attempted"}, "an exercise as delivered is an empty one"
    claims_hold({name: metric.value for name, metric in result.metrics.items()}, notebook.name[:2])
    budget = budget_of(notebook, result.cpu_s, solve, load_budgets())
    if budget is None:
        command = f"labsim run {'--solve ' if solve else ''}--update-budget notebooks/{notebook.name}"
        text = f"{notebook.name} has no budget; on a quiet machine: {command}"
        warnings.warn(text, SlowNotebookWarning, stacklevel=1)
    elif budget.over:
        warnings.warn(budget.text, SlowNotebookWarning, stacklevel=1)
    slowest = max(result.cells, key=lambda cell: cell.seconds)
    with capsys.disabled():
        print(
            f"\n{notebook.name}: {result.wall_s:.1f} s, {result.cpu_s:.1f} s of processor, "
            f"{result.peak_memory_bytes / 1e6:.0f} MB peak, {result.goldens_checked} goldens; "
            f"slowest cell {slowest.number}: {slowest.seconds:.1f} s ",
            end="",
        )


def claims_hold(found: dict[str, object], number: str) -> None:
    """The verdicts of the claims page, judged again with this run's numbers in place of the recorded ones."""
    recorded = values(load_directory(metrics_directory() / "ci"))
    now = {**recorded, **{f"{number}.{name}": value for name, value in found.items()}}
    for claim in read_claims().values():
        rule = RULES.get(claim.id)
        if rule and not rule.timed and any(use.startswith(f"{number}.") for use in rule.uses):
            page, here = finding(claim, recorded), finding(claim, now)
            assert here.verdict is page.verdict, f"{claim.id}: the page says {page}, this run {here}"
