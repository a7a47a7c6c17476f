"""Loops: an answer that says one thing over and over.

A small model decoded greedily often ends in a loop. A draft that copies then guesses everything right, so acceptance
and speedup are those of the loop and say nothing about other text. `find_loop` sees it by one rule: some stretch of
tokens stands at least `TIMES` times in a row, over at least `TOKENS` tokens and a third of the answer.

    a b c a b c a b c a b    ->  Loop(start=0, period=3, times=3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TIMES = 3
TOKENS = 12


@dataclass(frozen=True)
class Loop:
    """`period` tokens from token `start` on stand `times` times in a row."""

    start: int
    period: int
    times: int


def find_loop(tokens: Sequence[int]) -> Loop | None:
    """The loop that covers most of the answer, by its shortest period; None where there is none."""
    length = len(tokens)
    longest, found = max(TOKENS, -(-length // 3)) - 1, None
    for period in range(1, length // TIMES + 1):
        start = 0  # of a run in which every token is the one `period` places before it
        for at in range(period, length + 1):
            if at < length and tokens[at] == tokens[at - period]:
                continue
            covered = at - start
            if covered >= TIMES * period and covered > longest:
                longest, found = covered, Loop(start, period, covered // period)
            start = at - period + 1
    return found
