"""A target small enough for a test: a random Llama over bytes, and a draft that agrees with it now and then."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from labsim.drafts.small import SmallModelDrafter
from labsim.models.llama import LanguageModel
from labsim.models.load import Target, load_target
from tests.tiny_llama import tiny_llama

TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
SHARPNESS = 60  # random weights give flat distributions; real ones are peaked


def build_model(directory: Path, seed: int = 0, layers: int = 2) -> LlamaForCausalLM:
    """A random model of 256 byte tokens and one end token, saved to `directory` in float64."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 4096, "num_hidden_layers": layers}
    ends = {"eos_token_id": 256, "bos_token_id": 256}
    return tiny_llama(directory, seed=seed, vocab_size=257, head=SHARPNESS, **sizes, **ends)


def tiny_target(directory: Path, layers: int = 2) -> Target:
    """The target, loaded like any local directory. An EAGLE-3 draft wants four layers."""
    build_model(directory, layers=layers)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", chat_template=TEMPLATE)
    fast.save_pretrained(directory)
    return load_target(str(directory), dtype=torch.float64)


def noisy_drafter(directory: Path, noise: float = 0.15) -> SmallModelDrafter:
    """The same model with noise on its weights: right now and then, confident in between."""
    folder = directory.parent / f"{directory.name}-draft"
    model = build_model(folder)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(noise * parameter.std() * torch.randn(parameter.shape, generator=generator).double())
    model.save_pretrained(folder)
    return SmallModelDrafter(LanguageModel.from_directory(folder, dtype=torch.float64), 257)
