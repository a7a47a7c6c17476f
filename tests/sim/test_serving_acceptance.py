"""Accept process: the marginal survives spread and memory; both come out as asked."""

from itertools import pairwise
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import norm

from labsim.sim.accept_process import Acceptance, Mixed, Replay, as_accept_process
from labsim.sim.acceptance import accepted_variance, survival_from_conditional

SHAREGPT = (0.622, 0.381, 0.252)


def sample(acceptance, requests, tokens, seed=0, k=None):
    """Accepted tokens per step, one array per request, uncut last step included."""
    sampler = acceptance.sampler(k or len(acceptance.survival), seed)
    return [np.array(sampler.steps(i, tokens)) - 1 for i in range(requests)]


def survival_of(counts, k):
    return [(counts >= i).mean() for i in range(1, k + 1)]


def clustered_error(requests, i):
    """Standard error of a pooled survival when steps of one request hang together (ratio estimator over requests)."""
    hits = np.array([(one >= i).sum() for one in requests])
    steps = np.array([len(one) for one in requests])
    residual = hits - hits.sum() / steps.sum() * steps
    return residual.std() * sqrt(len(requests)) / steps.sum()


@pytest.mark.parametrize("request_std", [0.0, 0.2, 0.35, 0.7])
@pytest.mark.parametrize("autocorrelation", [0.0, 0.4])
def test_step_weighted_survival_is_the_given_vector(request_std, autocorrelation):
    requests = sample(Acceptance(SHAREGPT, request_std, autocorrelation), 3_000, 200, seed=3)
    pooled = survival_of(np.concatenate(requests), 3)
    for i, (got, wanted) in enumerate(zip(pooled, SHAREGPT, strict=True), start=1):
        # The first step of a sticky chain and the stopping rule leave a bias of order 1 / steps.
        assert abs(got - wanted) < 4 * clustered_error(requests, i) + 0.002 * (autocorrelation > 0)


def test_plain_mean_over_requests_lies_above_the_counters():
    requests = sample(Acceptance(SHAREGPT, 0.5), 3_000, 300)
    by_step = np.concatenate(requests).mean()
    by_request = np.mean([one.mean() for one in requests])
    assert by_request > by_step + 0.05


@pytest.mark.parametrize("request_std", [0.15, 0.35, 0.6])
def test_requests_differ_by_the_asked_standard_deviation(request_std):
    requests = sample(Acceptance(SHAREGPT, request_std), 1_500, 1_500)
    means = np.array([one.mean() for one in requests])
    # Sampling noise of each mean is removed; what stays is the spread.
    noise = np.mean([one.var() / len(one) for one in requests])
    assert sqrt(means.var() - noise) == pytest.approx(request_std, rel=0.06)


def test_without_spread_requests_differ_by_sampling_noise_only():
    requests = sample(Acceptance(SHAREGPT), 1_000, 600)
    means = np.array([one.mean() for one in requests])
    noise = np.mean([one.var() / len(one) for one in requests])
    assert means.var() == pytest.approx(noise, rel=0.15)


@given(
    st.lists(st.floats(0.02, 0.98), min_size=1, max_size=5),
    st.floats(0.01, 0.95),
)
@settings(max_examples=30, deadline=None)
def test_copula_keeps_every_position_by_numerical_integration(conditional, factor):
    from labsim.sim.accept_process import survival_by_luck

    survival = survival_from_conditional(conditional)
    classes = survival_by_luck(survival, factor, 256)
    for i, wanted in enumerate(survival):
        z = norm.ppf(wanted)
        exact, _ = integrate.quad(
            lambda a, z=z: norm.cdf((z - sqrt(factor) * a) / sqrt(1 - factor)) * norm.pdf(a), -9, 9, limit=200
        )
        assert exact == pytest.approx(wanted, abs=1e-6)
        assert np.mean([luck[i] for luck in classes]) == pytest.approx(wanted, abs=2e-3)
    for luck in classes:
        assert all(0 <= after <= before <= 1 for before, after in pairwise(luck))


@pytest.mark.parametrize("wanted", [0.0, 0.2, 0.75])
def test_autocorrelation_at_lag_one_and_two(wanted):
    requests = sample(Acceptance(SHAREGPT, autocorrelation=wanted), 200, 2_000, seed=1)
    pooled = np.concatenate(requests)
    mean, variance, steps = pooled.mean(), pooled.var(), len(pooled)
    for lag in (1, 2):
        products = [(one[:-lag] - mean) * (one[lag:] - mean) for one in requests]
        got = np.concatenate(products).mean() / variance
        assert got == pytest.approx(wanted**lag, abs=5 / sqrt(steps) * (1 + 3 * wanted))


def test_steps_are_drawn_until_the_tokens_are_there_and_not_one_more():
    for seed in range(3):
        for one in sample(Acceptance(SHAREGPT, 0.3, 0.3), 200, 57, seed):
            emitted = one + 1
            assert emitted.sum() >= 57 > emitted[:-1].sum()


def test_more_acceptance_means_more_tokens_in_the_very_same_steps():
    low, high = (0.4, 0.2), (0.6, 0.5)
    few = sample(Acceptance(low), 20, 400)
    many = sample(Acceptance(high), 20, 400)
    for a, b in zip(few, many, strict=True):
        assert (b[: len(a)] >= a[: len(b)]).all()


