"""A tiny target of four layers, read by this package and by transformers, for drafts that use its states."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from labsim.models.llama import LanguageModel
from labsim.models.load import Target
from tests.tiny_llama import tiny_llama

TINY_VOCAB, TINY_LAYERS = 7, 4


@pytest.fixture(scope="session")
def tiny_reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[LlamaForCausalLM, Path]:
    """Transformers' float64 model, whose greedy text wanders, and its directory."""
    directory = tmp_path_factory.mktemp("tiny")
    layers = {"num_hidden_layers": TINY_LAYERS}
    model = tiny_llama(directory, seed=4, vocab_size=TINY_VOCAB, sharpness=25, head=0.2, **layers)
    return model, directory


@pytest.fixture(scope="session")
def tiny_target(tiny_reference: tuple[LlamaForCausalLM, Path]) -> Target:
    model = LanguageModel.from_directory(tiny_reference[1], device="cpu", dtype=torch.float64)
    return Target("tiny", tiny_reference[1], model, None, frozenset())
