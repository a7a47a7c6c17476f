"""Explorers of notebook 11: who holds which token of which head, and which mesh is quickest when.

The first is read off `labsim.parallel.layout`, the second off `labsim.attention.bytes_sent` and `labsim.lab.mesh_time`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

from ...attention.bytes_sent import AttentionShape
from ...parallel.layout import Layout
from ..exercises.mesh_by_hand import tokens_to_hide
from ..explorer import Explorer, Frame, Series, Slider, explore
from ..mesh_lab import factorisations
from ..mesh_time import INFINIBAND, NVLINK, REACHED, Spent, both, h100

LENGTH, WORLD = 16, 4
HEADS, KV_HEADS = 8, 2
MESHES = {f"{ring} x {ulysses}": (ring, ulysses) for ring, ulysses in factorisations(WORLD)}
TENSORS = {f"queries, {HEADS} heads": HEADS, f"keys, {KV_HEADS} heads": KV_HEADS}
MOMENTS = ("outside attention", "inside attention")

SHAPES = {  # query heads, key heads, head dimension
    "Llama-3.1-8B, 32 / 8": (32, 8, 128),
    "Llama-3.3-70B, 64 / 8": (64, 8, 128),
    "Qwen2.5-1.5B, 12 / 2": (12, 2, 128),
    "no grouping, 32 / 32": (32, 32, 128),
    "one key head, 32 / 1": (32, 1, 128),
}
LENGTHS = (4096, 16_384, 65_536, 131_072, 524_288)
WORLDS = (4, 8, 16, 32)
MACHINES = {
    "NVLink between all": h100(per_node=1024),
    "nodes of 8, InfiniBand between": h100(per_node=8),
    "InfiniBand between all": h100(per_node=1),
}
MIB = 2**20


def holders(mesh: str, layout: str, heads: int, moment: str) -> list[list[tuple[float, int]]]:
    """By rank: (head, position) of all that it holds; a copy of a head stands a fraction further right."""
    ring, ulysses = MESHES[mesh]
    dealt = Layout(LENGTH, ring, ulysses, layout)
    copies = math.lcm(heads, ulysses) // heads
    share = heads * copies // ulysses
    found = []
    for r in range(ring):
        for u in range(ulysses):
            if moment == MOMENTS[0]:
                columns, rows = [float(head) for head in range(heads)], dealt.positions(r, u).tolist()
            else:
                columns = [index / copies for index in range(u * share, (u + 1) * share)]
                rows = dealt.ring_positions(r).tolist()
            found.append([(head, position) for head in columns for position in rows])
    return found


def ranges(values: Sequence[int]) -> str:
    """0-3 and 12-15, from an ascending list."""
    ends: list[list[int]] = []
    for value in values:
        if ends and value == ends[-1][1] + 1:
            ends[-1][1] = value
        else:
            ends.append([value, value])
    return " and ".join(f"{a}-{b}" if a < b else f"{a}" for a, b in ends)


def who_holds_what() -> Explorer:
    """A marker for each (head, token), by the rank that holds it. Sliders: moment, tensor, layout, mesh."""

    def frame(mesh: str, layout: str, tensor: str, moment: str) -> Frame:
        heads = TENSORS[tensor]
        held = holders(mesh, layout, heads, moment)
        ring, ulysses = MESHES[mesh]
        series = [
            Series(f"rank {rank}", [x for x, _ in cells], [y for _, y in cells], kind="points")
            for rank, cells in enumerate(held)
        ]
        parts = []
        for rank, cells in enumerate(held):
            tokens = ranges(sorted({position for _, position in cells}))
            names = ranges(sorted({int(head) for head, _ in cells}))
            parts.append(f"rank {rank} heads {names} of tokens {tokens}")
        times = math.lcm(heads, ulysses) // heads
        copied = (
            f" Each key head exists {times} times inside: {heads} do not divide among {ulysses} Ulysses ranks."
            if times > 1 and moment == MOMENTS[1]
            else ""
        )
        text = f"Ring {ring} x Ulysses {ulysses}, {layout}, {tensor}, {moment}: {'; '.join(parts)}.{copied}"
        return Frame(
            series,
            text=text,
            alt=f"Heads to the right, tokens downwards; a marker for each pair, by the rank that holds it. {text}",
        )

    return explore(
        frame,
        {
            "moment": Slider("moment", MOMENTS),
            "tensor": Slider("tensor", tuple(TENSORS)),
            "layout": Slider("layout", ("zigzag", "contiguous")),
            "mesh": Slider("ring x Ulysses", tuple(MESHES), value="2 x 2"),
        },
        title="Who holds which token of which head",
        x_label="head (a copy stands between two heads)",
        y_label="token's position",
        y_range=(0.0, LENGTH - 1.0),
        y_down=True,
    )


@cache
def legal_shapes(model: str, length: int, world: int) -> tuple[AttentionShape, ...]:
    """Every legal mesh's attention, zigzag, bfloat16."""
    heads, kv_heads, size = SHAPES[model]
    return tuple(
        AttentionShape(Layout(length, ring, ulysses), heads, kv_heads, size, element_bytes=2)
        for ring, ulysses in factorisations(world, heads)
    )


