"""What the probed drafts say: a probe by depth with its interval over seeds, and one change at a time.

As in `ttt_causes` the unit is the training. Two arms are compared seed by seed, since their drafts started from the
same weights and read the same rows, and it is the ratios or differences of the pairs that are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..train.ttt.estimate import Estimate
from .drift_grid import DriftGrid, Probed
from .ttt_arms import DEPTHS, Arm
from .ttt_causes import FEWEST_ALIVE, Spread, over_seeds

Value = Callable[[Probed], float]

# What `by_depth` draws: the name in the explorer, the unit of its axis, and where a curve is found.
PROBES: dict[str, tuple[str, Callable[[Probed], Sequence[float]]]] = {
    "size of the state": ("root mean square", lambda one: one.drift.hidden_norm),
    "attention on the own branch": ("share of attention", lambda one: one.drift.self_mass),
    "attention on recent tokens": ("share of attention", lambda one: one.drift.recent_mass),
    "attention on the sink": ("share of attention", lambda one: one.drift.sink_mass),
    "entropy of the attention": ("nats", lambda one: one.drift.entropy),
    "conditional acceptance": ("share of the chains alive", lambda one: one.deep.conditional),
    "right guesses (marginal)": ("share of all places", lambda one: one.deep.marginal),
}


def by_depth(grid: DriftGrid, arm: Arm, probe: str) -> list[Spread | None]:
    """A probe at each depth; None for a conditional share where fewer than thirty chains of all drafts are alive.

    ValueError for a probe not in PROBES, or an arm with one seed only.
    """
    if probe not in PROBES:
        raise ValueError(f"probe is {probe!r}; right is one of {', '.join(PROBES)}")
    drafts, (unit, read) = grid.of(arm), PROBES[probe]
    spreads: list[Spread | None] = []
    for depth, values in enumerate(zip(*map(read, drafts), strict=True)):
        if probe == "conditional acceptance":
            alive = sum(one.deep.steps * (one.deep.survival[depth - 1] if depth else 1.0) for one in drafts)
            if alive < FEWEST_ALIVE:
                spreads.append(None)
                continue
        spread = over_seeds(values)
        top = 1.0 if unit.startswith("share") else float("inf")
        spreads.append(Spread(spread.mean, max(0.0, spread.low), min(top, spread.high)))
    return spreads


def over(grid: DriftGrid, arm: Arm, value: Value) -> Spread:
    """A figure of an arm, over seeds."""
    return over_seeds([value(one) for one in grid.of(arm)])


def ratio(grid: DriftGrid, arm: Arm, baseline: Arm, value: Value) -> Spread:
    """A figure of one arm over that of another, paired by seed."""
    return over_seeds([value(one) / value(other) for one, other in pairs(grid, arm, baseline)])


def gain(grid: DriftGrid, arm: Arm, baseline: Arm, value: Value) -> Spread:
    """A figure of one arm less that of another, paired by seed."""
    return over_seeds([value(one) - value(other) for one, other in pairs(grid, arm, baseline)])


def pairs(grid: DriftGrid, arm: Arm, baseline: Arm) -> list[tuple[Probed, Probed]]:
    """Drafts of both arms with the same seed. ValueError when there are none."""
    others = {one.seed: one for one in grid.of(baseline)}
    found = [(one, others[one.seed]) for one in grid.of(arm) if one.seed in others]
    if not found:
        raise ValueError(f"no seed has both {arm.key} and {baseline.key}")
    return found


def length(found: Estimate, k: int) -> float:
    """Acceptance length of chains of k, from the survival of longer ones."""
    return 1 + sum(found.survival[:k])


def in_situation(name: str, k: int) -> Value:
    """Acceptance length in a situation, chains of k."""
    return lambda one: length(one.situations[name], k)


def accepted_in(name: str, k: int) -> Value:
    """Accepted drafted tokens per step in a situation, chains of k: the length without the target's own token."""
    return lambda one: sum(one.situations[name].survival[:k])


def first_in(name: str) -> Value:
    """Share of the first guesses that are accepted in a situation."""
    return lambda one: one.situations[name].survival[0]


def brought_back(grid: DriftGrid, arm: Arm, k: int = DEPTHS) -> Spread:
    """Tokens per step, chains of k, with the size of the state held fixed at depth 1's, less those without."""
    return over(grid, arm, lambda one: length(one.disturbed["pinned"], k) - length(one.disturbed["none"], k))


def kept(name: str, usual: str, k: int) -> Value:
    """Share of the drafted tokens accepted per step in the usual situation that is still accepted in this one."""
    there, at_home = accepted_in(name, k), accepted_in(usual, k)
    return lambda one: there(one) / at_home(one)


def kept_disturbed(name: str, k: int) -> Value:
    """The same for a disturbance, against none."""
    return lambda one: (length(one.disturbed[name], k) - 1) / (length(one.disturbed["none"], k) - 1)


def growth(depth: int) -> Value:
    """Size of the state handed on at a depth over that at depth 1."""
    return lambda one: one.drift.hidden_norm[depth - 1] / one.drift.hidden_norm[0]


def beyond(trained: int, depth: int) -> Value:
    """Share of right guesses at a depth over that at the deepest trained one: 1 means nothing is lost beyond."""
    return lambda one: one.deep.marginal[depth - 1] / one.deep.marginal[trained - 1]
