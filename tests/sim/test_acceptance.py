"""Closed forms of acceptance against enumeration, exact fractions, Monte Carlo and published counts."""

from __future__ import annotations

import csv
import random
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labsim.sim import acceptance as acc

rates = st.floats(0, 1)
lengths = st.integers(1, 12)
conditionals = st.lists(st.floats(0, 1), min_size=1, max_size=8)
DATA = Path(__file__).resolve().parents[2] / "data" / "calibration"


def enumerate_tokens(conditional: list[Fraction]) -> Fraction:
    """Expected tokens per step by listing every accept/reject pattern: the slow, obvious definition."""
    total = Fraction(0)
    for pattern in product((True, False), repeat=len(conditional)):
        chance = Fraction(1)
        for accepted, c in zip(pattern, conditional, strict=True):
            chance *= c if accepted else 1 - c
        prefix = next((i for i, accepted in enumerate(pattern) if not accepted), len(pattern))
        total += chance * (prefix + 1)
    return total


@pytest.mark.parametrize("k", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("alpha", [Fraction(0), Fraction(3, 10), Fraction(11, 20), Fraction(4, 5), Fraction(1)])
def test_geometric_form_equals_enumeration(alpha: Fraction, k: int) -> None:
    assert acc.expected_tokens_geometric(float(alpha), k) == pytest.approx(
        float(enumerate_tokens([alpha] * k)), rel=1e-14
    )


def test_vector_form_equals_enumeration_for_unequal_positions() -> None:
    conditional = [Fraction(79, 100), Fraction(61, 100), Fraction(46, 100), Fraction(23, 100)]
    survival = acc.survival_from_conditional([float(c) for c in conditional])
    assert acc.acceptance_length(survival) == pytest.approx(float(enumerate_tokens(conditional)), rel=1e-14)


def test_the_two_alphas_of_the_same_number() -> None:
    assert acc.expected_tokens_linear(0.7, 5) == pytest.approx(4.5)
    assert acc.expected_tokens_geometric(0.7, 5) == pytest.approx(2.9412, abs=5e-5)
    assert acc.expected_tokens_linear(0.7, 1) == pytest.approx(acc.expected_tokens_geometric(0.7, 1))


# alpha_c -> AL, alpha_d at K = 1, 2, 3, 5, 7, rounded as published with the definitions.
CONVERSION = {
    0.30: [(1.30, 0.300), (1.39, 0.195), (1.42, 0.139), (1.43, 0.086), (1.43, 0.061)],
    0.45: [(1.45, 0.450), (1.65, 0.326), (1.74, 0.248), (1.80, 0.161), (1.82, 0.116)],
    0.55: [(1.55, 0.550), (1.85, 0.426), (2.02, 0.340), (2.16, 0.232), (2.20, 0.172)],
    0.65: [(1.65, 0.650), (2.07, 0.536), (2.35, 0.449), (2.64, 0.328), (2.77, 0.252)],
    0.80: [(1.80, 0.800), (2.44, 0.720), (2.95, 0.651), (3.69, 0.538), (4.16, 0.452)],
}


@pytest.mark.parametrize("alpha_c", CONVERSION)
def test_conversion_table(alpha_c: float) -> None:
    for k, (length, alpha_d) in zip((1, 2, 3, 5, 7), CONVERSION[alpha_c], strict=True):
        survival = acc.survival_from_constant(alpha_c, k)
        assert acc.acceptance_length(survival) == pytest.approx(length, abs=0.006)
        assert acc.draft_acceptance_rate(survival) == pytest.approx(alpha_d, abs=0.0006)


@pytest.mark.parametrize(("k", "alpha_c"), [(1, 0.55), (2, 0.66), (3, 0.73), (4, 0.775), (5, 0.81), (7, 0.85)])
def test_what_a_draft_acceptance_rate_of_055_needs_per_token(k: int, alpha_c: float) -> None:
    assert acc.constant_conditional_acceptance(0.55, k) == pytest.approx(alpha_c, abs=0.006)


def measured_rows() -> list[dict[str, str]]:
    lines = (DATA / "accept_stats_llama31_8b_H100.csv").read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


@pytest.mark.parametrize("row", measured_rows(), ids=lambda row: f"{row['dataset']}-{row['proposer']}-{row['K']}")
def test_identities_hold_on_measured_survival(row: dict[str, str]) -> None:
    """Rounding of the file: three decimals per position."""
    k = int(row["K"])
    survival = [float(x) for x in row["survival_per_pos"].split("/")]
    assert acc.acceptance_length(survival) == pytest.approx(float(row["AL"]), abs=0.0006 * k)
    assert acc.draft_acceptance_rate(survival) == pytest.approx(float(row["draft_acceptance_rate"]), abs=0.0011)
    histogram = [float(x) for x in row["accept_count_hist"].split("/")]
    assert acc.accepted_distribution(survival) == pytest.approx(histogram, abs=0.0011)
    assert acc.accepted_variance(survival) == pytest.approx(float(row["var_accept"]), abs=0.002 * k * k)
    if k > 1:
        conditional = [float(x) for x in row["conditional_per_pos"].split("/")]
        assert acc.conditional_from_survival(survival) == pytest.approx(conditional, abs=0.06)


@given(conditionals)
def test_survival_and_conditional_are_inverse(conditional: list[float]) -> None:
    survival = acc.survival_from_conditional(conditional)
    again = acc.survival_from_conditional(acc.conditional_from_survival(survival))
    assert again == pytest.approx(survival, abs=1e-12)


@given(conditionals)
def test_linear_form_is_an_identity_of_the_draft_acceptance_rate(conditional: list[float]) -> None:
    survival = acc.survival_from_conditional(conditional)
    alpha_d = acc.draft_acceptance_rate(survival)
    assert acc.expected_tokens_linear(alpha_d, len(survival)) == pytest.approx(acc.acceptance_length(survival))


@given(conditionals)
def test_distribution_sums_to_one_and_has_the_survivals_moments(conditional: list[float]) -> None:
    survival = acc.survival_from_conditional(conditional)
    chances = acc.accepted_distribution(survival)
    mean = sum(n * p for n, p in enumerate(chances))
    assert sum(chances) == pytest.approx(1)
    assert 1 + mean == pytest.approx(acc.acceptance_length(survival))
    second = sum(n * n * p for n, p in enumerate(chances))
    assert acc.accepted_variance(survival) == pytest.approx(second - mean * mean, abs=1e-9)


@given(rates, lengths)
def test_constant_conditional_inverts_the_draft_acceptance_rate(alpha_c: float, k: int) -> None:
    alpha_d = acc.draft_acceptance_rate(acc.survival_from_constant(alpha_c, k))
    back = acc.constant_conditional_acceptance(alpha_d, k)
    assert acc.expected_tokens_geometric(back, k) == pytest.approx(1 + k * alpha_d, rel=1e-12)


@given(rates, lengths, lengths)
def test_a_longer_draft_never_has_the_higher_rate(alpha_d: float, k_from: int, k_to: int) -> None:
    converted = acc.convert_draft_acceptance_rate(alpha_d, k_from, k_to)
    if k_to >= k_from:
        assert converted <= alpha_d + 1e-9
    else:
        assert converted >= alpha_d - 1e-9


@given(conditionals, lengths)
def test_conversion_between_lengths_keeps_the_prefix(conditional: list[float], k: int) -> None:
    survival = acc.survival_from_conditional(conditional)
    converted = acc.convert_survival(survival, k)
    shared = min(k, len(survival))
    assert len(converted) == k
    assert converted[:shared] == survival[:shared]
    assert acc.check_survival(converted) == converted


def test_cutting_measured_k5_to_k3_predicts_the_measured_k3() -> None:
    rows = {(r["dataset"], r["K"]): r for r in measured_rows() if r["proposer"] == "acc_eagle"}
    for dataset in ("gsm8k", "sharegpt", "cnn", "instructcoder"):
        five = [float(x) for x in rows[dataset, "5"]["survival_per_pos"].split("/")]
        predicted = acc.acceptance_length(acc.convert_survival(five, 3))
        assert predicted == pytest.approx(float(rows[dataset, "3"]["AL"]), rel=0.035)


@given(st.floats(0.05, 1), st.floats(0.5, 1), st.integers(2, 8))
def test_fit_recovers_an_exact_decay(first: float, decay: float, k: int) -> None:
    fitted = acc.fit_decay(acc.survival_from_decay(first, decay, k))
    assert fitted == pytest.approx((first, decay), rel=1e-6)


def test_histogram_counts_become_survival() -> None:
    assert acc.survival_from_histogram([25, 25, 0, 50]) == (0.75, 0.5, 0.5)


def test_monte_carlo_agrees_with_the_closed_form() -> None:
    rng = random.Random(7)
    k, alpha_c, steps = 5, 0.7, 200_000
    emitted = []
    for _ in range(steps):
        n = 0
        while n < k and rng.random() < alpha_c:
            n += 1
        emitted.append(n + 1)
    mean = sum(emitted) / steps
    error = (acc.accepted_variance(acc.survival_from_constant(alpha_c, k)) / steps) ** 0.5
    assert abs(mean - acc.expected_tokens_geometric(alpha_c, k)) < 4 * error


@pytest.mark.parametrize(
    ("survival", "says"),
    [
        ([], "empty"),
        ([0.5, 0.6], r"survival\[1\] is 0.6"),
        ([1.2], r"survival\[0\] is 1.2"),
        ([0.5, -0.1], "-0.1"),
        ([float("nan")], "nan"),
        (["a"], "'a'"),
        ("0.5", "sequence"),
        (0.5, "sequence"),
        ([True], "True"),
    ],
)
def test_a_bad_survival_vector_is_named(survival: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        acc.check_survival(survival)


@pytest.mark.parametrize("k", [0, -1, 2.5, "x", None, True, float("inf")])
def test_a_bad_draft_length_is_named(k: object) -> None:
    with pytest.raises(ValueError, match="k is"):
        acc.survival_from_constant(0.5, k)
