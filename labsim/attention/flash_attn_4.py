"""flash-attn 4 (the package flash-attn-4, written in CuTe's Python) behind the kernels' contract: Hopper and Blackwell.

Layout, padding and grouped heads are those of version 2 (`flash_attn`); heads of up to 128, which both take.
It compiles a kernel when it first meets a shape, so that the first call of a training takes seconds.
Both packages share the import name `flash_attn`: each is recognised by the module that only it has.

Shapes: B rows, H query heads, K key/value heads, S queries, T keys, D head dimension.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from .flash_attn import has_module, to_ours, to_theirs

LARGEST_HEAD = 128
OLDEST = 9  # compute capability: its backward starts at Hopper
MODULE = "flash_attn.cute"


@cache
def installed() -> bool:
    """Whether the package can be imported."""
    return has_module(MODULE)


def serves(q: torch.Tensor) -> bool:
    """Whether it is there and computes tensors like this one on this GPU."""
    fits = q.is_cuda and q.dtype in (torch.float16, torch.bfloat16) and q.shape[-1] <= LARGEST_HEAD
    return fits and installed() and torch.cuda.get_device_capability(q.device)[0] >= OLDEST


def interface() -> Any:
    """The package's module. ModuleNotFoundError, with what to do, where it is not installed."""
    try:
        from flash_attn.cute import interface
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "kernel 'flash_attn_4' needs the package flash-attn-4 and a GPU of compute capability 9 or later: "
            f"pip install --pre flash-attn-4; or choose another kernel ({error})"
        ) from error
    return interface


def flash_forward(
    q_BHSD: torch.Tensor, k_BKTD: torch.Tensor, v_BKTD: torch.Tensor, causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out (B, H, S, D), lse (B, H, S))."""
    q, k, v = (to_theirs(x) for x in (q_BHSD, k_BKTD, v_BKTD))
    out, lse, *_ = interface()._flash_attn_fwd(q, k, v, softmax_scale=scale, causal=causal, return_lse=True)
    return to_ours(out, q_BHSD.shape[-1]), lse


def flash_backward(
    dout_BHSD: torch.Tensor,
    q_BHSD: torch.Tensor,
    k_BKTD: torch.Tensor,
    v_BKTD: torch.Tensor,
    out_BHSD: torch.Tensor,
    lse_BHS: torch.Tensor,
    causal: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(dq, dk, dv) for any output and log-sum-exp."""
    dout, q, k, v, out = (to_theirs(x.to(q_BHSD.dtype)) for x in (dout_BHSD, q_BHSD, k_BKTD, v_BKTD, out_BHSD))
    lse = lse_BHS.float().contiguous()
    grads = interface()._flash_attn_bwd(q, k, v, out, dout, lse, softmax_scale=scale, causal=causal)
    dq, dk, dv = (to_ours(x, q_BHSD.shape[-1]) for x in grads[:3])
    return dq, dk, dv
