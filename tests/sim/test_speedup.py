"""Speedup against arithmetic done elsewhere, and its inverse functions against themselves inverted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labsim.sim import speedup as sp
from labsim.sim.acceptance import survival_from_constant, survival_from_decay

overheads = st.floats(0, 5)
lengths = st.integers(1, 10)
rates = st.floats(0, 1)


@dataclass(frozen=True)
class LineCost:
    """A step that costs 1 + 0.01 per verified token, and 0.05 per drafted position when speculating."""

    def step_seconds(self, batch: int, num_speculative_tokens: int, kv_tokens: int, prefill_tokens: int = 0) -> float:
        draft = 0.05 * num_speculative_tokens
        return 1 + 0.01 * (batch * (num_speculative_tokens + 1) + prefill_tokens) + 1e-6 * kv_tokens + draft


def test_the_published_one_liner() -> None:
    assert sp.speedup(sp.tokens_per_step(0.7, 5), 0.1) == pytest.approx(4.5 / 1.1)
    assert sp.breakeven_draft_acceptance_rate(0.15, 5) == pytest.approx(0.03)


def test_leviathan_table_1() -> None:
    """Leviathan et al. (2211.17192), table 1: alpha .75, gamma 5, c 0.02... recomputed from theorem 3.8 by hand."""
    assert sp.leviathan_speedup(0.75, 5, 0.02) == pytest.approx((1 - 0.75**6) / (0.25 * 1.1))


@given(rates, overheads, lengths)
def test_speedup_is_one_exactly_at_break_even(alpha: float, overhead: float, k: int) -> None:
    breakeven = sp.breakeven_draft_acceptance_rate(overhead, k)
    gain = sp.speedup(sp.tokens_per_step(alpha, k), overhead)
    if abs(alpha - breakeven) > 1e-9:
        assert (gain > 1) == (alpha > breakeven)


@given(overheads, lengths)
def test_conditional_break_even_pays_exactly_the_overhead(overhead: float, k: int) -> None:
    alpha_c = sp.breakeven_conditional_acceptance(overhead, k)
    if alpha_c is None:
        assert overhead > k
    else:
        assert sp.tokens_per_step(alpha_c, k, per_token=True) == pytest.approx(1 + overhead, rel=1e-9)


@given(st.floats(0.1, 8), overheads, lengths)
def test_needed_alpha_gives_the_wanted_speedup(target: float, overhead: float, k: int) -> None:
    for per_token, needed in (
        (False, sp.needed_draft_acceptance_rate(target, overhead, k)),
        (True, sp.needed_conditional_acceptance(target, overhead, k)),
    ):
        if needed is None:
            assert target * (1 + overhead) > k + 1
        elif target * (1 + overhead) >= 1:
            assert sp.speedup(sp.tokens_per_step(needed, k, per_token=per_token), overhead) == pytest.approx(target)


def test_two_and_three_times_at_k5() -> None:
    """alpha for 2x and 3x at K = 5 and overhead 0.15: (2 * 1.15 - 1)/5 and (3 * 1.15 - 1)/5."""
    assert sp.needed_draft_acceptance_rate(2, 0.15, 5) == pytest.approx(0.26)
    assert sp.needed_draft_acceptance_rate(3, 0.15, 5) == pytest.approx(0.49)


def test_prediction_by_hand() -> None:
    point = sp.predict(LineCost(), (0.7, 0.5, 0.3), concurrency=8, context=1000)
    plain, speculative = 1 + 0.08 + 0.008, 1 + 0.32 + 0.008 + 0.15
    assert point.step_ratio == pytest.approx(speculative / plain)
    assert point.speedup == pytest.approx(2.5 / (speculative / plain))
    assert point.alpha_breakeven == pytest.approx((speculative / plain - 1) / 3)


def test_best_k_falls_with_concurrency_and_vanishes_when_all_lose() -> None:
    survival = survival_from_decay(0.8, 0.95, 8)
    ks = [sp.best_k(LineCost(), survival, c, 100).k for c in (1, 8, 32, 128)]
    assert ks == sorted(ks, reverse=True)
    assert ks[0] > ks[-1]
    assert sp.best_k(LineCost(), (0.01, 0.005), 128, 100) is None


def test_the_paying_range_ends_where_the_line_says() -> None:
    """LineCost, K = 3, context 0: 1.15 + 0.04 C < 2 (1 + 0.01 C) holds below C = 42.5."""
    assert sp.paying_ranges(LineCost(), 2.0, 3, 0, limit=100) == [(1, 42)]
    assert sp.paying_ranges(LineCost(), 1.05, 3, 0, limit=100) == []


def test_a_gap_in_the_paying_range_is_kept() -> None:
    class Hump:
        """R is 3 between 5 and 8, else 1.5."""

        def step_seconds(self, batch: int, k: int, kv_tokens: int, prefill_tokens: int = 0) -> float:
            return 1.0 if k == 0 else 3.0 if 5 <= batch <= 8 else 1.5

    assert sp.paying_ranges(Hump(), 2.0, 3, 0, limit=12) == [(1, 4), (9, 12)]


def test_surface_has_a_row_per_k() -> None:
    grid = sp.surface(LineCost(), lambda k: survival_from_constant(0.7, k), [1, 3], [1, 8, 64], 100)
    assert [[p.k for p in row] for row in grid] == [[1, 1, 1], [3, 3, 3]]
    assert [p.concurrency for p in grid[0]] == [1, 8, 64]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: sp.speedup(0.5, 0.1), "tokens_per_step is 0.5"),
        (lambda: sp.speedup(2, -0.1), "overhead is -0.1"),
        (lambda: sp.tokens_per_step(1.3, 3), "alpha_d is 1.3; allowed: 0 to 1"),
        (lambda: sp.tokens_per_step(0.5, 0), "k is 0"),
        (lambda: sp.predict(LineCost(), (0.5,), 0, 10), "concurrency is 0"),
        (lambda: sp.best_k(LineCost(), (0.5,), 1, 10, 0), "k_max is 0"),
    ],
)
def test_wrong_values_are_named(call, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()
