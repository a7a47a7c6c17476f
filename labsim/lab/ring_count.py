"""The work of a causal ring, counted in query-key pairs from the layout alone."""

from __future__ import annotations

from ..parallel.layout import Layout, blocks


def count_pairs(layout: Layout) -> list[list[int]]:
    """By rank, at each hop: query-key pairs that it computes."""
    ranks = range(layout.ring)
    return [
        [sum(block.pairs for block in blocks(layout, rank, (rank - hop) % layout.ring)) for hop in ranks]
        for rank in ranks
    ]


def balance(layout: Layout) -> float:
    """Mean work over the busiest rank's: the share of the ring's time in which a rank computes, if sending is free."""
    totals = [sum(row) for row in count_pairs(layout)]
    return sum(totals) / len(totals) / max(totals)


def used_share(layout: Layout) -> float:
    """Of the keys that ranks receive in a forward, the share that any of their queries sees."""
    used = received = 0
    for rank in range(layout.ring):
        for hop in range(1, layout.ring):
            found = blocks(layout, rank, (rank - hop) % layout.ring)
            used += len({column for block in found for column in range(block.keys.start, block.keys.stop)})
            received += layout.local_length
    return used / received
