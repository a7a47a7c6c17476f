"""Explorers of notebook 10: a ring hop by hop, and who works when.

Everything is read off `labsim.parallel.layout` and `labsim.attention.bytes_sent`.
"""

from __future__ import annotations

from functools import cache

from ...attention.bytes_sent import AttentionShape
from ...parallel.layout import Layout
from ..explorer import Explorer, Frame, Series, Slider, explore
from ..ring_count import balance, count_pairs
from ..ring_plot import computed_at

LENGTH = 24  # divides among 2, 3 and 4 ranks in both layouts
RINGS = (2, 3, 4)
KINDS = ("contiguous", "zigzag")
HOPS = (0, 1, 2, 3)
MARGIN = -2
LONG, LONG_RINGS = 6720, (2, 3, 4, 6)
HEADS, KV_HEADS, HEAD_DIM, ELEMENT, WIDE = 32, 8, 128, 2, 4  # Llama-3.1-8B in bfloat16
KIB = 1024


@cache
def cells(ring: int, kind: str) -> tuple[tuple[int, int, int, int], ...]:
    return tuple(computed_at(Layout(LENGTH, ring, 1, kind)))


def hop_by_hop() -> Explorer:
    """The attention matrix: one marker per query-key pair, by rank, at a hop and before. Sliders: ring, layout, hop."""
    return explore(
        _frame,
        {
            "ring": Slider("ring", RINGS, value=4, unit="ranks"),
            "layout": Slider("layout", KINDS),
            "hop": Slider("hop", HOPS, value=1),
        },
        title="A ring, hop by hop",
        x_label=f"key's position (at {MARGIN}: who holds the query)",
        y_label="query's position",
        y_range=(0.0, float(LENGTH)),
        y_down=True,
    )


def _frame(ring: int, layout: str, hop: int) -> Frame:
    dealt = Layout(LENGTH, ring, 1, layout)
    found = cells(ring, layout)
    before = [(query, key) for query, key, _, at in found if at < hop]
    series = [Series("computed before", [key for _, key in before], [query for query, _ in before], kind="dots")]
    for rank in range(ring):
        held = dealt.ring_positions(rank).tolist()
        now = [(query, key) for query, key, owner, at in found if at == hop and owner == rank]
        series.append(
            Series(
                f"rank {rank}", [MARGIN] * len(held) + [key for _, key in now], held + [query for query, _ in now],
                kind="points",
            )
        )  # fmt: skip
    pairs = count_pairs(dealt)
    shape = AttentionShape(dealt, HEADS, KV_HEADS, HEAD_DIM, element_bytes=ELEMENT, wide_bytes=WIDE)
    each = shape.ring_forward // (ring - 1)
    sent = min(hop, ring - 1) * each // KIB
    share = f"Balance over all hops {balance(dealt):.0%} (mean pairs over the busiest rank's)."
    if hop >= ring:
        text = f"{layout}, {ring} ranks: done after hop {ring - 1}. {share} Each rank has sent {sent} KiB in forward."
    else:
        owners = ", ".join(f"rank {r} has rank {(r - hop) % ring}'s keys: {pairs[r][hop]}" for r in range(ring))
        text = (
            f"{layout}, {ring} ranks, hop {hop} (pairs computed): {owners}. {share} "
            f"Sent by each rank so far: {sent} KiB in forward."
        )
    return Frame(
        series,
        text=text,
        alt=f"The attention matrix, query positions downwards, key positions to the right, its causal half below the "
        f"diagonal; a marker per pair, by rank, in this hop and before. {text}",
    )


def who_works_when() -> Explorer:
    """Stacked bars: pairs of each rank by hop. Sliders: ring, layout."""
    return explore(
        _stack,
        {
            "ring": Slider("ring", LONG_RINGS, value=4, unit="ranks"),
            "layout": Slider("layout", KINDS),
        },
        title="Who works when",
        x_label="rank",
        y_label="query-key pairs (millions)",
        y_range="frame",
    )


def _stack(ring: int, layout: str) -> Frame:
    dealt = Layout(LONG, ring, 1, layout)
    pairs = count_pairs(dealt)
    names = [f"rank {rank}" for rank in range(ring)]
    series = [
        Series(f"hop {hop}", names, [pairs[rank][hop] / 1e6 for rank in range(ring)], kind="stack")
        for hop in range(ring)
    ]
    totals = [sum(row) for row in pairs]
    text = (
        f"{LONG} tokens, {ring} ranks, {layout}: the busiest rank computes {max(totals) / 1e6:.2f} million pairs, the "
        f"least busy {min(totals) / 1e6:.2f}. Balance {balance(dealt):.1%}: if sending were free, the ranks "
        f"would compute that share of the time."
    )
    return Frame(series, text=text, alt=f"A stack of bars per rank, one bar per hop. {text}")
