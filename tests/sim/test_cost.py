"""Step cost: the published calibration and its tables, bounds and monotonicity, and names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labsim.sim.cost import CostModel, DraftCost, break_even, cost_model
from labsim.sim.hardware import GPUS
from labsim.sim.targets import MODELS

BATCHES = (1, 8, 32, 64, 128, 256)
TABLE_400 = {"alpha": (0.10, 0.12, 0.17, 0.23, 0.30, 0.39), "ratio": (1.31, 1.36, 1.52, 1.68, 1.91, 2.17)}
SPEEDUP_AT_2391 = {
    400: (1.83, 1.76, 1.57, 1.42, 1.25, 1.10),
    4000: (1.83, 1.81, 1.76, 1.73, 1.71, 1.70),
    16000: (1.85, 1.93, 2.00, 2.02, 2.04, 2.05),
}
ALPHA = {4000: (0.10, 0.11, 0.12, 0.13, 0.13, 0.14), 16000: (0.10, 0.08, 0.07, 0.06, 0.06, 0.06)}
PUBLISHED = cost_model("h100", "llama-3.1-8b", "eagle3")
COSTS = {
    "published": PUBLISHED,
    "dense": cost_model("h200", "llama-3.3-70b", "eagle3"),
    "moe": cost_model("h200", "kimi-k2", "eagle3"),
    "moe mtp": cost_model("b200", "deepseek-v3", "mtp"),
    "small model": cost_model("h100", "llama-3.3-70b", "llama-3.2-1b"),
    "parallel": cost_model("h100", "qwen3-32b", "parallel"),
    "n-gram": cost_model("h100", "llama-3.1-8b", "ngram"),
}
costs = st.sampled_from(list(COSTS.values()))
batches, ks, kvs = st.integers(1, 1024), st.integers(1, 12), st.integers(0, 2_000_000)


def test_published_break_even_at_context_400() -> None:
    points = [break_even(PUBLISHED, 3, batch, 400) for batch in BATCHES]
    assert tuple(round(p.alpha_breakeven, 2) for p in points) == TABLE_400["alpha"]
    assert tuple(round(p.step_ratio, 2) for p in points) == TABLE_400["ratio"]


@pytest.mark.parametrize("context", SPEEDUP_AT_2391)
def test_published_speedups_by_context(context: int) -> None:
    ratios = [break_even(PUBLISHED, 3, batch, context) for batch in BATCHES]
    assert tuple(round(2.391 / r.step_ratio, 2) for r in ratios) == SPEEDUP_AT_2391[context]
    if context in ALPHA:
        assert tuple(round(r.alpha_breakeven, 2) for r in ratios) == ALPHA[context]


@pytest.mark.parametrize(("batch", "kv", "prefill"), [(1, 400, 0), (37, 12345, 0), (16, 6400, 2048), (0, 0, 512)])
def test_published_step_is_the_published_formula(batch: int, kv: int, prefill: int) -> None:
    rows = batch + prefill
    plain = 5.88590713e-03 + 2.10103129e-05 * rows + 3.92645679e-08 * kv + 1.20683946e-03
    assert PUBLISHED.step_seconds(batch, 0, kv, prefill) == pytest.approx(plain, rel=1e-12)
    if batch:
        rows = 4 * batch + prefill
        target = 5.88590713e-03 + 2.10103129e-05 * rows + 3.92645679e-08 * kv
        draft = 2.13526175e-03 + 8.41429603e-07 * rows + 2.37768493e-09 * kv
        assert PUBLISHED.step_seconds(batch, 3, kv, prefill) == pytest.approx(
            target + draft + 1.20683946e-03, rel=1e-12
        )


def test_published_draft_constant_is_charged_per_forward() -> None:
    per_k = PUBLISHED.step_seconds(1, 4, 0) - PUBLISHED.step_seconds(1, 3, 0)
    assert per_k == pytest.approx(2.13526175e-03 / 3 + 2.10103129e-05 + 8.41429603e-07, rel=1e-9)


def test_published_ngram_draft_is_a_share_of_verify() -> None:
    ngram = COSTS["n-gram"]
    verify = PUBLISHED._target(8, 4, 3200, 0)
    assert ngram.step_seconds(8, 3, 3200) == pytest.approx(verify * 1.005875 + 1.20683946e-03, rel=1e-12)


def test_source_says_which() -> None:
    assert PUBLISHED.source.startswith("published calibration: SpecDecode-Bench")
    assert cost_model("h100", "llama-3.1-8b", "eagle3", calibrated=False).source.startswith("roofline with pooled")
    assert "fitted" in COSTS["moe"].source and "H200" in COSTS["moe"].source
    assert "uncalibrated" in COSTS["moe mtp"].source
    for other in ({"tensor_parallel": 2}, {"dtype": "fp8"}, {"kv_dtype": "fp8"}, {"engine": "sglang"}):
        assert not cost_model("h100", "llama-3.1-8b", "eagle3", **other).source.startswith("published")


def test_measurements_of_a_known_name_are_not_given_to_other_figures() -> None:
    slow = replace(GPUS["h100"], bandwidth=1e12)
    assert "published" not in cost_model(slow, "llama-3.1-8b", "eagle3").source
    deep = replace(MODELS["llama-3.1-8b"], layers=64)
    assert "published" not in cost_model("h100", deep, "eagle3").source


@given(costs, batches, ks, kvs)
def test_grows_with_batch_k_and_context(cost: CostModel, batch: int, k: int, kv: int) -> None:
    here = cost.step_seconds(batch, k, kv)
    assert here > 0
    assert cost.step_seconds(batch + 1, k, kv) > here
    assert cost.step_seconds(batch, k + 1, kv) > here
    assert cost.step_seconds(batch, k, kv + 1000) > here
    assert cost.step_seconds(batch, k, kv, 512) > here


@given(costs, batches, ks, kvs)
def test_a_draft_that_costs_never_shortens_a_step_and_break_even_is_bounded(
    cost: CostModel, batch: int, k: int, kv: int
) -> None:
    ratio = cost.step_ratio(batch, k, kv)
    assert ratio > 1
    # Each drafted token adds at most one more row of everything to the target, so without draft and fixed overheads
    # the break-even alpha_d cannot pass 1.
    free = replace(cost, draft=DraftCost("free", chain=False), spec_s=0.0)
    assert 0 < (free.step_ratio(batch, k, kv) - 1) / k <= 1


@given(costs, st.integers(1, 256), ks, st.integers(1, 8), kvs)
def test_a_tree_of_width_one_is_a_chain_and_width_costs(
    cost: CostModel, batch: int, k: int, width: int, kv: int
) -> None:
    assert cost.tree_step_seconds(batch, k, 1, k + 1, kv) == cost.step_seconds(batch, k, kv)
    assert cost.tree_step_seconds(batch, k, width + 1, k + 1, kv) >= cost.tree_step_seconds(batch, k, width, k + 1, kv)


def test_a_step_that_only_prefills_proposes_nothing() -> None:
    cost = COSTS["dense"]
    assert cost.step_seconds(0, 7, 0, 512) == pytest.approx(cost.step_seconds(0, 1, 0, 512))
    assert cost.step_seconds(0, 7, 0, 512) > cost.step_seconds(0, 0, 0, 512)


@settings(max_examples=30)
@given(costs, batches, ks)
def test_break_even_is_where_speedup_is_one(cost: CostModel, batch: int, k: int) -> None:
    point = break_even(cost, k, batch, 1000)
    assert (1 + k * point.alpha_breakeven) / cost.step_ratio(batch, k, batch * 1000) == pytest.approx(1)


def test_context_moves_target_and_draft() -> None:
    without_draft = replace(PUBLISHED, draft=replace(PUBLISHED.draft, kv_s=0.0))
    kv = 64 * 16000
    assert PUBLISHED.step_seconds(64, 3, kv) - without_draft.step_seconds(64, 3, kv) == pytest.approx(
        2.37768493e-09 * kv
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("h10", "llama-3.1-8b", "eagle3"), "unknown gpu 'h10'; did you mean 'h100'"),
        (("h100", "llama-3.1-8", "eagle3"), "did you mean 'Llama-3.1-8B'"),
        (("h100", "llama-3.1-8b", "eagle4"), "did you mean 'eagle"),
    ],
)
def test_unknown_names(arguments: tuple[str, str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        cost_model(*arguments)


def test_values_out_of_range() -> None:
    with pytest.raises(ValueError, match="tensor_parallel is 0; allowed"):
        cost_model("h100", "llama-3.1-8b", "eagle3", tensor_parallel=0)
    with pytest.raises(ValueError, match="unknown dtype 'bf61'; did you mean 'bf16'"):
        cost_model("h100", "llama-3.1-8b", "eagle3", dtype="bf61")
    with pytest.raises(ValueError, match="unknown engine 'vlm'; did you mean 'vllm'"):
        cost_model("h100", "llama-3.1-8b", "eagle3", engine="vlm")
    with pytest.raises(ValueError, match="batch is 0; allowed"):
        PUBLISHED.step_seconds(0, 3, 0)
    with pytest.raises(ValueError, match="kv_tokens is -1; allowed"):
        PUBLISHED.step_seconds(1, 3, -1)
    with pytest.raises(ValueError, match="at least 1"):
        PUBLISHED.step_seconds(1, -1, 0)
    with pytest.raises(ValueError, match="k is 0; allowed"):
        break_even(PUBLISHED, 0, 1, 400)
    with pytest.raises(ValueError, match="context is -5; allowed"):
        break_even(PUBLISHED, 3, 1, -5)
