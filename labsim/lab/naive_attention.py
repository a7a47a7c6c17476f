"""Attention of training-time test with its whole score matrix, as one would first write it: to measure what it costs.

TTT step j scores L queries against the keys of all steps so far, (j + 1) L of them, and hides what a query must not
see. The result is `labsim.attention.ttt.ttt_attention`'s. The matrix, heads x L x (j + 1) L, is kept for backward in
every step.

Shapes: B rows, H query heads, K key/value heads, G = H/K, L positions, T = (j + 1) L keys, D head dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


def naive_attention(
    q_BHLD: torch.Tensor,
    k_BKLD: torch.Tensor,
    v_BKLD: torch.Tensor,
    branch: Sequence[tuple[torch.Tensor, torch.Tensor]] = (),
) -> torch.Tensor:
    """Output (B, H, L, D) for rows of one document."""
    length = q_BHLD.shape[2]
    k_BKTD = torch.cat([k_BKLD, *(k for k, _ in branch)], dim=2)
    v_BKTD = torch.cat([v_BKLD, *(v for _, v in branch)], dim=2)
    q_BKGLD = q_BHLD.unflatten(1, (k_BKLD.shape[1], -1))
    scores_BKGLT = torch.einsum("bkgld,bktd->bkglt", q_BKGLD, k_BKTD) * q_BHLD.shape[-1] ** -0.5
    hidden_LT = hidden(length, len(branch), q_BHLD.device)
    p_BKGLT = scores_BKGLT.masked_fill(hidden_LT, float("-inf")).softmax(dim=-1)
    return torch.einsum("bkglt,bktd->bkgld", p_BKGLT, v_BKTD).flatten(1, 2).to(q_BHLD.dtype)


def hidden(length: int, steps: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """(L, (steps + 1) L) true where a query must not look: later history, and other positions of the branch."""
    later_LL = torch.ones(length, length, dtype=torch.bool, device=device).triu(1)
    others_LL = ~torch.eye(length, dtype=torch.bool, device=device)
    return torch.cat([later_LL, *[others_LL] * steps], dim=1)
