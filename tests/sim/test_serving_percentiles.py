"""Percentiles against numpy and the standard library."""

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labsim.sim.percentiles import percentile, weighted_percentile, weighted_percentiles

FINITE = st.floats(-1e6, 1e6)


@given(st.lists(FINITE, min_size=1, max_size=60), st.floats(0, 100))
def test_percentile_is_numpys_default(values, q):
    assert percentile(values, q) == pytest.approx(np.percentile(values, q), rel=1e-9, abs=1e-6)


@given(st.lists(FINITE, min_size=2, max_size=60))
def test_percentile_is_the_inclusive_method_of_statistics(values):
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    assert [percentile(values, q) for q in range(1, 100)] == pytest.approx(cuts, rel=1e-9, abs=1e-6)


@given(st.lists(st.tuples(FINITE, st.integers(0, 5)), min_size=1, max_size=40), st.floats(0, 100))
def test_weighted_percentile_is_the_percentile_of_the_expanded_list(pairs, q):
    values, counts = zip(*pairs, strict=True)
    expanded = np.repeat(values, counts)
    got = weighted_percentile(values, counts, q)
    if len(expanded):
        assert got == pytest.approx(np.percentile(expanded, q), rel=1e-9, abs=1e-6)
    else:
        assert np.isnan(got)


@given(st.lists(FINITE, min_size=1, max_size=40), st.integers(1, 7))
def test_equal_counts_take_the_same_value_as_the_expanded_list(values, count):
    expanded = np.repeat(values, count)
    got = weighted_percentiles(values, [count] * len(values), (0, 50, 99, 100))
    assert got == pytest.approx(np.percentile(expanded, (0, 50, 99, 100)), rel=1e-9, abs=1e-6)


def test_the_99th_of_a_hundred_values_lies_between_the_last_two():
    # sorted(x)[int(0.99 * n)] would give 100.
    assert percentile(range(1, 101), 99) == pytest.approx(99.01)


@pytest.mark.parametrize("q", [-1, 101, float("nan")])
def test_q_out_of_range_is_named(q):
    with pytest.raises(ValueError, match="q is"):
        percentile([1.0], q)
    with pytest.raises(ValueError, match="q is"):
        weighted_percentile([1.0], [1], q)


def test_counts_must_match_the_values():
    with pytest.raises(ValueError, match="counts is 1 numbers; allowed: one per value, 2"):
        weighted_percentile([1.0, 2.0], [1], 50)
