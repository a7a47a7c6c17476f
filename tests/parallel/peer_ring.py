"""Ours and torch's own ring attention on one rank; a module, because real ranks import it."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from labsim.attention.ring import ring_attention
from labsim.parallel.layout import Layout
from labsim.parallel.mesh import Mesh

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from peers import torch_ring


def both(mesh: Mesh, layout: Layout, whole: list[torch.Tensor], causal: bool) -> list[float]:
    """Largest differences of out, dq, dk, dv on this rank, each in units of the peer's largest entry."""
    q, k, v, dout = (layout.cut(x, 2, mesh.ring.rank) for x in whole)
    how = {"causal": causal, "zigzag": layout.kind == "zigzag"}
    out, lse = torch_ring.forward(mesh.ring.handle, q, k, v, **how)
    theirs = torch_ring.backward(mesh.ring.handle, dout, q, k, v, out, lse, **how)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    ours, _ = ring_attention(*leaves, mesh.ring, layout, causal=causal)
    ours.backward(dout)
    pairs = zip([ours.detach(), *(x.grad for x in leaves)], [out, *theirs], strict=True)
    return [float((a - b).abs().max() / b.abs().max()) for a, b in pairs]


def every_case(mesh: Mesh, cases: list[tuple[Layout, bool]], whole: list[torch.Tensor]) -> list[list[float]]:
    return [both(mesh, layout, whole, causal) for layout, causal in cases]
