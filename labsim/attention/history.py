"""Attention over the text itself, in one place or around a ring, as one pair of functions.

A `History` computes out and log-sum-exp forward, and its share of the gradient backward from out and log-sum-exp that
somebody may have merged with more keys since. Whoever adds keys (`ttt`) need not know where these came from.

Shapes: B rows, H query heads, K key/value heads, L local positions, D head dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from . import kernels
from .kernels import Kernel

Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class History(Protocol):
    """Causal attention of L queries to the text's keys, of which this rank holds L."""

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(out (B, H, L, D) in q's precision, lse (B, H, L))."""

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
        """(dq, dk, dv) of these keys, given the merged output and log-sum-exp."""


@dataclass(frozen=True)
class Local:
    """The whole text in this process.

    Attributes:
        documents: lengths of the documents that each row is packed from; empty for one.
    """

    kernel: Kernel = "auto"
    documents: tuple[int, ...] = ()

    def lengths(self, length: int) -> tuple[int, ...]:
        """ValueError for documents that do not make up a row of `length` positions."""
        lengths = self.documents or (length,)
        if sum(lengths) != length or min(lengths) < 0:
            raise ValueError(f"documents of {list(lengths)} positions do not make up a row of {length}")
        return lengths

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = self.lengths(q.shape[2])
        parts = [
            kernels.forward(*document, causal=True, scale=scale, kernel=self.kernel)
            for document in zip(*(x.split(lengths, dim=2) for x in (q, k, v)), strict=True)
        ]
        out, lse = (torch.cat(part, dim=2) if len(part) > 1 else part[0] for part in zip(*parts, strict=True))
        return out, lse

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
        lengths = self.lengths(q.shape[2])
        parts = [
            kernels.backward(*document, causal=True, scale=scale, kernel=self.kernel)
            for document in zip(*(x.split(lengths, dim=2) for x in (dout, q, k, v, out, lse)), strict=True)
        ]
        dq, dk, dv = (torch.cat(part, dim=2) if len(part) > 1 else part[0] for part in zip(*parts, strict=True))
        return dq, dk, dv
