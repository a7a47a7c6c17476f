"""Tiny random checkpoints of every supported family, saved and read like real ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
}
FAMILIES = {
    "llama": {"tie_word_embeddings": True},
    "llama-untied": {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "llama-3-rope": {
        "model_type": "llama",
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "mistral": {"sliding_window": None},
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {},
}


def build(family: str, directory: Path) -> torch.nn.Module:
    """A random float64 model of that family, saved to `directory`."""
    extra = dict(FAMILIES[family])
    kind = extra.pop("model_type", family)
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES, **extra)).double().eval()
    with torch.no_grad():
        # Transformers starts norms at 1 and biases at 0, where a forgotten one would not show.
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
            else:
                parameter.mul_(6)
    model.save_pretrained(directory)
    return model


@pytest.fixture(scope="session", params=FAMILIES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[torch.nn.Module, Path]:
    """(transformers' model, the directory it was saved to), for each family."""
    directory = tmp_path_factory.mktemp(request.param)
    return build(request.param, directory), directory


@pytest.fixture(scope="session")
def llama_pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[torch.nn.Module, Path]:
    directory = tmp_path_factory.mktemp("one-llama")
    return build("llama", directory), directory
