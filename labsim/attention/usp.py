"""USP: Ulysses inside, ring outside; either degree may be 1 (Fang & Zhao, arXiv 2405.07719).

A rank comes with all heads of its L tokens. Its Ulysses group swaps them for H/U heads of the ring rank's L U tokens,
the ring lets these meet the keys of all S, and the swap goes back. Whatever attends *inside*, such as the branch of
training-time test, attends there for the group's heads and tokens and sends nothing itself.

Shapes: B rows, H query heads, K key/value heads, L tokens of a rank, D head dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..parallel.layout import Layout
from ..parallel.mesh import Mesh
from .kernels import Kernel
from .ring import HistoryAttention, Ring
from .ttt import TTTAttention
from .ulysses import gather_heads, gather_tokens, repeat_kv


@dataclass(frozen=True)
class USP:
    """Attention of training-time test over a mesh; in a mesh of one, what `ttt_attention` computes.

    `enter` brings keys and values to where attention takes place, once each; calls take them from there.
    """

    mesh: Mesh
    layout: Layout
    kernel: Kernel = "auto"

    def enter(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """This rank's q (B, H, L, D), k, v (B, K, L, D), to H/U and K'/U heads of the ring rank's tokens."""
        k, v = self.enter_kv(q.shape[1], k, v)
        return gather_tokens(q, self.mesh.ulysses), k, v

    def enter_kv(self, heads: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values alone, for `heads` query heads."""
        group = self.mesh.ulysses
        k, v = (gather_tokens(repeat_kv(x, heads, group.size), group) for x in (k, v))
        return k, v

    def __call__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        branch: Sequence[tuple[torch.Tensor, torch.Tensor]] = (),
        *,
        scale: float | None = None,
    ) -> torch.Tensor:
        """Output (B, H, L, D) of this rank, from what `enter` returned."""
        return self.with_lse(q, k, v, branch, scale=scale)[0]

    def with_lse(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        branch: Sequence[tuple[torch.Tensor, torch.Tensor]] = (),
        *,
        scale: float | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(output (B, H, L, D) of this rank, lse (B, H/U, L U) where attention took place)."""
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        flat = [tensor for pair in branch for tensor in pair]
        ring = Ring(self.mesh.ring, self.layout, True, self.kernel)
        out, lse = TTTAttention.apply(scale, ring, q, k, v, *flat)
        return gather_heads(out, self.mesh.ulysses), lse


def usp_attention(
    q_BHLD: torch.Tensor,
    k_BKLD: torch.Tensor,
    v_BKLD: torch.Tensor,
    mesh: Mesh,
    layout: Layout,
    *,
    causal: bool = True,
    scale: float | None = None,
    kernel: Kernel = "auto",
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out (B, H, L, D), lse (B, H/U, L U)) of this rank's tokens over all S; `out` is differentiable.

    `lse` stays where attention took place. Raises as `ring_attention` and `repeat_kv` do.
    """
    scale = q_BHLD.shape[-1] ** -0.5 if scale is None else scale
    q, k, v = USP(mesh, layout, kernel).enter(q_BHLD, k_BKLD, v_BKLD)
    out, lse = HistoryAttention.apply(Ring(mesh.ring, layout, causal, kernel), scale, q, k, v)
    return gather_heads(out, mesh.ulysses), lse
