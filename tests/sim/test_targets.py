"""Model shapes against published parameter totals; touched experts against drawing experts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labsim.sim.targets import MODELS, Model, find_model, split_model_name, touched_experts

PARAMETERS = {"llama-3.1-8b": 8_030_261_248, "llama-3.3-70b": 70_553_706_496, "llama-3.2-1b": 1_235_814_400}
# Model cards, in billions: total and active.
BILLIONS = {
    "qwen3-30b-a3b": (30.5, 3.3),
    "qwen3-235b-a22b": (235, 22),
    "qwen3-coder-480b-a35b": (480, 35),
    "kimi-k2": (1026, 32),
    "deepseek-v3": (671, 37),
    "ling-flash-2.0": (103, 6.1),
    "mixtral-8x7b": (46.7, 12.9),
    "gpt-oss-120b": (117, 5.1),
    "gpt-oss-20b": (21, 3.6),
    "qwen3-next-80b-a3b": (80, 3.9),
    "minimax-m2": (229, 10),
    "qwen3-32b": (32.8, 32.8),
    "qwen3-8b": (8.2, 8.2),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_count_is_exact(name: str) -> None:
    assert MODELS[name].parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", BILLIONS)
def test_parameters_match_the_model_card(name: str) -> None:
    total, active = BILLIONS[name]
    model = MODELS[name]
    assert model.parameters / 1e9 == pytest.approx(total, rel=0.01)
    # Cards count the input embedding among the active parameters or not; either way it is a few per cent.
    assert (model.active_parameters / 1e9) == pytest.approx(active, rel=0.11)


@pytest.mark.parametrize(
    ("name", "value"),
    [("llama-3.1-8b", 131072), ("llama-3.3-70b", 327680), ("llama-3.2-1b", 32768), ("kimi-k2", 70272)],
)
def test_kv_bytes_per_token(name: str, value: int) -> None:
    assert MODELS[name].kv_bytes_per_token() == value


def test_published_touched_experts_of_qwen3_30b() -> None:
    assert [round(touched_experts(128, 8, t)) for t in (1, 4, 8, 32)] == [8, 29, 52, 112]


def test_touched_experts_equals_drawing_them() -> None:
    rng, experts, k, tokens = random.Random(0), 24, 3, 7
    draws = [len({e for _ in range(tokens) for e in rng.sample(range(experts), k)}) for _ in range(4000)]
    assert sum(draws) / len(draws) == pytest.approx(touched_experts(experts, k, tokens), rel=0.01)


@given(st.integers(1, 512), st.data(), st.floats(1, 5000), st.floats(0, 5000))
def test_touched_experts_lies_between_k_and_e_and_grows(
    experts: int, data: st.DataObject, t: float, more: float
) -> None:
    k = data.draw(st.integers(1, experts))
    value = touched_experts(experts, k, t)
    assert k - 1e-9 <= value <= experts
    assert touched_experts(experts, k, t + more) >= value


@pytest.mark.parametrize(
    ("spelling", "name", "dtype"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b", None),
        ("Llama-3.1-8B-Instruct", "llama-3.1-8b", None),
        ("LLAMA-3.1-8B", "llama-3.1-8b", None),
        ("Llama-3.3-70B bf16", "llama-3.3-70b", "bf16"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "qwen3-30b-a3b", "fp8"),
        ("nvidia/Kimi-K2.6-NVFP4", "kimi-k2", "nvfp4"),
        ("Qwen3-32B AWQ INT4", "qwen3-32b", "int4"),
    ],
)
def test_common_spellings(spelling: str, name: str, dtype: str | None) -> None:
    assert split_model_name(spelling) == (name, dtype)
    assert find_model(spelling) is MODELS[name]


def test_every_listed_model_finds_itself() -> None:
    assert all(find_model(model.name) is model for model in MODELS.values())


def test_unknown_model_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown model 'llama-3\.1-9b'; did you mean 'Llama-3\.1-8B'"):
        find_model("llama-3.1-9b")


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="layers is 0"):
        Model("x", 0, 64, 4, 4, 16, 128, 1000, "test")
    with pytest.raises(ValueError, match="experts_per_token is 9; allowed: 1 to 8"):
        Model("x", 2, 64, 4, 4, 16, 0, 1000, "test", experts=8, experts_per_token=9, expert_ffn=32)
