"""The by-hand rules of notebook 10 are the rules of the package, and what the page shows is what the ring does."""

from __future__ import annotations

import random

import pytest
import torch

from labsim.attention.bytes_sent import AttentionShape
from labsim.attention.ring import Ring
from labsim.lab.exercises import ring_by_hand as hand
from labsim.lab.planted_ring import FAULTS, planted
from labsim.lab.ring_count import balance, count_pairs, used_share
from labsim.lab.ring_faults import meet, rank_0_stays_away
from labsim.lab.ring_lab import (
    NAMES,
    Text,
    after_hops,
    errors,
    gradients_on_their_way,
    mass_seen,
    on_logical_ranks,
    on_real_ranks,
    peak_per_rank,
    same_bits,
    symptoms,
)
from labsim.lab.ring_plot import computed_at, draw_matrix
from labsim.parallel.layout import Layout, blocks
from labsim.train.ttt.part import Part

KINDS = ("contiguous", "zigzag")


def some_text(length: int = 24, seed: int = 0) -> Text:
    return Text.random(length, 4, 2, 8, seed)


@pytest.mark.parametrize("ring", [1, 2, 3, 5])
def test_what_a_rank_computes_at_a_hop_is_what_the_layout_says(ring: int) -> None:
    layout = Layout(4 * ring, ring, 1, "contiguous")
    for rank in range(ring):
        for hop in range(ring):
            owner, work = hand.at_hop(ring, rank, hop)
            found = blocks(layout, rank, owner)
            assert owner == (rank - hop) % ring
            assert [block.pairs for block in found] == {"nothing": [], "triangle": [10], "square": [16]}[work]


@pytest.mark.parametrize(("length", "ring"), [(8, 2), (24, 3), (40, 4), (6, 1)])
def test_who_holds_a_position_is_what_the_layout_says(length: int, ring: int) -> None:
    layout = Layout(length, ring, 1, "zigzag")
    for position in range(length):
        rank, place = hand.holder(position, length, ring)
        assert layout.positions(rank)[place] == position


@pytest.mark.parametrize("seed", range(20))
def test_bytes_by_hand_are_the_packages(seed: int) -> None:
    ring, tokens, heads, kv_heads, head_dim, element, wide = hand.some_sizes(random.Random(seed))
    layout = Layout(tokens, ring)
    assert layout.padded == tokens
    shape = AttentionShape(layout, heads, kv_heads, head_dim, element_bytes=element, wide_bytes=wide)
    assert hand.bytes_sent(ring, tokens, heads, kv_heads, head_dim, element, wide) == (shape.forward, shape.backward)


@pytest.mark.parametrize("ring", [2, 3, 4])
@pytest.mark.parametrize("fault", ["healthy", *FAULTS])
def test_reasoned_symptoms_are_those_of_the_planted_ring(fault: str, ring: int) -> None:
    layout, text = Layout(6 * ring, ring, 1, "contiguous"), some_text(6 * ring, seed=ring)
    kind = Ring if fault == "healthy" else planted(fault)
    found = symptoms(layout, on_logical_ranks(layout, text, kind), text.dense())
    assert found == hand.symptoms_of(fault, ring)
    assert hand.diagnose(found) == fault


def test_a_planted_fault_leaves_the_ring_as_it_is() -> None:
    before = Ring.backward, Ring.forward
    for fault in FAULTS:
        assert issubclass(planted(fault), Ring)
    assert (Ring.backward, Ring.forward) == before
    with pytest.raises(ValueError, match="hop short"):
        planted("hop shrt")


@pytest.mark.parametrize("ring", [1, 2, 3])
def test_next_tokens_by_hand_are_those_that_the_trainer_takes(ring: int) -> None:
    length = 4 * ring
    shards = hand.zigzag(list(range(100, 100 + length)), ring)
    assert hand.unzigzag(shards) == list(range(100, 100 + length))
    layout = Layout(length, ring, 1, "zigzag")
    for rank, row in enumerate(hand.next_tokens(shards)):
        assert shards[rank] == (layout.positions(rank) + 100).tolist()
        part = PartOfRank(layout, rank)
        taken = Part.tokens(part, 0)[0].tolist()  # type: ignore[arg-type]
        assert [token or 0 for token in row] == taken


class PartOfRank:
    """What `Part.tokens` looks at."""

    def __init__(self, layout: Layout, rank: int) -> None:
        self.layout, self.positions_L = layout, layout.positions(rank)
        self.row = self
        self.tokens_1L = torch.arange(100, 100 + layout.length)[None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("length", "ring"), [(24, 4), (29, 3), (12, 1)])
