"""Percentiles with linear interpolation, plain and weighted.

The q-th percentile of n sorted values sits at position q/100 * (n - 1), between two neighbours in general; the value
is interpolated on the straight line between them. This is the default of numpy, and of `statistics.quantiles` with
`method="inclusive"`. Taking `sorted(x)[int(q / 100 * n)]` instead is off by one rank.

Every decode request of a batch sees the same step, so the gaps between stream chunks come as (duration, how many
requests waited through it). `weighted_percentile` returns what `percentile` would on the expanded list, without
expanding it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, compress
from math import nan

from .errors import out_of_range


def percentile(values: Sequence[float], q: float) -> float:
    """The q-th percentile (0..100) of `values`; nan when there are none."""
    return sorted_percentile(sorted(values), q)


def sorted_percentile(ordered: Sequence[float], q: float) -> float:
    """Like `percentile`, for values already in ascending order."""
    if not 0 <= q <= 100:
        raise out_of_range("q", q, "0 to 100")
    if not ordered:
        return nan
    position = q / 100 * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def weighted_percentiles(values: Sequence[float], counts: Sequence[int], qs: Sequence[float]) -> list[float]:
    """Percentiles `qs` of the list in which values[i] occurs counts[i] times; nan when all counts are 0."""
    if len(values) != len(counts):
        raise out_of_range("counts", f"{len(counts)} numbers", f"one per value, {len(values)}")
    kept = list(filter(None, counts))
    if not kept:
        return [nan] * len(qs)
    present = compress(values, counts)
    if min(kept) == max(kept):
        # Equal counts need no sorting of pairs, and the ranks are an arithmetic sequence.
        ordered = sorted(present)
        last_rank: Sequence[int] = range(kept[0], len(ordered) * kept[0] + 1, kept[0])
    else:
        pairs = sorted(zip(present, kept, strict=True))
        ordered = [value for value, _ in pairs]
        last_rank = list(accumulate(count for _, count in pairs))
    total = last_rank[-1]
    found = []
    for q in qs:
        if not 0 <= q <= 100:
            raise out_of_range("q", q, "0 to 100")
        position = q / 100 * (total - 1)
        below = int(position)
        low = ordered[bisect_right(last_rank, below)]
        high = ordered[bisect_right(last_rank, min(below + 1, total - 1))]
        found.append(low + (high - low) * (position - below))
    return found


def weighted_percentile(values: Sequence[float], counts: Sequence[int], q: float) -> float:
    """One of `weighted_percentiles`."""
    return weighted_percentiles(values, counts, (q,))[0]
