"""The explorers of notebook 11 against the layout and the model, cell by cell."""

from __future__ import annotations

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


def test_bars_are_the_models_and_only_legal_meshes_are_drawn() -> None:
    frame = mesh.who_wins().set(model="Qwen2.5-1.5B, 12 / 2", length=65_536, world=16, links="NVLink between all")
    ring, swaps = frame.series
    assert ring.x == ("16 x 1", "8 x 2", "4 x 4")
    for name, waits, swapped in zip(ring.x, ring.y, swaps.y, strict=True):
        shape = next(one for one in mesh.legal_shapes("Qwen2.5-1.5B, 12 / 2", 65_536, 16) if mesh.name_of(one) == name)
        spent = both(shape, mesh.MACHINES["NVLink between all"])
        assert (1e3 * spent.ring, 1e3 * spent.swaps) == pytest.approx((waits, swapped), rel=1e-4)
    assert "12 query heads do not divide among 16 ranks" in frame.text


def test_the_winner_is_the_mesh_of_least_time() -> None:
    explorer = mesh.who_wins()
    for model in mesh.SHAPES:
        frame = explorer.set(model=model, length=16_384, world=16, links="nodes of 8, InfiniBand between")
        beyond = [sum(column) for column in zip(*(one.y for one in frame.series), strict=True)]
        best = frame.series[0].x[beyond.index(min(beyond))]
        assert f"quickest is {best} with" in frame.text
        assert mesh.quickest(model, 16_384, 16, "nodes of 8, InfiniBand between") == best


def test_ranges_in_words() -> None:
    assert mesh.ranges([0, 1, 2, 3, 12, 13]) == "0-3 and 12-13"
    assert mesh.ranges([5]) == "5"
