"""Ring attention: every rank keeps its queries, and the keys and values go round.

At hop s of R, rank r computes its queries against the keys that rank r - s brought along, and merges the result by
log-sum-exp (Liu et al., arXiv 2310.01889). While it computes, the keys already travel on.

Backward goes round once more, with the *merged* output and log-sum-exp: each block's ordinary flash backward is then
its exact share. dq is summed where the queries are. dk and dv belong to keys that have moved on, so they travel behind
their block, each rank adds to them, and after R hops they are home. Bytes that one rank sends, N = S K D elements of
all keys, b bytes an element, w of an accumulator (4, or 8 for float64):

    forward (R-1) 2N/R b          backward (R-1) 2N/R b + R 2N/R w

Order matters: each hop posts keys and values, then their gradients, on every rank alike. Two messages of one shape
posted in another order on one rank would be exchanged without an error.

Shapes: B rows, H query heads, K key/value heads, T positions of this ring rank, D head dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..parallel.group import Group
from ..parallel.layout import Block, Layout, blocks
from . import kernels
from .history import History, Triple
from .kernels import Kernel, lse_dtype
from .lse import merge

KEYS, GRADIENTS = "ring: keys and values", "ring: gradients of keys and values"


@dataclass(frozen=True)
class Ring:
    """Attention over the keys of all ring ranks; a `History`. A ring of one computes the same without sending."""

    group: Group
    layout: Layout
    causal: bool = True
    kernel: Kernel = "auto"

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.check(q)
        out = torch.zeros_like(q, dtype=lse_dtype(q))
        lse = out.new_full(q.shape[:-1], float("-inf"))
        k, v = k.contiguous(), v.contiguous()
        for hop in range(self.group.size):
            coming = self.group.shift([k, v], KEYS) if hop + 1 < self.group.size else None
            for block in self.blocks(hop):
                rows = block.queries
                part = kernels.forward(
                    q[:, :, rows],
                    k[:, :, block.keys],
                    v[:, :, block.keys],
                    causal=block.causal,
                    scale=scale,
                    kernel=self.kernel,
                )
                out[:, :, rows], lse[:, :, rows] = merge(out[:, :, rows], lse[:, :, rows], *part)
            if coming is not None:
                k, v = coming.wait()
        return out.to(q.dtype), lse

    def backward(
        self,
        dout: torch.Tensor,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        out: torch.Tensor,
        lse: torch.Tensor,
        scale: float,
    ) -> Triple:
        wide, types = lse_dtype(q), (k.dtype, v.dtype)
        dq = torch.zeros_like(q, dtype=wide)
        k, v = k.contiguous(), v.contiguous()
        following = None
        for hop in range(self.group.size):
            coming = self.group.shift([k, v], KEYS) if hop + 1 < self.group.size else None
            dk, dv = (torch.zeros(x.shape, dtype=wide, device=x.device) for x in (k, v))
            for block in self.blocks(hop):
                rows, columns = block.queries, block.keys
                part_q, part_k, part_v = kernels.backward(
                    dout[:, :, rows],
                    q[:, :, rows],
                    k[:, :, columns],
                    v[:, :, columns],
                    out[:, :, rows],
                    lse[:, :, rows].contiguous(),
                    causal=block.causal,
                    scale=scale,
                    kernel=self.kernel,
                )
                dq[:, :, rows] += part_q
                dk[:, :, columns] += part_k
                dv[:, :, columns] += part_v
            if following is not None:  # what the ranks before have added to this block's gradients
                before_k, before_v = following.wait()
                dk += before_k
                dv += before_v
            if self.group.size > 1:
                following = self.group.shift([dk, dv], GRADIENTS)
            if coming is not None:
                k, v = coming.wait()
        if following is not None:
            dk, dv = following.wait()
        return dq.to(q.dtype), dk.to(types[0]), dv.to(types[1])

    def blocks(self, hop: int) -> list[Block]:
        """What this rank computes at a hop: against the keys of the rank so many places before it."""
        rank = self.group.rank
        return blocks(self.layout, rank, (rank - hop) % self.group.size, causal=self.causal)

    def check(self, q: torch.Tensor) -> None:
        if self.group.size != self.layout.ring:
            raise ValueError(f"a layout for a ring of {self.layout.ring}, and the ring has {self.group.size} ranks")
        expected = self.layout.local_length * self.layout.ulysses
        if q.shape[2] != expected:
            raise ValueError(f"{q.shape[2]} positions on a ring rank; its share of the layout is {expected}")


def ring_attention(
    q_BHTD: torch.Tensor,
    k_BKTD: torch.Tensor,
    v_BKTD: torch.Tensor,
    group: Group,
    layout: Layout,
    *,
    causal: bool = True,
    scale: float | None = None,
    kernel: Kernel = "auto",
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) of this rank's queries over the keys of all ranks; `out` is differentiable, `lse` is not.

    Args:
        q_BHTD, k_BKTD, v_BKTD: this rank's part (`Layout.cut`), rotated to its own positions.

    Raises:
        ValueError: a part of another size than the layout's.
        RankError: a rank that fails, hangs or holds another shape.
    """
    scale = q_BHTD.shape[-1] ** -0.5 if scale is None else scale
    return HistoryAttention.apply(Ring(group, layout, causal, kernel), scale, q_BHTD, k_BKTD, v_BKTD)


class HistoryAttention(torch.autograd.Function):
    """A history alone, differentiable."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        history: History,
        scale: float,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        out, lse = history.forward(q, k, v, scale)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.history, ctx.scale = history, scale
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, dout: torch.Tensor, _: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        return None, None, *ctx.history.backward(dout, *ctx.saved_tensors, ctx.scale)