def name_of(shape: AttentionShape) -> str:
    return f"{shape.layout.ring} x {shape.layout.ulysses}"


def quickest(model: str, length: int, world: int, links: str) -> str:
    """Name of the legal mesh that takes least time, forward and backward."""
    return name_of(min(legal_shapes(model, length, world), key=lambda shape: both(shape, MACHINES[links]).total))


def who_wins() -> Explorer:
    """Milliseconds beyond computing on each legal mesh, forward and backward. Sliders: heads, length, ranks, links."""

    def frame(model: str, length: int, world: int, links: str) -> Frame:
        shapes, machine = legal_shapes(model, length, world), MACHINES[links]
        spent = {name_of(shape): both(shape, machine) for shape in shapes}
        sent = {name_of(shape): (shape.forward + shape.backward) / MIB for shape in shapes}
        series = [
            Series("ring, not hidden", list(spent), [1e3 * one.ring for one in spent.values()], kind="stack"),
            Series("all-to-alls", list(spent), [1e3 * one.swaps for one in spent.values()], kind="stack"),
        ]
        text = sentence(model, length, world, links, spent, sent)
        return Frame(
            series,
            text=text,
            alt=f"A stack of bars for each legal mesh: waits of the ring, all-to-alls. {text}",
        )

    return explore(
        frame,
        {
            "model": Slider("query / key heads", tuple(SHAPES)),
            "length": Slider("text", LENGTHS, value=16_384, unit="tokens"),
            "world": Slider("ranks", WORLDS, value=16),
            "links": Slider("links", tuple(MACHINES), value="nodes of 8, InfiniBand between"),
        },
        title="One attention layer, forward and backward: time beyond computing",
        x_label="ring x Ulysses",
        y_label="time that computing does not hide (ms)",
        y_range="frame",
    )


def sentence(
    model: str, length: int, world: int, links: str, spent: Mapping[str, Spent], sent: Mapping[str, float]
) -> str:
    best = min(spent, key=lambda name: spent[name].total)
    fewest = min(sent, key=lambda name: sent[name])
    machine, (heads, kv_heads, _) = MACHINES[links], SHAPES[model]
    slowest = machine.inner if world <= machine.per_node else machine.outer
    needed = tokens_to_hide(heads, kv_heads, 2, machine.flops, slowest.bandwidth)
    bound = "" if f"1 x {world}" in spent else f" {heads} query heads do not divide among {world} ranks."
    return (
        f"{model} heads, {length:,} tokens, {world} ranks, {links}: quickest is {best} with "
        f"{1e3 * spent[best].total:,.2f} ms, {spent[best].compute / spent[best].total:.0%} of it computing. "
        f"Fewest bytes: {fewest}, {sent[fewest]:,.1f} MiB a rank ({best} sends {sent[best]:,.1f}). A ring alone has "
        f"{length // world:,} tokens a rank and hides its forward from {needed:,.0f} on.{bound}"
    )


ASSUMED = (
    f"attention at {REACHED:.0%} of an H100's bf16 peak, NVLink at {NVLINK.bandwidth / 1e9:.0f} GB/s and "
    f"{1e6 * NVLINK.latency:.0f} µs, InfiniBand at {INFINIBAND.bandwidth / 1e9:.0f} GB/s a GPU and "
    f"{1e6 * INFINIBAND.latency:.0f} µs a message"
)
