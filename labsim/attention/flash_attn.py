"""The flash-attn package (version 2) behind the kernels' contract: CUDA, fp16 or bf16, heads of at most 256.

Its tensors are (B, S, H, D) and its heads a multiple of 8 wide: shorter ones are padded with zeros, which add nothing
to any score. Grouped key heads are its own business, as is a log-sum-exp of shape (B, H, S) in float32. Like every
kernel here it is given the merged output and log-sum-exp for its backward, and is never called on an empty block.

Shapes: B rows, H query heads, K key/value heads, S queries, T keys, D head dimension.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch.nn.functional import pad

LARGEST_HEAD = 256
WIDTH = 8


@cache
def installed() -> bool:
    """Whether the package can be imported; it builds beside a GPU only."""
    return has_module("flash_attn.flash_attn_interface")


def has_module(name: str) -> bool:
    """Whether a module of a package exists: versions 2 and 4 share the package's name."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def serves(q: torch.Tensor) -> bool:
    """Whether it is there and computes tensors like this one."""
    return q.is_cuda and q.dtype in (torch.float16, torch.bfloat16) and q.shape[-1] <= LARGEST_HEAD and installed()


def interface() -> Any:
    """The package's module. ModuleNotFoundError, with what to do, where it is not installed."""
    try:
        from flash_attn import flash_attn_interface
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "kernel 'flash_attn' needs the package flash-attn (2.7 or later), which builds on a machine with CUDA: "
            "pip install flash-attn --no-build-isolation; or choose another kernel"
        ) from error
    return flash_attn_interface


def widened(x: torch.Tensor) -> torch.Tensor:
    """Heads padded with zeros, which add nothing to a score, to a multiple of 8; torch's CUDA kernel wants it too."""
    missing = -x.shape[-1] % WIDTH
    return pad(x, (0, missing)) if missing else x  # `pad` would copy


def to_theirs(x_BHSD: torch.Tensor) -> torch.Tensor:
    """(B, S, H, D') with D' a multiple of 8, contiguous."""
    return widened(x_BHSD).transpose(1, 2).contiguous()


def to_ours(x_BSHD: torch.Tensor, size: int) -> torch.Tensor:
    return x_BSHD[..., :size].transpose(1, 2)


def flash_forward(
    q_BHSD: torch.Tensor, k_BKTD: torch.Tensor, v_BKTD: torch.Tensor, causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out (B, H, S, D), lse (B, H, S))."""
    q, k, v = (to_theirs(x) for x in (q_BHSD, k_BKTD, v_BKTD))
    out, lse, *_ = interface()._flash_attn_forward(
        q,
        k,
        v,
        dropout_p=0.0,
        softmax_scale=scale,
        causal=causal,
        window_size_left=-1,
        window_size_right=-1,
        softcap=0.0,
        alibi_slopes=None,
        return_softmax=False,
    )
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
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    interface()._flash_attn_backward(
        dout,
        q,
        k,
        v,
        out,
        lse_BHS.float().contiguous(),
        dq,
        dk,
        dv,
        dropout_p=0.0,
        softmax_scale=scale,
        causal=causal,
        window_size_left=-1,
        window_size_right=-1,
        softcap=0.0,
        alibi_slopes=None,
        deterministic=False,
    )
    size = q_BHSD.shape[-1]
    return to_ours(dq, size), to_ours(dk, size), to_ours(dv, size)
