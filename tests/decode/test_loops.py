"""Loops: the rule's edges by hand, and periodic answers against a slow search over all stretches."""

from __future__ import annotations

import random

import pytest

from labsim.decode.loops import TIMES, TOKENS, Loop, find_loop


@pytest.mark.parametrize(
    ("tokens", "found"),
    [
        ([], None),
        ([7] * 11, None),  # too short to speak of
        ([7] * 12, Loop(0, 1, 12)),
        (list(range(60)), None),
        ([*range(100, 110), *[1, 2, 3, 4] * 3], Loop(10, 4, 3)),
        ([*range(100, 110), *[1, 2, 3, 4] * 2, 1, 2, 3], None),  # the third time is not whole
        ([*[1, 2, 3, 4] * 4, 1, 2, 9], Loop(0, 4, 4)),  # it may end before the answer does
        ([*[1, 2, 3, 4] * 4, *range(100, 132)], Loop(0, 4, 4)),  # a third of the answer
        ([*[1, 2, 3, 4] * 4, *range(100, 133)], None),  # less than a third
        ([5, *[1, 2, 3] * 4, 1, 9, *[4, 6] * 9], Loop(15, 2, 9)),  # the one that covers more
    ],
)
def test_by_hand(tokens: list[int], found: Loop | None) -> None:
    assert find_loop(tokens) == found


def test_against_a_search_over_all_stretches() -> None:
    rng = random.Random(0)
    seen = 0
    for _ in range(600):
        tokens = [rng.randrange(2) for _ in range(rng.randrange(12, 30))]
        covered = max(
            (
                times * period
                for period in range(1, len(tokens) // TIMES + 1)
                for start in range(len(tokens) - TIMES * period + 1)
                for times in [repeats(tokens, start, period)]
                if times >= TIMES
            ),
            default=0,
        )
        found = find_loop(tokens)
        if covered >= max(TOKENS, len(tokens) / 3):
            assert found is not None
        if found is not None:
            seen += 1
            assert repeats(tokens, found.start, found.period) == found.times >= TIMES
            # A part of one more time counts as covered too.
            assert (found.times + 1) * found.period > max(TOKENS, len(tokens) / 3) - 1
            assert (found.times + 1) * found.period > covered - 1
    assert 10 < seen < 290


def repeats(tokens: list[int], start: int, period: int) -> int:
    stretch = tokens[start : start + period]
    times = 0
    while tokens[start + times * period : start + (times + 1) * period] == stretch:
        times += 1
    return times
