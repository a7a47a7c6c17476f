"""Each gate against arithmetic done by hand; verdicts that move the right way."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labsim.rollout import plan
from labsim.rollout.breakeven import BreakEvenPoint
from labsim.rollout.evidence import Evidence
from labsim.rollout.gate import Gate, alpha_gate, alpha_limit, verdict
from tests.rollout.samples import acceptance, bare_bench, inputs, spec_bench

POINTS = (BreakEvenPoint(1, 0.10, 1.3, "model"), BreakEvenPoint(128, 0.30, 1.9, "model"))
ORDER = {"no-go": 0, "measure-first": 1, "go": 2}


def gate_of(made, name: str) -> Gate:
    return next(gate for gate in made.gates if gate.name == name)


@pytest.mark.parametrize(
    ("rule", "policy", "limit"),
    [
        ("policy", 0.55, 0.55),
        ("breakeven", 0.55, 0.35),
        ("both", 0.55, 0.55),
        ("both", 0.20, 0.35),
        ("policy", 0.20, 0.20),
    ],
)
def test_the_limit_is_the_higher_of_policy_and_the_hardest_breakeven(rule: str, policy: float, limit: float) -> None:
    made = alpha_limit(POINTS, rule, policy, 0.05)
    assert made.value == pytest.approx(limit) and made.complete
    if limit == 0.35:
        assert "concurrency 128" in made.source and "model" in made.source


def test_an_unknown_breakeven_leaves_a_pass_open_but_not_a_failure() -> None:
    points = (POINTS[0], BreakEvenPoint(128, None, None, "unknown: no GPU"))
    limit = alpha_limit(points, "both", 0.55, 0.05)
    assert (limit.value, limit.complete) == (0.55, False)
    assert alpha_gate(Evidence(3, "f", 0.7, 0.6), limit).passed is None
    assert alpha_gate(Evidence(3, "f", 0.7, 0.5), limit).passed is False
    assert alpha_gate(Evidence(3, "f", 0.7, 0.6), alpha_limit(points, "policy", 0.55, 0.05)).passed is True
    assert alpha_gate(Evidence(3, "f", 0.7, 0.6), alpha_limit(points[1:], "breakeven", 0.55, 0.05)).passed is None


def test_the_lower_bound_decides_not_the_estimate() -> None:
    limit = alpha_limit(POINTS, "policy", 0.55, 0)
    gate = alpha_gate(Evidence(3, "f", 0.60, 0.54), limit)
    assert (gate.passed, gate.value, gate.limit) == (False, 0.54, 0.55)
    assert alpha_gate(Evidence(3, "f", 0.60, 0.55), limit).passed is True


def test_an_estimate_without_a_bound_can_fail_but_not_pass() -> None:
    limit = alpha_limit(POINTS, "policy", 0.55, 0)
    assert alpha_gate(Evidence(3, "f", 0.54, None, missing="no counts"), limit).passed is False
    assert alpha_gate(Evidence(3, "f", 0.99, None, missing="no counts"), limit).passed is None


def test_a_complete_pair_goes() -> None:
    made = plan(inputs())
    assert made.verdict == "go"
    assert [(g.name, g.passed) for g in made.gates] == [
        ("alpha", True),
        ("tpot_p99", True),
        ("stall", True),
        ("ttft_p99", True),
    ]
    assert gate_of(made, "tpot_p99").limit == 12.0 and gate_of(made, "tpot_p99").value == 11.0
    assert gate_of(made, "stall").limit == 100.0 and gate_of(made, "stall").value == 60.0
    assert gate_of(made, "ttft_p99").limit == pytest.approx(220.0)


def test_only_the_bench_files_changed_and_p99_tpot_got_worse() -> None:
    made = plan(inputs(candidate=spec_bench(tpot_p99_ms=12.01)))
    assert made.verdict == "no-go"
    assert [g.name for g in made.gates if g.passed is False] == ["tpot_p99"]
    assert plan(inputs(candidate=spec_bench(tpot_p99_ms=12.01), tpot_tolerance=0.01)).verdict == "go"


def test_p99_decides_and_not_the_mean() -> None:
    better_mean = spec_bench(tpot_mean_ms=4.0, tpot_p99_ms=12.5, itl_mean_ms=11.2)
    assert plan(inputs(candidate=better_mean)).verdict == "no-go"
    worse_mean = spec_bench(tpot_mean_ms=10.5, tpot_p99_ms=11.9, itl_mean_ms=29.4)
    assert gate_of(plan(inputs(candidate=worse_mean)), "tpot_p99").passed is True


def test_the_stall_limit_is_absolute() -> None:
    """P99 ITL triples against the baseline and passes; it halves and fails."""
    assert gate_of(plan(inputs(candidate=spec_bench(itl_p99_ms=60.0))), "stall").passed is True
    slow = plan(inputs(baseline=bare_bench(itl_p99_ms=240.0), candidate=spec_bench(itl_p99_ms=120.0)))
    assert gate_of(slow, "stall").passed is False
    assert plan(inputs(candidate=spec_bench(itl_p99_ms=120.0), stall_limit_ms=150)).verdict == "go"


def test_ttft_has_its_tolerance() -> None:
    assert plan(inputs(candidate=spec_bench(ttft_p99_ms=219.9))).verdict == "go"
    assert plan(inputs(candidate=spec_bench(ttft_p99_ms=220.1))).verdict == "no-go"


@pytest.mark.parametrize("missing", list(product([True, False], repeat=3)))
@pytest.mark.parametrize("gpu", ["h100", None])
def test_every_combination_of_missing_inputs(missing: tuple[bool, bool, bool], gpu: str | None) -> None:
    has_log, has_base, has_spec = missing
    made = plan(
        inputs(
            gpu=gpu,
            acceptance=acceptance() if has_log else None,
            baseline=bare_bench() if has_base else (),
            candidate=spec_bench() if has_spec else (),
        )
    )
    # Without a cost model the pair itself gives break-even.
    complete = has_base and has_spec
    assert made.verdict == ("go" if complete else "measure-first")
    for gate in made.gates:
        assert gate.passed is not False
        assert (gate.passed is None) == (gate.reason is not None)
    assert (gate_of(made, "alpha").value is not None) == (has_log or has_spec)
    for name in ("tpot_p99", "stall", "ttft_p99"):
        assert (gate_of(made, name).value is not None) == (has_base and has_spec)
    assert made.to_markdown() and made.to_dict()


def test_a_failure_outweighs_missing_data() -> None:
    assert plan(inputs(acceptance=acceptance(alpha_interval=(0.1, 0.2)), baseline=(), candidate=())).verdict == "no-go"


@pytest.mark.parametrize("key", ["tpot_p99_ms", "itl_p99_ms", "ttft_p99_ms"])
@pytest.mark.parametrize("value", [None, float("nan"), 0.0])
def test_a_figure_that_is_not_there_is_no_pass(key: str, value: float | None) -> None:
    made = plan(inputs(candidate=spec_bench(**{key: value})))
    assert made.verdict == "measure-first"
    (gate,) = [g for g in made.gates if g.passed is None]
    assert "spec.txt" in gate.reason and gate.value is None


def test_a_benchmark_at_another_k_judges_nothing() -> None:
    made = plan(inputs(candidate=spec_bench(record={"k": 5}, tpot_p99_ms=99.0)))
    assert made.verdict == "measure-first"
    assert "K=5" in gate_of(made, "tpot_p99").reason


def test_an_sglang_itl_is_no_chunk_gap() -> None:
    divided = spec_bench(record={"engine": "sglang"}, itl_mean_ms=5.0, itl_p99_ms=21.4)
    made = plan(inputs(candidate=divided))
    assert made.verdict == "measure-first"
    gate = gate_of(made, "stall")
    assert gate.value is None and gate.passed is None and "sglang#12064" in gate.reason
    assert gate_of(plan(inputs(candidate=spec_bench(record={"engine": "sglang"}))), "stall").passed is True


def test_a_baseline_with_merged_chunks_proves_nothing() -> None:
    made = plan(inputs(baseline=bare_bench(itl_mean_ms=20.0)))
    assert made.verdict == "measure-first" and "--stream-interval" in gate_of(made, "tpot_p99").reason
    assert (
        plan(inputs(baseline=bare_bench(itl_mean_ms=20.0), candidate=spec_bench(tpot_p99_ms=13.0))).verdict == "no-go"
    )


def test_nothing_shows_that_speculation_was_on() -> None:
    silent = bare_bench("spec.txt", itl_mean_ms=None)
    made = plan(inputs(candidate=silent))
    assert made.verdict == "measure-first"
    assert "shows that speculation" in gate_of(made, "tpot_p99").reason
    assert plan(inputs(candidate=bare_bench("spec.txt", itl_mean_ms=None, tpot_p99_ms=13.0))).verdict == "no-go"


def test_the_mix_must_not_talk_a_bad_log_up() -> None:
    log = acceptance(alpha=0.4, alpha_interval=(0.38, 0.42), survival=(0.6, 0.4, 0.2))
    made = plan(inputs(acceptance=log, traffic={"chat": 1.0}, alpha_by={"chat": 0.8}))
    assert made.verdict == "measure-first" and "measured traffic" in gate_of(made, "alpha").reason
    down = plan(inputs(traffic={"code": 1.0}, alpha_by={"code": 0.4}))
    assert down.verdict == "no-go"


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_the_traffic_mix_flips_the_verdict(share: float) -> None:
    made = plan(inputs(traffic={"chat": 1 - share, "code": share}, alpha_by={"chat": 0.7, "code": 0.4}))
    assert made.verdict == ("go" if share <= 0.25 else "no-go")


def test_an_upper_estimate_is_no_lower_bound() -> None:
    """Measured at K = 3, asked at K = 5: the extension can fail, never pass."""
    good = plan(inputs(k=5, candidate=(), rule="breakeven"))
    assert good.gates[0].passed is None and "Measure at K=5" in good.gates[0].reason and not good.by_policy
    bad = acceptance(alpha=0.1, alpha_interval=(0.09, 0.11), survival=(0.2, 0.07, 0.03))
    assert plan(inputs(k=5, candidate=(), rule="breakeven", acceptance=bad)).gates[0].passed is False
    document = good.to_markdown()
    assert "the first 3 measured, then the last conditional acceptance again" in document


def test_verdict_of_no_gates() -> None:
    assert verdict(()) == "measure-first"


@settings(max_examples=60, deadline=None)
@given(bounds=st.lists(st.floats(0, 1), min_size=2, max_size=2), rule=st.sampled_from(["policy", "breakeven", "both"]))
def test_the_verdict_rises_with_the_lower_bound(bounds: list[float], rule: str) -> None:
    low, high = sorted(bounds)
    made = [
        plan(inputs(acceptance=acceptance(alpha=1.0, survival=(1.0, 1.0, 1.0), alpha_interval=(b, 1.0)), rule=rule))
        for b in (low, high)
    ]
    assert ORDER[made[0].verdict] <= ORDER[made[1].verdict]


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(0.1, 500), min_size=2, max_size=2),
    key=st.sampled_from(["tpot_p99_ms", "itl_p99_ms", "ttft_p99_ms"]),
)
def test_the_verdict_falls_with_every_latency(values: list[float], key: str) -> None:
    low, high = sorted(values)
    made = [plan(inputs(candidate=spec_bench(**{key: value}))) for value in (low, high)]
    assert ORDER[made[0].verdict] >= ORDER[made[1].verdict]


@settings(max_examples=40, deadline=None)
@given(policy=st.floats(0, 1), margin=st.floats(0, 0.5), alphas=st.lists(st.floats(-0.2, 1.5), min_size=1, max_size=4))
def test_both_is_never_softer_than_either_rule(policy: float, margin: float, alphas: list[float]) -> None:
    points = tuple(BreakEvenPoint(i + 1, alpha, 1.0, "model") for i, alpha in enumerate(alphas))
    limits = [alpha_limit(points, rule, policy, margin).value for rule in ("policy", "breakeven", "both")]
    assert limits[2] == max(limits[:2])
    assert limits[1] == pytest.approx(max(0.0, *alphas) + margin)
