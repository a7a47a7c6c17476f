"""Inputs, and what dense attention in float64 makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from labsim.lab.dense_attention import dense


def draws(shapes: Sequence[Sequence[int]], seed: int = 7) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [1.5 * torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


def ttt_inputs(
    steps: int, heads: int, kv_heads: int, length: int, batch: int = 2, size: int = 16
) -> list[torch.Tensor]:
    """q, k, v, then k and v of each branch step."""
    kv = [(batch, kv_heads, length, size)] * (2 + 2 * steps)
    return draws([(batch, heads, length, size), *kv])


def expected(
    given: Sequence[torch.Tensor], dout: torch.Tensor, documents: Sequence[int] = (), causal: bool = True
) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """(out, lse, gradient of every input)."""
    leaves = [x.double().clone().requires_grad_() for x in given]
    pairs = list(zip(leaves[3::2], leaves[4::2], strict=True))
    out, lse = dense(*leaves[:3], pairs, documents, causal)
    out.backward(dout)
    return out.detach(), lse.detach(), [leaf.grad for leaf in leaves]
