"""Break-even at the user's points, the batch -> K map, and where the rules disagree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labsim.rollout import plan
from labsim.sim.acceptance import acceptance_length, convert_survival
from labsim.sim.cost import cost_model
from tests.rollout.samples import POINTS, SURVIVAL, acceptance, bare_bench, inputs, spec_bench


def test_the_published_table_is_reproduced() -> None:
    """SpecDecode-Bench's calibration, Llama-3.1-8B, EAGLE, K = 3, context 400: .10 / .17 / .30 / .39."""
    made = plan(inputs(concurrency=(1, 32, 128, 256), method="eagle"))
    assert [p.alpha for p in made.points] == pytest.approx([0.10, 0.17, 0.30, 0.39], abs=0.005)
    assert list(made.to_dict()["breakeven"]) == ["1", "32", "128", "256"]
    assert all(p.origin.startswith("cost model: published calibration") for p in made.points)


def test_break_even_is_the_overhead_over_k() -> None:
    made = plan(inputs())
    cost = cost_model("h100", "llama-3.1-8b", "eagle3", engine="vllm")
    for point in made.points:
        kv = point.concurrency * 400
        ratio = cost.step_seconds(point.concurrency, 3, kv) / cost.step_seconds(point.concurrency, 0, kv)
        assert point.step_ratio == pytest.approx(ratio) and point.alpha == pytest.approx((ratio - 1) / 3)


def test_measured_step_times_replace_the_model() -> None:
    made = plan(inputs(concurrency=POINTS, step_times={32: (10.0, 16.0)}))
    assert made.points[1].alpha == pytest.approx(0.2) and made.points[1].origin == "your step times 10 and 16 ms"
    assert made.points[0].origin.startswith("cost model")


def test_an_unknown_target_has_no_break_even_and_a_hint() -> None:
    made = plan(inputs(target="org/Lama-3.1-8B", concurrency=(1, 8)))
    assert made.to_dict()["breakeven"] == {"1": None, "8": None}
    assert made.verdict == "measure-first"
    gate = made.gates[0]
    assert gate.passed is None and "--step-times" in gate.reason and gate.value == 0.58
    assert "did you mean 'Llama-3.1-8B'" in made.points[0].origin
    complete = plan(inputs(target="org/Lama-3.1-8B", concurrency=(1, 8), step_times={1: (10, 13), 8: (10, 14)}))
    assert complete.gates[0].passed and complete.points[1].alpha == pytest.approx(0.4 / 3)


def test_an_unknown_target_takes_the_step_ratio_of_the_benchmarks() -> None:
    made = plan(inputs(target="org/other", concurrency=(32,)))
    assert made.points[0].alpha == pytest.approx((14 / 10 - 1) / 3)
    assert made.points[0].origin == "mean ITL of base.txt and spec.txt"
    other_k = plan(inputs(target="org/other", concurrency=(32,), candidate=spec_bench(record={"k": 5})))
    assert other_k.points[0].alpha is None


def test_an_unknown_draft_model_has_no_break_even() -> None:
    made = plan(inputs(method="draft_model", draft_checkpoint="org/tiny", concurrency=POINTS))
    assert made.points[0].alpha is None and "the draft" in made.points[0].origin
    assert plan(inputs(method="draft_model", draft_checkpoint="meta-llama/Llama-3.2-1B")).points[0].alpha > 0


def test_the_map_is_the_best_k_at_every_batch_size() -> None:
    made = plan(inputs(concurrency=(256,), gpu="h100"))
    cost = cost_model("h100", "llama-3.1-8b", "eagle3", engine="vllm")

    def best(batch: int) -> int:
        speedups = {0: 1.0}
        for k in (1, 2, 3):
            ratio = cost.step_seconds(batch, k, batch * 400) / cost.step_seconds(batch, 0, batch * 400)
            speedups[k] = acceptance_length(convert_survival(SURVIVAL, k)) / ratio
        return max(speedups, key=speedups.get)

    told = {batch: k for first, last, k in made.k_map for batch in range(first, last + 1)}
    assert told == {batch: best(batch) for batch in range(1, 257)}
    assert len(made.k_map) > 1, "the case must have a crossing"
    assert all(a[1] + 1 == b[0] and a[2] != b[2] for a, b in zip(made.k_map, made.k_map[1:], strict=False))


