"""Recovering the number of drafts, against enumeration of all steps that print the same."""

from __future__ import annotations

import random

import pytest

from labsim.telemetry.steps import recover_steps
from scripts import engine_output as out


def printed(steps: out.Steps, k: int) -> tuple[int, int, float, list[float]]:
    seen = out.truth(steps, k)
    rates = [float(f"{s:.3f}") for s in seen["survival"]]
    return seen["accepted"], seen["drafted"], float(f"{seen['acceptance_length']:.2f}"), rates


def agrees(n: int, accepted: int, length: float, rates: list[float]) -> bool:
    """Whether n drafts could print these figures, by trying every whole count per position."""
    if f"{1 + accepted / n:.2f}" != f"{length:.2f}":
        return False
    sums = {0}
    for rate in rates:
        counts = [m for m in range(n + 1) if abs(m / n - rate) <= 0.0005 + 1e-9]
        sums = {total + m for total in sums for m in counts}
    return accepted in sums


@pytest.mark.parametrize("seed", range(40))
def test_the_true_number_is_within_the_margin_and_alternatives_are_real(seed: int) -> None:
    rng = random.Random(seed)
    k = rng.randint(1, 5)
    count = rng.randint(3, 400)
    steps = out.draw_steps(seed, [0.8**i for i in range(1, k + 1)], count, variable=seed % 2 == 0)
    accepted, drafted, length, rates = printed(steps, k)
    found = recover_steps(accepted, drafted, length, rates)
    assert found.consistent
    assert found.k == k
    assert abs(found.drafts - count) <= found.margin
    others = [n for n in range(-(-drafted // k), drafted + 1) if agrees(n, accepted, length, rates)]
    assert count in others
    if found.margin == 0 and len(others) > 1:
        # Only the reading "every draft has K tokens" may be preferred to others that print the same.
        assert found.drafts * k == drafted
    if found.margin > 0:
        assert found.drafts - found.margin <= min(others) and max(others) <= found.drafts + found.margin


def test_full_drafts_give_exact_counts_and_survival() -> None:
    steps = out.draw_steps(1, (0.7, 0.4, 0.2), 777)
    found = recover_steps(*printed(steps, 3))
    assert (found.drafts, found.margin, found.k) == (777, 0, 3)
    assert found.survival == pytest.approx(out.truth(steps, 3)["survival"], abs=1e-15)


def test_without_rates_the_draft_length_follows_from_counts_and_length() -> None:
    steps = out.draw_steps(2, (0.7, 0.4, 0.2), 354)
    accepted, drafted, length, _ = printed(steps, 3)
    found = recover_steps(accepted, drafted, length)
    assert (found.drafts, found.k, found.margin) == (354, 3, 0)


def test_a_length_of_one_says_nothing_about_drafts_but_k_does() -> None:
    assert recover_steps(0, 495, 1.0, [0.0] * 5).drafts == 99
    found = recover_steps(0, 497, 1.0, [0.0] * 5)
    assert found.margin > 100


def test_figures_that_contradict_each_other() -> None:
    assert not recover_steps(90, 300, 2.9, [0.5, 0.3, 0.1]).consistent
    assert not recover_steps(400, 300, 2.0, [0.5, 0.3, 0.1]).consistent
    assert recover_steps(400, 300, 2.0).drafts is None


def test_huge_counts_are_quick() -> None:
    found = recover_steps(4 * 10**14, 10**15 - 2, 2.2, [0.5, 0.4, 0.3])
    assert found.drafts is None or found.margin > 0
    assert recover_steps(4 * 10**14, 10**15 - 2, 2.2).drafts is not None
