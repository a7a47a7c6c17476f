"""Frequencies against transformers' own model code."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from labsim.models.rope import default_frequencies, rope_frequencies

KINDS = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 8.0, "original_max_position_embeddings": 512},
    "longrope": {"short_factor": [1.0] * 16, "long_factor": [2.0] * 16, "original_max_position_embeddings": 512},
    "llama3": {
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 256,
    },
}


@pytest.mark.parametrize("head_dim", [32, None])
@pytest.mark.parametrize("kind", KINDS)
def test_frequencies_are_those_of_transformers(kind: str, head_dim: int | None) -> None:
    rope = {"rope_type": kind, "rope_theta": 50_000.0, **KINDS[kind]}
    sizes = {"hidden_size": 128, "num_attention_heads": 4, "max_position_embeddings": 4096}
    config = LlamaConfig(**sizes, rope_parameters=rope, **({"head_dim": head_dim} if head_dim else {}))
    theirs = LlamaRotaryEmbedding(config)
    angles, scale = rope_frequencies(config)
    assert torch.equal(angles, theirs.inv_freq)
    assert scale == theirs.attention_scaling
    short_cut = default_frequencies({"rope_parameters": rope}, head_dim or 32)
    assert (short_cut is not None) == (kind == "default")
    if short_cut:
        assert torch.equal(short_cut[0], theirs.inv_freq) and short_cut[1] == scale


@pytest.mark.parametrize(
    "raw",
    [
        {"rope_theta": 10_000.0},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0}, "partial_rotary_factor": 0.5},
        {"rope_parameters": {"rope_type": "default", "rope_theta": None}},
        {
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
            "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        },
    ],
)
def test_what_is_not_plain_is_left_to_transformers(raw: dict) -> None:
    assert default_frequencies(raw, 32) is None


def test_a_target_loads_without_the_slow_half_of_transformers() -> None:
    program = (
        "import sys; from labsim.models.load import load_target; load_target('nano', device='cpu'); "
        "slow = ('.modeling_llama', '.configuration_llama', 'torch.distributed.tensor'); "
        "print([name for name in sys.modules if any(part in name for part in slow)])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
