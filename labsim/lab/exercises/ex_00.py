"""Exercise of notebook 00: the shortest one, to learn how a check answers."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ..check import Check, Misconception
from ..exercise import Exercise


def acceptance_length(accepted: Sequence[int]) -> float:
    """Mean tokens per target forward: the accepted ones and, in every step, one of the target's own."""
    return sum(accepted) / len(accepted) + 1


def some_steps(rng: Random) -> tuple[list[int]]:
    """Accepted counts of 1 to 12 steps."""
    k = rng.randint(1, 7)
    return ([rng.randint(0, k) for _ in range(rng.randint(1, 12))],)


EXERCISES = (
    Exercise(
        id="00.1",
        title="Tokens per target forward",
        minutes=3,
        difficulty="warm-up",
        prompt=(
            "`accepted` lists how many drafted tokens the target accepted in each step, for example `[3, 0, 5]`. "
            "Every step also emits one token of the target's own: the correction after the first rejected token, or "
            "the bonus token when all are accepted. Return the mean number of tokens that one target forward emits "
            "(the acceptance length)."
        ),
        hints=(
            "A step that accepts 0 drafted tokens still emits one token.",
            "Emitted tokens of one step: accepted + 1. Take the mean over the steps.",
            "`sum(accepted) / len(accepted)` is the mean of the accepted tokens alone. What does each step add to it?",
        ),
        check=Check(
            reference=acceptance_length,
            cases=[([3, 0, 5],), ([0, 0, 0, 0],), ([2],), ([4, 4, 4, 1, 0],)],
            random_cases=some_steps,
            misconceptions=[
                Misconception(
                    "the target's own token is missing",
                    "This is the mean of the accepted tokens. Every target forward also emits one token of its own, "
                    "so a step that accepts nothing still moves forward by one.",
                    wrong=lambda accepted: sum(accepted) / len(accepted),
                ),
                Misconception(
                    "the target's own token is counted once",
                    "You add one token for the whole run; every step has one.",
                    wrong=lambda accepted: (sum(accepted) + 1) / len(accepted),
                ),
                Misconception(
                    "the bonus token is counted in full steps only",
                    "A step that rejects a token emits the target's correction in its place, so it has its extra "
                    "token too.",
                    wrong=lambda accepted: sum(n + (n == max(accepted)) for n in accepted) / len(accepted),
                ),
                Misconception(
                    "a total, not a mean",
                    "This counts the tokens of all steps together. Divide by the number of target forwards.",
                    wrong=lambda accepted: sum(accepted) + len(accepted),
                ),
                Misconception(
                    "divided by the longest step",
                    "This divides by the largest count, a stand-in for K, and so moves towards accepted/drafted. "
                    "Tokens per target forward divides by the number of steps.",
                    wrong=lambda accepted: sum(accepted) / max(accepted) + 1,
                ),
                Misconception(
                    "steps that accept nothing are left out",
                    "A step without an accepted token costs a target forward like any other: it belongs in the mean.",
                    wrong=lambda accepted: sum(n for n in accepted if n) / sum(1 for n in accepted if n) + 1,
                ),
            ],
        ),
        takeaway="One target forward, that many tokens: the acceptance length, the most useful number of the course.",
    ),
)
