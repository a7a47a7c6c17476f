"""Rotary frequencies without transformers' model code, which takes seconds to import."""

from __future__ import annotations

from typing import Any

import torch


def default_frequencies(raw: dict[str, Any], head_dim: int) -> tuple[torch.Tensor, float] | None:
    """`rope_frequencies` of a parsed config.json that says itself, in today's form, that its positions are plain ones.

    None where transformers has to be asked: its configurations alone take two seconds to import.
    """
    rope = raw.get("rope_parameters") or {}
    plain = set(rope) == {"rope_type", "rope_theta"} and rope["rope_type"] == "default" and rope["rope_theta"]
    if not plain or raw.get("rope_scaling") or "partial_rotary_factor" in raw:  # these two change what stands there
        return None
    return plain_frequencies(rope["rope_theta"], head_dim), 1.0


def plain_frequencies(theta: float, head_dim: int) -> torch.Tensor:
    """(D/2,) float32 angles per position, without scaling."""
    return 1.0 / (theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim))


def rope_frequencies(config: Any) -> tuple[torch.Tensor, float]:
    """(D/2,) float32 angles per position and the factor on cosine and sine, for a text that begins.

    Args:
        config: transformers' configuration of a Llama model, which holds `rope_parameters`.

    Raises:
        KeyError, TypeError, ValueError, ArithmeticError: values that no frequencies follow from.
    """
    kind = config.rope_parameters["rope_type"]
    if kind != "default":
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        return ROPE_INIT_FUNCTIONS[kind](config)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return plain_frequencies(config.rope_parameters["rope_theta"], head_dim), 1.0
