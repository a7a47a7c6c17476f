"""Merging softmaxes on paper: the right rules of notebook 09, inputs for its exercises, and mistakes people make.

One query. A block of keys is known by its output (already normalised over the block) and its log-sum-exp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from ..compare import difference

Vector = Sequence[float]
Part = tuple[list[float], float]
Block = Sequence[tuple[float, float]]
Share = tuple[list[float], list[list[float]], list[list[float]]]
EMPTY = -math.inf


def streamed(blocks: Sequence[Block]) -> tuple[float, float]:
    """(out, lse) over all blocks of (score, value) pairs, block after block."""
    top, total, numerator = EMPTY, 0.0, 0.0
    for block in blocks:
        new = max(top, *(score for score, _ in block))
        shrink = math.exp(top - new)
        total = total * shrink + sum(math.exp(score - new) for score, _ in block)
        numerator = numerator * shrink + sum(math.exp(score - new) * value for score, value in block)
        top = new
    return numerator / total, top + math.log(total)


def streamed_without(numerator_shrinks: bool, total_shrinks: bool) -> Callable[[Sequence[Block]], tuple[float, float]]:
    """The same loop that forgets to rescale one sum or both when a larger score arrives."""

    def stream(blocks: Sequence[Block]) -> tuple[float, float]:
        top, total, numerator = EMPTY, 0.0, 0.0
        for block in blocks:
            new = max(top, *(score for score, _ in block))
            shrink = math.exp(top - new)
            total *= shrink if total_shrinks else 1.0
            numerator *= shrink if numerator_shrinks else 1.0
            total += sum(math.exp(score - new) for score, _ in block)
            numerator += sum(math.exp(score - new) * value for score, value in block)
            top = new
        return numerator / total, top + math.log(total)

    return stream


def averaged_blocks(blocks: Sequence[Block]) -> tuple[float, float]:
    """Each block's own softmax, all blocks alike."""
    return sum(streamed([block])[0] for block in blocks) / len(blocks), streamed(blocks)[1]


def bare_exponentials(blocks: Sequence[Block]) -> tuple[float, float]:
    """No maximum taken out; as array libraries do it, where exp(1000) is infinite."""
    scores = [score for block in blocks for score, _ in block]
    if max(scores) > 700:
        return math.nan, math.inf
    total = sum(map(math.exp, scores))
    if total == 0:
        return math.nan, EMPTY
    return sum(math.exp(score) * value for block in blocks for score, value in block) / total, math.log(total)


def merged(out_a: Vector, lse_a: float, out_b: Vector, lse_b: float) -> Part:
    """Attention over both sets of keys; either or both may be empty, which a log-sum-exp of -inf says."""
    top = max(lse_a, lse_b)
    if top == EMPTY:
        return [0.0] * len(out_a), EMPTY
    a, b = math.exp(lse_a - top), math.exp(lse_b - top)
    return [(a * x + b * y) / (a + b) for x, y in zip(out_a, out_b, strict=True)], top + math.log(a + b)


def merged_unguarded(out_a: Vector, lse_a: float, out_b: Vector, lse_b: float) -> Part:
    """`logaddexp` and two exponentials: not a number when both sides are empty."""
    if lse_a == lse_b == EMPTY:
        return [math.nan] * len(out_a), EMPTY
    return merged(out_a, lse_a, out_b, lse_b)


def merged_by_sigmoid(out_a: Vector, lse_a: float, out_b: Vector, lse_b: float) -> Part:
    """o - sigmoid(l_b - l) (o - o_b) and l - logsigmoid(l - l_b): the first side must not be empty."""
    out, lse = merged_unguarded(out_a, lse_a, out_b, lse_b)
    return out, math.nan if lse_a == EMPTY else lse


def merged_with_zero(out_a: Vector, lse_a: float, out_b: Vector, lse_b: float) -> Part:
    """An empty side's log-sum-exp taken for 0, as a kernel reports it."""
    return merged(out_a, 0.0 if lse_a == EMPTY else lse_a, out_b, 0.0 if lse_b == EMPTY else lse_b)


def merged_too_careful(out_a: Vector, lse_a: float, out_b: Vector, lse_b: float) -> Part:
    """Empty as soon as one side is."""
    if EMPTY in (lse_a, lse_b):
        return [0.0] * len(out_a), EMPTY
    return merged(out_a, lse_a, out_b, lse_b)


def merged_barely(out_a: Vector, lse_a: float, out_b: Vector, lse_b: float) -> Part:
    """The formula with bare exponentials, which overflow to infinity or vanish."""
    top = max(lse_a, lse_b)
    if top == EMPTY or -700 < top < 700:
        return merged(out_a, lse_a, out_b, lse_b)
    return [math.nan] * len(out_a), math.copysign(math.inf, top)


