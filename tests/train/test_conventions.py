"""The figures of other systems, against chains counted by hand."""

from __future__ import annotations

import random

import pytest

from labsim.train.conventions import FIGURES, convert, printed


def chains(seed: int, count: int, depth: int) -> list[list[bool]]:
    """Correlated guesses: an easy place is easy at all depths."""
    rng = random.Random(seed)
    return [[rng.random() < ease for _ in range(depth)] for ease in (rng.random() for _ in range(count))]


GUESSES = chains(3, 4000, 4)
MARGINAL = [sum(chain[d] for chain in GUESSES) / len(GUESSES) for d in range(4)]
SURVIVAL = [sum(all(chain[: d + 1]) for chain in GUESSES) / len(GUESSES) for d in range(4)]
LENGTH = 1 + sum(next((i for i, hit in enumerate([*chain, False]) if not hit), 4) for chain in GUESSES) / len(GUESSES)


@pytest.mark.parametrize(("system", "figure"), [key for key, meaning in FIGURES.items() if meaning != "tree length"])
def test_what_a_system_prints_reads_back(system: str, figure: str) -> None:
    found = convert(system, figure, printed(system, figure, SURVIVAL, MARGINAL))
    if found.exact:
        assert found.acceptance_length == pytest.approx(LENGTH)
        assert found.survival is None or found.survival == pytest.approx(SURVIVAL)
    else:
        # Correlated chains live longer than the product of marginals says.
        assert 1 < found.acceptance_length < LENGTH - 0.2


def test_a_naive_reading_is_off_by_one() -> None:
    assert convert("specforge", "simulated_acc_len", 1.93).acceptance_length == pytest.approx(2.93)
    assert convert("vllm", "mean_acceptance_length", 2.93).acceptance_length == pytest.approx(2.93)


def test_figures_that_their_own_definition_forbids() -> None:
    with pytest.raises(ValueError, match=r"nemo tau_sim is 0.3812.*below 1"):
        convert("nemo", "tau_sim", 0.3812)
    with pytest.raises(ValueError, match="rises with depth"):
        convert("vllm", "per_position", [0.7, 0.6, 0.65])
    with pytest.raises(ValueError, match=r"holds 1.2"):
        convert("speculators", "full_acc", [1.2])
    with pytest.raises(ValueError, match="one number, not 2"):
        convert("eagle", "tau", [3.0, 2.0])
    with pytest.raises(ValueError, match=r"did you mean 'speculators cond_acc'"):
        convert("speculators", "cond_ac", [0.5])
    with pytest.raises(ValueError, match="belongs to a tree"):
        printed("eagle", "tau", SURVIVAL, MARGINAL)
