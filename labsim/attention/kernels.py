"""One contract for every attention kernel: output and log-sum-exp forward, any output and log-sum-exp backward.

    forward(q, k, v)                        -> out (B,H,S,D), lse (B,H,S) contiguous, float32 or better
    backward(dout, q, k, v, out, lse)       -> dq, dk, dv

Backward takes `out` and `lse` as arguments because attention in pieces hands over the *merged* ones: with those,
P = exp(s - lse) is normalised over all keys, and a block's ordinary backward is its exact share of the whole gradient
(FlashAttention-2, arXiv 2307.08691, section 3.1). A block's own values would be wrong, silently.

Query head h reads key/value head h // (H / K). `causal` needs as many queries as keys: kernels disagree on how to align
a rectangle. No kernel may be called on an empty block (torch's CPU kernel ends the process); it is answered here.

Shapes: B rows, H query heads, K key/value heads, S queries, T keys, D head dimension.
"""

from __future__ import annotations

from typing import Literal

import torch

from . import flash_attn, flash_attn_4
from .flash_attn import widened

Kernel = Literal["auto", "reference", "cpu_flash", "cuda_flash", "flash_attn", "flash_attn_4"]
KERNELS = ("auto", "reference", "cpu_flash", "cuda_flash", "flash_attn", "flash_attn_4")
MOST_SCORES = 16e9  # bytes of a score matrix that the reference may write down on a GPU
THEIRS = {"flash_attn": flash_attn, "flash_attn_4": flash_attn_4}  # packages, the preferred last
aten = torch.ops.aten


def choose(q: torch.Tensor, kernel: Kernel = "auto") -> str:
    """Name of the kernel that serves this tensor. ValueError for an unknown name."""
    if kernel not in KERNELS:
        raise ValueError(f"attention kernel {kernel!r} is unknown; right is one of {', '.join(KERNELS)}")
    if kernel != "auto":
        return kernel
    if q.device.type == "cpu":
        return "cpu_flash"
    for name, package in reversed(THEIRS.items()):
        if package.serves(q):
            return name
    return "cuda_flash" if q.dtype in (torch.float16, torch.bfloat16) and q.shape[-1] <= 256 else "reference"


def forward(
    q_BHSD: torch.Tensor,
    k_BKTD: torch.Tensor,
    v_BKTD: torch.Tensor,
    *,
    causal: bool,
    scale: float | None = None,
    kernel: Kernel = "auto",
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out in q's precision, lse). An empty block gives zeros and -inf. ValueError for shapes that do not fit."""
    check(q_BHSD, k_BKTD, v_BKTD, causal)
    scale = q_BHSD.shape[-1] ** -0.5 if scale is None else scale
    if k_BKTD.shape[2] == 0 or q_BHSD.shape[2] == 0:
        lse = q_BHSD.new_full(q_BHSD.shape[:-1], float("-inf"), dtype=lse_dtype(q_BHSD))
        return torch.zeros_like(q_BHSD), lse
    name = choose(q_BHSD, kernel)
    if name == "cpu_flash":
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(
            q_BHSD, k_BKTD, v_BKTD, 0.0, causal, attn_mask=None, scale=scale
        )
    elif name in THEIRS:
        out, lse = THEIRS[name].flash_forward(q_BHSD, k_BKTD, v_BKTD, causal, scale)
    elif name == "cuda_flash":
        groups = q_BHSD.shape[1] // k_BKTD.shape[1]
        q, k, v = (widened(x) for x in (q_BHSD, k_BKTD, v_BKTD))
        k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
        out, lse = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)[:2]
        out = out[..., : q_BHSD.shape[-1]]
    else:
        return reference_forward(q_BHSD, k_BKTD, v_BKTD, causal, scale)
    return out, lse.contiguous()