def share_of_second(lse_a: float, lse2_b: float) -> float:
    """Weight of block b, whose log-sum-exp is in base two, beside block a, whose is natural."""
    return sigmoid(lse2_b * math.log(2) - lse_a)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def lse_gradient(out_a: Vector, lse_a: float, out_b: Vector, lse_b: float, dout: Vector) -> float:
    """Derivative of the loss by lse_a, given its derivative `dout` by the merged output."""
    out, lse = merged(out_a, lse_a, out_b, lse_b)
    return math.exp(lse_a - lse) * (dot(dout, out_a) - dot(dout, out))


def block_share(
    q: Vector, keys: Sequence[Vector], values: Sequence[Vector], dout: Vector, scale: float, own: Part, whole: Part
) -> Share:
    """A block's share (dq, dk, dv) of the gradient of one query's attention over several blocks.

    Args:
        own: (output, log-sum-exp) of this block alone.
        whole: (output, log-sum-exp) merged over all blocks.
    """
    return share_with(q, keys, values, dout, scale, *whole)


def share_with(
    q: Vector,
    keys: Sequence[Vector],
    values: Sequence[Vector],
    dout: Vector,
    scale: float,
    out: Vector | None,
    lse: float,
    *,
    scaled: bool = True,
) -> Share:
    """P = exp(s - lse), dS = P (dP - D) with D = dout . out; without an output D is left out."""
    p = [math.exp(scale * dot(q, k) - lse) for k in keys]
    drop = 0.0 if out is None else dot(dout, out)
    factor = scale if scaled else 1.0
    ds = [weight * (dot(dout, v) - drop) * factor for weight, v in zip(p, values, strict=True)]
    dq = [sum(one * k[i] for one, k in zip(ds, keys, strict=True)) for i in range(len(q))]
    return dq, [[one * x for x in q] for one in ds], [[weight * x for x in dout] for weight in p]


def some_blocks(rng: Random) -> tuple[list[list[tuple[float, float]]]]:
    """A few blocks whose maximum rises at least once; some of them far from zero."""
    level = rng.choice([0.0, 0.0, 900.0, -900.0])
    blocks = []
    for number in range(rng.randint(2, 4)):
        length = rng.randint(1, 4)
        scores = [round(level + 1.5 * number + rng.uniform(-2, 2), 3) for _ in range(length)]
        blocks.append([(score, round(rng.uniform(-2, 2), 3)) for score in scores])
    return (blocks,)


def some_sides(rng: Random) -> tuple[list[float], float, list[float], float]:
    """Two sides, either of which may be empty (its output is zeros then)."""
    size, level = rng.randint(1, 3), rng.choice([0.0, 0.0, 0.0, 1000.0])
    sides: list[Any] = []
    for _ in range(2):
        empty = rng.random() < 0.3
        sides.append([0.0 if empty else round(rng.uniform(-2, 2), 3) for _ in range(size)])
        sides.append(EMPTY if empty else round(level + rng.uniform(-2, 3), 3))
    return tuple(sides)


def some_bases(rng: Random) -> tuple[float, float]:
    return round(rng.uniform(-3, 6), 3), round(rng.uniform(-3, 8), 3)


def some_merge(rng: Random) -> tuple[list[float], float, list[float], float, list[float]]:
    size = rng.randint(1, 3)
    out_a, out_b, dout = ([round(rng.uniform(-2, 2), 3) for _ in range(size)] for _ in range(3))
    return out_a, round(rng.uniform(-2, 3), 3), out_b, round(rng.uniform(-2, 3), 3), dout


def some_query(rng: Random) -> tuple[Any, ...]:
    """A query, the keys of one block, and what the other block gave."""
    size, count = rng.randint(1, 3), rng.randint(1, 3)

    def vector() -> list[float]:
        return [round(rng.uniform(-1.5, 1.5), 3) for _ in range(size)]

    q, dout, scale = vector(), vector(), rng.choice([0.5, 0.7, 1.4])
    keys, values = [[vector() for _ in range(count)] for _ in range(2)]
    scores = [scale * dot(q, k) for k in keys]
    own = [streamed([[(s, v[i]) for s, v in zip(scores, values, strict=True)]]) for i in range(size)]
    mine = [out for out, _ in own], own[0][1]
    return q, keys, values, dout, scale, mine, merged(*mine, vector(), round(rng.uniform(-1, 2), 3))


def same_part(got: Any, wanted: Any) -> str | None:
    """A pair (list, number); an output that is not a number anywhere is as wrong as one that is so everywhere."""
    if not isinstance(got, tuple | list) or len(got) != 2:
        return "the answer should be a pair: the output as a list, and the log-sum-exp"
    out, lse = got
    if not hasattr(out, "__len__") or len(out) != len(wanted[0]):
        return f"the output should be a list of {len(wanted[0])} numbers"
    out = [float(x) for x in out]
    if any(map(math.isnan, out)) and any(map(math.isnan, wanted[0])):
        out = list(wanted[0])
    return difference(out, list(wanted[0])) or difference(float(lse), wanted[1])
