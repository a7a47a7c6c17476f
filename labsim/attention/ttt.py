"""Attention of training-time test: the whole history once, plus a query's own branch.

In TTT step k the query at position t stands for the draft's (k+1)-th guess after the prefix t. It sees the prefix,
with the keys of step 0, and what this same branch has drafted since, one key per earlier step at its own position:

    query (k, t) sees key (b, j)   iff   b = 0 and j <= t,   or   1 <= b <= k and j = t

The history is one causal flash-attention call; the branch is k dot products per query, no communication and no score
matrix; the two merge by their log-sum-exps. So memory grows with L, not with L * k * L.

Backward runs with the merged output and log-sum-exp: the history through its own backward, the branch by hand,

    w_b = exp(l_b - lse)      dv_b = w_b dout      dl_b = w_b (dout . (v_b - out))      dq += scale dl_b k_b

Shapes: B rows, H query heads, K key/value heads, G = H/K, L positions, N branch steps, D head dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .history import History, Local
from .kernels import Kernel, lse_dtype
from .lse import merge


def ttt_attention(
    q_BHLD: torch.Tensor,
    k_BKLD: torch.Tensor,
    v_BKLD: torch.Tensor,
    branch: Sequence[tuple[torch.Tensor, torch.Tensor]] = (),
    *,
    scale: float | None = None,
    kernel: Kernel = "auto",
    documents: Sequence[int] = (),
) -> torch.Tensor:
    """Output (B, H, L, D), differentiable in every input.

    Args:
        q_BHLD: queries of this step, rotated to their positions.
        k_BKLD, v_BKLD: keys and values of step 0, the history.
        branch: keys and values (B, K, L, D) of steps 1..k, this step's own last; empty at step 0.
        documents: lengths of the documents that each row is packed from, the same for all rows; empty for one document.

    Raises:
        ValueError: document lengths that do not add up to L.
    """
    scale = q_BHLD.shape[-1] ** -0.5 if scale is None else scale
    flat = [tensor for pair in branch for tensor in pair]
    history = Local(kernel, tuple(documents))
    return TTTAttention.apply(scale, history, q_BHLD, k_BKLD, v_BKLD, *flat)[0]


class TTTAttention(torch.autograd.Function):
    """History and branch in one differentiable step, because a flash kernel's log-sum-exp carries no gradient.

    Gives (out, lse); only `out` is differentiable.
    """

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        scale: float,
        history: History,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        *branch: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        out, lse = history.forward(q, k, v, scale)
        if branch:
            logits_BKGLN = branch_logits(q, branch[0::2], scale)
            branch_lse = logits_BKGLN.logsumexp(-1)
            weights = (logits_BKGLN - branch_lse[..., None]).exp()
            own = sum(weights[..., n, None] * v_n[:, :, None] for n, v_n in enumerate(branch[1::2]))
            merged, lse = merge(out, lse, own.flatten(1, 2), branch_lse.flatten(1, 2))
            out = merged.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse, *branch)
        ctx.scale, ctx.history = scale, history
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, dout: torch.Tensor, _: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        q, k, v, out, lse, *branch = ctx.saved_tensors
        scale, heads = ctx.scale, (k.shape[1], -1)
        dq, dk, dv = ctx.history.backward(dout, q, k, v, out, lse, scale)
        if not branch:
            return None, None, dq, dk, dv
        wide = lse_dtype(q)
        weights = (branch_logits(q, branch[0::2], scale) - lse.unflatten(1, heads)[..., None]).exp()
        dout_g, out_g, q_g = (x.to(wide).unflatten(1, heads) for x in (dout, out, q))
        dq_g = torch.zeros_like(q_g)
        grads = []
        for n, (k_n, v_n) in enumerate(zip(branch[0::2], branch[1::2], strict=True)):
            w = weights[..., n, None]
            dl = w * (dout_g * (v_n.to(wide)[:, :, None] - out_g)).sum(-1, keepdim=True) * scale
            dq_g += dl * k_n.to(wide)[:, :, None]
            grads += [(dl * q_g).sum(2).to(k_n.dtype), (w * dout_g).sum(2).to(v_n.dtype)]
        return None, None, (dq + dq_g.flatten(1, 2)).to(q.dtype), dk, dv, *grads


def branch_logits(q: torch.Tensor, keys: Sequence[torch.Tensor], scale: float) -> torch.Tensor:
    """(B, K, G, L, N): each query against its own position's key of every branch step."""
    q_g = q.to(lse_dtype(q)).unflatten(1, (keys[0].shape[1], -1))
    return torch.stack([(q_g * k_n[:, :, None]).sum(-1) for k_n in keys], dim=-1) * scale
