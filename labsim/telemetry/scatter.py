"""What a series of windows can and cannot prove: the interval of alpha, drift, engines that differ.

The unit is the step, not the drafted token (see `labsim.sim.intervals`). Steps resemble their neighbours, and traffic
changes within minutes, so windows scatter more than independent steps would. Two honest answers to that:

- the interval is widened by the ratio of the scatter seen between windows to the scatter that steps explain;
- drift is a *shift that stays*, not scatter: the cumulative sum of deviations, measured in units of the scatter between
  neighbouring windows, wanders off further than a Brownian bridge does (Kolmogorov's distribution).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, sqrt
from statistics import NormalDist

from ..sim.acceptance import accepted_variance, check_survival, constant_conditional_acceptance, survival_from_constant
from ..sim.intervals import draft_acceptance_interval
from .sums import Sums

# Steps of measured EAGLE chains have a lag-1 correlation of up to .38: their means scatter (1+r)/(1-r) = 2.2 times as
# much as independent ones. Used where too few windows are there to measure it.
CLUSTERING = 2.25
FEWEST_WINDOWS = 5
FEWEST_FOR_SCATTER = 8


@dataclass(frozen=True)
class Shift:
    """A shift of alpha in the middle of a series: mean before and after, the printed time of the first window, and
    that window."""

    before: float
    after: float
    start: str | None
    first: Sums


def step_survival(survival: Sequence[float] | None, mean: float, k: int | None) -> tuple[float, ...] | None:
    """The survival vector that stands for the scatter of one step; a constant alpha_c where none is printed."""
    if survival is not None:
        return check_survival(survival)
    if k is None or not 0 <= mean <= k:
        return None
    return survival_from_constant(constant_conditional_acceptance(mean / k, k), k)


def alpha_interval(
    total: Sums,
    windows: Sequence[Sums],
    alpha: float | None,
    k: int | None,
    survival: Sequence[float] | None,
    autocorrelation: float | None = None,
) -> tuple[tuple[float, float] | None, str]:
    """(95 % interval of accepted/drafted, "") or (None, reason)."""
    if alpha is None:
        return None, "alpha is not determined"
    drafts, drafted, accepted = total.total("drafts"), total.total("drafted"), total.total("accepted")
    if drafts and drafted and accepted is not None:
        shape = step_survival(survival, accepted / drafts, k)
        if shape is not None and sum(shape) / len(shape) <= 1:
            scatter = _scatter(windows, accepted / drafts, accepted_variance(shape))
            low, high = draft_acceptance_interval(
                shape, max(1.0, drafts / scatter), autocorrelation=min(0.95, max(0.0, autocorrelation or 0.0))
            )
            # Drafts shorter than K: the interval is about accepted per draft; divide by the mean draft length.
            per_token = drafts / drafted
            low, high = (min(1.0, bound * len(shape) * per_token) for bound in (low, high))
            return (min(low, alpha), max(high, alpha)), ""
    return _between_windows(windows, alpha)


def _scatter(windows: Sequence[Sums], mean: float, variance: float) -> float:
    """Scatter of accepted per draft between windows, in units of what independent steps explain; at least 1."""
    used = [w for w in windows if w.total("drafts") and w.total("accepted") is not None]
    if len(used) < FEWEST_FOR_SCATTER or variance <= 0:
        return 1.0
    chi_square = sum(w.drafts * (w.accepted / w.drafts - mean) ** 2 for w in used) / variance
    return max(1.0, chi_square / (len(used) - 1))


def _between_windows(windows: Sequence[Sums], alpha: float) -> tuple[tuple[float, float] | None, str]:
    """Interval from the scatter of window means alone (windows as clusters, Student's t to first order)."""
    used = [(w.drafted or w.weight, w.alpha()) for w in windows]
    points = [(weight, value) for weight, value in used if value is not None and weight > 0]
    if len(points) < FEWEST_WINDOWS:
        return None, (
            f"the number of drafts or K is not printed, and {len(points)} window(s) are too few to measure the scatter "
            f"(at least {FEWEST_WINDOWS})"
        )
    m, everything = len(points), sum(weight for weight, _ in points)
    error = sqrt(m / (m - 1) * sum((weight * (value - alpha)) ** 2 for weight, value in points)) / everything
    if error == 0:
        return None, "all windows print the same value, which says nothing about its error"
    z = NormalDist().inv_cdf(0.975)
    t = z + (z**3 + z) / (4 * (m - 1))
    return (max(0.0, alpha - t * error), min(1.0, alpha + t * error)), ""


def find_drift(windows: Sequence[Sums], k: int | None, survival: Sequence[float] | None) -> Shift | None:
    """The largest shift of alpha that one engine's series shows, if it is significant (1 in 1,000, shared among the
    engines) and at least 0.02."""
    series = by_engine(windows)
    found = [_shift(one, k, survival, 0.001 / len(series)) for one in series.values()]
    return max((shift for shift in found if shift), key=lambda shift: abs(shift.after - shift.before), default=None)


def since_last_shift(
    series: Sequence[Sums], k: int | None, survival: Sequence[float] | None, chance: float
) -> tuple[list[Sums], Shift | None]:
    """The windows of one engine after its last shift of alpha, and that shift; all of them and None without one."""
    tail, last = list(series), None
    while shift := _shift(tail, k, survival, chance):
        tail, last = tail[next(i for i, window in enumerate(tail) if window is shift.first) :], shift
    return tail, last


def by_engine(windows: Sequence[Sums]) -> dict[str | None, list[Sums]]:
    """The windows of each engine in order of time, or of appearance where some print none."""
    series: dict[str | None, list[Sums]] = {}
    for window in windows:
        series.setdefault(window.engine, []).append(window)
    return {
        engine: sorted(one, key=lambda window: window.time) if all(w.time is not None for w in one) else one
        for engine, one in series.items()
    }


def _shift(windows: Sequence[Sums], k: int | None, survival: Sequence[float] | None, chance: float) -> Shift | None:
    points = [(w, w.drafts if w.total("drafts") else w.weight, w.alpha()) for w in windows]
    used = [(w, weight, value) for w, weight, value in points if value is not None and weight > 0]
    if len(used) < 2:
        return None
    everything = sum(weight for _, weight, _ in used)
    mean = sum(weight * value for _, weight, value in used) / everything
    per_step = _step_variance(used, mean, k, survival)
    if len(used) >= FEWEST_FOR_SCATTER:
        jumps = sum((a[2] - b[2]) ** 2 / (1 / a[1] + 1 / b[1]) for a, b in pairwise(used))
        variance = max(jumps / (len(used) - 1), per_step or 0.0)
    elif per_step:
        variance = per_step * CLUSTERING
    else:
        return None
    if variance <= 0:
        return None
    wandered, furthest, cut = 0.0, 0.0, 0
    for i, (_, weight, value) in enumerate(used[:-1]):
        wandered += weight * (value - mean)
        if abs(wandered) > furthest:
            furthest, cut = abs(wandered), i + 1
    if cut == 0 or _kolmogorov(furthest / sqrt(variance * everything)) > chance:
        return None
    before, after = _mean(used[:cut]), _mean(used[cut:])
    return Shift(before, after, used[cut][0].start, used[cut][0]) if abs(after - before) >= 0.02 else None


def engines_that_differ(engines: Sequence[Sums], k: int | None) -> tuple[Sums, Sums] | None:
    """(lowest, highest) of several engines or ranks whose alphas differ by 0.03 and more than steps explain."""
    used = [e for e in engines if e.alpha() is not None and e.n > 0]
    if len(used) < 2:
        return None
    low, high = min(used, key=lambda e: e.alpha() or 0.0), max(used, key=lambda e: e.alpha() or 0.0)
    gap = (high.alpha() or 0.0) - (low.alpha() or 0.0)
    if gap < 0.03:
        return None
    variance = 0.0
    for engine in (low, high):
        alpha, engine_k = engine.alpha() or 0.0, engine.common_k() or k
        shape = step_survival(engine.survival(), alpha * engine_k, engine_k) if engine_k else None
        per_step = accepted_variance(shape) / len(shape) ** 2 if shape else alpha * (1 - alpha)
        steps = max(1.0, engine.drafts or engine.drafted / (engine_k or 3) or engine.weight)
        # An engine without a single accepted token has no visible scatter, but a few steps prove little.
        variance += CLUSTERING * max(per_step, 0.01) / steps
    # Well above two standard deviations: the extremes of many engines are compared.
    return (low, high) if gap > 3.3 * sqrt(variance) else None


def lag_one(pairs: int, sums: tuple[float, float, float, float, float]) -> float | None:
    """Lag-1 autocorrelation from sums over (x, next x): x, next, x*x, next*next, x*next; None below 50 pairs."""
    if pairs < 50:
        return None
    x, y, xx, yy, xy = (value / pairs for value in sums)
    spread = (xx - x * x) * (yy - y * y)
    return (xy - x * y) / sqrt(spread) if spread > 1e-12 else None


def _step_variance(
    used: Sequence[tuple[Sums, float, float]], mean: float, k: int | None, survival: Sequence[float] | None
) -> float | None:
    """Variance of alpha of one step, if counts of drafts are known."""
    if any(not w.total("drafts") for w, _, _ in used):
        return None
    shape = step_survival(survival, mean * k if k else -1.0, k)
    return accepted_variance(shape) / len(shape) ** 2 if shape else None


def _mean(used: Sequence[tuple[Sums, float, float]]) -> float:
    return sum(weight * value for _, weight, value in used) / sum(weight for _, weight, _ in used)


def _kolmogorov(x: float) -> float:
    """P(sup |Brownian bridge| > x)."""
    if x < 0.3:
        return 1.0
    return min(1.0, 2 * sum((-1) ** (j - 1) * exp(-2 * j * j * x * x) for j in range(1, 20)))
