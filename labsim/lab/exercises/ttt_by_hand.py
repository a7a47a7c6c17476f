"""Training-time test on paper: the right rules of notebook 06, inputs for its exercises, and mistakes people make.

A text has tokens x_0 ... x_(L-1). Step k of the chain that starts at position t reads token t + 1 + k and guesses
token t + 2 + k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul
from random import Random
from typing import Any

Mask = list[list[bool]]
Chains = Sequence[Sequence[bool]]
Looks = Sequence[tuple[int, float, Sequence[float]]]


def who_sees_whom(length: int, step: int) -> tuple[Mask, list[int]]:
    """Mask of `length` rows over (1 + step) * length keys, the keys of step 0 first, and the queries' positions."""
    return unrolled(sees)(length, step)


def sees(t: int, block: int, j: int, step: int) -> bool:
    """Query t of `step` sees the key of position j made in step `block`."""
    return j <= t if block == 0 else j == t


def unrolled(
    rule: Callable[[int, int, int, int], bool], position: Callable[[int, int], int] = lambda t, step: t + step
) -> Callable[[int, int], tuple[Mask, list[int]]]:
    """A mask from a rule (query position, key's step, key's position, query's step)."""

    def build(length: int, step: int) -> tuple[Mask, list[int]]:
        places, blocks = range(length), range(step + 1)
        mask = [[bool(rule(t, block, j, step)) for block in blocks for j in places] for t in places]
        return mask, [position(t, step) for t in places]

    return build


def trained_places(length: int, answer_start: int, step: int) -> list[int]:
    """Positions whose guess at `step` counts: the chain starts in the answer, and what it guesses is in the text."""
    return [t for t in range(length) if t + 1 >= answer_start and t + 2 + step < length]


def chosen(rule: Callable[[int, int, int, int], bool]) -> Callable[[int, int, int], list[int]]:
    """Places by another rule of (t, length, answer_start, step)."""
    return lambda length, answer_start, step: [t for t in range(length) if rule(t, length, answer_start, step)]


def marginal(chains: Chains) -> list[float]:
    """Share of right guesses at each depth, over all chains."""
    return [sum(depth) / len(chains) for depth in zip(*chains, strict=True)]


def survival(chains: Chains) -> list[float]:
    """Share of chains that are right at this depth and at all before."""
    return marginal([list(accumulate(map(bool, chain), mul)) for chain in chains])


def conditional(chains: Chains) -> list[float]:
    """Share of the chains alive that survive; 0 where none is alive."""
    joint = survival(chains)
    return [now / before if before else 0.0 for now, before in zip(joint, [1.0, *joint[:-1]], strict=True)]


def figures(chains: Chains) -> tuple[list[float], float]:
    """(conditional acceptance by depth, acceptance length)."""
    return conditional(chains), 1 + sum(survival(chains))


def product_of_marginals(chains: Chains) -> float:
    """What some trainers add up: m_1 + m_1 m_2 + ..."""
    return sum(accumulate(marginal(chains), mul))


def merged(out_a: Sequence[float], lse_a: float, out_b: Sequence[float], lse_b: float) -> tuple[list[float], float]:
    """Attention over both sets of keys, from the attention over each."""
    top = max(lse_a, lse_b)
    a, b = math.exp(lse_a - top), math.exp(lse_b - top)
    return [(a * x + b * y) / (a + b) for x, y in zip(out_a, out_b, strict=True)], top + math.log(a + b)


def merged_naively(
    out_a: Sequence[float], lse_a: float, out_b: Sequence[float], lse_b: float
) -> tuple[list[float], float]:
    """The same formula with bare exponentials, which array libraries let overflow to infinity."""
    if max(lse_a, lse_b) > 700:
        return [math.nan] * len(out_a), math.inf
    a, b = math.exp(lse_a), math.exp(lse_b)
    return [(a * x + b * y) / (a + b) for x, y in zip(out_a, out_b, strict=True)], math.log(a + b)


def averaged(out_a: Sequence[float], out_b: Sequence[float], a: float, b: float) -> list[float]:
    """Weighted by a and b, as they are."""
    return [a * x + b * y for x, y in zip(out_a, out_b, strict=True)]


def best_look(looks: Looks) -> int:
    """The step whose held-out acceptance length is longest; of equal ones the first."""
    return max(looks, key=lambda look: sum(look[2]))[0]


def some_length(rng: Random) -> tuple[int, int]:
    return rng.randint(3, 6), rng.randint(0, 3)


def some_text(rng: Random) -> tuple[int, int, int]:
    length = rng.randint(8, 16)
    return length, rng.randint(3, length - 3), rng.randint(0, 3)


def some_chains(rng: Random) -> tuple[list[list[bool]]]:
    """Easy and hard starts: the guesses of one chain go together, as real ones do."""
    depth, count = rng.randint(2, 4), rng.randint(5, 12)
    chains = []
    for _ in range(count):
        ease = rng.choice([0.15, 0.9])
        chains.append([rng.random() < ease for _ in range(depth)])
    # A right guess behind a wrong one, so that marginal and survival differ in every input.
    chains.append([False, *[True] * (depth - 1)])
    chains.append([True] * depth)
    return (chains,)


def some_parts(rng: Random) -> tuple[list[float], float, list[float], float]:
    size = rng.randint(1, 3)
    first, second = ([round(rng.uniform(-2, 2), 3) for _ in range(size)] for _ in range(2))
    return first, round(rng.uniform(-2, 3), 3), second, round(rng.uniform(-2, 3), 3)


def some_looks(rng: Random) -> tuple[list[tuple[int, float, list[float]]]]:
    looks = []
    for number in range(1, rng.randint(5, 8)):
        rates = [round(rng.uniform(0.3, 0.8), 3) for _ in range(3)]
        looks.append(
            (100 * number, round(3.0 - 0.2 * number + rng.uniform(-0.3, 0.3), 3), list(accumulate(rates, mul)))
        )
    return (looks,)


def same_merge(got: Any, wanted: Any) -> str | None:
    """A pair (output, lse). In float32 an lse of 1000 has steps of 6e-5, and so have the weights made of it."""
    from ..compare import difference

    if not isinstance(got, tuple | list) or len(got) != 2:
        return "the answer should be a pair: the output, a list, and the log-sum-exp, a number"
    return difference(tuple(got), wanted, rel_tol=2e-4, abs_tol=1e-6)


def same_figures(got: Any, wanted: Any) -> str | None:
    """A pair (list, number)."""
    from ..compare import difference

    if not isinstance(got, tuple | list) or len(got) != 2:
        return "the answer should be a pair: a list with one share per depth, and a number"
    return difference(tuple(got), wanted)
