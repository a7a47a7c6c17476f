"""The verify cost curve times exactly the forwards it says, and its statistics are those of the recorded times."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import torch

from labsim.decode.verify_cost import VerifyCost, measure_verify_cost
from labsim.models.config import ModelConfig
from labsim.models.llama import LanguageModel

SIZES = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}


class Watched(LanguageModel):
    """A model that notes (tokens, committed before) of every forward and takes at least a millisecond per token."""

    def forward(self, tokens_BQ, cache, **options):  # type: ignore[no-untyped-def]
        self.calls.append((tokens_BQ.shape[1], cache.lengths[0], cache.pending))
        time.sleep(0.001 * tokens_BQ.shape[1])
        return super().forward(tokens_BQ, cache, **options)


@pytest.fixture
def model() -> Iterator[Watched]:
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.1

    weights = {"model.embed_tokens.weight": random(50, 32), "model.norm.weight": random(32)}
    for layer in range(2):
        prefix = f"model.layers.{layer}"
        for name, shape in {
            "self_attn.q_proj": (32, 32),
            "self_attn.k_proj": (16, 32),
            "self_attn.v_proj": (16, 32),
            "self_attn.o_proj": (32, 32),
            "mlp.gate_proj": (48, 32),
            "mlp.up_proj": (48, 32),
            "mlp.down_proj": (32, 48),
            "input_layernorm": (32,),
            "post_attention_layernorm": (32,),
        }.items():
            weights[f"{prefix}.{name}.weight"] = random(*shape)
    watched = Watched(ModelConfig.from_dict(SIZES, "test"), weights, torch.ones(4))
    watched.calls = []
    yield watched


def test_every_forward_has_its_width_and_the_same_context(model: Watched) -> None:
    cost = measure_verify_cost(model, widths=(4, 1, 7), context=20, rounds=3)
    assert cost.widths == (1, 4, 7)
    assert model.calls[0] == (20, 0, 0)
    # Two rounds to warm up and three that count; nothing stays in the cache from one forward to the next.
    assert model.calls[1:] == [(1, 20, 0), (4, 20, 0), (7, 20, 0)] * 5
    for width, seconds in zip(cost.widths, cost.seconds, strict=True):
        assert len(seconds) == 3
        assert min(seconds) >= 0.001 * width


def test_statistics_are_paired_within_a_round() -> None:
    # Round 2 hit a slow moment: both widths took ten times as long, and the ratio is still 2.
    cost = VerifyCost(10, (1, 5), ((1.0, 10.0, 1.2), (2.0, 20.0, 3.0)))
    assert cost.median(1) == 1.2
    assert cost.median(5) == 3.0
    assert cost.ratio(5) == 2.0
    assert cost.ratio(1) == 1.0
    assert cost.quartiles(1) == pytest.approx((1.1, 5.6))
    assert cost.ratio_quartiles(5) == pytest.approx((2.0, 2.25))
    with pytest.raises(ValueError, match=r"width 2 was not measured; measured: 1, 5"):
        cost.ratio(2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": ()}, r"widths are \[\]"),
        ({"widths": (0, 3)}, r"widths are \[0, 3\]; right is one or more numbers of tokens, each at least 1"),
        ({"rounds": 1}, "rounds is 1; a spread needs at least 2"),
        ({"context": 60, "widths": (8,)}, "context is 60; right is 1 to 56"),
        ({"context": 0}, "context is 0"),
    ],
)
def test_bad_input_is_named(model: Watched, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measure_verify_cost(model, **options)
