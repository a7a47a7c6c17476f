"""The by-hand rules of notebook 11 are the rules of the package, and what the page shows is what the mesh does."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch

from labsim.attention.bytes_sent import AttentionShape
from labsim.attention.ulysses import repeat_kv
from labsim.attention.usp import USP
from labsim.lab import mesh_lab as lab
from labsim.lab.exercises import mesh_by_hand as mesh_hand
from labsim.lab.exercises import swap_by_hand as hand
from labsim.lab.mesh_plot import draw_talks, talks
from labsim.lab.mesh_positions import FAULTS, RIGHT, error_by_position, seen_on, turned
from labsim.lab.planted_kv import FAULTS as COPY_FAULTS
from labsim.lab.planted_kv import against, planted
from labsim.lab.ring_lab import Echo
from labsim.lab.usp_run import errors, run_on_a_rank
from labsim.parallel import logical
from labsim.parallel.layout import Layout
from labsim.parallel.mesh import ranks_of

KINDS = ("contiguous", "zigzag")


@pytest.mark.parametrize(("ranks", "share", "size"), [(2, 2, 3), (3, 1, 2), (4, 2, 1)])
def test_the_swap_by_hand_is_the_packages_both_ways(ranks: int, share: int, size: int) -> None:
    held = hand.numbered(ranks, share, size)
    inside = hand.to_heads(held)
    assert inside == lab.swapped(held)
    assert hand.to_tokens(inside) == lab.swapped(inside, to_heads=False) == held
    for rank, rows in enumerate(inside):
        assert [row[0] // 100 for row in rows] == list(range(rank * share, (rank + 1) * share))
        assert all([x % 100 for x in row] == list(range(ranks * size)) for row in rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("ring", "ulysses"), [(1, 1), (1, 3), (2, 2), (3, 1), (4, 2)])
def test_positions_by_hand_are_the_layouts(ring: int, ulysses: int, kind: str) -> None:
    length = 12 * ring * ulysses
    layout = Layout(length, ring, ulysses, kind)
    assert layout.padded == length
    for r in range(ring):
        for u in range(ulysses):
            place = (length, ring, ulysses, r, u, kind)
            assert hand.positions_inside(*place) == layout.ring_positions(r).tolist()
            assert hand.positions_outside(*place) == layout.positions(r, u).tolist()


@pytest.mark.parametrize("name", [*RIGHT, *FAULTS])
def test_reasoned_symptoms_are_those_of_the_planted_positions(name: str) -> None:
    for ring, ulysses in ((2, 2), (3, 2)):
        meshes = hand.meshes_that_tell(ring, ulysses)
        problems = [lab.small(48, r, u, 4, 2, kind=kind) for r, u, kind in meshes]
        fault = "healthy" if name in RIGHT else name
        found = seen_on(problems, name)
        assert found == hand.symptoms_of(fault, meshes)
        assert hand.diagnose(found) == fault


def test_where_an_error_begins_is_where_a_query_meets_another_kind_of_position() -> None:
    own = error_by_position(lab.small(32, 1, 2, 4, 2, kind="contiguous"), "own positions inside")
    forgotten = error_by_position(lab.small(32, 2, 1, 4, 2, kind="zigzag"), "zigzag forgotten")
    assert [error > 1e-9 for error in own] == [t >= 16 for t in range(32)]
    assert [error > 1e-9 for error in forgotten] == [t >= 8 for t in range(32)]
    with pytest.raises(ValueError, match="own positions inside"):
        error_by_position(lab.small(8, 1, 1, 2, 2), "own position inside")


def test_turning_is_rotary_embedding() -> None:
    """Complex multiplication of the two halves, angle by angle."""
    x = torch.randn(1, 1, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    where = torch.tensor([0, 3, 4, 10, 11])
    angles = where[:, None] * 10000.0 ** -(torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    turned_by_hand = torch.complex(x[..., :4], x[..., 4:]) * torch.polar(torch.ones_like(angles), angles)
    expected = torch.cat([turned_by_hand.real, turned_by_hand.imag], dim=-1)
    torch.testing.assert_close(turned(x, where), expected)


@pytest.mark.parametrize(("heads", "kv_heads"), [(8, 8), (12, 2), (24, 8), (9, 3), (16, 1)])
def test_legal_meshes_by_hand_are_those_that_the_package_accepts(heads: int, kv_heads: int) -> None:
    keys = torch.zeros(1, kv_heads, 1, 1)
    accepted = []
    for ring, ulysses in lab.factorisations(24):
        try:
            accepted.append((ring, ulysses, repeat_kv(keys, heads, ulysses).shape[1] // kv_heads))
        except ValueError:
            continue
    assert mesh_hand.meshes(24, heads, kv_heads) == accepted
    assert [one[:2] for one in accepted] == lab.factorisations(24, heads)


def test_heads_that_do_not_divide_are_refused_with_the_degrees_that_would_do() -> None:
    assert "9 query heads do not divide" in lab.refusal(9, 3, 1, 2)
    assert "[1, 3, 9]" in lab.refusal(9, 3, 1, 2)
    with pytest.raises(RuntimeError, match="were accepted"):
        lab.refusal(8, 2, 1, 2)


@pytest.mark.parametrize("name", ["healthy", *COPY_FAULTS])
@pytest.mark.parametrize(("kv_heads", "ring", "ulysses"), [(2, 1, 2), (2, 1, 4), (1, 2, 2), (2, 1, 8)])
def test_reasoned_symptoms_of_copies_are_those_of_the_planted_ones(
    name: str, kv_heads: int, ring: int, ulysses: int
) -> None:
    problem, alone = lab.small(32, ring, ulysses, 8, kv_heads), lab.small(32, 1, 1, 8, kv_heads)
    right = lab.whole(alone, lab.on_logical_ranks(alone))
    found = lab.whole(problem, lab.on_logical_ranks(problem, USP if name == "healthy" else planted(name)))
    times = mesh_hand.copies_of(kv_heads, ulysses)
    off = float((found["out"] - right["out"]).abs().max()) > 1e-9
    slope, rest = against(found["dk"], right["dk"])
    silent = name == "strided heads" and kv_heads == 1  # one head repeated is one head repeated
    expected = "healthy" if silent else name
    assert mesh_hand.diagnose(times, off, slope, rest) == (mesh_hand.NOTHING if times == 1 else expected)
    reasoned = mesh_hand.symptoms_of(expected, times, slope, rest)
    assert (times, off) == reasoned[:2]
    assert (slope, rest) == pytest.approx(reasoned[2:], abs=1e-9)


def test_a_planted_copy_leaves_usp_as_it_is() -> None:
    before = USP.enter_kv
    for name in COPY_FAULTS:
        assert issubclass(planted(name), USP)
    assert USP.enter_kv is before
    with pytest.raises(ValueError, match="averaged"):
        planted("avraged")


def test_slope_and_rest_by_hand() -> None:
    """(1, 1) against (1, 0): half of it is right and the rest as large as the right one."""
    assert against(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 0.0])) == (1.0, 1.0)
    assert against(torch.tensor([3.0, 0.0]), torch.tensor([1.0, 0.0])) == (3.0, 0.0)


@pytest.mark.parametrize(("ring", "ulysses"), [(1, 4), (2, 2), (2, 4), (4, 1), (3, 2)])
def test_peers_by_hand_are_the_packages_groups(ring: int, ulysses: int) -> None:
    rings, columns = ranks_of(ring, ulysses)
    for rank in range(ring * ulysses):
        mine, column = mesh_hand.peers(rank, ring, ulysses)
        assert mine in rings and column in columns
        assert set(mine) & set(column) == {rank}


@pytest.mark.parametrize("seed", range(20))
def test_bytes_by_hand_are_the_packages(seed: int) -> None:
    ring, ulysses, tokens, heads, kv_heads, head_dim, element = mesh_hand.some_sizes(random.Random(seed))
    layout = Layout(tokens, ring, ulysses)
    assert layout.padded == tokens
    shape = AttentionShape(layout, heads, kv_heads, head_dim, element_bytes=element)
    found = mesh_hand.sent_forward(ring, ulysses, tokens, heads, kv_heads, head_dim, element)
    assert found == (shape.ring_forward, shape.ulysses_forward)


@pytest.mark.parametrize(("ring", "ulysses"), [(4, 1), (2, 2), (1, 4)])
@pytest.mark.parametrize("inside", [True, False])
def test_crossings_are_the_bytes_that_logical_ranks_post(
    ring: int, ulysses: int, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every message of a forward, counted where threads hand it over; two nodes of two ranks."""
    posted: Counter[tuple[int, int]] = Counter()
    send = logical.PostOffice.send

    def spy(self, address, operation, tensors):
        _, _, sender, receiver = address
        posted[sender, receiver] += sum(x.numel() * x.element_size() for x in tensors)
        return send(self, address, operation, tensors)

    monkeypatch.setattr(logical.PostOffice, "send", spy)
    problem = lab.small(16, ring, ulysses, 4, 2)
    layout = problem.layout

    def work(mesh):
        place = mesh.ring.rank, mesh.ulysses.rank
        with torch.no_grad():
            usp = USP(mesh, layout)
            usp(*usp.enter(*(layout.cut(x[0], 2, *place) for x in problem.inputs()[:3])))

    logical.run(work, ring=ring, ulysses=ulysses)

    def node(rank: int) -> int:
        r, u = divmod(rank, ulysses)
        return (rank if inside else u * ring + r) // 2

    near = sum(sent for (a, b), sent in posted.items() if node(a) == node(b))
    far = sum(sent for (a, b), sent in posted.items() if node(a) != node(b))
    assert lab.across_nodes(problem.shape, 2, inside) == (near, far)
    if inside:
        assert set(posted) == set(talks(ring, ulysses))


