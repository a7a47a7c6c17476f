"""Time budgets: how much processor time each notebook takes, and whether it has become slow.

`data/budgets.json` holds, per notebook, the processor seconds (user and system, of the kernel and all it started) of a
run with solutions and of one as delivered, as the runner counted them. Wall clock says more about the machine's other
work than about the notebook. Another machine has other seconds, and so a run beyond the budget is reported and never
failed: a report on one notebook is news, one on all of them is another machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..models.paths import data_directory

SLOW = 1.5
SOLVED, DELIVERED = "solved", "as delivered"
# Below this a kernel's start outweighs the notebook, and a busy machine doubles it.
_SHORTEST_S = 2.0


@dataclass(frozen=True)
class Budget:
    """One run beside its recorded processor time."""

    notebook: str
    cpu_s: float
    recorded_s: float

    @property
    def ratio(self) -> float:
        """Time now over time recorded."""
        return self.cpu_s / self.recorded_s

    @property
    def over(self) -> bool:
        """Whether this is a regression worth a line."""
        return self.ratio > SLOW and self.cpu_s > _SHORTEST_S

    @property
    def text(self) -> str:
        """One line for a report."""
        return (
            f"{self.notebook}: {self.cpu_s:.1f} s of processor time, {self.ratio:.1f} times its budget of "
            f"{self.recorded_s:.1f} s. If that is meant: labsim run --update-budget"
        )


def budgets_file() -> Path:
    """The repository's budgets."""
    return data_directory() / "budgets.json"


def load_budgets(path: Path | None = None) -> dict[str, dict[str, float]]:
    """Seconds by notebook (without `.ipynb`) and kind of run; empty where there is no file.

    Raises:
        ValueError: not a file of budgets.
    """
    path = path or budgets_file()
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        budgets = {name: {kind: float(seconds) for kind, seconds in one.items()} for name, one in document.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is no file of budgets: {error}") from error
    wrong = {kind for one in budgets.values() for kind in one} - {SOLVED, DELIVERED}
    if wrong or any(seconds <= 0 for one in budgets.values() for seconds in one.values()):
        raise ValueError(f"{path}: allowed are seconds above 0 under {SOLVED!r} and {DELIVERED!r}")
    return budgets


def budget_of(
    notebook: Path, cpu_s: float | None, solve: bool, budgets: Mapping[str, Mapping[str, float]]
) -> Budget | None:
    """The budget of a run; None where none is recorded or its time is not known."""
    recorded = budgets.get(notebook.stem, {}).get(SOLVED if solve else DELIVERED)
    return None if recorded is None or cpu_s is None else Budget(notebook.name, cpu_s, recorded)


def update_budget(notebook: Path, cpu_s: float, solve: bool, path: Path | None = None) -> None:
    """Record the processor time of a run as its budget, in one step."""
    path = path or budgets_file()
    budgets = load_budgets(path)
    budgets.setdefault(notebook.stem, {})[SOLVED if solve else DELIVERED] = round(cpu_s, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".json.part")
    temporary.write_text(json.dumps(dict(sorted(budgets.items())), indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, path)
