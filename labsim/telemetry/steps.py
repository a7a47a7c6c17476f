"""How many drafts stand behind a printed window, when the log prints tokens only.

vLLM and llama.cpp print accepted and drafted tokens exactly, the mean acceptance length to two decimals and the
per-position rates to three. The number of drafts n is not printed, yet nearly always determined:

- every step drafted K tokens: n = drafted / K, if 1 + accepted/n rounds to the printed length;
- some drafts were shorter (n-gram, end of an answer): n is the number with which *all* printed figures agree. With
  n drafts each rate is m_i/n for a whole m_i, and the m_i add up to the accepted tokens.

Example: accepted 10, drafted 23, length 2.11, rates 0.667, 0.444, 0.000. Lengths allow n = 9 only; the m_i are 6 and
4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from .values import LARGEST_K

_EPSILON = 1e-9
# More candidates than this are not tried one by one; their spread is then below the rounding of the length anyway.
_MOST_CANDIDATES = 2000


@dataclass(frozen=True)
class Steps:
    """`drafts` is exact when `margin` is 0, else the true number lies within +-margin. `consistent` is False when no
    number of drafts agrees with everything printed."""

    drafts: int | None = None
    margin: int = 0
    k: int | None = None
    survival: tuple[float, ...] | None = None
    consistent: bool = True


def recover_steps(
    accepted: int,
    drafted: int,
    printed_length: float | None,
    rates: Sequence[float] | None = None,
    k: int | None = None,
    *,
    length_half: float = 0.005,
    rate_half: float = 0.0005,
) -> Steps:
    """Drafts, K and survival of one window. `length_half`, `rate_half`: half a unit of the last printed digit."""
    k = len(rates) if rates else k
    if printed_length is None:
        return Steps(k=k, survival=tuple(rates) if rates else None)
    if drafted <= 0 or not 0 <= accepted <= drafted:
        return Steps(k=k, consistent=False)
    low, high = _length_range(accepted, drafted, printed_length - 1, length_half)
    if rates:
        by_sum = _length_range(accepted, drafted, sum(rates), len(rates) * rate_half)
        low, high = max(low, by_sum[0]), min(high, by_sum[1])
    if k is not None:
        low = max(low, ceil(drafted / k))
        if drafted % k == 0 and low <= drafted // k <= high:
            return _result(drafted // k, 0, k, accepted, rates, rate_half)
    elif not rates:
        whole = [n for n in _divisors_within(drafted, low, high) if drafted // n <= LARGEST_K]
        if len(whole) == 1:
            return Steps(whole[0], 0, drafted // whole[0])
    if low > high:
        return Steps(k=k, survival=tuple(rates) if rates else None, consistent=False)
    candidates: Sequence[int] = range(low, high + 1)
    if rates and len(candidates) <= _MOST_CANDIDATES:
        candidates = [n for n in candidates if _agrees(n, accepted, rates, rate_half)]
        if not candidates:
            return Steps(k=k, survival=tuple(rates), consistent=False)
    middle = candidates[len(candidates) // 2]
    margin = max(middle - candidates[0], candidates[-1] - middle)
    return _result(middle, margin, k, accepted, rates, rate_half)


def _length_range(accepted: int, drafted: int, mean: float, half: float) -> tuple[int, int]:
    """Whole n with mean - half <= accepted/n <= mean + half and 1 <= n <= drafted (a draft has at least one token)."""
    top, bottom = mean + half + _EPSILON, mean - half - _EPSILON
    if top <= 0:
        return 1, 0
    if accepted == 0:
        return (1, drafted) if bottom <= 0 else (1, 0)
    return max(1, ceil(accepted / top)), min(drafted, floor(accepted / bottom)) if bottom > 0 else drafted


def _divisors_within(drafted: int, low: int, high: int) -> list[int]:
    """Divisors n of `drafted` in low..high, by way of the quotient drafted // n, which is small."""
    if low > high:
        return []
    return [
        drafted // q
        for q in range(max(1, drafted // high), min(LARGEST_K, drafted // low) + 1)
        if drafted % q == 0 and low <= drafted // q <= high
    ]


def _bounds(n: int, rate: float, half: float) -> tuple[int, int]:
    return max(0, ceil(n * (rate - half - _EPSILON))), min(n, floor(n * (rate + half + _EPSILON)))


def _agrees(n: int, accepted: int, rates: Sequence[float], half: float) -> bool:
    bounds = [_bounds(n, rate, half) for rate in rates]
    return all(lo <= hi for lo, hi in bounds) and sum(lo for lo, _ in bounds) <= accepted <= sum(hi for _, hi in bounds)


def _result(n: int, margin: int, k: int | None, accepted: int, rates: Sequence[float] | None, half: float) -> Steps:
    if not rates:
        return Steps(n, margin, k)
    consistent = margin > 0 or _agrees(n, accepted, rates, half)
    bounds = [_bounds(n, rate, half) for rate in rates]
    if margin == 0 and sum(lo for lo, _ in bounds) == accepted and all(lo == hi for lo, hi in bounds):
        return Steps(n, 0, k, tuple(lo / n for lo, _ in bounds), consistent)
    return Steps(n, margin, k, tuple(rates), consistent)
