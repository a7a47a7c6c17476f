"""Attention of training-time test with its whole mask written out: the yardstick of everything that cuts it in pieces.

One softmax over all (1 + N) S keys in the precision of its inputs. It needs a score matrix per head, knows nothing of
ranks, blocks or log-sum-exp merges, and shares no code with `labsim.attention`.

Shapes: B rows, H query heads, K key/value heads, S positions, N branch steps, D head dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

Pairs = Sequence[tuple[torch.Tensor, torch.Tensor]]


def dense(
    q_BHSD: torch.Tensor,
    k_BKSD: torch.Tensor,
    v_BKSD: torch.Tensor,
    branch: Pairs = (),
    documents: Sequence[int] = (),
    causal: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out (B, H, S, D), lse (B, H, S)): the history, causal inside each document, and each branch step's diagonal."""
    groups, length = q_BHSD.shape[1] // k_BKSD.shape[1], q_BHSD.shape[2]
    keys = torch.cat([k_BKSD, *(pair[0] for pair in branch)], dim=2).repeat_interleave(groups, dim=1)
    values = torch.cat([v_BKSD, *(pair[1] for pair in branch)], dim=2).repeat_interleave(groups, dim=1)
    t = torch.arange(length)
    document = torch.cat([torch.full((n,), i) for i, n in enumerate(documents or [length])])
    history = document[:, None] == document[None, :]
    if causal:
        history = history & (t[:, None] >= t[None, :])
    seen = torch.cat([history, *[t[:, None] == t[None, :]] * len(branch)], dim=1)
    scores = (q_BHSD @ keys.transpose(-1, -2) / math.sqrt(q_BHSD.shape[-1])).masked_fill(~seen, float("-inf"))
    return scores.softmax(-1) @ values, scores.logsumexp(-1)
