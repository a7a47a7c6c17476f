"""Ring attention under the loupe: stopped after some hops, its messages read on the way, its memory counted.

Everything here lets `labsim.attention.ring` itself compute; nothing of it is written again. A module of its own, and a
light one, because real ranks import it.

Shapes: B rows, H query heads, K key/value heads, S tokens of the text, T tokens of a rank, D head dimension.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from ..attention.ring import GRADIENTS, Ring
from ..attention.usp import USP
from ..models.live_bytes import LiveBytes
from ..parallel import launch, logical
from ..parallel.group import Alone, Group, Pending, Traffic
from ..parallel.layout import Block, Layout
from ..parallel.mesh import Mesh

NAMES = ("out", "lse", "dq", "dk", "dv")
COUNTS = 5  # gloo's thread lets an operation's buffers go a moment late: the smallest of some counts is right
WRONG_FROM = 1e-6  # an error above this share of the largest entry is no rounding in float64


@dataclass(frozen=True)
class Text:
    """Queries (B, H, S, D), keys, values (B, K, S, D) and the gradient of the output, whole."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    dout: torch.Tensor

    @classmethod
    def random(cls, length: int, heads: int, kv_heads: int, size: int, seed: int) -> Text:
        """Float64, so that an error of the algebra cannot hide in rounding."""
        generator = torch.Generator().manual_seed(seed)
        counts = (heads, kv_heads, kv_heads, heads)
        return cls(*(torch.randn(1, n, length, size, generator=generator, dtype=torch.float64) for n in counts))

    def cut(self, layout: Layout, rank: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """A ring rank's part."""
        q, k, v, dout = (layout.cut(x, 2, rank) for x in (self.q, self.k, self.v, self.dout))
        return q, k, v, dout

    def dense(self) -> dict[str, torch.Tensor]:
        """The answers by one softmax over the whole score matrix, and torch's own gradients of it."""
        q, k, v = (x.clone().requires_grad_() for x in (self.q, self.k, self.v))
        groups, length = q.shape[1] // k.shape[1], q.shape[2]
        wide_k, wide_v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = (q @ wide_k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(later, float("-inf"))
        out = scores.softmax(-1) @ wide_v
        out.backward(self.dout)
        found = (out.detach(), scores.logsumexp(-1).detach(), q.grad, k.grad, v.grad)
        return dict(zip(NAMES, found, strict=True))


@dataclass(frozen=True)
class Computed:
    """What one rank has of the answers, what it sent forward and backward, and its live bytes where they were counted.

    `tensors` by NAMES; bytes by operation.
    """

    tensors: dict[str, torch.Tensor]
    forward: dict[str, int]
    backward: dict[str, int]
    peak: int = 0


def on_a_rank(
    mesh: Mesh, layout: Layout, text: Text, ring: type[Ring] = Ring, *, count_memory: bool = False
) -> dict[str, Any]:
    """Forward and backward of this rank's part, as plain values (see `Computed`)."""
    with LiveBytes() if count_memory else nullcontext() as counted:
        q, k, v, dout = text.cut(layout, mesh.ring.rank)
        history, scale, sent = ring(mesh.ring, layout), q.shape[-1] ** -0.5, mesh.ring.traffic.bytes
        begin = Counter(sent)
        out, lse = history.forward(q, k, v, scale)
        middle = Counter(sent)
        gradients = history.backward(dout, q, k, v, out, lse, scale)
    return {
        "tensors": dict(zip(NAMES, (out, lse, *gradients), strict=True)),
        "forward": dict(middle - begin),
        "backward": dict(Counter(sent) - middle),
        "peak": counted.peak if counted else 0,
    }


def on_logical_ranks(layout: Layout, text: Text, ring: type[Ring] = Ring) -> list[Computed]:
    """Every rank's part, computed by threads."""
    return [Computed(**one) for one in logical.run(on_a_rank, layout, text, ring, ring=layout.ring)]


def cases_on_a_rank(mesh: Mesh, layouts: Sequence[Layout], text: Text) -> list[dict[str, Any]]:
    """Several layouts one after the other, and the first again for its memory (see COUNTS)."""
    found = [on_a_rank(mesh, layout, text) for layout in layouts]
    found[0]["peak"] = min(on_a_rank(mesh, layouts[0], text, count_memory=True)["peak"] for _ in range(COUNTS))
    return found


def on_real_ranks(layouts: Sequence[Layout], text: Text, timeout_seconds: float = 60.0) -> list[list[Computed]]:
    """By layout, every rank's part, computed by processes of their own; all layouts in one set of processes.

    ValueError for layouts of different rings.
    """
    [ring] = {layout.ring for layout in layouts}
    ranks = launch.run(cases_on_a_rank, layouts, text, ring=ring, timeout_seconds=timeout_seconds)
    return [[Computed(**rank[index]) for rank in ranks] for index in range(len(layouts))]


def errors(layout: Layout, parts: Sequence[Computed], exact: dict[str, torch.Tensor]) -> dict[str, float]:
    """By name: largest difference of any entry, over the largest entry of the exact answer."""
    found = {}
    for name in NAMES:
        whole = layout.join([part.tensors[name] for part in parts], 2)
        found[name] = float((whole - exact[name]).abs().max() / exact[name].abs().max())
    return found


def symptoms(layout: Layout, parts: Sequence[Computed], exact: dict[str, torch.Tensor]) -> dict[str, list[bool]]:
    """By name, for each rank: is its part wrong?"""
    return {
        name: [
            float((part.tensors[name] - layout.cut(exact[name], 2, rank)).abs().max() / exact[name].abs().max())
            > WRONG_FROM
            for rank, part in enumerate(parts)
        ]
        for name in NAMES
        if name != "lse"
    }


def same_bits(one: Sequence[Computed], other: Sequence[Computed]) -> bool:
    """Every tensor of every rank equal bit for bit, and every byte count."""
    return all(
        (a.forward, a.backward) == (b.forward, b.backward)
        and all(torch.equal(a.tensors[name], b.tensors[name]) for name in NAMES)
        for a, b in zip(one, other, strict=True)
    )


@dataclass(frozen=True)
class Echo:
    """A rank's peers as far as memory goes: hop and all-to-all give back new buffers of the same sizes.

    What a rank keeps alive does not depend on the numbers in it, so one rank of a large mesh can be measured alone.
    """

    rank: int
    size: int
    traffic: Traffic = field(default_factory=Traffic)

    def shift(self, tensors: Sequence[torch.Tensor], name: str) -> Pending:
        return Echoed(list(tensors), [torch.zeros_like(tensor) for tensor in tensors])

    def all_to_all(self, parts: torch.Tensor, name: str) -> torch.Tensor:
        return torch.zeros_like(parts)


@dataclass(frozen=True)
class Echoed:
    """As with a real hop, what is sent is kept until it has left."""

    sent: list[torch.Tensor]
    received: list[torch.Tensor]

    def wait(self) -> list[torch.Tensor]:
        return self.received


def peak_per_rank(layout: Layout, text: Text) -> int:
    """Live bytes of the last rank's forward and backward at their worst moment, its own part of the text included."""
    group = Echo(layout.ring - 1, layout.ring)
    return on_a_rank(Mesh(group, Alone(), group), layout, text, count_memory=True)["peak"]


@dataclass(frozen=True)
class Stopped(Ring):
    """The ring, whose ranks compute at the first `hops` hops only and then let the keys pass."""

    hops: int = 1

    def blocks(self, hop: int) -> list[Block]:
        return super().blocks(hop) if hop < self.hops else []


def after_hops(layout: Layout, text: Text, hops: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Each rank's (out, lse) when it has computed that many hops."""

    def stopped(mesh: Mesh) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v, _ = text.cut(layout, mesh.ring.rank)
        return Stopped(mesh.ring, layout, hops=hops).forward(q, k, v, q.shape[-1] ** -0.5)

    return logical.run(stopped, ring=layout.ring)


def mass_seen(layout: Layout, text: Text) -> list[list[float]]:
    """By rank, after each hop: which share of its queries' softmax the rank has seen, on average."""
    lses = [[lse for _, lse in after_hops(layout, text, hops)] for hops in range(1, layout.ring + 1)]
    final = lses[-1]
    return [[float((found[rank] - final[rank]).exp().mean()) for found in lses] for rank in range(layout.ring)]


@dataclass
class Watched:
    """A group whose hops are noted before they leave: (operation, tensors)."""

    inner: Group
    sent: list[tuple[str, list[torch.Tensor]]] = field(default_factory=list)

    def shift(self, tensors: Sequence[torch.Tensor], name: str) -> Pending:
        self.sent.append((name, [tensor.detach().clone() for tensor in tensors]))
        return self.inner.shift(tensors, name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def gradients_on_their_way(layout: Layout, text: Text, exact: dict[str, torch.Tensor]) -> list[list[float]]:
    """By block of keys: how far its travelling dk is from the whole gradient, as it leaves each rank of its journey.

    Entry s belongs to hop s: the block stands at rank (block + s) mod R, which has added its share.
    """

    def watched(mesh: Mesh) -> list[torch.Tensor]:
        q, k, v, dout = text.cut(layout, mesh.ring.rank)
        group = Watched(mesh.ring)
        ring, scale = Ring(group, layout), q.shape[-1] ** -0.5
        ring.backward(dout, q, k, v, *ring.forward(q, k, v, scale), scale)
        return [tensors[0] for name, tensors in group.sent if name == GRADIENTS]

    travelled = logical.run(watched, ring=layout.ring)
    found = []
    for block in range(layout.ring):
        whole = layout.cut(exact["dk"], 2, block)
        stations = [((block + hop) % layout.ring, hop) for hop in range(layout.ring)]
        found.append([float((travelled[rank][hop] - whole).norm() / whole.norm()) for rank, hop in stations])
    return found


def branch_on_a_rank(mesh: Mesh, layout: Layout, text: Text, branch: list[torch.Tensor]) -> tuple[Any, dict[str, int]]:
    """(this rank's output, bytes sent forward and backward) of attention with a branch of training-time test.

    `branch` holds keys and values of each step in turn, whole.
    """
    q, k, v, dout = text.cut(layout, mesh.ring.rank)
    own = [layout.cut(x, 2, mesh.ring.rank).requires_grad_() for x in branch]
    out = USP(mesh, layout)(q.requires_grad_(), k, v, list(zip(own[0::2], own[1::2], strict=True)))
    out.backward(dout)
    return out.detach(), mesh.bytes_sent
