"""The explorers of notebook 10 against the layout, pair by pair."""

from __future__ import annotations

import pytest

from labsim.lab.explorers import ring
from labsim.parallel.layout import Layout, blocks


@pytest.mark.parametrize("kind", ring.KINDS)
@pytest.mark.parametrize("size", ring.RINGS)
def test_over_all_hops_each_pair_is_drawn_once_by_the_rank_that_holds_its_query(size: int, kind: str) -> None:
    explorer, layout = ring.hop_by_hop(), Layout(ring.LENGTH, size, 1, kind)
    drawn = []
    for hop in range(size):
        before, *ranks = explorer.set(ring=size, layout=kind, hop=hop).series
        assert len(before.x) == len(drawn)
        for rank, series in enumerate(ranks):
            held = layout.positions(rank).tolist()
            cells = list(zip(series.x, series.y, strict=True))
            assert cells[: len(held)] == [(ring.MARGIN, position) for position in held]
            assert all(query in held for _, query in cells)
            keys = layout.positions((rank - hop) % size).tolist()
            assert all(key in keys for key, _ in cells[len(held) :])
            drawn += cells[len(held) :]
    assert sorted(drawn) == [(key, query) for key in range(ring.LENGTH) for query in range(key, ring.LENGTH)]


def test_the_sentence_of_a_hop_by_hand() -> None:
    """Four ranks of six tokens: squares of 36 pairs; a hop carries 2 x 8 x 128 x 6 numbers of 2 bytes, 24 KiB."""
    text = ring.hop_by_hop().set(ring=4, layout="contiguous", hop=1).text
    assert "rank 0 has rank 3's keys: 0, rank 1 has rank 0's keys: 36" in text
    assert "24 KiB" in text
    assert f"{300 / 4 / (21 + 3 * 36):.0%}" in text
    assert "72 KiB" in ring.hop_by_hop().set(ring=4, layout="zigzag", hop=3).text
    assert "done after hop 1" in ring.hop_by_hop().set(ring=2, layout="zigzag", hop=3).text


def test_stacks_are_the_pairs_of_the_layout() -> None:
    frame = ring.who_works_when().set(ring=3, layout="contiguous")
    for hop, series in enumerate(frame.series):
        for rank, millions in enumerate(series.y):
            layout = Layout(ring.LONG, 3, 1, "contiguous")
            pairs = sum(block.pairs for block in blocks(layout, rank, (rank - hop) % 3))
            assert millions == pytest.approx(pairs / 1e6, rel=1e-4)
    zigzag = ring.who_works_when().set(ring=6, layout="zigzag")
    assert "Balance 100.0%" in zigzag.text
