"""Answers to the exercises of notebook 09."""

import math

import numpy as np

from tests.mutants.harness import Answers, Wrong

# 09.1 softmax block by block


def three_numbers(blocks):
    top, total, weighted = -math.inf, 0.0, 0.0
    for block in blocks:
        new = max([top, *(s for s, _ in block)])
        shrink = math.exp(top - new)
        total = total * shrink + sum(math.exp(s - new) for s, _ in block)
        weighted = weighted * shrink + sum(math.exp(s - new) * v for s, v in block)
        top = new
    return weighted / total, top + math.log(total)


def by_merging(blocks):
    """Each block's softmax, weighed by its log-sum-exp."""
    outs, lses = [], []
    for block in blocks:
        s, v = np.array(block).T
        lses.append(float(np.logaddexp.reduce(s)))
        outs.append(float(np.exp(s - lses[-1]) @ v))
    lse = np.logaddexp.reduce(lses)
    return np.exp(np.array(lses) - lse) @ np.array(outs), lse


def key_by_key(blocks):
    top, total, weighted = -math.inf, 0.0, 0.0
    for score, value in (pair for block in blocks for pair in block):
        new = max(top, score)
        total = total * math.exp(top - new) + math.exp(score - new)
        weighted = weighted * math.exp(top - new) + math.exp(score - new) * value
        top = new
    return weighted / total, top + math.log(total)


def never_shrinks(blocks):
    top, total, weighted = -math.inf, 0.0, 0.0
    for block in blocks:
        top = max([top, *(s for s, _ in block)])
        total += sum(math.exp(s - top) for s, _ in block)
        weighted += sum(math.exp(s - top) * v for s, v in block)
    return weighted / total, top + math.log(total)


def _shrinking(numerator, denominator):
    def answer(blocks):
        top, total, weighted = -math.inf, 0.0, 0.0
        for block in blocks:
            new = max([top, *(s for s, _ in block)])
            shrink = math.exp(top - new)
            total = total * (shrink if denominator else 1) + sum(math.exp(s - new) for s, _ in block)
            weighted = weighted * (shrink if numerator else 1) + sum(math.exp(s - new) * v for s, v in block)
            top = new
        return weighted / total, top + math.log(total)

    return answer


def only_the_denominator(blocks):
    return _shrinking(False, True)(blocks)


def only_the_numerator(blocks):
    return _shrinking(True, False)(blocks)


def mean_of_outputs(blocks):
    return float(np.mean([three_numbers([b])[0] for b in blocks])), three_numbers(blocks)[1]


def no_maximum_back(blocks):
    out, lse = three_numbers(blocks)
    return out, lse - max(s for b in blocks for s, _ in b)


def numpy_overflow(blocks):
    scores, values = np.array([pair for block in blocks for pair in block]).T
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        e = np.exp(scores)
        return (e @ values) / e.sum(), np.log(e.sum())


def last_block_only(blocks):
    return three_numbers(blocks[-1:])


# 09.2 the merge that survives nothing


def guarded(out_a, lse_a, out_b, lse_b):
    top = max(lse_a, lse_b)
    if top == -math.inf:
        return [0.0 for _ in out_a], top
    a, b = math.exp(lse_a - top), math.exp(lse_b - top)
    return [(a * x + b * y) / (a + b) for x, y in zip(out_a, out_b, strict=True)], top + math.log(a + b)


def one_side_after_the_other(out_a, lse_a, out_b, lse_b):
    if math.isinf(lse_a):
        return out_b, lse_b
    if math.isinf(lse_b):
        return out_a, lse_a
    lse = float(np.logaddexp(lse_a, lse_b))
    return np.array(out_a) * np.exp(lse_a - lse) + np.array(out_b) * np.exp(lse_b - lse), lse


def textbook(out_a, lse_a, out_b, lse_b):
    with np.errstate(invalid="ignore"):
        lse = np.logaddexp(lse_a, lse_b)
        return np.array(out_a) * np.exp(lse_a - lse) + np.array(out_b) * np.exp(lse_b - lse), lse


def sigmoid_form(out_a, lse_a, out_b, lse_b):
    with np.errstate(invalid="ignore", over="ignore"):
        share = np.exp(-np.logaddexp(0, np.float64(lse_a) - lse_b))
        out = np.array(out_a) - share * (np.array(out_a) - np.array(out_b))
        return out, lse_a + np.logaddexp(0, np.float64(lse_b) - lse_a)


