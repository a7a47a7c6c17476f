"""alpha at the plan's K with its bound: conversion, counts, mixes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labsim.rollout.evidence import from_record, gather
from tests.rollout.samples import acceptance, inputs, spec_bench


def test_the_same_k_is_taken_as_printed() -> None:
    evidence = from_record(acceptance(), 3)
    assert (evidence.alpha, evidence.alpha_lower, evidence.survival) == (0.6, 0.58, (0.8, 0.6, 0.4))
    assert evidence.origin == "engine.log" and evidence.survival_measured and evidence.notes == ()


def test_a_shorter_k_uses_the_first_positions() -> None:
    evidence = from_record(acceptance(), 2)
    assert evidence.alpha == pytest.approx((0.8 + 0.6) / 2)
    assert evidence.alpha_lower == pytest.approx(0.7 * 0.58 / 0.6)
    assert evidence.survival == (0.8, 0.6)
    assert "K=3" in evidence.notes[0] and "K=2" in evidence.notes[0]


def test_a_longer_k_extends_with_the_last_conditional_acceptance() -> None:
    evidence = from_record(acceptance(), 4)
    assert evidence.survival == pytest.approx((0.8, 0.6, 0.4, 0.4 * 0.4 / 0.6))
    assert not evidence.survival_measured
    assert "upper estimate" in evidence.notes[0]


def test_without_a_vector_a_constant_conditional_acceptance_is_used() -> None:
    # a + a^2 = 1.2 gives a = 0.7041594...; at K = 1 alpha is a itself.
    record = acceptance(k=2, alpha=0.6, survival=None, alpha_interval=(0.5, 0.7))
    evidence = from_record(record, 1)
    assert evidence.alpha == pytest.approx((-1 + (1 + 4 * 1.2) ** 0.5) / 2)
    assert evidence.alpha_lower == pytest.approx((-1 + (1 + 4 * 1.0) ** 0.5) / 2)
    assert "constant conditional" in evidence.notes[0]


def test_a_vector_tells_its_own_k() -> None:
    assert from_record(acceptance(k=None), 3).alpha == 0.6


def test_a_rate_without_k_asks_for_it() -> None:
    record = acceptance(k=None, survival=None, drafts=None)
    assert from_record(record, 3).alpha is None
    assert "--alpha-k" in from_record(record, 3).missing
    assert from_record(record, 3, known_k=3).alpha == 0.6


def test_a_stated_k_is_not_overruled() -> None:
    with pytest.raises(ValueError, match=r"alpha_k is 5; allowed: 3, the K that engine\.log states"):
        from_record(acceptance(), 3, known_k=5)


def test_counts_give_a_bound_where_none_is_printed() -> None:
    few = from_record(acceptance(alpha_interval=None, drafts=50), 3)
    many = from_record(acceptance(alpha_interval=None, drafts=5000), 3)
    # Standard error of alpha: sqrt(var(n)) / K / sqrt(drafts); var(n) = 1*.8 + 3*.6 + 5*.4 - 1.8^2 = 1.36.
    assert many.alpha_lower == pytest.approx(0.6 - 1.96 * 1.36**0.5 / 3 / 5000**0.5, abs=5e-4)
    assert few.alpha_lower < many.alpha_lower < 0.6


def test_totals_alone_give_a_bound_too() -> None:
    record = acceptance(alpha_interval=None, survival=None, drafts=None)
    assert 0.55 < from_record(record, 3).alpha_lower < 0.6


def test_a_rate_without_counts_has_no_bound() -> None:
    record = acceptance(alpha_interval=None, drafts=None, drafted=None, accepted=None, survival=None)
    evidence = from_record(record, 3)
    assert evidence.alpha == 0.6 and evidence.alpha_lower is None and "no counts" in evidence.missing


def test_telemetry_without_alpha_hands_on_its_reason() -> None:
    record = acceptance(alpha=None, unknown={"alpha": "the line was cut"})
    assert from_record(record, 3).missing == "engine.log: the line was cut"


def test_zero_acceptance_is_a_measurement() -> None:
    record = acceptance(alpha=0.0, alpha_interval=(0.0, 0.01), survival=(0.0, 0.0, 0.0), accepted=0)
    for k in (1, 3, 5):
        evidence = from_record(record, k)
        assert (evidence.alpha, evidence.alpha_lower) == (0.0, 0.0)


def test_the_benchmark_stands_in_for_missing_telemetry_and_says_so() -> None:
    evidence = gather(inputs(acceptance=None))
    assert evidence.alpha == 0.6 and evidence.origin == "spec.txt"
    assert "benchmark's prompts" in evidence.notes[0]


def test_the_mix_is_weighted_by_drafts() -> None:
    """70 % chat at 0.7 and 30 % code at 0.4, K = 1: AL 1.7 and 1.4."""
    mixed = {"traffic": {"chat": 0.7, "code": 0.3}, "alpha_by": {"chat": 0.7, "code": 0.4}, "k": 1}
    tokens = gather(inputs(**mixed, acceptance=None, candidate=()))
    chat, code = 0.7 / 1.7, 0.3 / 1.4
    assert tokens.alpha == pytest.approx((0.7 * chat + 0.4 * code) / (chat + code))
    drafts = gather(inputs(**mixed, traffic_shares="drafts", acceptance=None, candidate=()))
    assert drafts.alpha == pytest.approx(0.61)
    requests = gather(
        inputs(
            **mixed,
            traffic_shares="requests",
            output_tokens_by={"chat": 100, "code": 300},
            acceptance=None,
            candidate=(),
        )
    )
    chat, code = 70 / 1.7, 90 / 1.4
    assert requests.alpha == pytest.approx((0.7 * chat + 0.4 * code) / (chat + code))
    assert "shares of output tokens" in tokens.notes[0] and "shares of requests" in requests.notes[0]


def test_rates_given_by_hand_have_no_bound_of_their_own() -> None:
    mixed = {"traffic": {"chat": 1.0}, "alpha_by": {"chat": 0.6}}
    alone = gather(inputs(**mixed, acceptance=None, candidate=()))
    assert alone.alpha == pytest.approx(0.6) and alone.alpha_lower is None
    beside = gather(inputs(**mixed))
    assert beside.alpha_lower == pytest.approx(0.6 * 0.58 / 0.6)
    assert beside.measured_lower == 0.58


def test_a_mix_that_contradicts_the_log_is_told() -> None:
    evidence = gather(inputs(traffic={"chat": 1.0}, alpha_by={"chat": 0.9}))
    assert any("not this mix" in note for note in evidence.notes)
    assert not any("not this mix" in n for n in gather(inputs(traffic={"a": 1.0}, alpha_by={"a": 0.6})).notes)


def test_kinds_of_traffic_can_be_measured_each() -> None:
    worse = acceptance(alpha=0.3, alpha_interval=(0.27, 0.33), survival=(0.5, 0.3, 0.1), files=("code.log",))
    evidence = gather(
        inputs(
            traffic={"chat": 1, "code": 1},
            alpha_by={"chat": acceptance(), "code": worse},
            traffic_shares="drafts",
            acceptance=None,
        )
    )
    assert evidence.alpha == pytest.approx(0.45)
    assert evidence.alpha_lower == pytest.approx((0.58 + 0.27) / 2)
    assert evidence.origin == "chat: engine.log; code: code.log"
    assert evidence.survival == pytest.approx((0.65, 0.45, 0.25))


@settings(max_examples=60, deadline=None)
@given(
    conditional=st.lists(st.floats(0.05, 1), min_size=1, max_size=6),
    k=st.integers(1, 8),
    low=st.floats(0, 1),
    lower=st.floats(0, 1),
)
def test_the_bound_never_exceeds_the_estimate_and_rises_with_the_measured_one(
    conditional: list[float], k: int, low: float, lower: float
) -> None:
    survival, running = [], 1.0
    for c in conditional:
        running *= c
        survival.append(running)
    alpha = sum(survival) / len(survival)
    low, lower = sorted((low * alpha, lower * alpha))
    for vector in (tuple(survival), None):
        made = [
            from_record(
                acceptance(k=len(survival), alpha=alpha, survival=vector, alpha_interval=(bound, 1.0), drafts=None), k
            )
            for bound in (low, lower)
        ]
        assert made[0].alpha_lower <= made[1].alpha_lower + 1e-9
        assert made[1].alpha_lower <= made[1].alpha + 1e-9
        assert len(made[0].survival) == k


@settings(max_examples=40, deadline=None)
@given(drafts=st.integers(20, 10_000), factor=st.integers(2, 20))
def test_more_data_never_widens_the_bound(drafts: int, factor: int) -> None:
    few, many = (
        from_record(acceptance(alpha_interval=None, drafts=n, drafted=3 * n, accepted=round(1.8 * n)), 3)
        for n in (drafts, drafts * factor)
    )
    assert few.alpha_lower <= many.alpha_lower


def test_the_candidate_with_the_most_drafts_speaks() -> None:
    small = spec_bench("small.txt", {"drafted": 30, "alpha": 0.9}, concurrency=1)
    evidence = gather(inputs(acceptance=None, baseline=(), candidate=(small, spec_bench())))
    assert evidence.origin == "spec.txt"
