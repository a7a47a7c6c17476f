"""What a grid of trainings says: figures by depth with intervals over seeds, and effects of one cause at a time.

A training is one draw: another seed gives another draft. So the unit is the training, and an interval is Student's t
over seeds. Where two arms are compared, each seed's pair read the same rows in the same order, and the *differences*
of the pairs are what is averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Literal

from scipy.stats import t as student

from ..sim.intervals import Interval
from .claims.findings import Verdict, compared
from .ttt_arms import Arm
from .ttt_grid import Grid

Figure = Literal["conditional", "survival", "marginal"]
FEWEST_ALIVE = 30  # chains alive over all seeds, below which a conditional share says nothing


@dataclass(frozen=True)
class Spread:
    """A mean over trainings with its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def text(self) -> str:
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"

    @property
    def verdict(self) -> str:
        """Of a difference: is its sign known?"""
        return "more" if self.low > 0 else "less" if self.high < 0 else "not told apart from 0"


def over_seeds(values: Sequence[float], confidence: float = 0.95) -> Spread:
    """Mean and t interval. ValueError for fewer than two values: one training has no interval."""
    if len(values) < 2:
        raise ValueError(f"{len(values)} trainings; an interval over seeds needs at least two")
    mean = fmean(values)
    half = float(student.ppf((1 + confidence) / 2, len(values) - 1)) * stdev(values) / sqrt(len(values))
    return Spread(mean, mean - half, mean + half)


def claim_verdict(interval: Spread | Interval, low: float, high: float) -> str:
    """The claims page's rule (`claims.findings.compared`), in the words of a sentence."""
    verdict = compared(interval.low, interval.high, (low, high))
    return f"the {verdict}" if verdict is Verdict.TREND else str(verdict)


def by_depth(grid: Grid, arm: Arm, figure: Figure, domain: str = "all") -> list[Spread | None]:
    """A figure at each depth, cut to 0..1; None at a depth that too few chains reach."""
    found = [one.found[domain] for one in grid.of(arm)]
    spreads: list[Spread | None] = []
    for depth, values in enumerate(zip(*(getattr(one, figure) for one in found), strict=True)):
        alive = sum(one.steps * (one.survival[depth - 1] if depth else 1.0) for one in found)
        if figure == "conditional" and alive < FEWEST_ALIVE:
            spreads.append(None)
            continue
        spread = over_seeds(values)
        spreads.append(Spread(spread.mean, max(0.0, spread.low), min(1.0, spread.high)))
    return spreads


def lengths(grid: Grid, arm: Arm, depth: int, domain: str = "all") -> list[float]:
    """Acceptance length of chains of `depth` for each seed, from the survival of longer ones."""
    return [1 + sum(one.found[domain].survival[:depth]) for one in grid.of(arm)]


def gain(grid: Grid, arm: Arm, baseline: Arm, depth: int, domain: str = "all") -> Spread:
    """Difference of acceptance lengths, paired by seed."""
    pairs = zip(lengths(grid, arm, depth, domain), lengths(grid, baseline, depth, domain), strict=True)
    return over_seeds([one - other for one, other in pairs])


def ratio(grid: Grid, arm: Arm, baseline: Arm, depth: int, domain: str = "all") -> Spread:
    """Ratio of acceptance lengths, paired by seed."""
    pairs = zip(lengths(grid, arm, depth, domain), lengths(grid, baseline, depth, domain), strict=True)
    return over_seeds([one / other for one, other in pairs])


def deep_gain(grid: Grid, arm: Arm, baseline: Arm, depth: int, domain: str = "all") -> Spread:
    """Difference of the survival at one depth, paired by seed."""
    pairs = zip(grid.of(arm), grid.of(baseline), strict=True)
    return over_seeds(
        [one.found[domain].survival[depth - 1] - other.found[domain].survival[depth - 1] for one, other in pairs]
    )
