"""Confidence intervals from counts: what a log of finite length says about alpha.

The drafted tokens of one step are not independent trials: token 2 can only pass if token 1 did. Treating `accepted`
out of `drafted` as coin tosses makes the interval too narrow (at K = 3 and alpha_c = 0.65 by a factor of about 1.4).
The independent unit is the *step*; its accepted count n has the variance that the survival vector fixes, sum((2i - 1)
s_i) - (sum s_i)^2.

Steps of one answer resemble each other too: with lag-1 autocorrelation r, N steps say as much as N (1 - r) / (1 + r)
independent ones (first-order autoregression). Measured r: 0.09 to 0.38 for EAGLE, up to 0.75 for n-gram drafting.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from .acceptance import accepted_variance, check_survival, constant_conditional_acceptance, survival_from_constant
from .errors import check_positive, check_whole, out_of_range


class Interval(NamedTuple):
    """A two-sided confidence interval."""

    low: float
    high: float


def wilson(successes: float, trials: float, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a proportion; `trials` may be an effective, fractional number (Wilson 1927)."""
    return _wilson(successes, trials, _z(confidence))


def _wilson(successes: float, trials: float, z: float) -> Interval:
    trials = check_positive("trials", trials)
    if not 0 <= successes <= trials:
        raise out_of_range("successes", successes, f"0 to the number of trials, {trials}")
    p = successes / trials
    centre = p + z * z / (2 * trials)
    half = z * sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return Interval(max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale))


def draft_acceptance_interval(
    survival: Sequence[float], drafts: float, *, autocorrelation: float = 0.0, confidence: float = 0.95
) -> Interval:
    """Interval of alpha_d = accepted/drafted from the survival vector seen over `drafts` steps.

    A Wilson interval over the number of *independent* tokens that would have given the same variance. That number
    lies between one per draft (all or nothing) and K per draft.
    """
    values, drafts = check_survival(survival), check_positive("drafts", drafts)
    if not -1 < autocorrelation < 1:
        raise out_of_range("autocorrelation", autocorrelation, "above -1 and below 1")
    k = len(values)
    alpha_d = sum(values) / k
    steps = drafts * min(1.0, (1 - autocorrelation) / (1 + autocorrelation))
    # The variance comes from the same few steps: divide by n - 1, and use Student's t in place of z (its expansion
    # to first order in 1/n), or 15 drafts give 92 % coverage where 95 % is promised.
    freedom = max(1.0, steps - 1)
    variance = accepted_variance(values) / (k * k) * (freedom + 1) / freedom
    z = _z(confidence)
    t = z + (z**3 + z) / (4 * freedom)
    independent = steps * alpha_d * (1 - alpha_d) / variance if variance > 0 else steps
    trials = max(min(independent, steps * k), min(steps, 1.0))
    return _wilson(alpha_d * trials, trials, t)


def draft_acceptance_interval_from_counts(
    accepted: int, drafts: int, k: int, *, autocorrelation: float = 0.0, confidence: float = 0.95
) -> Interval:
    """Interval of alpha_d when a log gives totals only: the survival is taken as that of a constant alpha_c.

    Measured EAGLE chains have that variance within 6 % at K = 3; n-gram drafting has up to 2.7 times as much, so pass
    its survival to `draft_acceptance_interval` instead where it is printed.
    """
    drafts, k = check_whole("drafts", drafts), check_whole("k", k)
    accepted = check_whole("accepted", accepted, 0, drafts * k)
    alpha_c = constant_conditional_acceptance(accepted / (drafts * k), k)
    return draft_acceptance_interval(
        survival_from_constant(alpha_c, k), drafts, autocorrelation=autocorrelation, confidence=confidence
    )


def survival_intervals(
    survival: Sequence[float], drafts: int, *, autocorrelation: float = 0.0, confidence: float = 0.95
) -> tuple[Interval, ...]:
    """Wilson interval of each s_i: per position the steps are plain yes/no trials."""
    values, drafts = check_survival(survival), check_whole("drafts", drafts)
    if not -1 < autocorrelation < 1:
        raise out_of_range("autocorrelation", autocorrelation, "above -1 and below 1")
    steps = drafts * min(1.0, (1 - autocorrelation) / (1 + autocorrelation))
    return tuple(wilson(s * steps, steps, confidence) for s in values)


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Normal interval of a mean of independent values (Monte Carlo runs, requests); needs at least two."""
    if len(values) < 2:
        raise out_of_range("values", len(values), "at least two independent values")
    mean = sum(values) / len(values)
    error = sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
    return Interval(mean - _z(confidence) * error, mean + _z(confidence) * error)


def _z(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise out_of_range("confidence", confidence, "above 0 and below 1, for example 0.95")
    return NormalDist().inv_cdf(0.5 + confidence / 2)
