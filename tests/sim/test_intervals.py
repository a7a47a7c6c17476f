"""Intervals against scipy and against what they promise: coverage on simulated logs."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from labsim.sim import acceptance as acc
from labsim.sim import intervals


@given(st.integers(1, 5000), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_equals_scipy(trials: int, share: float, confidence: float) -> None:
    successes = round(share * trials)
    expected = stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    assert intervals.wilson(successes, trials, confidence) == pytest.approx((expected.low, expected.high), abs=1e-9)


def logs(survival: tuple[float, ...], drafts: int, repeats: int, seed: int) -> list[tuple[float, ...]]:
    """Survival vectors as `repeats` logs of `drafts` steps would print them."""
    rng = random.Random(seed)
    chances = acc.accepted_distribution(survival)
    seen = []
    for _ in range(repeats):
        counts = [0] * len(chances)
        for n in rng.choices(range(len(chances)), chances, k=drafts):
            counts[n] += 1
        seen.append(acc.survival_from_histogram(counts))
    return seen


@pytest.mark.parametrize("survival", [(0.675, 0.437, 0.279), (0.16, 0.128, 0.107), (0.95, 0.9, 0.85, 0.8, 0.75)])
@pytest.mark.parametrize("drafts", [15, 100, 400])
def test_the_interval_covers_the_truth_as_often_as_it_says(survival: tuple[float, ...], drafts: int) -> None:
    truth = acc.draft_acceptance_rate(survival)
    hits = [
        i.low <= truth <= i.high
        for i in map(lambda s: intervals.draft_acceptance_interval(s, drafts), logs(survival, drafts, 1500, 3))
    ]
    assert 0.925 <= sum(hits) / len(hits) <= 0.985


def test_coin_toss_intervals_would_be_too_narrow() -> None:
    """The mistake that the module warns of, shown: drafted tokens counted as independent trials."""
    survival, drafts = (0.675, 0.437, 0.279), 200
    truth = acc.draft_acceptance_rate(survival)
    naive = [intervals.wilson(sum(s) * drafts, drafts * len(s)) for s in logs(survival, drafts, 1500, 5)]
    assert sum(i.low <= truth <= i.high for i in naive) / len(naive) < 0.9


def test_totals_alone_give_nearly_the_same_interval_for_an_eagle_chain() -> None:
    survival, drafts = (0.675, 0.437, 0.279), 1000
    from_vector = intervals.draft_acceptance_interval(survival, drafts)
    from_totals = intervals.draft_acceptance_interval_from_counts(round(sum(survival) * drafts), drafts, 3)
    assert from_totals == pytest.approx(from_vector, abs=0.002)


def test_autocorrelation_widens() -> None:
    plain = intervals.draft_acceptance_interval((0.6, 0.4, 0.3), 500)
    correlated = intervals.draft_acceptance_interval((0.6, 0.4, 0.3), 500, autocorrelation=0.38)
    assert (correlated.high - correlated.low) / (plain.high - plain.low) == pytest.approx(
        (1.38 / 0.62) ** 0.5, rel=0.01
    )


@pytest.mark.parametrize("survival", [(0.0, 0.0), (1.0, 1.0), (1.0, 0.0)])
def test_no_variance_seen_is_not_certainty(survival: tuple[float, ...]) -> None:
    interval = intervals.draft_acceptance_interval(survival, 20)
    assert 0 <= interval.low < interval.high <= 1
    assert interval.high - interval.low > 0.02


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.integers(1, 10_000),
    st.floats(-0.9, 0.9),
)
def test_intervals_lie_in_range_and_hold_the_estimate(conditional: list[float], drafts: int, r: float) -> None:
    survival = acc.survival_from_conditional(conditional)
    interval = intervals.draft_acceptance_interval(survival, drafts, autocorrelation=r)
    assert 0 <= interval.low <= acc.draft_acceptance_rate(survival) + 1e-9
    assert acc.draft_acceptance_rate(survival) - 1e-9 <= interval.high <= 1


def test_survival_intervals_equal_binomial_ones() -> None:
    expected = stats.binomtest(30, 40).proportion_ci(0.95, method="wilson")
    assert intervals.survival_intervals([0.75], 40)[0] == pytest.approx((expected.low, expected.high))


def test_mean_interval_equals_scipy() -> None:
    values = [1.0, 2.0, 4.0, 4.5, 7.0]
    expected = stats.norm.interval(0.95, loc=sum(values) / 5, scale=stats.sem(values))
    assert intervals.mean_interval(values) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: intervals.draft_acceptance_interval_from_counts(50, 10, 3), "accepted is 50; allowed: .* 0 to 30"),
        (lambda: intervals.draft_acceptance_interval([0.5], 0), "drafts is 0"),
        (lambda: intervals.draft_acceptance_interval([0.5], 10, confidence=95), "confidence is 95"),
        (lambda: intervals.draft_acceptance_interval([0.5], 10, autocorrelation=1), "autocorrelation is 1"),
        (lambda: intervals.wilson(5, 4), "successes is 5"),
        (lambda: intervals.mean_interval([1.0]), "values is 1"),
    ],
)
def test_wrong_values_are_named(call, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()
