"""Exercises of notebook 09: can softmax be cut in pieces?"""

from __future__ import annotations

import math

from ..check import Check, Misconception
from ..exercise import Exercise
from .lse_by_hand import (
    EMPTY,
    averaged_blocks,
    bare_exponentials,
    block_share,
    dot,
    lse_gradient,
    merged,
    merged_barely,
    merged_by_sigmoid,
    merged_too_careful,
    merged_unguarded,
    merged_with_zero,
    same_part,
    share_of_second,
    share_with,
    sigmoid,
    some_bases,
    some_blocks,
    some_merge,
    some_query,
    some_sides,
    streamed,
    streamed_without,
)

# Two keys with the scores 0.5 and -0.5, and their values.
_VALUES = [[1.0, 2.0], [1.0, -4.5]]
_COLUMNS = [streamed([[(0.5, _VALUES[0][i]), (-0.5, _VALUES[1][i])]]) for i in range(2)]
_OWN = ([out for out, _ in _COLUMNS], _COLUMNS[0][1])


def _weight(lse_a: float, lse_b: float) -> float:
    return sigmoid(lse_a - lse_b)


EXERCISES = (
    Exercise(
        id="09.1",
        title="Softmax block by block",
        minutes=10,
        difficulty="medium",
        prompt=(
            "`blocks` is a list of blocks, each a list of `(score, value)` pairs. Return `(out, lse)`: the "
            "softmax-weighted mean of all values, and the logarithm of the sum of all `exp(score)`. Go through the "
            "blocks once and keep three numbers only: the largest score so far, and two sums. Scores may be as large "
            "as 1000 or as small as -1000; compute in double precision, as Python's floats do."
        ),
        hints=(
            "Keep the largest score `top`, the sum of `exp(score - top)` and the sum of `exp(score - top) * value`. "
            "What happens to both sums when a later block holds a larger score?",
            "They were measured from the old `top`. Multiply both by `exp(old top - new top)`, then add the block.",
            "Start with `top, total, weighted = -inf, 0, 0`; per block `new = max(top, its largest score)`, `shrink = "
            "exp(top - new)`, both sums `* shrink +` the block's own; at the end `weighted / total, top + log(total)`",
        ),
        check=Check(
            reference=streamed,
            cases=[
                ([[(0.0, 1.0), (1.0, 3.0)], [(2.0, -1.0)]],),
                ([[(0.0, 1.0)], [(1000.0, 2.0), (999.0, 0.0)]],),
                ([[(-1000.0, 2.0)], [(-1001.0, 4.0), (-999.5, 1.0)]],),
            ],
            random_cases=some_blocks,
            misconceptions=[
                Misconception(
                    "the old sums are not rescaled",
                    "They were measured from a smaller maximum. When a larger score arrives, both shrink by exp(old "
                    "maximum - new maximum).",
                    wrong=streamed_without(False, False),
                ),
                Misconception(
                    "only the denominator is rescaled",
                    "The weighted sum of values is measured from the same maximum, and must shrink with it.",
                    wrong=streamed_without(False, True),
                ),
                Misconception(
                    "only the numerator is rescaled",
                    "The sum of exponentials is measured from the same maximum, and must shrink with it.",
                    wrong=streamed_without(True, False),
                ),
                Misconception(
                    "blocks are averaged",
                    "A block with larger scores carries more of the softmax. The mean of the blocks' outputs forgets "
                    "that.",
                    wrong=averaged_blocks,
                ),
                Misconception(
                    "the maximum is not added back",
                    "The output is right. But log(sum of exp(score - top)) is the log-sum-exp minus top.",
                    wrong=lambda blocks: (
                        streamed(blocks)[0],
                        streamed(blocks)[1] - max(s for b in blocks for s, _ in b),
                    ),
                ),
                Misconception(
                    "exponentials overflow",
                    "The formula is right, but exp(1000) is infinite and exp(-1000) is zero. Take the largest score "
                    "out first.",
                    wrong=bare_exponentials,
                ),
            ],
        ),
        takeaway="Three numbers per query, however long the row: that is why flash attention needs no matrix.",
    ),
    Exercise(
        id="09.2",
        title="The merge that survives nothing",
        minutes=10,
        difficulty="medium",
        prompt=(
            "Merge `(out_a, lse_a)` with `(out_b, lse_b)`. Either side may be empty, and so may both: then its "
            "log-sum-exp is `-inf` and its output zeros. Empty and empty is empty again: zeros and `-inf`. "
            "Log-sum-exps may be as large as 1000."
        ),
        hints=(
            "What is `-inf - (-inf)`? Where in your formula can it appear?",
            "One empty side is no problem for `exp(lse - top)` with `top = max(lse_a, lse_b)`: exp(-inf) is 0. Only "
            "`top == -inf` is.",
            "`if top == -inf: return zeros, -inf`; else `a, b = exp(lse_a - top), exp(lse_b - top)`; `(a*x + b*y) / (a "
            "+ b)` and `top + log(a + b)`",
        ),
        check=Check(
            reference=merged,
            cases=[
                ([1.0, 0.0], 0.5, [3.0, 1.0], 1.5),
                ([0.0, 0.0], EMPTY, [3.0, 1.0], 1.5),
                ([1.0], 0.5, [0.0], EMPTY),
                ([0.0, 0.0], EMPTY, [0.0, 0.0], EMPTY),
                ([1.0], 1000.0, [3.0], 999.0),
            ],
            random_cases=some_sides,
            compare=same_part,
            misconceptions=[
                Misconception(
                    "two empty sides make no number",
                    "(-inf) - (-inf) is not a number. Nothing merged with nothing is nothing: ask for it first.",
                    wrong=merged_unguarded,
                ),
                Misconception(
                    "the log-sum-exp dies on an empty accumulator",
                    "The sigmoid form computes l - logsigmoid(l - l_b), and for l = -inf that is -inf + inf. The "
                    "output is right, so nobody notices before the next merge or the backward pass.",
                    wrong=merged_by_sigmoid,
                ),
                Misconception(
                    "an empty side has a log-sum-exp of 0",
                    "0 is the log-sum-exp of one key with score 0. Such a side takes its share of the weight, for an "
                    "output of zeros.",
                    wrong=merged_with_zero,
                ),
                Misconception(
                    "one empty side empties the result",
                    "An empty side weighs nothing; what the other side holds is the answer.",
                    wrong=merged_too_careful,
                ),
                Misconception(
                    "exponentials overflow",
                    "The formula is right, and exp(1000) is no number. Subtract the larger log-sum-exp first.",
                    wrong=merged_barely,
                ),
            ],
        ),
        takeaway=(
            "A merge needs one guard, before the subtraction. (This check runs forward only: a guard behind it passes "
            "here, and its gradient is no number.)"
        ),
    ),
    Exercise(
        id="09.3",
        title="A kernel that counts in twos",
        minutes=5,
        difficulty="easy",
        prompt=(
            "Your kernel gave block a the natural log-sum-exp `lse_a`. Another library's kernel gave block b `lse2_b`, "
            "the logarithm in base two of the same kind of sum. Return the share of b in the merged output, a number "
            "between 0 and 1."
        ),
        hints=(
            "Bring both to one base first. What is log2(x) in terms of ln(x)?",
            "`ln(x) = log2(x) * ln(2)`. Then the share is `exp(lse_b)` over the sum of both.",
            "`lse_b = lse2_b * log(2)`. Then divide the share's formula by `exp(lse_b)` above and below, so "
            "that only a difference is left in the exponent.",
        ),
        check=Check(
            reference=share_of_second,
            cases=[(0.0, 0.0), (1.0, 2.0), (3.0, 4.0)],
            random_cases=some_bases,
            misconceptions=[
                Misconception(
                    "two bases mixed",
                    "Nothing warns you: both are floats of the right shape. log2 has to be multiplied by ln(2).",
                    wrong=lambda lse_a, lse2_b: _weight(lse2_b, lse_a),
                ),
                Misconception(
                    "converted the wrong way",
                    "log2(x) = ln(x) / ln(2), so back it is a multiplication by ln(2) = 0.693.",
                    wrong=lambda lse_a, lse2_b: _weight(lse2_b / math.log(2), lse_a),
                ),
                Misconception(
                    "both sides converted",
                    "lse_a is natural already.",
                    wrong=lambda lse_a, lse2_b: _weight(lse2_b * math.log(2), lse_a * math.log(2)),
                ),
                Misconception(
                    "the share of the other block",
                    "This is what a keeps. The larger lse2_b, the larger the share of b.",
                    wrong=lambda lse_a, lse2_b: 1 - share_of_second(lse_a, lse2_b),
                ),
            ],
        ),
        takeaway="An LSE has a base, a shape and a precision, and no type says which. Check against a dense row.",
    ),
    Exercise(
        id="09.4",
        title="The gradient of a log-sum-exp",
        minutes=10,
        difficulty="hard",
        prompt=(
            "Two blocks are merged into `out`. The loss has the gradient `dout` with respect to that merged `out`. "
            "Return its derivative with respect to `lse_a`, one number. (This is what a kernel that detaches its "
            "log-sum-exp leaves out.)"
        ),
        hints=(
            "`out = w_a out_a + w_b out_b` with `w_a = exp(lse_a - lse)`. If lse_a grows, w_a grows and w_b shrinks: "
            "by how much?",
            "`d w_a / d lse_a = w_a (1 - w_a) = w_a w_b`, and `d w_b / d lse_a = -w_a w_b`. Put both into `out` and "
            "multiply with `dout`.",
            "`w_a * w_b * dot(dout, out_a - out_b)`, which is the same as `w_a * dot(dout, out_a - out)`",
        ),
        check=Check(
            reference=lse_gradient,
            cases=[
                ([1.0, 0.0], 0.5, [3.0, 1.0], 1.5, [1.0, -2.0]),
                ([2.0], 0.0, [-1.0], 0.0, [1.0]),
            ],
            random_cases=some_merge,
            misconceptions=[
                Misconception(
                    "the log-sum-exp is a constant",
                    "It decides how the blocks are weighed, and it depends on q and k. With zero here the forward is "
                    "exact, dv is exact, and dq and dk are wrong without a warning.",
                    wrong=lambda out_a, lse_a, out_b, lse_b, dout: 0.0,
                ),
                Misconception(
                    "the other block keeps its weight",
                    "Weights sum to one: what a gains, b loses. Subtract the merged output.",
                    wrong=lambda out_a, lse_a, out_b, lse_b, dout: _weight(lse_a, lse_b) * dot(dout, out_a),
                ),
                Misconception(
                    "the difference to the other block, weighed once",
                    "out_a - out is w_b (out_a - out_b): the weight of b is missing.",
                    wrong=lambda out_a, lse_a, out_b, lse_b, dout: (
                        _weight(lse_a, lse_b) * (dot(dout, out_a) - dot(dout, out_b))
                    ),
                ),
                Misconception(
                    "not weighed by the block's own share",
                    "A block with hardly any weight has hardly any gradient. Multiply by w_a = exp(lse_a - lse).",
                    wrong=lambda out_a, lse_a, out_b, lse_b, dout: (
                        dot(dout, out_a) - dot(dout, merged(out_a, lse_a, out_b, lse_b)[0])
                    ),
                ),
                Misconception(
                    "the wrong sign",
                    "If a's output is worth more to the loss than the merged one, weighing it more makes the loss "
                    "grow.",
                    wrong=lambda *inputs: -lse_gradient(*inputs),
                ),
            ],
        ),
        takeaway="With one key as a block (out = v, lse = its score) this is the gradient of a score.",
    ),
    Exercise(
        id="09.5",
        title="One block's share of the gradient",
        minutes=12,
        difficulty="hard",
        prompt=(
            "One query `q`. A block holds `keys` and `values` (lists of vectors), scores are `scale * dot(q, key)`. "
            "`own` is this block's `(out, lse)`, `whole` the `(out, lse)` merged over all blocks, and `dout` the "
            "gradient of the loss with respect to the merged output. Return `(dq, dk, dv)`: what this block adds to "
            "the gradient of `q`, and the gradients of its keys and values. The shares of all blocks must add up to "
            "the gradient of one softmax over all keys."
        ),
        hints=(
            "How much of the whole softmax does one key of this block hold?",
            "`p = exp(score - lse)` with the merged lse. Then the usual backward: `dv = p * dout`, `ds = p * "
            "(dot(dout, v) - D)`, where D is one number per query: dot(dout, out), again with the merged one.",
            "`ds = p * (dot(dout, v) - dot(dout, out)) * scale`; `dq = sum of ds * key`, `dk = ds * q`, `dv = p * "
            "dout`, all with `out, lse = whole`",
        ),
        check=Check(
            reference=block_share,
            cases=[
                (
                    [1.0, 0.5],
                    [[0.5, 0.0], [-0.5, 0.0]],
                    _VALUES,
                    [0.3, -1.0],
                    1.0,
                    _OWN,
                    merged(*_OWN, [-1.0, 0.5], 0.8),
                ),
                ([2.0], [[0.5]], [[1.5]], [1.0], 0.5, ([1.5], 0.5), merged([1.5], 0.5, [-0.5], 0.5)),
            ],
            random_cases=some_query,
            misconceptions=[
                Misconception(
                    "the block's own output and log-sum-exp",
                    "That is the gradient of a softmax over this block alone: its weights sum to 1 in every block, and "
                    "the shares add up to several wholes.",
                    wrong=lambda q, keys, values, dout, scale, own, whole: share_with(
                        q, keys, values, dout, scale, *own
                    ),
                ),
                Misconception(
                    "the block's own log-sum-exp",
                    "The weights must be those of the whole softmax: exp(score - merged lse).",
                    wrong=lambda q, keys, values, dout, scale, own, whole: share_with(
                        q, keys, values, dout, scale, whole[0], own[1]
                    ),
                ),
                Misconception(
                    "the block's own output in D",
                    "dv is right. D is one number per query, dot(dout, merged out), the same for all blocks.",
                    wrong=lambda q, keys, values, dout, scale, own, whole: share_with(
                        q, keys, values, dout, scale, own[0], whole[1]
                    ),
                ),
                Misconception(
                    "D is left out",
                    "Weights sum to one: a larger score for one key takes weight from all others. That is the - D.",
                    wrong=lambda q, keys, values, dout, scale, own, whole: share_with(
                        q, keys, values, dout, scale, None, whole[1]
                    ),
                ),
                Misconception(
                    "the scale is forgotten",
                    "score = scale * dot(q, key), so dq and dk carry the factor, too.",
                    wrong=lambda q, keys, values, dout, scale, own, whole: share_with(
                        q, keys, values, dout, scale, *whole, scaled=False
                    ),
                ),
            ],
        ),
        takeaway="So nothing is kept per block: each block's ordinary flash backward, fed with the merged pair.",
    ),
)