def zero_for_empty(out_a, lse_a, out_b, lse_b):
    return guarded(out_a, max(lse_a, 0.0) if math.isinf(lse_a) else lse_a, out_b, 0.0 if math.isinf(lse_b) else lse_b)


def empties_everything(out_a, lse_a, out_b, lse_b):
    if math.isinf(lse_a) or math.isinf(lse_b):
        return [0.0] * len(out_a), -math.inf
    return guarded(out_a, lse_a, out_b, lse_b)


def overflowing(out_a, lse_a, out_b, lse_b):
    if max(lse_a, lse_b) == -math.inf:
        return [0.0] * len(out_a), -math.inf
    with np.errstate(over="ignore", invalid="ignore"):
        a, b = np.exp(np.array([lse_a, lse_b]))
        return (a * np.array(out_a) + b * np.array(out_b)) / (a + b), float(np.log(a + b))


def averages(out_a, lse_a, out_b, lse_b):
    return [(x + y) / 2 for x, y in zip(out_a, out_b, strict=True)], guarded(out_a, lse_a, out_b, lse_b)[1]


# 09.3 a kernel that counts in twos


def converted(lse_a, lse2_b):
    lse_b = lse2_b * math.log(2)
    return math.exp(lse_b) / (math.exp(lse_a) + math.exp(lse_b))


def sums_directly(lse_a, lse2_b):
    return 2**lse2_b / (math.exp(lse_a) + 2**lse2_b)


def mixed(lse_a, lse2_b):
    return math.exp(lse2_b) / (math.exp(lse_a) + math.exp(lse2_b))


def wrong_way(lse_a, lse2_b):
    return 1 / (1 + math.exp(lse_a - lse2_b / math.log(2)))


def both_converted(lse_a, lse2_b):
    return 2**lse2_b / (2**lse_a + 2**lse2_b)


def other_share(lse_a, lse2_b):
    return 1 - converted(lse_a, lse2_b)


def ratio(lse_a, lse2_b):
    return 2**lse2_b / math.exp(lse_a)


# 09.4 the gradient of a log-sum-exp


def weights(lse_a, lse_b):
    a = 1 / (1 + math.exp(lse_b - lse_a))
    return a, 1 - a


def by_difference(out_a, lse_a, out_b, lse_b, dout):
    a, b = weights(lse_a, lse_b)
    return a * b * sum(d * (x - y) for d, x, y in zip(dout, out_a, out_b, strict=True))


def by_finite_difference(out_a, lse_a, out_b, lse_b, dout):
    def loss(lse):
        return float(np.dot(dout, guarded(out_a, lse, out_b, lse_b)[0]))

    h = 1e-5
    return (8 * (loss(lse_a + h) - loss(lse_a - h)) - loss(lse_a + 2 * h) + loss(lse_a - 2 * h)) / (12 * h)


def by_autograd(out_a, lse_a, out_b, lse_b, dout):
    import torch

    lse = torch.tensor(lse_a, dtype=torch.float64, requires_grad=True)
    w = torch.sigmoid(lse - lse_b)
    a, b, d = (torch.tensor(x, dtype=torch.float64) for x in (out_a, out_b, dout))
    (w * a @ d + (1 - w) * b @ d).backward()
    return lse.grad


def constant(out_a, lse_a, out_b, lse_b, dout):
    return 0.0


def other_keeps_its_weight(out_a, lse_a, out_b, lse_b, dout):
    return weights(lse_a, lse_b)[0] * float(np.dot(dout, out_a))


def weighed_once(out_a, lse_a, out_b, lse_b, dout):
    return weights(lse_a, lse_b)[0] * float(np.dot(dout, np.array(out_a) - np.array(out_b)))


def not_weighed(out_a, lse_a, out_b, lse_b, dout):
    return float(np.dot(dout, np.array(out_a) - guarded(out_a, lse_a, out_b, lse_b)[0]))


def wrong_sign(out_a, lse_a, out_b, lse_b, dout):
    return -by_difference(out_a, lse_a, out_b, lse_b, dout)


def of_the_merged_lse(out_a, lse_a, out_b, lse_b, dout):
    return weights(lse_a, lse_b)[0]


