"""Rotary positions of a draft's own layer, for any position, with no table that could end.

A draft trained on 2,048 tokens serves contexts far longer (engines override its `max_position_embeddings` by the
target's), so the angles are computed when they are needed: position times frequency, in float64.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..models.config import first_line, quiet_transformers
from ..models.fields import short
from ..models.rope import rope_frequencies

ADAPTIVE = ("dynamic", "longrope")  # their frequencies depend on the length of the text


def rope_settings(raw: dict[str, Any]) -> dict[str, Any]:
    """`rope_theta` and `rope_scaling` of a config.json, which writes them apart or together as `rope_parameters`."""
    together = dict(raw.get("rope_parameters") or {})
    theta = raw.get("rope_theta") or together.pop("rope_theta", None) or 10000.0
    together.pop("rope_theta", None)
    scaling = raw.get("rope_scaling") or together
    kind = scaling.get("rope_type", scaling.get("type", "default")) if scaling else "default"
    return {"rope_theta": float(theta), "rope_scaling": None if kind == "default" else dict(scaling)}


def frequencies(rope: dict[str, Any], head_dim: int, max_positions: int) -> tuple[torch.Tensor, float]:
    """(D/2,) float64 angles per position, and the factor on cosine and sine (YaRN).

    ValueError for a kind whose frequencies change with the length of the text.
    """
    theta, scaling = float(rope["rope_theta"]), rope.get("rope_scaling")
    if not scaling:
        return theta ** -(torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim), 1.0
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind in ADAPTIVE:
        raise ValueError(f"rope_scaling {kind!r} changes with the length of the text; a draft needs fixed frequencies")
    from transformers import LlamaConfig

    try:
        with quiet_transformers():
            config = LlamaConfig(
                hidden_size=head_dim,
                num_attention_heads=1,
                head_dim=head_dim,
                max_position_embeddings=max_positions,
                rope_parameters={**scaling, "rope_type": kind, "rope_theta": theta},
            )
            angles, scale = rope_frequencies(config)
    # What a library raises on a foreign value has no common base: KeyError, TypeError, its own validation errors.
    except Exception as error:
        raise ValueError(f"rope_scaling {short(scaling)} cannot be used ({first_line(error)})") from error
    angles, scale = angles.double(), float(scale)
    if not bool(torch.isfinite(angles).all()) or not math.isfinite(scale):
        raise ValueError(f"rope_scaling {short(scaling)} makes angles that are not numbers")
    return angles, scale


def rotate(x_BHQD: torch.Tensor, cos_BQD: torch.Tensor, sin_BQD: torch.Tensor) -> torch.Tensor:
    """Turn each head's halves against each other by the angles of its position."""
    first, second = x_BHQD.chunk(2, dim=-1)
    return x_BHQD * cos_BQD[:, None] + torch.cat([-second, first], dim=-1) * sin_BQD[:, None]