def test_logical_ranks_give_dense_attention_and_a_wrong_part_is_seen(kind: str, length: int, ring: int) -> None:
    layout, text = Layout(length, ring, 1, kind), some_text(length)
    exact, parts = text.dense(), on_logical_ranks(layout, text)
    assert max(errors(layout, parts, exact).values()) < 1e-12
    for name in NAMES:
        damaged = exact | {name: torch.zeros_like(exact[name]) + 1e-3}
        assert errors(layout, parts, damaged)[name] > 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_ring_is_attention_over_the_keys_that_came_by(kind: str) -> None:
    layout, text = Layout(24, 4, 1, kind), some_text()
    k, v = (x.repeat_interleave(2, dim=1) for x in (text.k, text.v))
    scores = text.q @ k.transpose(-1, -2) * 8**-0.5
    for hops in (1, 2, 4):
        for rank, (out, lse) in enumerate(after_hops(layout, text, hops)):
            mine = layout.positions(rank)
            came = torch.cat([layout.positions((rank - hop) % 4) for hop in range(hops)])
            seen = torch.zeros(24, dtype=torch.bool)
            seen[came] = True
            mask = seen[None, :] & (torch.arange(24)[None, :] <= mine[:, None])
            masked = scores[:, :, mine].masked_fill(~mask, float("-inf"))
            torch.testing.assert_close(lse, masked.logsumexp(-1))
            torch.testing.assert_close(out, masked.softmax(-1) @ v)
    shares = mass_seen(layout, text)
    for rank, row in enumerate(shares):
        assert row == sorted(row) and row[-1] == pytest.approx(1)
        assert kind == "zigzag" or row[rank] == pytest.approx(1), "contiguous: rank r has seen all after r hops"


def test_a_gradient_is_whole_when_its_last_reader_has_added() -> None:
    text = some_text()
    for block, row in enumerate(gradients_on_their_way(Layout(24, 4, 1, "contiguous"), text, text.dense())):
        assert [distance < 1e-9 for distance in row] == [hop >= 3 - block for hop in range(4)]


def test_balance_and_use_by_hand() -> None:
    """Two ranks, four tokens: contiguous 3 and 3 + 4 pairs; zigzag (chunks of one) 5 and 5, half of the keys seen."""
    contiguous, zigzag = (Layout(4, 2, 1, kind) for kind in KINDS)
    assert count_pairs(contiguous) == [[3, 0], [3, 4]]
    assert balance(contiguous) == pytest.approx(5 / 7)
    assert count_pairs(zigzag) == [[3, 2], [3, 2]]
    assert balance(zigzag) == 1
    assert used_share(contiguous) == 0.5
    assert used_share(zigzag) == 0.75


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ring", [1, 2, 4])
def test_every_pair_is_computed_once(kind: str, ring: int) -> None:
    found = computed_at(Layout(16, ring, 1, kind))
    assert sorted((query, key) for query, key, _, _ in found) == [(q, k) for q in range(16) for k in range(q + 1)]


def test_the_matrix_is_drawn() -> None:
    fig = draw_matrix([Layout(16, 4, 1, kind) for kind in KINDS], ["one", "other"])
    for ax in fig.axes:
        assert len(ax.patches) == 16 * 17 // 2
        assert {text.get_text() for text in ax.texts} == {"0", "1", "2", "3"}


def test_a_rank_that_stays_away_is_named() -> None:
    assert "rank 0 has ended without it" in rank_0_stays_away(Layout(24, 4, 1, "contiguous"), some_text())


def test_real_ranks_are_the_logical_ones_and_hold_what_a_rank_measured_alone_does() -> None:
    text, layouts = some_text(), [Layout(24, 2, 1, kind) for kind in reversed(KINDS)]
    found = on_real_ranks(layouts, text)
    for layout, parts in zip(layouts, found, strict=True):
        assert same_bits(parts, on_logical_ranks(layout, text))
        assert sum(parts[0].forward.values()) == hand.bytes_sent(2, 24, 4, 2, 8, 8, 8)[0]
    other = on_logical_ranks(layouts[0], some_text(seed=1))
    assert not same_bits(found[0], other)
    assert found[0][1].peak == pytest.approx(peak_per_rank(layouts[0], text), rel=0.02)


def test_a_rank_of_another_shape_is_met() -> None:
    met = meet("brings another shape", Layout(24, 2, 1, "zigzag"), some_text(), timeout_seconds=30)
    assert "rank 1 is in ring: keys and values of (1, 1, 12, 8) float64" in met.said[0]
    assert met.left == 0
