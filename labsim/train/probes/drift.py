"""What goes on inside a draft as it feeds on itself: the size of its state, and where its attention goes.

Measured along a finished answer by the TTT forward, which computes the same states as drafting does. Per depth d:

    hidden_norm  root mean square of the state that depth d hands on, |x| / sqrt(H)
    sink_mass    attention on the first token of the text
    self_mass    attention on the query's own place: its key at depth 1, its branch's keys from depth 2 on

Means over places of the answer, masses also over heads. The definitions are those of the attention-drift paper
(arXiv 2605.09992), where an EAGLE-3 draft's norm grows with depth while its sink fades, and EAGLE-3.1's stay.

Shapes: B rows, A query heads, K key/value heads, L positions, D head dimension, P places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ..attention.ttt import ttt_attention
from ..drafts.recurrent import Pair, RecurrentDraft


@dataclass
class MassProbe:
    """An attention that also notes, for chosen queries, the mass on the sink and on the own place, call by call."""

    places_P: torch.Tensor
    sink: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)

    def __call__(
        self, q_BALD: torch.Tensor, k_BKLD: torch.Tensor, v_BKLD: torch.Tensor, branch: Sequence[Pair] = ()
    ) -> torch.Tensor:
        """As `ttt_attention`, for one row."""
        groups, scale = q_BALD.shape[1] // k_BKLD.shape[1], q_BALD.shape[-1] ** -0.5
        q_APD = q_BALD[0, :, self.places_P].float()
        k_ALD = k_BKLD[0].repeat_interleave(groups, dim=0).float()
        scores_APL = q_APD @ k_ALD.transpose(-1, -2) * scale
        later_PL = torch.arange(k_ALD.shape[1], device=k_ALD.device)[None] > self.places_P[:, None]
        scores_APL = scores_APL.masked_fill(later_PL, float("-inf"))
        own = [
            (q_APD * key[0, :, self.places_P].repeat_interleave(groups, dim=0).float()).sum(-1) * scale
            for key, _ in branch
        ]
        weights = torch.cat([scores_APL, *(score[..., None] for score in own)], dim=-1).softmax(dim=-1)
        self.sink.append(float(weights[..., 0].mean()))
        if branch:
            self.own.append(float(weights[..., k_ALD.shape[1] :].sum(-1).mean()))
        else:
            self.own.append(float(weights.gather(-1, self.places_P.expand(len(weights), -1)[..., None]).mean()))
        return ttt_attention(q_BALD, k_BKLD, v_BKLD, branch)


@dataclass(frozen=True)
class Drift:
    """Per depth; all three have one entry per depth."""

    hidden_norm: tuple[float, ...]
    sink_mass: tuple[float, ...]
    self_mass: tuple[float, ...]


@torch.no_grad()
def drift(
    draft: RecurrentDraft, tokens: Sequence[int], answer_start: int, features_TF: torch.Tensor, depth: int
) -> Drift:
    """Along one conversation. ValueError when the answer is too short for a place of the deepest chain."""
    places_P = torch.arange(answer_start - 1, max(answer_start - 1, len(tokens) - 1 - depth))
    if len(places_P) == 0:
        raise ValueError(f"an answer of {len(tokens) - answer_start} tokens has no place for chains of {depth}")
    places_P = places_P.to(features_TF.device)
    probe = MassProbe(places_P)
    norms = []
    text_1T = torch.tensor([list(tokens)], device=features_TF.device)
    for step in draft.ttt_forward(text_1T, features_TF[None], depth, attention=probe):
        norms.append(float(step.state_BLH[0, places_P].float().pow(2).mean(-1).sqrt().mean()))
    return Drift(tuple(norms), tuple(probe.sink), tuple(probe.own))
