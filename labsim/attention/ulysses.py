"""Ulysses: between attention and everything else, ranks swap tokens for heads.

Outside attention a rank holds all heads of its L tokens; inside it holds H/U heads of the L U tokens of its group. Two
all-to-alls, there and back, and attention itself needs no other change (DeepSpeed-Ulysses, arXiv 2309.14509). Each
sends (U-1)/U of a tensor. It asks for heads that divide: query heads must, key/value heads are repeated when they are
too few, which sends them more than once.

Shapes: B rows, H heads, U ranks, L tokens of a rank, D head dimension.
"""

from __future__ import annotations

import math

import torch

from ..parallel.group import Group

SCATTER_HEADS, GATHER_HEADS = "ulysses: heads for tokens", "ulysses: tokens for heads"


def gather_tokens(x_BHLD: torch.Tensor, group: Group) -> torch.Tensor:
    """All heads of L tokens to H/U heads of L U tokens; differentiable."""
    return x_BHLD if group.size == 1 else Swap.apply(x_BHLD, group, True)


def gather_heads(x_BHLD: torch.Tensor, group: Group) -> torch.Tensor:
    """The inverse of `gather_tokens`."""
    return x_BHLD if group.size == 1 else Swap.apply(x_BHLD, group, False)


class Swap(torch.autograd.Function):
    """One all-to-all; its backward is the one the other way."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor, group: Group, to_tokens: bool
    ) -> torch.Tensor:
        ctx.group, ctx.to_tokens = group, to_tokens
        return swap(x, group, to_tokens)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return swap(grad, ctx.group, not ctx.to_tokens), None, None


def swap(x: torch.Tensor, group: Group, to_tokens: bool) -> torch.Tensor:
    """ValueError where heads or tokens do not divide among the ranks."""
    split, joined = (1, 2) if to_tokens else (2, 1)
    if x.shape[split] % group.size:
        what = "heads" if to_tokens else "tokens"
        raise ValueError(f"{x.shape[split]} {what} do not divide among {group.size} Ulysses ranks")
    parts = torch.stack(x.chunk(group.size, dim=split))
    received = group.all_to_all(parts, SCATTER_HEADS if to_tokens else GATHER_HEADS)
    return torch.cat(received.unbind(0), dim=joined)


def check_heads(heads: int, group_size: int) -> None:
    """ValueError, with degrees that would do, where the query heads do not divide."""
    if heads % group_size:
        right = [degree for degree in range(1, heads + 1) if heads % degree == 0]
        raise ValueError(
            f"ulysses is {group_size}, and {heads} query heads do not divide among so many ranks: "
            f"right is one of {right}; give the rest of the ranks to the ring"
        )


def repeat_kv(x_BKLD: torch.Tensor, heads: int, group_size: int) -> torch.Tensor:
    """Key/value heads, each repeated until they divide among the ranks; query head h still reads head h // (H / K')."""
    check_heads(heads, group_size)
    times = group_size // math.gcd(x_BKLD.shape[1], group_size)
    return x_BKLD if times == 1 else x_BKLD.repeat_interleave(times, dim=1)
