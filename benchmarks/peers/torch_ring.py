"""torch's own ring attention over CPU ranks. Private in torch, so it may move: import it where its absence is handled.

It shares nothing with `labsim.attention` but torch's CPU kernel.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor.experimental._context_parallel import _attention as context_parallel

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


def forward(
    handle: dist.ProcessGroup, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, zigzag: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) of this rank's part; `zigzag` is what torch calls head-tail."""
    context_parallel._cp_options.enable_load_balance = causal and zigzag
    out, lse, *_ = context_parallel._templated_ring_attention(handle, 2, forward_op, q, k, v, is_causal=causal)
    return out, lse


def backward(
    handle: dist.ProcessGroup,
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    *,
    causal: bool,
    zigzag: bool,
) -> tuple[torch.Tensor, ...]:
    """(dq, dk, dv)."""
    context_parallel._cp_options.enable_load_balance = causal and zigzag
    return context_parallel._templated_ring_attention_backward(
        handle, 2, backward_op, dout, "grad_out", q, k, v, out, lse, causal
    )[:3]
