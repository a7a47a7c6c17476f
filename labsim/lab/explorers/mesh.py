"""Explorers of notebook 11: who holds which token of which head, and which mesh is quickest when.

The first is read off `labsim.parallel.layout`, the second off `labsim.attention.bytes_sent` and `labsim.lab.mesh_time`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from ...attention.bytes_sent import AttentionShape
from ...parallel.layout import Layout
from ..exercises.mesh_by_hand import tokens_to_hide
from ..explorer import Explorer, Frame, Series, Slider, explore
from ..mesh_lab import factorisations
from ..mesh_time import INFINIBAND, NVLINK, REACHED, RING_EFFICIENCY, Machine, Spent, both, h100

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
PUBLISHED = f"{RING_EFFICIENCY:.0%} of the rate"
RATES = {"the full rate": 1.0, PUBLISHED: RING_EFFICIENCY, "70% of the rate": 0.7}
TOO_CLOSE = 0.05  # of the whole time: less than the model leaves out
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


def machine_of(links: str, rate: str) -> Machine:
    return replace(MACHINES[links], ring_efficiency=RATES[rate])


def within_reach(spent: Mapping[str, Spent]) -> list[str]:
    """The meshes that take at most TOO_CLOSE longer than the quickest: the model cannot tell these apart."""
    least = min(one.total for one in spent.values())
    return [name for name, one in spent.items() if one.total <= (1 + TOO_CLOSE) * least]


def quickest(model: str, length: int, world: int, links: str, rate: str) -> str:
    """Name of the legal mesh that takes least time, forward and backward; several names where these are too close."""
    machine = machine_of(links, rate)
    return ", ".join(within_reach({name_of(one): both(one, machine) for one in legal_shapes(model, length, world)}))


def who_wins() -> Explorer:
    """Milliseconds beyond computing at the full rate on each legal mesh, forward and backward. Sliders: heads, length,
    ranks, links, and the rate of kernels on a ring's blocks.
    """

    def frame(model: str, length: int, world: int, links: str, rate: str) -> Frame:
        shapes, machine = legal_shapes(model, length, world), machine_of(links, rate)
        spent = {name_of(shape): both(shape, machine) for shape in shapes}
        sent = {name_of(shape): (shape.forward + shape.backward) / MIB for shape in shapes}
        series = [
            Series("ring, not hidden", list(spent), [1e3 * one.ring for one in spent.values()], kind="stack"),
            Series("all-to-alls", list(spent), [1e3 * one.swaps for one in spent.values()], kind="stack"),
            Series("slower on blocks", list(spent), [1e3 * one.blocks for one in spent.values()], kind="stack"),
        ]
        text = sentence(model, length, world, links, rate, spent, sent)
        return Frame(
            series,
            text=text,
            alt=f"A stack of bars for each legal mesh: waits of the ring, all-to-alls, slower kernels. {text}",
        )

    return explore(
        frame,
        {
            "model": Slider("query / key heads", tuple(SHAPES)),
            "length": Slider("text", LENGTHS, value=16_384, unit="tokens"),
            "world": Slider("ranks", WORLDS, value=16),
            "links": Slider("links", tuple(MACHINES), value="nodes of 8, InfiniBand between"),
            "rate": Slider("kernels on a ring's blocks", tuple(RATES), value=PUBLISHED),
        },
        title="One attention layer, forward and backward: time beyond computing",
        x_label="ring x Ulysses",
        y_label="time beyond computing at the full rate (ms)",
        y_range="frame",
    )


def sentence(
    model: str,
    length: int,
    world: int,
    links: str,
    rate: str,
    spent: Mapping[str, Spent],
    sent: Mapping[str, float],
) -> str:
    best = min(spent, key=lambda name: spent[name].total)
    fewest = min(sent, key=lambda name: sent[name])
    close = within_reach(spent)
    machine, (heads, kv_heads, _) = machine_of(links, rate), SHAPES[model]
    slowest = machine.inner if world <= machine.per_node else machine.outer
    needed = tokens_to_hide(heads, kv_heads, 2, machine.flops * machine.ring_efficiency, slowest.bandwidth)
    bound = "" if f"1 x {world}" in spent else f" {heads} query heads do not divide among {world} ranks."
    verdict = f"quickest is {best} with" if len(close) == 1 else f"too close to tell: {', '.join(close)}; {best} takes"
    return (
        f"{model} heads, {length:,} tokens, {world} ranks, {links}, a ring's kernels at {rate}: "
        f"{verdict} {1e3 * spent[best].total:,.2f} ms, {spent[best].compute / spent[best].total:.0%} of it computing. "
        f"Fewest bytes: {fewest}, {sent[fewest]:,.1f} MiB a rank ({best} sends {sent[best]:,.1f}). A ring alone has "
        f"{length // world:,} tokens a rank and hides its forward from {needed:,.0f} on.{bound}"
    )


ASSUMED = (
    f"attention at {REACHED:.0%} of an H100's bf16 peak, NVLink at {NVLINK.bandwidth / 1e9:.0f} GB/s and "
    f"{1e6 * NVLINK.latency:.0f} µs, InfiniBand at {INFINIBAND.bandwidth / 1e9:.0f} GB/s a GPU and "
    f"{1e6 * INFINIBAND.latency:.0f} µs a message"
)
