"""Dense attention of training-time test in float64, with its mask written out; shares no code with `labsim`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

Pairs = Sequence[tuple[torch.Tensor, torch.Tensor]]


def dense(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    branch: Pairs = (),
    documents: Sequence[int] = (),
    causal: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) over (1 + N) S keys: history causal inside each document, each branch step on its diagonal."""
    groups, length = q.shape[1] // k.shape[1], q.shape[2]
    keys = torch.cat([k, *(pair[0] for pair in branch)], dim=2).repeat_interleave(groups, dim=1)
    values = torch.cat([v, *(pair[1] for pair in branch)], dim=2).repeat_interleave(groups, dim=1)
    t = torch.arange(length)
    document = torch.cat([torch.full((n,), i) for i, n in enumerate(documents or [length])])
    history = document[:, None] == document[None, :]
    if causal:
        history = history & (t[:, None] >= t[None, :])
    seen = torch.cat([history, *[t[:, None] == t[None, :]] * len(branch)], dim=1)
    scores = (q @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~seen, float("-inf"))
    return scores.softmax(-1) @ values, scores.logsumexp(-1)


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
