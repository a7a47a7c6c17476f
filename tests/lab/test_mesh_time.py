"""The alpha-beta model of notebook 11 by hand, and against a simulation of its hops."""

from __future__ import annotations

import pytest

from labsim.attention.bytes_sent import AttentionShape
from labsim.lab.exercises.mesh_by_hand import tokens_to_hide
from labsim.lab.mesh_time import Link, Machine, Spent, backward, both, forward, h100, hides_from, hop_seconds
from labsim.parallel.layout import Layout

FREE = Link("free", 1e30, 0.0)


def shape_of(ring: int, ulysses: int, length: int = 1024, kv_heads: int = 2) -> AttentionShape:
    return AttentionShape(Layout(length, ring, ulysses), 8, kv_heads, 64, element_bytes=2)


def test_two_ranks_of_a_ring_by_hand() -> None:
    """512 tokens a rank: triangles of the two chunks and the square between, then half a square; 2 KiB keys a token."""
    machine = Machine(1e12, Link("slow", 1e6, 0.25), FREE)
    at_home, passing = 2 * 256 * 257 // 2 + 256 * 256, 512 * 256
    per_pair = 4 * 64 * 8 / 1e12
    travel = 0.25 + 2 * 512 * 2 * 64 * 2 / 1e6
    spent = forward(shape_of(2, 1), machine)
    assert spent.compute == pytest.approx((at_home + passing) * per_pair)
    assert spent.ring == pytest.approx(travel - at_home * per_pair)
    assert spent.swaps == 0
    home = 0.25 + 2 * 512 * 2 * 64 * 4 / 1e6
    back = backward(shape_of(2, 1), machine)
    assert back.compute == pytest.approx(2.5 * spent.compute)
    # Hop 0 waits for the keys, hop 1 for the gradients of hop 0, and then these go home.
    assert back.ring == pytest.approx(travel - 2.5 * at_home * per_pair + home - 2.5 * passing * per_pair + home)


@pytest.mark.parametrize("ring", [2, 3, 4, 8])
def test_waits_are_those_of_a_simulated_ring(ring: int) -> None:
    """A clock per event: a hop starts when its keys are here and the one before is computed."""
    shape, machine = shape_of(ring, 1, 96 * ring), Machine(1e12, Link("link", 4e9, 1e-5), FREE, per_node=64)
    computing = hop_seconds(shape, machine, 4)
    travel = machine.inner.seconds(shape.ring_forward / (ring - 1))
    now = arrived = 0.0
    for hop, busy in enumerate(computing):
        begin = max(now, arrived)
        if hop + 1 < ring:
            arrived = begin + travel
        now = begin + busy
    found = forward(shape, machine)
    assert found.compute + found.ring == pytest.approx(now)


def test_a_swap_by_hand() -> None:
    """Four tensors, 3/4 of each leaves: 2 x (8 + 4) heads x 256 tokens x 64 x 2 bytes; three messages each."""
    machine = Machine(1e12, Link("link", 1e6, 0.5), FREE)
    sent = 2 * (8 + 4) * 256 * 64 * 2 * 3 / 4
    assert forward(shape_of(1, 4), machine).swaps == pytest.approx(4 * 3 * 0.5 + sent / 1e6)


def test_a_swap_over_two_nodes_is_as_slow_as_its_slower_part() -> None:
    """Of three parcels one stays in the node."""
    slow = Link("slow", 1e6, 0.0)
    sent = 2 * (8 + 4) * 256 * 64 * 2 / 4
    assert forward(shape_of(1, 4), Machine(1e12, FREE, slow, 2)).swaps == pytest.approx(2 * sent / 1e6)
    assert forward(shape_of(1, 4), Machine(1e12, slow, FREE, 2)).swaps == pytest.approx(sent / 1e6)


def test_a_ring_goes_at_the_pace_of_its_slowest_hop() -> None:
    inside, between = Link("inside", 1e9, 0.0), Link("between", 1e6, 0.0)
    one_node, two_nodes = (forward(shape_of(2, 2), Machine(1e30, inside, between, n)) for n in (4, 2))
    assert two_nodes.ring == pytest.approx(1000 * one_node.ring)
    assert two_nodes.swaps == pytest.approx(one_node.swaps)


@pytest.mark.parametrize("length", [4096, 131_072])
def test_computing_is_the_same_on_every_mesh(length: int) -> None:
    """The whole triangle over all ranks: what a mesh costs beyond it is its own."""
    pairs = length * (length + 1) / 2
    for ring, ulysses in ((16, 1), (8, 2), (2, 8), (1, 16)):
        shape = AttentionShape(Layout(length, ring, ulysses), 32, 8, 128, element_bytes=2)
        expected = pairs / 16 * 32 * 128 * 14 / h100().flops
        assert both(shape, h100()).compute == pytest.approx(expected, rel=2e-3)


def test_from_the_tokens_that_hide_a_hop_on_the_ring_does_not_wait() -> None:
    link = Link("link", 50e9, 0.0)
    machine = Machine(5e14, link, link)
    needed = tokens_to_hide(8, 2, 2, machine.flops, link.bandwidth)
    assert needed == pytest.approx(hides_from(8, 2, 64, 2, machine, link))
    below, above = (
        hop_seconds(shape_of(4, 1, 4 * tokens), machine, 4)[1]
        - link.seconds(shape_of(4, 1, 4 * tokens).ring_forward / 3)
        for tokens in (int(0.95 * needed) // 2 * 2, int(1.05 * needed) // 2 * 2)
    )
    assert below < 0 < above


def test_latency_needs_more_tokens() -> None:
    late = Link("late", 50e9, 1e-3)
    machine = Machine(5e14, late, late)
    tokens = hides_from(8, 2, 64, 2, machine, late)
    computing = tokens * tokens / 2 * 4 * 64 * 8 / machine.flops
    assert computing == pytest.approx(1e-3 + 2 * tokens * 2 * 64 * 2 / 50e9)


def test_a_ring_whose_kernels_are_slower_computes_longer_and_hides_more() -> None:
    link = Link("quick", 4e9, 1e-5)
    whole, slower = (Machine(1e12, link, link, 64, share) for share in (1.0, 0.8))
    for passed in (forward, backward):
        one, other = (passed(shape_of(4, 1), machine) for machine in (whole, slower))
        assert one.blocks == 0
        assert other.compute == pytest.approx(one.compute)
        assert other.compute + other.blocks == pytest.approx(one.compute / 0.8)
    slow = Link("slow", 4e7, 1e-5)
    whole, slower = (Machine(1e12, slow, slow, 64, share) for share in (1.0, 0.8))
    assert forward(shape_of(4, 1), slower).ring < forward(shape_of(4, 1), whole).ring
    assert forward(shape_of(1, 4), whole) == forward(shape_of(1, 4), slower), "no ring, no blocks"
    assert hides_from(8, 2, 64, 2, slower, link) < hides_from(8, 2, 64, 2, whole, link)


def test_sums_and_bad_values() -> None:
    assert Spent(1, 2, 3, 4) + Spent(1, 1, 1) == Spent(2, 3, 4, 4)
    assert Spent(1, 2, 3, 4).total == 10
    assert Spent(1, 2, 3).total == 6
    with pytest.raises(ValueError, match="bandwidth is 0"):
        Link("x", 0, 0)
    with pytest.raises(ValueError, match=r"ring_efficiency is 1\.2"):
        Machine(1, FREE, FREE, ring_efficiency=1.2)
    with pytest.raises(ValueError, match="per_node is 0"):
        Machine(1, FREE, FREE, 0)
