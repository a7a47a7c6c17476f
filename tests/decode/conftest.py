"""Tiny random targets and drafts: small enough to enumerate every continuation."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from labsim.models.llama import LanguageModel
from labsim.models.load import Target
from tests.tiny_llama import tiny_llama

VOCAB = 7


def random_model(directory: Path, noise: float = 0.0) -> LlamaForCausalLM:
    """A model whose greedy text wanders (30 different trigrams in 40 tokens); `noise` makes a poorer copy."""
    model = tiny_llama(directory, seed=2, vocab_size=VOCAB, sharpness=25, head=0.24)
    with torch.no_grad():
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
