"""Rotary frequencies without transformers' model code, which takes seconds to import."""

from __future__ import annotations

from typing import Any

import torch


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
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    return 1.0 / (config.rope_parameters["rope_theta"] ** exponents), 1.0
