"""The roofline: against hand arithmetic, against the published calibration, and what dtype, TP and experts do."""

from __future__ import annotations

import pytest

from labsim.sim.calibration import Overheads
from labsim.sim.cost import break_even, cost_model, default_tensor_parallel
from labsim.sim.hardware import GPUS
from labsim.sim.reference_points import predict_kimi_gb200, predict_specdecode_bench
from labsim.sim.targets import MODELS, touched_experts

NOTHING = Overheads(0, 0, 0, 0, 0, 0, 0, 0, 1.0)


def test_dense_terms_by_hand() -> None:
    cost = cost_model("h100", "llama-3.1-8b", "eagle3", overheads=NOTHING)
    weights = (8_030_261_248 - 128256 * 4096) * 2  # a step looks one row up in the embedding, it does not read it
    assert cost.fixed_s == pytest.approx(weights / 3.35e12 / 0.81)
    assert cost.token_s == pytest.approx(weights / 989.4e12 / 0.77)
    assert cost.kv_token_s == pytest.approx(131072 / 3.35e12)
    assert cost.draft.forward_s == pytest.approx(424_689_664 * 2 / 3.35e12 / 0.81)
    assert cost.draft.kv_s == pytest.approx(2 * 8 * 128 * 2 / 3.35e12)


def test_moe_reads_the_touched_share_of_its_experts() -> None:
    cost = cost_model("h200", "qwen3-30b-a3b", "ngram", tensor_parallel=1, overheads=NOTHING)
    model = MODELS["qwen3-30b-a3b"]
    for batch, k in ((1, 0), (1, 3), (8, 0), (8, 3)):
        rows = batch * (k + 1)
        share = touched_experts(128, 8, rows) / 128
        read = (model.always_read_parameters + model.routed_parameters * share) * 2 / 4.8e12 / 0.81
        compute = 2 * model.active_parameters * rows / 989.4e12 / 0.77
        expected = (read + compute) * (1.005875 if k else 1)
        assert cost.step_seconds(batch, k, 0) == pytest.approx(expected, rel=1e-9)


def test_moe_verification_is_not_free_at_batch_one() -> None:
    moe = cost_model("h200", "qwen3-30b-a3b", "ngram", tensor_parallel=1, overheads=NOTHING)
    dense = cost_model("h200", "qwen3-32b", "ngram", tensor_parallel=1, overheads=NOTHING)
    assert moe.step_ratio(1, 3, 0) > 1.5
    assert dense.step_ratio(1, 3, 0) < 1.05


# The measurement is vLLM's; without an engine the overheads are the pooled ones, fitted on SGLang.
@pytest.mark.parametrize(("engine", "margin"), [("vllm", 0.06), (None, 0.12)])
def test_roofline_is_close_to_the_published_calibration(engine: str | None, margin: float) -> None:
    measured = cost_model("h100", "llama-3.1-8b", "eagle3")
    computed = cost_model("h100", "llama-3.1-8b", "eagle3", calibrated=False, engine=engine)
    for batch in (1, 8, 32, 64, 128, 256):
        for context in (400, 4000, 16000):
            for k in (0, 1, 3, 5, 7):
                load = (batch, k, batch * context)
                assert computed.step_seconds(*load) == pytest.approx(measured.step_seconds(*load), rel=margin)
                if k:
                    assert computed.step_ratio(*load) == pytest.approx(measured.step_ratio(*load), rel=margin)


def test_dtype_moves_bytes_and_ridge() -> None:
    bf16 = cost_model("h100", "llama-3.3-70b", "eagle3", dtype="bf16", tensor_parallel=4, overheads=NOTHING)
    fp8 = cost_model("h100", "llama-3.3-70b", "eagle3", dtype="fp8", tensor_parallel=4, overheads=NOTHING)
    int4 = cost_model("h100", "llama-3.3-70b", "eagle3", dtype="int4", tensor_parallel=4, overheads=NOTHING)
    assert fp8.fixed_s == pytest.approx(bf16.fixed_s / 2)
    assert int4.fixed_s == pytest.approx(bf16.fixed_s * 0.53125 / 2)
    assert int4.token_s == bf16.token_s > fp8.token_s
    # Four-bit weights with 16-bit math hit the ridge first: the same batch pays more for verifying.
    assert int4.step_ratio(64, 3, 0) > bf16.step_ratio(64, 3, 0)


def test_long_context_makes_speculation_pay_again() -> None:
    cost = cost_model("h200", "llama-3.3-70b", "eagle3")
    assert break_even(cost, 3, 128, 16000).step_ratio < break_even(cost, 3, 128, 400).step_ratio


def test_ridge_order_decides_high_batch() -> None:
    """H200 has H100's compute and more bandwidth: its steps turn compute bound earlier."""
    ratios = [
        cost_model(gpu, "llama-3.1-8b", "eagle3", calibrated=False).step_ratio(128, 3, 128 * 400)
        for gpu in ("h100", "h200")
    ]
    assert ratios[1] > ratios[0]


@pytest.mark.parametrize(
    ("gpu", "model", "dtype", "tp"),
    [("h200", "kimi-k2", "fp8", 8), ("h100", "llama-3.1-8b", "bf16", 1), ("h100", "llama-3.3-70b", "bf16", 4)],
)
def test_default_tensor_parallel(gpu: str, model: str, dtype: str, tp: int) -> None:
    assert default_tensor_parallel(GPUS[gpu], MODELS[model], dtype) == tp


def test_kimi_on_gb200_within_15_per_cent_between_concurrencies() -> None:
    one, four, sixteen = predict_kimi_gb200()
    assert (one.published, four.published, sixteen.published) == (2.03, 1.71, 1.66)
    for low, high in ((one, four), (one, sixteen), (four, sixteen)):
        assert high.predicted / low.predicted == pytest.approx(high.published / low.published, rel=0.15)
        assert high.predicted < low.predicted
    # The assumed acceptance length scales all three alike: 1 + .783 + .783*.751 + .783*.751*.711.
    assert one.predicted * one.step_ratio == pytest.approx(2.789, abs=0.001)


def test_specdecode_bench_within_6_per_cent() -> None:
    for point in predict_specdecode_bench():
        assert point.predicted == pytest.approx(point.published, rel=0.06)


def test_a_deep_small_draft_pays_launches_and_all_reduces_per_layer():
    """Llama-3.2-1B (16 layers, 2.47 GB) is lighter than the 70B's head (1 layer, 2.81 GB), and slower to run."""
    head, small = (cost_model("h100", "llama-3.3-70b", name, tensor_parallel=4) for name in ("eagle3", "llama-3.2-1b"))
    assert small.draft.forward_s - head.draft.forward_s > 14 * 2 * 15e-6
