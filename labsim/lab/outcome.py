"""How a notebook run ends: a `RunResult`, or one of the `RunError`s.

Each error's message is one paragraph: which notebook, which cell, what happened, what to do, and where the notebook as
far as it got lies. `status` is its short name in tables and JSON; `result` holds what is known of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .metrics import Metric


@dataclass(frozen=True)
class CellTime:
    """How long one code cell ran. `number` is its 1-based position in the source notebook."""

    number: int
    seconds: float
    first_line: str


@dataclass(frozen=True)
class RunResult:
    """What is known of a run. Times in seconds, memory in bytes (PSS on Linux, else RSS, over all its processes).

    `cpu_s` is the processor time (user and system) of the kernel and of what it started; None where the run was ended.
    `exercises` maps the id of each exercise that was judged to its status (`labsim.lab.verdict.Status`).
    """

    notebook: Path
    status: str
    wall_s: float = 0.0
    cpu_s: float | None = None
    cells: tuple[CellTime, ...] = ()
    peak_memory_bytes: int = 0
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    exercises: Mapping[str, str] = field(default_factory=dict)
    goldens_checked: int = 0
    golden_note: str = ""
    orphans: tuple[str, ...] = ()
    output: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values only."""
        document = asdict(self)
        document["notebook"] = str(self.notebook)
        document["output"] = str(self.output) if self.output else None
        document["metrics"] = {name: asdict(metric) for name, metric in self.metrics.items()}
        return document


class RunError(Exception):
    """A notebook run that failed; nothing of it is left running."""

    status = "failed"

    def __init__(self, message: str, result: RunResult) -> None:
        super().__init__(message)
        self.result = result


class ParameterError(RunError, ValueError):
    """An unknown parameter or a value of the wrong type; nothing was started."""

    status = "parameter"


class NotebookError(RunError, ValueError):
    """A notebook, its solutions or its golden file that cannot be used; nothing was started."""

    status = "notebook"


class KernelStartError(RunError):
    """The kernel did not start, or not in time."""

    status = "kernel-start"


class KernelDiedError(RunError):
    """The kernel ended in the middle of a cell."""

    status = "kernel-died"


class CellError(RunError):
    """A cell raised an exception."""

    status = "cell-error"


class DeadlineError(RunError):
    """The whole notebook took longer than its deadline."""

    status = "deadline"


class MemoryCapError(RunError):
    """The processes of the run used more memory than its cap."""

    status = "memory"


class OrphanError(RunError):
    """The notebook left processes behind that outlived its kernel."""

    status = "orphan"


class ExerciseError(RunError):
    """A solved notebook in which an exercise did not pass."""

    status = "exercise"


class MetricsError(RunError):
    """The notebook's metrics cannot be collected (one name twice)."""

    status = "metrics"


class GoldenError(RunError):
    """A metric outside its golden, without a golden, or a golden without its metric."""

    status = "golden"


class ExecutorError(RunError):
    """The child process that executes the notebook ended by itself."""

    status = "executor"


class Interrupted(RunError, KeyboardInterrupt):
    """Ctrl-C or SIGTERM. Also a KeyboardInterrupt, so that a caller who runs many notebooks stops."""

    status = "interrupted"


def place(cell: Mapping[str, Any] | None) -> str:
    """`cell 5 of 12, exercise 01.2 ("x = f(3)")`, from the facts that the child process reports."""
    if cell is None:
        return "before its first cell"
    exercise = f", exercise {cell['exercise']}" if cell["exercise"] else ""
    return f'cell {cell["number"]} of {cell["total"]}{exercise} ("{cell["first_line"]}")'
