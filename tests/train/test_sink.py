"""The target's sink: against transformers' own attention weights, and decided by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from labsim.models.llama import LanguageModel
from labsim.models.load import load_target
from labsim.train.probes.sink import early_shares, find_sink, sink_among

SIZES = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
}


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_shares_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **SIZES)
    theirs = AutoModelForCausalLM.from_config(config, attn_implementation="eager").double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            # Sharp attention: with an even one every mistake gives the same shares.
            if parameter.ndim == 2:
                parameter.mul_(12)
            else:
                parameter.add_(0.3 * torch.randn_like(parameter))
    theirs.save_pretrained(tmp_path)
    ours = LanguageModel.from_directory(tmp_path, device="cpu", dtype=torch.float64)
    text = torch.randint(0, 60, (40,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        layers = theirs(text[None], output_attentions=True).attentions
    expected_E = torch.stack([layer[0, :, 16:, :4].mean((0, 1)) for layer in layers]).mean(0)
    assert early_shares(ours, text.tolist()).tolist() == pytest.approx(expected_E.tolist(), abs=1e-6)
    assert float(expected_E.max() - expected_E.min()) > 0.01


def test_a_sink_has_a_tenth_of_all_attention() -> None:
    assert sink_among([0.02, 0.43, 0.01, 0.0], 0.01).token == 1
    assert sink_among([0.46, 0.2, 0.01, 0.0], 0.01).token == 0
    assert sink_among([0.09, 0.02, 0.099, 0.0], 0.01).token is None
    assert sink_among([0.03, 0.06, 0.13, 0.03], 0.04).token is None, "a short text: everybody has much"


def test_nano_has_none_and_short_texts_are_named() -> None:
    """A small model trained for an hour spreads its attention."""
    nano = load_target("nano", device="cpu")
    texts = [nano.encode_chat(f"Tell me about the number {n}, and what makes it a good one.") for n in range(3)]
    found = find_sink(nano.model, texts)
    assert found.token is None
    # Queries at 16, 17, ... up to the last token, alone in the mean: one over how many keys each sees.
    lengths = [len(text) for text in texts]
    means = [sum(1 / (at + 1) for at in range(16, n)) / (n - 16) for n in lengths]
    assert found.even == pytest.approx(sum(means) / len(means))
    with pytest.raises(ValueError, match="texts of more than 16 tokens"):
        find_sink(nano.model, [[1, 2, 3]])
