"""Where a draft's attention goes, query by query.

In step k the query at position t stands at rotary position t + k. It sees the prefix (keys 0..t) and its own branch
(keys of steps 1..k, at positions t+1..t+k). Of one softmax over all of them:

    sink      the share of one token near the text's beginning, where many models park attention they have no use for
    recent    the share of all keys fewer than `window` positions behind the query, branch and prefix alike
    own       the share of the query's own place at step 0, and of its whole branch from step 1 on
    entropy   -sum w ln w in nats: 0 when all is on one key, ln n when n keys share evenly

The shares overlap: what the own branch has is recent too as long as the branch is shorter than the window.

Shapes: B rows, A query heads, K key/value heads, L positions, D head dimension, P places, S keys in sight of a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ...attention.ttt import ttt_attention
from ...drafts.recurrent import Pair

RECENT = 8  # tokens, the query's own place among them


@dataclass
class AttentionProbe:
    """An attention that also notes where chosen queries of one row look: a mean over places and heads, call by call.

    Attributes:
        places_P: positions of the queries.
        sink_token: position of the sink. ValueError unless every query sees it.
        window: what counts as recent, in tokens.
        sink, recent, own, entropy: one entry per call.
    """

    places_P: torch.Tensor
    sink_token: int = 0
    window: int = RECENT
    sink: list[float] = field(default_factory=list)
    recent: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    entropy: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"window is {self.window}; right is at least 1, the query's own place")
        if not 0 <= self.sink_token <= int(self.places_P.min()):
            raise ValueError(
                f"sink_token is {self.sink_token}, and the first query stands at {int(self.places_P.min())}: "
                "right is a token that all of them see"
            )

    def __call__(
        self, q_BALD: torch.Tensor, k_BKLD: torch.Tensor, v_BKLD: torch.Tensor, branch: Sequence[Pair] = ()
    ) -> torch.Tensor:
        """As `ttt_attention`, for one row."""
        weights_APS = attention_weights(q_BALD, k_BKLD, branch, self.places_P)
        length, steps = k_BKLD.shape[2], len(branch)
        places_P1 = self.places_P[:, None]
        behind_PL = places_P1 + steps - torch.arange(length, device=places_P1.device)
        behind_PN = torch.arange(steps - 1, -1, -1, device=places_P1.device).expand(len(places_P1), -1)
        behind_PS = torch.cat([behind_PL, behind_PN], dim=-1)
        self.sink.append(float(weights_APS[..., self.sink_token].mean()))
        self.recent.append(float((weights_APS * (behind_PS < self.window)).sum(-1).mean()))
        if branch:
            self.own.append(float(weights_APS[..., length:].sum(-1).mean()))
        else:
            self.own.append(float(weights_APS.gather(-1, places_P1.expand(len(weights_APS), -1, -1)).mean()))
        self.entropy.append(float(torch.special.entr(weights_APS).sum(-1).mean()))
        return ttt_attention(q_BALD, k_BKLD, v_BKLD, branch)


def attention_weights(
    q_BALD: torch.Tensor,
    k_BKLD: torch.Tensor,
    branch: Sequence[Pair],
    places_P: torch.Tensor,
    queries_at: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of chosen queries of the first row, (A, P, L + number of branch steps), in fp32.

    The keys of the prefix come first, a later position's with 0, then the branch, the query's own step last.
    `queries_at` says where queries and branch keys lie in their tensors, when not at their positions in the text.
    """
    groups, scale = q_BALD.shape[1] // k_BKLD.shape[1], q_BALD.shape[-1] ** -0.5
    queries_at = places_P if queries_at is None else queries_at
    q_APD = q_BALD[0, :, queries_at].float()
    k_ALD = k_BKLD[0].repeat_interleave(groups, dim=0).float()
    scores_APL = q_APD @ k_ALD.transpose(-1, -2) * scale
    later_PL = torch.arange(k_ALD.shape[1], device=k_ALD.device)[None] > places_P[:, None]
    scores_APL = scores_APL.masked_fill(later_PL, float("-inf"))
    own = [
        (q_APD * key[0, :, queries_at].repeat_interleave(groups, dim=0).float()).sum(-1, keepdim=True) * scale
        for key, _ in branch
    ]
    return torch.cat([scores_APL, *own], dim=-1).softmax(dim=-1)