def test_talks_are_drawn() -> None:
    fig = draw_talks(2, 4, 4)
    assert [len(ax.patches) for ax in fig.axes] == [8 * 3 + 8] * 2
    crossing = [sum(a // 4 != b // 4 for a, b in talks(2, 4, inside)) for inside in (True, False)]
    assert crossing == [8, 16]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mesh_without_a_second_dimension_is_the_engine_alone_bit_for_bit(kind: str) -> None:
    ring = lab.small(48, 4, 1, 8, 2, kind=kind)
    assert lab.same_bits([lab.plain(one) for one in lab.on_logical_ranks(ring)], lab.ring_alone(ring))
    other = lab.small(48, 4, 1, 8, 2, kind=kind, seed=1)
    assert not lab.same_bits([lab.plain(one) for one in lab.on_logical_ranks(other)], lab.ring_alone(ring))
    if kind == "contiguous":  # a ring of one computes zigzag in two chunks: other kernel calls, other rounding
        column = lab.small(48, 1, 4, 8, 2, kind=kind)
        assert lab.same_bits([lab.plain(one) for one in lab.on_logical_ranks(column)], lab.ulysses_alone(column))
    with pytest.raises(ValueError, match="a ring alone has 1"):
        lab.ring_alone(lab.small(8, 1, 2, 4, 2))
    with pytest.raises(ValueError, match="Ulysses alone has 1"):
        lab.ulysses_alone(lab.small(8, 2, 1, 4, 2))


def test_messages_by_hand() -> None:
    """Ring: 3 + 3 hops of keys and 4 of gradients. Ulysses: four swaps each way, three messages each."""
    assert lab.messages(lab.small(16, 4, 1, 8, 2)) == {"ring hops": 10, "all-to-alls": 0, "messages in them": 0}
    assert lab.messages(lab.small(16, 1, 4, 8, 2)) == {"ring hops": 0, "all-to-alls": 8, "messages in them": 24}


def test_real_mesh_is_the_logical_one_and_holds_what_a_rank_measured_alone_does() -> None:
    problems = [lab.small(24, 1, 2, 4, 1), lab.small(24, 1, 2, 4, 2, kind="contiguous")]
    for problem, ranks in zip(problems, lab.on_real_ranks(problems), strict=True):
        threads = lab.on_logical_ranks(problem)
        assert lab.same_bits([lab.plain(one) for one in ranks], [lab.plain(one) for one in threads])
        assert [one.sent for one in ranks] == [one.sent for one in threads]
        assert max(errors(problem, ranks).values()) < 1e-12
        if ranks[1].peak:
            real = lab.shard_bytes(problem) + ranks[1].peak
            assert real == pytest.approx(lab.peak_per_rank(problem), rel=0.03)


def test_what_a_rank_is_given_is_counted() -> None:
    problem = lab.small(24, 2, 2, 8, 2)

    def work(mesh):
        place = mesh.ring.rank, mesh.ulysses.rank
        return sum(problem.layout.cut(x[0], 2, *place).nbytes for x in problem.inputs())

    assert logical.run(work, ring=2, ulysses=2) == [lab.shard_bytes(problem)] * 4
    assert run_on_a_rank.__defaults__ == (USP,)


def test_an_echo_gives_buffers_of_its_own() -> None:
    parts = torch.ones(2, 3)
    received = Echo(0, 2).all_to_all(parts, "swap")
    assert received.shape == parts.shape and received.dtype == parts.dtype
    assert received.untyped_storage().data_ptr() != parts.untyped_storage().data_ptr()
