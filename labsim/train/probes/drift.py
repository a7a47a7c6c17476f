"""A draft's states and its attention by depth, along a finished answer.

Measured by the TTT forward, which computes the same states as drafting does. A size is always a root mean square,
|x| / sqrt(width), so that drafts of different widths compare:

    feature_norm   of each target layer that the draft reads (low, middle, high)
    fused_norm     of what the draft makes of them, the state of depth 1: after `fc`
    hidden_norm    of the state that depth d hands on, by depth

Shares and entropy are those of `attention`, by depth. Everything is a mean over places of the answer. In the paper an
EAGLE-3 draft's norm grows with depth while its sink fades, and EAGLE-3.1's stay.

Shapes: T tokens, F width of the concatenated layers, H hidden size, P places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import fmean

import torch

from ...drafts.recurrent import RecurrentDraft
from .attention import RECENT, AttentionProbe


@dataclass(frozen=True)
class Drift:
    """What was found along one conversation, or the mean over several.

    Attributes:
        feature_norm: one entry per feature layer.
        fused_norm: one entry.
        hidden_norm, sink_mass, recent_mass, self_mass, entropy: one entry per depth.
    """

    feature_norm: tuple[float, ...]
    fused_norm: tuple[float, ...]
    hidden_norm: tuple[float, ...]
    sink_mass: tuple[float, ...]
    recent_mass: tuple[float, ...]
    self_mass: tuple[float, ...]
    entropy: tuple[float, ...]

    @classmethod
    def mean(cls, found: Sequence[Drift]) -> Drift:
        """Mean of equally long ones, conversation by conversation. ValueError for none."""
        if not found:
            raise ValueError("no conversation was probed; at least one answer must be longer than the chains")
        names = [one.name for one in fields(cls)]
        return cls(
            **{name: tuple(map(fmean, zip(*(getattr(one, name) for one in found), strict=True))) for name in names}
        )


@torch.no_grad()
def drift(
    draft: RecurrentDraft,
    tokens: Sequence[int],
    answer_start: int,
    features_TF: torch.Tensor,
    depth: int,
    *,
    sink_token: int = 0,
    window: int = RECENT,
) -> Drift:
    """Along one conversation; `sink_token` and `window` as in `AttentionProbe`.

    ValueError when the answer is too short for a place of the deepest chain.
    """
    places_P = torch.arange(answer_start - 1, max(answer_start - 1, len(tokens) - 1 - depth))
    if len(places_P) == 0:
        raise ValueError(f"an answer of {len(tokens) - answer_start} tokens has no place for chains of {depth}")
    places_P = places_P.to(features_TF.device)
    probe = AttentionProbe(places_P, sink_token, window)
    text_1T = torch.tensor([list(tokens)], device=features_TF.device)
    norms = [
        rms(step.state_BLH[0, places_P])
        for step in draft.ttt_forward(text_1T, features_TF[None], depth, attention=probe)
    ]
    here_PF = features_TF[places_P]
    return Drift(
        feature_norm=tuple(rms(part) for part in here_PF.chunk(len(draft.config.feature_layers), dim=-1)),
        fused_norm=(rms(draft.fuse(here_PF[None])),),
        hidden_norm=tuple(norms),
        sink_mass=tuple(probe.sink),
        recent_mass=tuple(probe.recent),
        self_mass=tuple(probe.own),
        entropy=tuple(probe.entropy),
    )


def rms(x: torch.Tensor) -> float:
    """Root mean square of each vector along the last axis, and the mean of those."""
    return float(x.float().pow(2).mean(-1).sqrt().mean())