# 09.5 one block's share


def _share(q, keys, values, dout, scale, out, lse, drop=True, scaled=True):
    q, k, v, d = (np.array(x) for x in (q, keys, values, dout))
    p = np.exp(scale * (k @ q) - lse)
    ds = p * (v @ d - (d @ np.array(out) if drop else 0)) * (scale if scaled else 1)
    return ds @ k, np.outer(ds, q), np.outer(p, d)


def by_arrays(q, keys, values, dout, scale, own, whole):
    return _share(q, keys, values, dout, scale, *whole)


def rescaled_own_softmax(q, keys, values, dout, scale, own, whole):
    """The block's own probabilities, times the block's share of the row."""
    k, v, d = (np.array(x) for x in (keys, values, dout))
    p = np.exp(scale * (k @ np.array(q)) - own[1]) * np.exp(own[1] - whole[1])
    ds = scale * p * ((v - np.array(whole[0])) @ d)
    return (ds[:, None] * k).sum(0).tolist(), [list(x * np.array(q)) for x in ds], [list(x * d) for x in p]


def own_pair(q, keys, values, dout, scale, own, whole):
    return _share(q, keys, values, dout, scale, *own)


def own_lse(q, keys, values, dout, scale, own, whole):
    return _share(q, keys, values, dout, scale, whole[0], own[1])


def own_out(q, keys, values, dout, scale, own, whole):
    return _share(q, keys, values, dout, scale, own[0], whole[1])


def without_d(q, keys, values, dout, scale, own, whole):
    return _share(q, keys, values, dout, scale, *whole, drop=False)


def without_scale(q, keys, values, dout, scale, own, whole):
    return _share(q, keys, values, dout, scale, *whole, scaled=False)


def key_and_value_exchanged(q, keys, values, dout, scale, own, whole):
    dq, dk, dv = _share(q, keys, values, dout, scale, *whole)
    return dq, dv, dk


ANSWERS = {
    "09.1": Answers(
        right=(three_numbers, by_merging, key_by_key),
        wrong=(
            Wrong(never_shrinks, "the old sums are not rescaled"),
            Wrong(only_the_denominator, "only the denominator is rescaled"),
            Wrong(only_the_numerator, "only the numerator is rescaled"),
            Wrong(mean_of_outputs, "blocks are averaged"),
            Wrong(no_maximum_back, "the maximum is not added back"),
            Wrong(numpy_overflow, "exponentials overflow"),
            Wrong(last_block_only),
        ),
    ),
    "09.2": Answers(
        right=(guarded, one_side_after_the_other),
        wrong=(
            Wrong(textbook, "two empty sides make no number"),
            Wrong(sigmoid_form, "the log-sum-exp dies on an empty accumulator"),
            Wrong(zero_for_empty, "an empty side has a log-sum-exp of 0"),
            Wrong(empties_everything, "one empty side empties the result"),
            Wrong(overflowing, "exponentials overflow"),
            Wrong(averages),
        ),
    ),
    "09.3": Answers(
        right=(converted, sums_directly),
        wrong=(
            Wrong(mixed, "two bases mixed"),
            Wrong(wrong_way, "converted the wrong way"),
            Wrong(both_converted, "both sides converted"),
            Wrong(other_share, "the share of the other block"),
            Wrong(ratio),
        ),
    ),
    "09.4": Answers(
        right=(by_difference, by_finite_difference, by_autograd),
        wrong=(
            Wrong(constant, "the log-sum-exp is a constant"),
            Wrong(other_keeps_its_weight, "the other block keeps its weight"),
            Wrong(weighed_once, "the difference to the other block, weighed once"),
            Wrong(not_weighed, "not weighed by the block's own share"),
            Wrong(wrong_sign, "the wrong sign"),
            Wrong(of_the_merged_lse),
        ),
    ),
    "09.5": Answers(
        right=(by_arrays, rescaled_own_softmax),
        wrong=(
            Wrong(own_pair, "the block's own output and log-sum-exp"),
            Wrong(own_lse, "the block's own log-sum-exp"),
            Wrong(own_out, "the block's own output in D"),
            Wrong(without_d, "D is left out"),
            Wrong(without_scale, "the scale is forgotten"),
            Wrong(key_and_value_exchanged),
        ),
    ),
}
