"""torch's own ring attention, which shares nothing with `labsim.attention` but the kernel; private, so it may move."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor.experimental._context_parallel import _attention as context_parallel

from labsim.attention.ring import ring_attention
from labsim.parallel.layout import Layout
from labsim.parallel.mesh import Mesh

aten = torch.ops.aten


def forward_op(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool, **_: Any) -> tuple:
    out, lse = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, is_causal)
    return out, lse.contiguous()


def backward_op(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    is_causal: bool,
    **_: Any,
) -> tuple:
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad_out, query, key, value, out, logsumexp, 0.0, is_causal
    )


def both(mesh: Mesh, layout: Layout, whole: list[torch.Tensor], causal: bool) -> list[float]:
    """Largest differences of out, dq, dk, dv on this rank, each in units of the peer's largest entry."""
    q, k, v, dout = (layout.cut(x, 2, mesh.ring.rank) for x in whole)
    context_parallel._cp_options.enable_load_balance = causal and layout.kind == "zigzag"
    handle = mesh.ring.handle
    out, lse, *_ = context_parallel._templated_ring_attention(handle, 2, forward_op, q, k, v, is_causal=causal)
    theirs = context_parallel._templated_ring_attention_backward(
        handle, 2, backward_op, dout, "grad_out", q, k, v, out, lse, causal
    )
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    ours, _ = ring_attention(*leaves, mesh.ring, layout, causal=causal)
    ours.backward(dout)
    pairs = zip([ours.detach(), *(x.grad for x in leaves)], [out, *theirs[:3]], strict=True)
    return [float((a - b).abs().max() / b.abs().max()) for a, b in pairs]


def every_case(mesh: Mesh, cases: list[tuple[Layout, bool]], whole: list[torch.Tensor]) -> list[list[float]]:
    return [both(mesh, layout, whole, causal) for layout, causal in cases]
