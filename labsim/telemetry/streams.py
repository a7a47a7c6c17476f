"""Several engines in one stream of lines, none of which says whose it is.

`kubectl logs -l app=...` and `grep SpecDecoding` leave one sequence of prints. Its average is the alpha of no engine,
and nothing drifts in it: the engines take turns. Two things give them away.

- **Time.** A print covers the time since the same engine's last one. One engine's prints cover what has passed; those
  of n engines cover n times as much.
- **Turns.** Windows of one engine resemble their neighbours at least as much as others. Where engines take turns, the
  second or third next resembles a window more than the next one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, mean

from .scatter import FEWEST_WINDOWS
from .sums import Sums

MOST_IN_TURN = 8
FEWEST_TURNS = 16
ONE_ENGINE = 1.25
ALONE = "give the log of each alone, or one that names them (kubectl logs --prefix; vLLM's `Engine 000:` lines)"


def why_several(series: Sequence[Sums], chance: float = 0.001) -> str | None:
    """Why the windows of one series, in order of time, are those of several engines; None if nothing says so."""
    if (at_once := engines_at_once(series)) is not None and at_once > ONE_ENGINE:
        return (
            f"its prints cover {at_once:.1f} times the time that has passed: several engines print into one stream "
            f"without their names; {ALONE}"
        )
    if turns := taking_turns(series, chance):
        return (
            "alpha goes to and fro between about {:.2f} and {:.2f} as if several engines took turns in one stream; "
            "{}".format(*turns, ALONE)
        )
    return None


def engines_at_once(series: Sequence[Sums]) -> float | None:
    """The time covered by the prints over the time that has passed; None where either is unknown."""
    if len(series) < FEWEST_WINDOWS or any(window.time is None for window in series):
        return None
    # The first window began before the first time stamp. Time stamps are whole seconds.
    passed = max(1.0, series[-1].time - series[0].time)
    return sum(window.seconds for window in series[1:-1]) / passed


def taking_turns(series: Sequence[Sums], chance: float) -> tuple[float, float] | None:
    """(mean of the lower alphas, of the higher ones) if every n-th window, n up to 8, resembles a window more than its
    neighbour does, by more than `chance` explains and 0.03 apart; None otherwise."""
    values = [alpha for window in series if (alpha := window.alpha()) is not None]
    if len(values) < FEWEST_TURNS:
        return None
    middle = mean(values)
    off = [value - middle for value in values]
    spread = sum(one * one for one in off) / len(off)
    if spread <= 0:
        return None
    lags = range(1, min(MOST_IN_TURN, len(off) // 4) + 1)
    neighbour, *others = (mean(a * b for a, b in zip(off, off[lag:], strict=False)) / spread for lag in lags)
    # Of windows in random order each correlation has a variance of 1/n.
    allowed = NormalDist().inv_cdf(1 - chance / len(others)) * sqrt(2 / len(off))
    low, high = mean(v for v in values if v <= middle), mean(v for v in values if v >= middle)
    return (low, high) if max(others) - neighbour > allowed and high - low >= 0.03 else None