def test_a_hopeless_draft_maps_to_zero() -> None:
    hopeless = acceptance(alpha=0.01, alpha_interval=(0, 0.02), survival=(0.02, 0.008, 0.002))
    assert plan(inputs(acceptance=hopeless)).k_map == ((1, 32, 0),)


def test_the_policy_alone_rejects_a_published_winner() -> None:
    """EAGLE on Llama-3.1-8B, K = 3: alpha 0.46 at 1.73x."""
    eagle = acceptance(alpha=0.4637, alpha_interval=(0.455, 0.472), survival=(0.675, 0.437, 0.279))
    given = inputs(acceptance=eagle, method="eagle", concurrency=POINTS)
    both = plan(given)
    assert both.verdict == "no-go" and both.policy_alone == "rejects a winner"
    said = "\n".join(both.disagreement)
    assert "1.73x" in said and "arXiv 2601.11580" in said and "--rule breakeven" in said and "1, 32, 128" in said
    assert both.by_policy and "alpha by the policy of 0.55 alone" in both.decided_by
    assert "--rule breakeven" in both.decided_by
    # (1 + 3 * .455) / 1.31 = 1.81 at concurrency 1
    assert "1.81x at concurrency 1" in said
    governed = plan(replace(given, rule="breakeven"))
    assert (
        "lets break-even govern" not in governed.to_markdown() and "The policy alone rejects" not in governed.decided_by
    )
    assert governed.verdict_at == {1: "measure-first", 32: "go", 128: "measure-first"} and not governed.by_policy
    assert governed.gates[0].passed and governed.policy_alone == "rejects a winner"
    assert governed.gates[0].limit == pytest.approx(0.303 + 0.05, abs=0.005)


def test_the_policy_alone_accepts_a_loser() -> None:
    weak = acceptance(alpha=0.3, alpha_interval=(0.29, 0.31))
    made = plan(inputs(policy=0.2, acceptance=weak, concurrency=POINTS))
    assert made.policy_alone == "accepts a loser" and made.verdict == "no-go"
    assert "concurrency 128" in made.disagreement[0]


def test_agreement_is_silent() -> None:
    made = plan(inputs())
    assert made.policy_alone is None and made.disagreement == ()


def test_requests_that_do_not_fit_are_told() -> None:
    made = plan(inputs(concurrency=(4000,), context=4000))
    assert any("queue" in note for note in made.notes)
    assert not any("queue" in note for note in plan(inputs()).notes)


def test_concurrency_that_the_benchmarks_do_not_cover_is_told() -> None:
    made = plan(inputs(concurrency=POINTS))
    assert made.verdict == "measure-first"
    assert [g.name for g in made.gates if g.passed is None] == [
        "latency at concurrency 1",
        "latency at concurrency 128",
    ]
    assert made.verdict_at == {1: "measure-first", 32: "go", 128: "measure-first"}
    assert made.decided_by == "go at 32; 1, 128: measure first"
    assert "**Verdict: measure-first** (go at 32; 1, 128: measure first)" in made.to_markdown()
    assert plan(inputs()).decided_by == ""
    unstated = bare_bench(concurrency=None), spec_bench(concurrency=None)
    assert plan(inputs(baseline=unstated[0], candidate=unstated[1])).verdict == "go"
    several = plan(inputs(concurrency=POINTS, baseline=unstated[0], candidate=unstated[1]))
    assert set(several.verdict_at.values()) == {"measure-first"}


def test_a_benchmark_of_other_traffic_is_told() -> None:
    other = spec_bench(record={"alpha": 0.8, "alpha_interval": (0.79, 0.81)})
    assert any("not your traffic" in note for note in plan(inputs(candidate=other)).notes)
    assert not any("not your traffic" in note for note in plan(inputs()).notes)


def test_the_measured_step_ratio_stands_beside_the_model() -> None:
    (note,) = [n for n in plan(inputs()).notes if "Measured step ratio" in n]
    assert "R = 1.40" in note and "is 0.133" in note and "cost model" in note
    # The model's R is 1.52 at 32: 8 % above; a margin of 0.05 covers 0.15 / 1.52 = 10 %.
    assert "`--step-times 32=10.00,14.00`" in note and "8% above it, less than the margin covers (10%)" in note
    assert not any("Measured step ratio" in n for n in plan(inputs(baseline=bare_bench(itl_mean_ms=None))).notes)
