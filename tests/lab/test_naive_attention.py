"""The naive arm is the same attention: outputs and gradients, for grouped heads and several branch steps."""

from __future__ import annotations

import torch

from labsim.attention.ttt import ttt_attention
from labsim.lab.naive_attention import hidden, naive_attention


def test_it_is_the_attention_of_the_trainer() -> None:
    draw = torch.Generator().manual_seed(0)

    def made(heads: int) -> torch.Tensor:
        return torch.randn(2, heads, 9, 8, generator=draw, dtype=torch.float64).requires_grad_()

    q, k, v = made(6), made(2), made(2)
    branch = [(made(2), made(2)) for _ in range(3)]
    leaves = [q, k, v, *(x for pair in branch for x in pair)]
    weights = torch.randn(2, 6, 9, 8, generator=draw, dtype=torch.float64)
    found = []
    for attention in (ttt_attention, naive_attention):
        out = attention(q, k, v, branch)
        found.append([out, *torch.autograd.grad((out * weights).sum(), leaves)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_what_is_hidden_is_the_definition() -> None:
    """Query t sees key (b, j) iff b = 0 and j <= t, or b >= 1 and j = t."""
    mask = hidden(5, 2)
    for t in range(5):
        for key in range(15):
            branch, j = divmod(key, 5)
            assert bool(mask[t, key]) is not (j <= t if branch == 0 else j == t)
