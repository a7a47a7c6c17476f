"""A tiny target of four layers, read by this package and by transformers, for drafts that use its states."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from labsim.models.llama import LanguageModel
from labsim.models.load import Target

TINY_VOCAB, TINY_LAYERS = 7, 4


@pytest.fixture(scope="session")
def tiny_reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[LlamaForCausalLM, Path]:
    """Transformers' float64 model, whose greedy text wanders, and its directory."""
    directory = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(4)
    config = LlamaConfig(
        vocab_size=TINY_VOCAB,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=TINY_LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=96,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(25)
        model.lm_head.weight.mul_(0.2)
    model.save_pretrained(directory)
    return model, directory


@pytest.fixture(scope="session")
def tiny_target(tiny_reference: tuple[LlamaForCausalLM, Path]) -> Target:
    model = LanguageModel.from_directory(tiny_reference[1], device="cpu", dtype=torch.float64)
    return Target("tiny", tiny_reference[1], model, None, frozenset())
