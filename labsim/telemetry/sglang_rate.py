"""SGLang's printed `accept rate`: two meanings under one name, told apart by the numbers.

With K drafted tokens and acceptance length L, older versions print rate = L / (K + 1), the target's own token counted
among the accepted and among the drafted; newer ones (sglang#23530) print accepted/drafted = (L - 1) / K. Both are
exact up to rounding, so each line admits a few (meaning, K) pairs only:

    2.77 / .69   (K+1) = 2.77/.69 = 4.01           inside,  K = 3; (2.77 - 1)/.69 = 2.57 is no whole number
    3.95 / .42   K = (3.95 - 1)/.4214 = 7.00       outside, K = 7

Some lines admit more than one (3.33 / .33 is 9 inside and 7 outside). The pair that explains most lines decides; lines
it does not explain are a second group (an upgrade in the middle of a log). What stays ambiguous stays unknown.

A rate above 1 (sglang#11572) divides by neither: no K follows from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import ceil, floor

LARGEST_K = 128

Pair = tuple[str, int]


def pairs(length: float, rate: float, length_half: float = 0.005, rate_half: float = 0.005) -> frozenset[Pair]:
    """All (meaning, K) that agree with one line; `inside` or `outside` says where the target's own token is."""
    found = {("inside", d - 1) for d in _whole(length, rate, length_half, rate_half) if length <= d + length_half}
    found |= {("outside", k) for k in _whole(length - 1, rate, length_half, rate_half) if length <= k + 1 + length_half}
    return frozenset(pair for pair in found if 1 <= pair[1] <= LARGEST_K)


def _whole(value: float, rate: float, value_half: float, rate_half: float) -> range:
    """Whole d with rate * d = value within the rounding of both."""
    top, bottom = value + value_half + 1e-9, max(0.0, value - value_half - 1e-9)
    highest, lowest = rate + rate_half, max(1e-9, rate - rate_half)
    return range(max(1, ceil(bottom / highest)), min(LARGEST_K + 1, floor(top / lowest)) + 1)


def decide(lines: Iterable[tuple[frozenset[Pair], int]]) -> tuple[int | None, str | None, str]:
    """(K, meaning, reason why K is None) from how many lines admit which pairs.

    Meaning is `inside`, `outside`, `both` (the log changes over) or None.
    """
    groups = Counter[frozenset[Pair]]()
    for admitted, times in lines:
        groups[admitted] += times
    everything = sum(groups.values())
    rest = {admitted: times for admitted, times in groups.items() if admitted}
    unexplained = everything - sum(rest.values())
    if not rest:
        return None, None, "no draft length agrees with the printed lengths and rates"
    chosen: list[set[Pair]] = []
    while rest:
        votes = Counter[Pair]()
        for admitted, times in rest.items():
            for pair in admitted:
                votes[pair] += times
        best = max(votes.values())
        winners = {pair for pair, count in votes.items() if count == best}
        chosen.append(winners)
        rest = {admitted: times for admitted, times in rest.items() if not admitted & winners}
    lengths = {k for winners in chosen for _, k in winners}
    if len(lengths) != 1:
        shown = ", ".join(f"{k} ({meaning})" for winners in chosen[:3] for meaning, k in sorted(winners)[:3])
        return None, None, f"several draft lengths agree with the printed lengths and rates: K = {shown}"
    if unexplained > everything / 4:
        return None, None, "most printed rates agree with no draft length"
    meanings = {meaning for winners in chosen for meaning, _ in winners}
    return lengths.pop(), meanings.pop() if len(meanings) == 1 else "both", ""
