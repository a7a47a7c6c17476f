"""The explorer of notebook 05: expected lengths against throwing dice, the cap against a walk, and what is drawn."""

from __future__ import annotations

import random

import pytest

from labsim.lab.explorers import eagle3
from labsim.sim.acceptance import expected_tokens_geometric

TRAINING = [[1, 2, 3, 1, 2, 4, 1, 1] * 6, [5, 1, 2, 2, 6, 1] * 5]
HELD_OUT = [[1, 2, 7, 1, 3, 1, 2, 2, 5] * 4, [2, 1, 1, 40, 6, 1] * 4]


def thrown(answers, chance: float, k: int, rng: random.Random) -> tuple[int, int]:
    """(tokens, steps) of one walk with dice."""
    tokens = steps = 0
    for answer in answers:
        at = 0
        while at < len(answer):
            run = 0
            while run < k and at + run < len(answer) and answer[at + run] and rng.random() < chance:
                run += 1
            at, steps = at + run + 1, steps + 1
        tokens += len(answer)
    return tokens, steps


@pytest.mark.parametrize(("chance", "k"), [(0.6, 3), (0.8, 5), (1.0, 2)])
def test_expected_length_is_the_mean_over_many_walks(chance: float, k: int) -> None:
    sayable = [[token < 4 for token in answer] for answer in HELD_OUT]
    rng = random.Random(0)
    walks = [thrown(sayable, chance, k, rng) for _ in range(3000)]
    tokens = walks[0][0]
    mean_steps = sum(steps for _, steps in walks) / len(walks)
    assert eagle3.expected_length(sayable, chance, k) == pytest.approx(tokens / mean_steps, rel=0.01)


def test_with_every_word_and_a_long_answer_it_is_the_geometric_length() -> None:
    got = eagle3.expected_length([[True] * 4000], 0.7, 4)
    assert got == pytest.approx(expected_tokens_geometric(0.7, 4), rel=2e-3)


def test_a_never_wrong_draft_by_hand() -> None:
    """Known: 1, 2. Chains of 3 over 1 2 | 9 (the target's), 1 1 1 | 1, 9 (nothing accepted): three steps."""
    assert eagle3.expected_length([[True, True, False, True, True, True, True, False]], 1.0, 3) == pytest.approx(8 / 3)


def test_sizes_end_with_the_whole_vocabulary() -> None:
    assert eagle3.sizes_up_to(4096)[-2:] == (2048, 4096)
    assert eagle3.sizes_up_to(49152)[-2:] == (32768, 49152)


@pytest.fixture(scope="module")
def explorer():
    return eagle3.sized(TRAINING, HELD_OUT, 64, 8)


def test_every_slider_moves_the_picture(explorer) -> None:
    start = dict(explorer.value)
    for name, slider in explorer.sliders.items():
        explorer.value = start
        drawn = set()
        for value in slider.values:
            explorer.value = {name: value}
            drawn.add(str([(one.x, one.y) for one in explorer.frame.series]) + explorer.frame.text)
        assert len(drawn) == len(slider.values), name


def test_curves_rise_with_n_and_the_draft_stays_below_the_cap(explorer) -> None:
    for frame in explorer.frames.values():
        cap, draft, _ = (one.y for one in frame.series)
        assert list(cap) == sorted(cap)
        assert all(a <= b + 1e-9 for a, b in zip(draft, cap, strict=True))


def test_the_sentence_speaks_of_the_chosen_point(explorer) -> None:
    frame = explorer.set(size=64, chance=1.0, k=5)
    assert frame.mark == (64, "N = 64") and frame.series[2].x == (64,)
    assert "100.0% of the held-out tokens" in frame.text and "0.00 below" in frame.text
    assert frame.series[2].y[0] == frame.series[0].y[-1]
    assert "can be said" in frame.alt and len(frame.alt) > len(frame.text)
