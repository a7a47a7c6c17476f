"""A USP attention of training-time test on random inputs, forward and backward, as one rank runs it.

The steps are those of a draft's training: step 0 attends to the text, step j to the text and to its branch's keys of
steps 1..j. Inputs are drawn from the seed by every rank alike, each keeps its part, and what comes back is the part's
outputs and gradients with the bytes it sent and the most it held.

Shapes: S positions in all, L of a rank, H query heads, K key/value heads, D head dimension.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..attention.bytes_sent import AttentionShape
from ..attention.usp import USP
from ..models.live_bytes import peak_bytes
from ..parallel.layout import Layout
from ..parallel.mesh import Mesh
from .dense_attention import dense

NOTHING = 1e-9  # what rounding leaves of an exact zero is far below


@dataclass(frozen=True)
class Problem:
    """What is computed. `branch_steps` 0 is ordinary causal attention."""

    layout: Layout
    heads: int
    kv_heads: int
    head_dim: int
    branch_steps: int = 0
    batch: int = 1
    dtype: torch.dtype = torch.float64
    seed: int = 0

    @property
    def shape(self) -> AttentionShape:
        """For the formula of the bytes."""
        wide = 8 if self.dtype == torch.float64 else 4
        return AttentionShape(
            self.layout, self.heads, self.kv_heads, self.head_dim, self.batch, self.dtype.itemsize, wide,
            steps=1 + self.branch_steps,
        )  # fmt: skip

    def inputs(self) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
        """Whole q, k, v and output gradients, one of each per step, in float64."""
        draw = torch.Generator().manual_seed(self.seed)

        def normal(heads: int) -> list[torch.Tensor]:
            shape = (self.batch, heads, self.layout.length, self.head_dim)
            return [torch.randn(shape, generator=draw, dtype=torch.float64) for _ in range(1 + self.branch_steps)]

        return normal(self.heads), normal(self.kv_heads), normal(self.kv_heads), normal(self.heads)


@dataclass(frozen=True)
class Share:
    """One rank's results: per step out, dq, dk, dv of its L tokens, and lse of the heads and tokens it attended with.

    `sent` are bytes of (forward, backward), `peak` live bytes at the worst moment above the inputs, `seconds` the same
    for time.
    """

    out: list[torch.Tensor]
    lse: list[torch.Tensor]
    dq: list[torch.Tensor]
    dk: list[torch.Tensor]
    dv: list[torch.Tensor]
    sent: tuple[int, int]
    peak: int
    seconds: tuple[float, float]


def run_on_a_rank(mesh: Mesh, problem: Problem, keep: bool, count_memory: bool, attention: type[USP] = USP) -> Share:
    """Forward and backward; without `keep` the tensors are left out of the result."""
    layout, place = problem.layout, (mesh.ring.rank, mesh.ulysses.rank)
    q, k, v, dout = ([layout.cut(x, 2, *place).to(problem.dtype) for x in kind] for kind in problem.inputs())
    for leaf in (*q, *k, *v):
        leaf.requires_grad_()
    moments: list[tuple[float, int]] = []
    found: list[tuple[torch.Tensor, torch.Tensor]] = []

    def note() -> None:
        moments.append((time.perf_counter(), sum(mesh.bytes_sent.values())))

    def work() -> None:
        usp = attention(mesh, layout)
        note()
        branch: list[tuple[torch.Tensor, torch.Tensor]] = []
        history: tuple[torch.Tensor, ...] = ()
        for q_j, k_j, v_j in zip(q, k, v, strict=True):
            query, key, value = usp.enter(q_j, k_j, v_j)
            if not history:
                history = key, value
            else:
                branch.append((key, value))
            found.append(usp.with_lse(query, *history, list(branch)))
        note()
        torch.autograd.backward([out for out, _ in found], dout)
        note()

    peak = 0
    if count_memory:
        peak = peak_bytes(work)
    else:
        work()
    (t0, sent0), (t1, sent1), (t2, sent2) = moments
    outs, lses = [out.detach() for out, _ in found], [lse for _, lse in found]
    tensors = [outs, lses, *([x.grad for x in kind] for kind in (q, k, v))] if keep else [[], [], [], [], []]
    return Share(*tensors, (sent1 - sent0, sent2 - sent1), peak, (t1 - t0, t2 - t1))


def errors(problem: Problem, shares: Sequence[Share]) -> dict[str, float]:
    """Largest absolute error of each result over all ranks and steps against dense attention in float64.

    `dk` and `dv` are those of the history, `branch` those of the branch's keys and values. Each is divided by the
    exact result's largest entry where that is above one. A gradient of zeros counts as infinite, unless the exact one
    is zero too: a query that sees one key has none.
    """
    q, k, v, dout = problem.inputs()
    for leaf in (*q, *k, *v):
        leaf.requires_grad_()
    exact = []
    for step, query in enumerate(q):
        exact.append(dense(query, k[0], v[0], list(zip(k[1 : step + 1], v[1 : step + 1], strict=True))))
    torch.autograd.backward([out for out, _ in exact], dout)
    layout = problem.layout
    worst = dict.fromkeys(("out", "lse", "dq", "dk", "dv", "branch"), 0.0)

    def compare(name: str, parts: list[torch.Tensor], whole: torch.Tensor) -> None:
        found, right = layout.join(parts, 2).double(), whole.detach()
        off = float((found - right).abs().max() / max(1.0, float(right.abs().max())))
        silent = name != "lse" and not bool(found.any()) and float(right.abs().max()) > NOTHING
        worst[name] = max(worst[name], math.inf if silent or not math.isfinite(off) else off)

    for step in range(1 + problem.branch_steps):
        compare("out", [share.out[step] for share in shares], exact[step][0])
        compare("dq", [share.dq[step] for share in shares], q[step].grad)
        compare("dk" if step == 0 else "branch", [share.dk[step] for share in shares], k[step].grad)
        compare("dv" if step == 0 else "branch", [share.dv[step] for share in shares], v[step].grad)
        rings = [
            torch.cat([shares[r * layout.ulysses + u].lse[step] for u in range(layout.ulysses)], dim=1)
            for r in range(layout.ring)
        ]
        lse = layout.join_rings(rings, 2).double()
        worst["lse"] = max(worst["lse"], float((lse - exact[step][1].detach()).abs().max()))
    return worst
