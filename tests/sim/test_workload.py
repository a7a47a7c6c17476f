"""Workloads: lengths, arrivals, what is measured."""

from random import Random

import numpy as np
import pytest
from scipy import stats

from labsim.sim.workload import Constant, Empirical, LogNormal, Workload, ramp


def test_lognormal_has_the_stated_mean_and_sigma():
    rng = Random(1)
    drawn = np.array([LogNormal(400, 0.7, longest=10**6).draw(rng, i) for i in range(20_000)])
    error = drawn.std() / len(drawn) ** 0.5
    assert abs(drawn.mean() - 400) < 4 * error
    assert np.log(drawn).std() == pytest.approx(0.7, rel=0.03)


def test_lengths_stay_within_one_and_the_longest():
    rng = Random(2)
    drawn = [LogNormal(5, 2.0, longest=50).draw(rng, i) for i in range(5_000)]
    assert min(drawn) == 1
    assert max(drawn) == 50


def test_empirical_draws_only_recorded_lengths_and_all_of_them():
    rng = Random(3)
    assert {Empirical([3, 8, 9]).draw(rng, i) for i in range(200)} == {3, 8, 9}


def test_in_order_keeps_the_records_of_one_request_together():
    work = Workload(Empirical([10, 20, 30], in_order=True), Empirical([1, 2, 3], in_order=True))
    prompts, outputs = work.draw(7, seed=5)
    assert prompts == [10, 20, 30, 10, 20, 30, 10]
    assert outputs == [1, 2, 3, 1, 2, 3, 1]


def test_plain_numbers_mean_constant_lengths():
    work = Workload(prompt=12, output=34)
    assert work.prompt == Constant(12)
    assert work.draw(3, seed=0) == ([12] * 3, [34] * 3)


def test_poisson_gaps_are_exponential_with_the_stated_rate():
    times = Workload(arrival_rate=5.0).poisson_arrivals(4_000, seed=1)
    gaps = np.diff([0.0, *times])
    assert gaps.min() > 0
    assert stats.kstest(gaps, "expon", args=(0, 1 / 5.0)).pvalue > 0.01


def test_requests_depend_on_the_seed_only():
    work = Workload()
    assert work.draw(50, 3) == work.draw(50, 3)
    assert work.draw(50, 3) != work.draw(50, 4)
    # More requests continue the same list.
    assert work.draw(80, 3)[0][:50] == work.draw(50, 3)[0]


def test_users_join_evenly():
    assert ramp(4, 2.0) == [0.0, 0.5, 1.0, 1.5]


def test_measured_requests_leave_out_ramp_and_drain():
    assert Workload().measured(300, 10) == range(20, 290)
    assert Workload(arrival_rate=1.0).measured(300, None) == range(30, 270)
    assert Workload(steady=False).measured(300, 10) == range(300)


def test_default_request_count_grows_with_the_users():
    assert Workload().request_count(1) == 300
    assert Workload().request_count(128) == 1024
    assert Workload().coarse(32).request_count(32) == 128


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: Workload(prompt=0), "prompt is 0"),
        (lambda: Workload(output=2.5), "output is 2.5"),
        (lambda: Workload(output="long"), "output is 'long'"),
        (lambda: Workload(requests=0), "requests is 0"),
        (lambda: Workload(arrival_rate=0), "arrival_rate is 0"),
        (lambda: Workload(arrival_rate=float("nan")), "arrival_rate is nan"),
        (lambda: Workload(requests=100).request_count(32), "requests is 100; allowed: at least 4 per user, 128"),
        (lambda: Workload(requests=5, arrival_rate=1.0).request_count(None), "requests is 5"),
        (lambda: Workload().poisson_arrivals(3, 0), "arrival_rate is None"),
        (lambda: LogNormal(0.5, 1.0), "average is 0.5"),
        (lambda: LogNormal(20, -1.0), "sigma is -1"),
        (lambda: LogNormal(200, 1.0, longest=100), "average is 200"),
        (lambda: Empirical([]), "tokens is empty"),
        (lambda: Empirical([4, -2]), r"tokens\[1\] is -2"),
        (lambda: Constant(-3), "tokens is -3"),
    ],
)
def test_wrong_values_are_named(build, name):
    with pytest.raises(ValueError, match=name):
        build()
