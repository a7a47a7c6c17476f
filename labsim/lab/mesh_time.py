"""How long one attention takes on a mesh, from an alpha-beta model: seconds per message and seconds per byte.

    message     latency + bytes / bandwidth
    hop         max(compute, message), for the next keys travel meanwhile
    all-to-all  U - 1 messages to as many ranks; nothing hides it, attention cannot begin before it has ended

A pair of causal attention costs 4 D operations per query head forward (two products) and 10 D backward (five, scores
being made again). A ring computes in blocks, merges them and starts more kernels; `ring_efficiency` is the share of
the rate that is left to it. Every number is an input. What is left out: links are shared, all-to-alls of one head can
hide behind the attention of another.

The ring goes at the pace of its slowest hop: as soon as the mesh is larger than a node, one hop crosses nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ..attention.bytes_sent import AttentionShape
from ..parallel.layout import Layout
from ..sim.errors import check_positive, check_whole, out_of_range
from ..sim.hardware import find_gpu
from .ring_count import count_pairs

FORWARD_OPERATIONS, BACKWARD_OPERATIONS = 4, 10  # per pair, query head and head dimension


@dataclass(frozen=True)
class Link:
    """`bandwidth` in bytes a second, one direction; `latency` in seconds a message."""

    name: str
    bandwidth: float
    latency: float

    def __post_init__(self) -> None:
        check_positive("bandwidth", self.bandwidth)
        check_positive("latency", self.latency, zero=True)

    def seconds(self, sent: float, messages: int = 1) -> float:
        return messages * self.latency + sent / self.bandwidth


@dataclass(frozen=True)
class Machine:
    """`flops` operations a second that attention reaches on a rank, `ring_efficiency` the share of them that it reaches
    on the blocks of a ring; nodes of `per_node` ranks, `inner` between the ranks of one, `outer` between nodes.
    """

    flops: float
    inner: Link
    outer: Link
    per_node: int = 8
    ring_efficiency: float = 1.0

    def __post_init__(self) -> None:
        check_positive("flops", self.flops)
        if not 0 < self.ring_efficiency <= 1:
            raise out_of_range("ring_efficiency", self.ring_efficiency, "above 0, at most 1")
        check_whole("per_node", self.per_node)


# Bandwidth of NVLink as in `sim.hardware`, 400 Gbit/s a GPU for InfiniBand NDR; latencies and the share of the peak
# that attention reaches are assumptions, stated wherever they are used.
H100 = find_gpu("h100")
REACHED = 0.5
NVLINK = Link("NVLink", H100.link_bandwidth, 5e-6)
INFINIBAND = Link("InfiniBand", 50e9, 10e-6)
# The middle of 0.85 to 0.90, published by ring-flash-attention for a zigzag ring on eight H800, one node.
RING_EFFICIENCY = 0.87


def h100(per_node: int = 8, ring_efficiency: float = 1.0) -> Machine:
    """H100s in nodes of `per_node`, attention at half of the bf16 peak."""
    return Machine(REACHED * H100.flops("bf16"), NVLINK, INFINIBAND, per_node, ring_efficiency)


@dataclass(frozen=True)
class Spent:
    """Seconds of one pass: `compute` at the full rate, `ring` waits that compute does not hide, `swaps` the
    all-to-alls, `blocks` what computing takes longer on a ring's blocks.
    """

    compute: float
    ring: float
    swaps: float
    blocks: float = 0.0

    @property
    def total(self) -> float:
        return self.compute + self.ring + self.swaps + self.blocks

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.compute + other.compute,
            self.ring + other.ring,
            self.swaps + other.swaps,
            self.blocks + other.blocks,
        )


def ring_link(shape: AttentionShape, machine: Machine) -> Link:
    """The link of the slowest hop."""
    layout = shape.layout
    return machine.inner if layout.ring * layout.ulysses <= machine.per_node else machine.outer


@cache
def busiest(layout: Layout) -> list[int]:
    """Pairs of each hop's busiest rank."""
    return [max(hop) for hop in zip(*count_pairs(layout), strict=True)]


def hop_seconds(shape: AttentionShape, machine: Machine, operations: int) -> list[float]:
    """Computing each hop, on its busiest rank: all wait for that one."""
    each = operations * shape.head_dim * shape.heads // shape.layout.ulysses * shape.batch
    flops = machine.flops * (machine.ring_efficiency if shape.layout.ring > 1 else 1.0)
    return [pairs * each / flops for pairs in busiest(shape.layout)]


def spent_on(shape: AttentionShape, machine: Machine, computing: Sequence[float], waits: float) -> Spent:
    """The parts of one pass, from its hops as they are computed and from the waits between them."""
    full = sum(computing) * (machine.ring_efficiency if shape.layout.ring > 1 else 1.0)
    return Spent(full, waits, swap_seconds(shape, machine), sum(computing) - full)


def swap_seconds(shape: AttentionShape, machine: Machine) -> float:
    """Four all-to-alls. What goes over both links goes at the same time; the slower one counts."""
    ulysses = shape.layout.ulysses
    if ulysses == 1:
        return 0.0
    near = min(ulysses, machine.per_node) - 1
    far = ulysses - 1 - near
    parcel = shape.ulysses_forward / (ulysses - 1)
    spent = [machine.inner.seconds(near * parcel, 4 * near)] if near else []
    if far:
        spent.append(machine.outer.seconds(far * parcel, 4 * far))
    return max(spent)


def hides_from(heads: int, kv_heads: int, head_dim: int, element_bytes: int, machine: Machine, link: Link) -> float:
    """Tokens of a ring rank from which on a zigzag hop of forward computes as long as its message takes.

    The positive root of T^2/2 x operations = latency + bytes, at the machine's rate on a ring's blocks.
    """
    a = FORWARD_OPERATIONS * head_dim * heads / 2 / (machine.flops * machine.ring_efficiency)
    b = 2 * kv_heads * head_dim * element_bytes / link.bandwidth
    return (b + math.sqrt(b * b + 4 * a * link.latency)) / (2 * a)


def forward(shape: AttentionShape, machine: Machine) -> Spent:
    """One forward of one attention layer."""
    computing = hop_seconds(shape, machine, FORWARD_OPERATIONS)
    hops = shape.layout.ring - 1
    travel = ring_link(shape, machine).seconds(shape.ring_forward / hops) if hops else 0.0
    waits = sum(max(0.0, travel - hop) for hop in computing[:hops])
    return spent_on(shape, machine, computing, waits)


def backward(shape: AttentionShape, machine: Machine) -> Spent:
    """One backward: gradients travel one hop behind their keys, and their last hop home hides behind nothing."""
    computing = hop_seconds(shape, machine, BACKWARD_OPERATIONS)
    ring = shape.layout.ring
    if ring == 1:
        return spent_on(shape, machine, computing, 0.0)
    link = ring_link(shape, machine)
    keys = shape.ring_forward / (ring - 1)
    gradients = (shape.ring_backward - shape.ring_forward) / ring
    waits = 0.0
    for hop, busy in enumerate(computing):
        under_way = (keys if hop + 1 < ring else 0) + (gradients if hop else 0)
        waits += max(0.0, link.seconds(under_way) - busy)
    return spent_on(shape, machine, computing, waits + link.seconds(gradients))


def both(shape: AttentionShape, machine: Machine) -> Spent:
    return forward(shape, machine) + backward(shape, machine)