def backward(
    dout_BHSD: torch.Tensor,
    q_BHSD: torch.Tensor,
    k_BKTD: torch.Tensor,
    v_BKTD: torch.Tensor,
    out_BHSD: torch.Tensor,
    lse_BHS: torch.Tensor,
    *,
    causal: bool,
    scale: float | None = None,
    kernel: Kernel = "auto",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(dq, dk, dv): this block's share of the gradient, given the output and lse merged over all blocks."""
    check(q_BHSD, k_BKTD, v_BKTD, causal)
    scale = q_BHSD.shape[-1] ** -0.5 if scale is None else scale
    if k_BKTD.shape[2] == 0 or q_BHSD.shape[2] == 0:
        return torch.zeros_like(q_BHSD), torch.zeros_like(k_BKTD), torch.zeros_like(v_BKTD)
    name = choose(q_BHSD, kernel)
    if name == "cpu_flash":
        return aten._scaled_dot_product_flash_attention_for_cpu_backward(
            dout_BHSD, q_BHSD, k_BKTD, v_BKTD, out_BHSD, lse_BHS, 0.0, causal, attn_mask=None, scale=scale
        )
    if name in THEIRS:
        return THEIRS[name].flash_backward(dout_BHSD, q_BHSD, k_BKTD, v_BKTD, out_BHSD, lse_BHS, causal, scale)
    if name == "cuda_flash":
        return cuda_flash_backward(dout_BHSD, q_BHSD, k_BKTD, v_BKTD, out_BHSD, lse_BHS, causal, scale)
    return reference_backward(dout_BHSD, q_BHSD, k_BKTD, v_BKTD, out_BHSD, lse_BHS, causal, scale)


def cuda_flash_backward(
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    causal: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Torch's CUDA flash backward; key heads are repeated for it, and their gradients summed again."""
    size, heads, groups = q.shape[-1], k.shape[1], q.shape[1] // k.shape[1]
    dout, q, k, v, out = (widened(x) for x in (dout, q, k, v, out))
    wide_k, wide_v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
    no_dropout = torch.zeros(2, dtype=torch.uint64, device=q.device)
    dq, dk, dv = aten._scaled_dot_product_flash_attention_backward(
        dout, q, wide_k, wide_v, out, lse.float(), None, None, q.shape[2], k.shape[2], 0.0, causal,
        no_dropout, no_dropout, scale=scale,
    )  # fmt: skip
    dk, dv = (x.unflatten(1, (heads, groups)).float().sum(2).to(k.dtype) for x in (dk, dv))
    return dq[..., :size], dk[..., :size], dv[..., :size]


def reference_scores(q: torch.Tensor, k: torch.Tensor, causal: bool, scale: float) -> torch.Tensor:
    """Scaled, masked scores (B, K, G, S, T)."""
    needed = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] * q.element_size()
    if q.is_cuda and needed > MOST_SCORES:
        dtype = str(q.dtype).removeprefix("torch.")
        raise ValueError(
            f"attention of {q.shape[2]} queries over {k.shape[2]} keys in {dtype} would write a score matrix of "
            f"{needed / 1e9:.0f} GB: the flash kernels of a GPU need float16 or bfloat16 (--bf16)"
        )
    grouped = q.unflatten(1, (k.shape[1], -1))
    scores = torch.einsum("bkgsd,bktd->bkgst", grouped, k) * scale
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores


def reference_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The definition, with the whole score matrix; in the precision of its inputs, float32 at least."""
    wide = lse_dtype(q)
    scores = reference_scores(q.to(wide), k.to(wide), causal, scale)
    lse = scores.logsumexp(-1)
    out = torch.einsum("bkgst,bktd->bkgsd", (scores - lse[..., None]).exp(), v.to(wide))
    return out.flatten(1, 2).to(q.dtype), lse.flatten(1, 2).contiguous()


def reference_backward(
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    causal: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dS = P (dP - D) with D = sum_d dout out, the row's own share of the softmax."""
    wide, groups = lse_dtype(q), (k.shape[1], -1)
    p = (reference_scores(q.to(wide), k.to(wide), causal, scale) - lse.unflatten(1, groups)[..., None]).exp()
    dout_wide = dout.to(wide).unflatten(1, groups)
    dv = torch.einsum("bkgst,bkgsd->bktd", p, dout_wide)
    dp = torch.einsum("bkgsd,bktd->bkgst", dout_wide, v.to(wide))
    share = (dout.to(wide) * out.to(wide)).sum(-1).unflatten(1, groups)
    ds = p * (dp - share[..., None]) * scale
    dq = torch.einsum("bkgst,bktd->bkgsd", ds, k.to(wide)).flatten(1, 2)
    dk = torch.einsum("bkgst,bkgsd->bktd", ds, q.to(wide).unflatten(1, groups))
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def lse_dtype(q: torch.Tensor) -> torch.dtype:
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> None:
    if k.shape != v.shape or q.shape[0] != k.shape[0] or q.shape[-1] != k.shape[-1]:
        raise ValueError(f"attention of q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}: they do not fit")
    if q.shape[1] % k.shape[1]:
        raise ValueError(f"{q.shape[1]} query heads do not divide among {k.shape[1]} key/value heads")
    if causal and q.shape[2] != k.shape[2]:
        raise ValueError(
            f"causal attention of {q.shape[2]} queries over {k.shape[2]} keys: right is as many, or causal=False"
        )
