"""The explorers of notebook 11 against the layout and the model, cell by cell."""

from __future__ import annotations

import itertools
from math import lcm

import pytest

from labsim.lab.explorers import mesh
from labsim.lab.mesh_time import both
from labsim.parallel.layout import Layout


@pytest.mark.parametrize("name", mesh.MESHES)
@pytest.mark.parametrize("layout", ["zigzag", "contiguous"])
@pytest.mark.parametrize("tensor", mesh.TENSORS)
def test_each_entry_has_one_holder_and_the_swap_moves_none_out_of_its_ring_rank(
    name: str, layout: str, tensor: str
) -> None:
    explorer, heads = mesh.who_holds_what(), mesh.TENSORS[tensor]
    ring, ulysses = mesh.MESHES[name]
    times = lcm(heads, ulysses) // heads
    dealt = Layout(mesh.LENGTH, ring, ulysses, layout)
    for moment, copies in zip(mesh.MOMENTS, (1, times), strict=True):
        drawn = explorer.set(mesh=name, layout=layout, tensor=tensor, moment=moment).series
        cells = [cell for one in drawn for cell in zip(one.x, one.y, strict=True)]
        everything = [(i / copies, t) for i in range(heads * copies) for t in range(mesh.LENGTH)]
        assert sorted(cells) == sorted(everything)
        for rank, one in enumerate(drawn):
            held = (
                dealt.ring_positions(rank // ulysses)
                if moment == mesh.MOMENTS[1]
                else dealt.positions(*divmod(rank, ulysses))
            )
            assert sorted(set(one.y)) == held.tolist()


def test_a_rank_has_the_key_head_that_its_query_heads_read() -> None:
    explorer = mesh.who_holds_what()
    group = mesh.HEADS // mesh.KV_HEADS
    for name in mesh.MESHES:
        queries, keys = (
            explorer.set(mesh=name, tensor=tensor, moment=mesh.MOMENTS[1]).series for tensor in mesh.TENSORS
        )
        for q, k in zip(queries, keys, strict=True):
            assert {int(head) // group for head in q.x} == {int(head) for head in k.x}


def test_the_sentence_of_who_holds_what_by_hand() -> None:
    explorer = mesh.who_holds_what()
    text = explorer.set(mesh="2 x 2", layout="zigzag", tensor="queries, 8 heads", moment=mesh.MOMENTS[0]).text
    assert "rank 0 heads 0-7 of tokens 0-3; rank 1 heads 0-7 of tokens 12-15" in text
    text = explorer.set(moment=mesh.MOMENTS[1]).text
    assert "rank 1 heads 4-7 of tokens 0-3 and 12-15" in text
    text = explorer.set(mesh="1 x 4", tensor="keys, 2 heads").text
    assert "rank 3 heads 1 of tokens 0-15" in text
    assert "Each key head exists 2 times inside" in text


@pytest.mark.parametrize("rate", mesh.RATES)
def test_bars_are_the_models_and_only_legal_meshes_are_drawn(rate: str) -> None:
    links = "NVLink between all"
    frame = mesh.who_wins().set(model="Qwen2.5-1.5B, 12 / 2", length=65_536, world=16, links=links, rate=rate)
    bars = frame.series
    assert bars[0].x == ("16 x 1", "8 x 2", "4 x 4")
    for name, *drawn in zip(bars[0].x, *(one.y for one in bars), strict=True):
        shape = next(one for one in mesh.legal_shapes("Qwen2.5-1.5B, 12 / 2", 65_536, 16) if mesh.name_of(one) == name)
        spent = both(shape, mesh.machine_of(links, rate))
        assert [1e3 * spent.ring, 1e3 * spent.swaps, 1e3 * spent.blocks] == pytest.approx(drawn, rel=1e-4)
    assert "12 query heads do not divide among 16 ranks" in frame.text


def test_a_winner_is_named_only_with_a_margin() -> None:
    explorer = mesh.who_wins()
    links, named = "nodes of 8, InfiniBand between", []
    for model, rate in itertools.product(mesh.SHAPES, mesh.RATES):
        frame = explorer.set(model=model, length=16_384, world=16, links=links, rate=rate)
        beyond = [sum(column) / 1e3 for column in zip(*(one.y for one in frame.series), strict=True)]
        computing = both(mesh.legal_shapes(model, 16_384, 16)[0], mesh.machine_of(links, rate)).compute
        times = dict(zip(frame.series[0].x, (computing + one for one in beyond), strict=True))
        least = min(times.values())
        close = [name for name, time in times.items() if time < 1.05 * least]
        named.append(len(close) == 1)
        assert mesh.quickest(model, 16_384, 16, links, rate) == ", ".join(close)
        words = f"quickest is {close[0]} with" if named[-1] else f"too close to tell: {', '.join(close)};"
        assert words in frame.text
    assert True in named and False in named


def test_kernels_on_blocks_decide_long_texts() -> None:
    """At the full rate all meshes of up to eight Ulysses ranks are too close; at the published one no ring is near."""
    links = "nodes of 8, InfiniBand between"
    assert mesh.quickest("Llama-3.1-8B, 32 / 8", 131_072, 16, links, "the full rate") == "16 x 1, 8 x 2, 4 x 4, 2 x 8"
    assert mesh.quickest("Llama-3.1-8B, 32 / 8", 131_072, 16, links, mesh.PUBLISHED) == "1 x 16"


def test_ranges_in_words() -> None:
    assert mesh.ranges([0, 1, 2, 3, 12, 13]) == "0-3 and 12-13"
    assert mesh.ranges([5]) == "5"