def test_a_request_is_the_same_in_any_order():
    sampler = Acceptance(SHAREGPT, 0.3, 0.2).sampler(3, seed=4)
    forwards = [sampler.steps(i, 90) for i in range(5)]
    assert forwards == [sampler.steps(i, 90) for i in reversed(range(5))][::-1]


def test_certain_and_impossible_positions_stay_so():
    for one in sample(Acceptance((1.0, 0.5, 0.0), 0.2), 50, 300):
        assert one.min() >= 1
        assert one.max() == 2


def test_draft_length_cuts_or_extends_the_vector():
    assert Acceptance(SHAREGPT).acceptance_length(1) == pytest.approx(1.622)
    assert Acceptance((0.5, 0.25)).acceptance_length(4) == pytest.approx(1.9375)
    assert max(one.max() for one in sample(Acceptance(SHAREGPT), 50, 100, k=2)) == 2


def test_statistics_of_a_log_give_the_spread_and_memory_back():
    truth = Acceptance(SHAREGPT, 0.35, 0.2)
    requests = sample(truth, 2_000, 500, seed=8)
    pooled = np.concatenate(requests)
    mean, variance = pooled.mean(), pooled.var()
    pairs = np.concatenate([(one[:-1] - mean) * (one[1:] - mean) for one in requests])
    measured_std = np.std([one.mean() for one in requests])
    found = Acceptance.from_statistics(SHAREGPT, measured_std, pairs.mean() / variance, len(pooled) / len(requests))
    assert found.request_std == pytest.approx(0.35, rel=0.06)
    assert found.autocorrelation == pytest.approx(0.2, abs=0.02)


def test_statistics_that_noise_explains_give_no_spread():
    noise = sqrt(accepted_variance(SHAREGPT) / 100)
    found = Acceptance.from_statistics(SHAREGPT, 0.9 * noise, 0.0, 100)
    assert (found.request_std, found.autocorrelation) == (0.0, 0.0)


def test_replay_reads_recorded_counts_and_starts_again():
    replay = Replay(((2, 0, 1), (3,)))
    sampler = replay.sampler(3, seed=9)
    assert sampler.steps(0, 6) == [3, 1, 2]
    assert sampler.steps(0, 7) == [3, 1, 2, 3]
    assert sampler.steps(1, 9) == [4, 4, 4]
    assert sampler.steps(2, 1) == [3]
    assert replay.acceptance_length(3) == pytest.approx(1 + 6 / 4)


def test_mixed_traffic_has_the_shares_and_the_harmonic_mean():
    mixed = Mixed(((3, (0.9, 0.8)), (1, (0.2, 0.1))))
    sampler = mixed.sampler(2, seed=2)
    parts = np.array([sampler.part_of(i) for i in range(4_000)])
    assert (parts == 0).mean() == pytest.approx(0.75, abs=4 * sqrt(0.75 * 0.25 / 4_000))
    requests = [np.array(sampler.steps(i, 400)) for i in range(4_000)]
    # Equal answers: tokens over steps of 3/4 at AL 2.7 and 1/4 at AL 1.3.
    expected = 1 / (0.75 / 2.7 + 0.25 / 1.3)
    assert mixed.acceptance_length(2) == pytest.approx(expected)
    assert np.concatenate(requests).mean() == pytest.approx(expected, rel=0.02)
    assert np.concatenate([r for r, part in zip(requests, parts, strict=True) if part]).mean() == pytest.approx(
        1.3, rel=0.02
    )


def test_a_bare_vector_is_an_acceptance_without_spread():
    assert as_accept_process([0.5, 0.2]) == Acceptance((0.5, 0.2))
    replay = Replay(((1,),))
    assert as_accept_process(replay) is replay


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: Acceptance((0.3, 0.5)), r"survival\[1\] is 0.5"),
        (lambda: Acceptance((1.3,)), r"survival\[0\] is 1.3"),
        (lambda: Acceptance((0.5,), -0.1), "request_std is -0.1"),
        (lambda: Acceptance((0.5,), 0.6), "request_std is 0.6; allowed: 0 to 0.4"),
        (lambda: Acceptance((0.5,), 0.0, 1.0), "autocorrelation is 1.0"),
        (lambda: Acceptance((0.5,), 0.0, -0.1), "autocorrelation is -0.1"),
        (lambda: Acceptance.from_statistics(SHAREGPT, 0.3, 1.5, 100), "pooled_lag1 is 1.5"),
        (lambda: Acceptance.from_statistics(SHAREGPT, 0.3, 0.5, 0), "steps_per_request is 0"),
        (lambda: Mixed(()), "parts is empty"),
        (lambda: Mixed(((0, (0.5,)),)), r"parts\[0\] share is 0"),
        (lambda: Mixed(((1, (1.5,)),)), r"survival\[0\] is 1.5"),
        (lambda: Replay(()), "accepted is empty"),
        (lambda: Replay(((1,), ())), r"accepted\[1\] is empty"),
        (lambda: Replay(((1, -1),)), r"accepted\[0\]\[1\] is -1"),
        (lambda: Replay(((1, 4),)).sampler(3, 0), r"accepted\[0\]\[1\] is 4; allowed: 0 to k = 3"),
    ],
)
def test_wrong_values_are_named(build, name):
    with pytest.raises(ValueError, match=name):
        build()
