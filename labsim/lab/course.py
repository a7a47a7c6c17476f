"""What a notebook imports: one name per thing, from one place.

    from labsim.lab.course import axes, exercise, hint, line, record, show, solution, start
    lab = start(scale, seed, solve)

`start` turns the parameters cell into a frozen configuration; everything derived from it (`lab.pick(ci=..., ...)`) is
derived there, after papermill has put in its values.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from typing import TypeVar

from .. import __version__
from ..sim.errors import check_whole, unknown_name
from .exercise import answer, exercise, hint, measured, solution, task
from .metrics import record, record_interval
from .plots import axes, band, bars, line, points, reference, show
from .source import show_source
from .tables import read_table, table

__all__ = [
    "answer",
    "axes",
    "band",
    "bars",
    "exercise",
    "hint",
    "line",
    "measured",
    "points",
    "read_table",
    "record",
    "record_interval",
    "reference",
    "show",
    "show_source",
    "solution",
    "start",
    "table",
    "task",
]

T = TypeVar("T")
SCALES = ("ci", "laptop", "gpu")


@dataclass(frozen=True)
class Lab:
    """The run's configuration."""

    scale: str
    seed: int
    solve: bool

    def pick(self, *, ci: T, laptop: T | None = None, gpu: T | None = None) -> T:
        """The value for this scale; a scale without one takes the next smaller scale's."""
        given = {"ci": ci, "laptop": laptop, "gpu": gpu}
        smaller = SCALES[1 : SCALES.index(self.scale) + 1]
        return next((given[name] for name in reversed(smaller) if given[name] is not None), ci)


def start(scale: str = "ci", seed: int = 0, solve: bool = False) -> Lab:
    """Check the parameters and say where this notebook runs. ValueError for an unknown scale or a negative seed."""
    if scale not in SCALES:
        raise unknown_name("scale", str(scale), SCALES)
    lab = Lab(scale, check_whole("seed", seed, 0), bool(solve))
    print(f"labsim {__version__}, Python {platform.python_version()} at {sys.executable}; scale {scale}, seed {seed}")
    if lab.solve:
        print('Solutions are put into the cells by `labsim run --solve`; here, `solution("01.1")` shows one.')
    return lab
