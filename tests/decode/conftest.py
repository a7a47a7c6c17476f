"""Tiny random targets and drafts: small enough to enumerate every continuation."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from labsim.models.llama import LanguageModel
from labsim.models.load import Target

VOCAB = 7


def random_model(directory: Path, noise: float = 0.0) -> LlamaForCausalLM:
    """A model whose greedy text wanders (30 different trigrams in 40 tokens); `noise` makes a poorer copy."""
    torch.manual_seed(2)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
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
        model.lm_head.weight.mul_(0.24)
        for parameter in model.parameters():
            parameter.add_(noise * parameter.std() * torch.randn_like(parameter) if parameter.ndim == 2 else 0)
    model.save_pretrained(directory)
    return model


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[LlamaForCausalLM, Path]:
    """Transformers' model and the directory that the target below is read from."""
    directory = tmp_path_factory.mktemp("target")
    return random_model(directory), directory


@pytest.fixture(scope="session")
def target(reference: tuple[LlamaForCausalLM, Path]) -> Target:
    model = LanguageModel.from_directory(reference[1], device="cpu", dtype=torch.float64)
    return Target("tiny", reference[1], model, None, frozenset())


@pytest.fixture(scope="session")
def draft_model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    """A draft that is wrong often and right often enough."""
    directory = tmp_path_factory.mktemp("draft")
    random_model(directory, noise=0.05)
    return LanguageModel.from_directory(directory, device="cpu", dtype=torch.float64)
