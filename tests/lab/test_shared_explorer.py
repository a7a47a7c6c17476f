"""The explorers of notebook 12 against the layout and the formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labsim.attention.bytes_sent import AttentionShape
from labsim.lab.explorers import shared
from labsim.parallel.layout import Layout
from labsim.train.ttt.memory import StepSetting
from labsim.train.ttt.memory_peak import peak


@pytest.mark.parametrize("kind", shared.KINDS)
def test_over_all_ranks_each_pair_of_a_step_is_drawn_once(kind: str) -> None:
    explorer, layout, step = shared.one_rank_one_step(), Layout(shared.LENGTH, shared.RING, 1, kind), 2
    text, branch = [], []
    for rank in range(shared.RING):
        home, came, own, queries = explorer.set(step=step, rank=rank, layout=kind).series
        mine = layout.positions(rank).tolist()
        assert set(home.x) <= set(mine) and not set(came.x) & set(mine)
        assert set(home.y) | set(came.y) | set(own.y) <= set(mine) == set(queries.y)
        text += [*zip(home.y, home.x, strict=True), *zip(came.y, came.x, strict=True)]
        branch += zip(own.y, own.x, strict=True)
    whole = range(shared.LENGTH)
    assert sorted(text) == [(t, key) for t in whole for key in range(t + 1)]
    assert sorted(branch) == [(t, shared.LENGTH + made) for t in whole for made in (1, 2)]


def test_the_sentence_of_a_step_by_hand() -> None:
    """Four ranks of six tokens; rank 1 under zigzag: 3-5, 18-20. A hop carries 2 x 8 x 128 x 6 numbers of 2 bytes."""
    text = shared.one_rank_one_step().set(step=3, rank=1, layout="zigzag").text
    assert "21 keys of the text at home, 54 that came round, and 18 of their own branches" in text
    assert "72 KiB" in text and "0 of the branch's" in text
    assert "positions 6, 7, 8, 9, 21, 22, 23." in text
    assert "reads nothing beyond its own" in shared.one_rank_one_step().set(rank=3, layout="contiguous").text


def test_bars_are_the_formulas_and_the_cross_is_what_is_sent() -> None:
    explorer = shared.what_a_rank_holds()
    frame = explorer.set(length=65_536, ttt=4, mesh="ring of Ulysses 4", checkpointing="yes", chunk=1024)
    shape, beside = shared.big_draft()
    base = StepSetting(positions=65_536, ttt=4, checkpointing=True, logit_chunk=1024)
    *bars, sent = frame.series
    for index, ranks in enumerate(shared.RANKS):
        total = peak(shape, replace(base, sequence_parallel=ranks)).total + beside
        assert sum(bar.y[index] for bar in bars) == pytest.approx(total / 1e9, rel=1e-3)
    attention = AttentionShape(Layout(65_536, 2, 4), 64, 8, 128, element_bytes=2, steps=4)
    gradients = 2 * 7 / 8 * 4 * shape.parameters(4)
    assert sent.y[3] == pytest.approx((2 * attention.forward + attention.backward + gradients) / 1e9, rel=1e-4)
    assert sent.y[0] == 0


def test_128k_in_words() -> None:
    explorer = shared.what_a_rank_holds()
    assert "80 GB: 16 ranks; 141 GB: 8 ranks" in explorer.frame.text
    assert "80 GB: more than 16 ranks" in explorer.set(length=262_144).text
    assert "80 GB: 4 ranks; 141 GB: 2 ranks" in explorer.set(length=131_072, checkpointing="yes", chunk=1024).text
