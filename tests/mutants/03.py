"""Answers to the exercises of notebook 03."""

from fractions import Fraction
from itertools import takewhile

import numpy as np
import torch

from tests.mutants.harness import Answers, Wrong

# 03.1 keep the drafted token?


def ratio_at_most_one(p, q):
    return p / q if p < q else 1


def exact_fraction(p, q):
    return float(min(Fraction(1), Fraction(p) / Fraction(q)))


def upside_down(p, q):
    return min(1, q / p) if p > 0 else 1


def threshold(p, q):
    return 1 if p >= q else 0


def threshold_strict(p, q):
    return 1.0 if p > q else p / q / 2


def only_p(p, q):
    return p


def unbounded(p, q):
    return p / q


def product(p, q):
    return p * q


def difference(p, q):
    return max(0.0, min(1.0, 1 - (q - p)))


# 03.2 the residual


def missing_amounts(p, q):
    left = np.clip(np.array(p) - np.array(q), 0, None)
    return left / left.sum()


def missing_by_overlap(p, q):
    """p minus the overlap, over the chance of a rejection."""
    overlap = [min(a, b) for a, b in zip(p, q, strict=True)]
    return [(a - o) / (1 - sum(overlap)) for a, o in zip(p, overlap, strict=True)]


def in_torch(p, q):
    left = (torch.tensor(p) - torch.tensor(q)).clamp(min=0)
    return left / left.sum()


def not_normalised(p, q):
    return [a - b if a > b else 0 for a, b in zip(p, q, strict=True)]


def from_p(p, q):
    return p


def swapped(p, q):
    return missing_amounts(q, p)


def absolute(p, q):
    left = [abs(a - b) for a, b in zip(p, q, strict=True)]
    return [x / sum(left) for x in left]


def from_q(p, q):
    return q


def softmax_of_the_rest(p, q):
    left = np.exp(np.clip(np.array(p) - np.array(q), 0, None))
    return left / left.sum()


def p_where_larger(p, q):
    left = [a if a > b else 0 for a, b in zip(p, q, strict=True)]
    return [x / sum(left) for x in left]


def divided_by_one_minus_q(p, q):
    return [max(0, a - b) / (1 - b) for a, b in zip(p, q, strict=True)]


# 03.3 what one step emits


def two_ways(p, q, r):
    out = []
    reject = sum(b * (1 - min(1, a / b)) for a, b in zip(p, q, strict=True))
    for a, b, c in zip(p, q, r, strict=True):
        out.append(b * min(1, a / b) + reject * c)
    return out


def over_all_drafts(p, q, r):
    """Every drafted word in turn: kept, or replaced by each word of r."""
    p, q, r = map(np.array, (p, q, r))
    out = np.zeros(len(p))
    for drafted in range(len(p)):
        keep = min(1.0, p[drafted] / q[drafted])
        out[drafted] += q[drafted] * keep
        out += q[drafted] * (1 - keep) * r
    return out


def believes(p, q, r):
    return list(p)


def redraw_unweighted(p, q, r):
    return [min(a, b) + c for a, b, c in zip(p, q, r, strict=True)]


def kept_only(p, q, r):
    return [min(a, b) for a, b in zip(p, q, strict=True)]


def kept_renormalised(p, q, r):
    kept = [min(a, b) for a, b in zip(p, q, strict=True)]
    return [k / sum(kept) for k in kept]


def own_rejection(p, q, r):
    return [min(a, b) + max(0, b - a) * c for a, b, c in zip(p, q, r, strict=True)]


def by_threshold(p, q, r):
    kept = [b if a >= b else 0 for a, b in zip(p, q, strict=True)]
    return [k + (1 - sum(kept)) * c for k, c in zip(kept, r, strict=True)]


def always_redrawn(p, q, r):
    return r


def average_of_both(p, q, r):
    return [(a + c) / 2 for a, c in zip(p, r, strict=True)]


# 03.4 acceptance


def overlap(p, q):
    return sum(min(a, b) for a, b in zip(p, q, strict=True))


def one_minus_tv(p, q):
    return 1 - np.abs(np.array(p) - np.array(q)).sum() / 2


def same_draw(p, q):
    return sum(a * b for a, b in zip(p, q, strict=True))


def whole_difference(p, q):
    return 1 - sum(abs(a - b) for a, b in zip(p, q, strict=True))


def unweighted(p, q):
    return float(np.mean([min(1, a / b) if b else 1 for a, b in zip(p, q, strict=True)]))


def weighted_with_p(p, q):
    return sum(a * (min(1, a / b) if b else 1) for a, b in zip(p, q, strict=True))


def distance(p, q):
    return sum(max(0, b - a) for a, b in zip(p, q, strict=True))


def argmaxes_agree(p, q):
    return float(np.argmax(p) == np.argmax(q))


def worst_ratio(p, q):
    return min(min(1, a / b) if b else 1 for a, b in zip(p, q, strict=True))


# 03.5 a draft that does not draw


def by_index(p, q):
    x = q.index(max(q))
    left = [a for i, a in enumerate(p) if i != x]
    after = [a / sum(left) for a in left]
    return p[x], [*after[:x], 0.0, *after[x:]]


def by_a_point_mass(p, q):
    """The rules of 03.1 and 03.2 with q all on one word."""
    point = np.eye(len(q))[int(np.argmax(q))]
    chance = float(np.minimum(p, point).sum())
    left = np.clip(np.array(p) - point, 0, None)
    return [chance, left / left.sum()]


def first_choice_as_a_draw(p, q):
    x = int(np.argmax(q))
    return min(1, p[x] / q[x]), missing_amounts(p, q)


def first_choice_by_overlap(p, q):
    return one_minus_tv(p, q), by_index(p, q)[1]


def first_choice_greedy(p, q):
    return float(np.argmax(p) == np.argmax(q)), by_index(p, q)[1]


def first_choice_redrawn(p, q):
    return p[q.index(max(q))], p


def first_choice_residual(p, q):
    return p[q.index(max(q))], missing_by_overlap(p, q) if p != q else p


def first_choice_unnormalised(p, q):
    x = int(np.argmax(q))
    return p[x], [a if i != x else 0 for i, a in enumerate(p)]


def first_choice_from_q(p, q):
    x = int(np.argmax(q))
    return p[x], [0 if i == x else b / (1 - q[x]) for i, b in enumerate(q)]


def first_choice_of_the_target(p, q):
    return by_index(p, p)


def chance_only(p, q):
    return p[q.index(max(q))]


# 03.6 a greedy step


def walk(draft, choices):
    out = []
    for token, choice in zip(draft, choices, strict=False):
        if token != choice:
            break
        out.append(token)
    out.append(choices[len(out)])
    return out


def with_takewhile(draft, choices):
    n = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(draft, choices, strict=False))))
    return list(choices[: n + 1])


def keeps_later_matches(draft, choices):
    same = [token for token, choice in zip(draft, choices, strict=False) if token == choice]
    return [*same, choices[len(same)]]


def no_correction(draft, choices):
    return walk(draft, choices)[:-1]


def last_row(draft, choices):
    return [*walk(draft, choices)[:-1], choices[-1]]


def row_before(draft, choices):
    n = len(walk(draft, choices)) - 1
    return [*draft[:n], choices[max(n - 1, 0)]]


def trusting(draft, choices):
    return [*draft, choices[-1]]


def no_bonus(draft, choices):
    out = walk(draft, choices)
    return out if len(out) <= len(draft) else out[: max(1, len(draft))]


def all_or_nothing(draft, choices):
    return [*draft, choices[-1]] if list(draft) == list(choices[:-1]) else [choices[0]]


def as_set(draft, choices):
    return set(walk(draft, choices))


def off_by_one_compare(draft, choices):
    n = 0
    while n < len(draft) and draft[n] == choices[n + 1]:
        n += 1
    return [*draft[:n], choices[n]]


# 03.7 the best K


def try_all(survival, forward_ms, draft_ms):
    best = (0, 1.0)
    for k in range(1, len(survival) + 1):
        speedup = (1 + sum(survival[:k])) / ((forward_ms[k] + k * draft_ms) / forward_ms[0])
        if speedup > best[1]:
            best = (k, speedup)
    return best


def with_numpy(survival, forward_ms, draft_ms):
    ks = np.arange(len(survival) + 1)
    tokens = 1 + np.concatenate([[0], np.cumsum(survival)])
    speedups = tokens * forward_ms[0] / (np.array(forward_ms[: len(ks)]) + ks * draft_ms)
    return int(speedups.argmax()), float(speedups.max())


def variant(own=1, short=0, per_token=True, second=False, draft=1.0):
    def answer(survival, forward_ms, draft_ms):
        best = (0, 1.0)
        for k in range(1, len(survival) + 1):
            time = forward_ms[k - short] + draft * draft_ms * (k if per_token else 1)
            if second:
                time += (1 - survival[k - 1]) * forward_ms[0]
            speedup = (own + sum(survival[:k])) * forward_ms[0] / time
            best = max(best, (k, speedup), key=lambda pair: pair[1])
        return best

    return answer


def longest(survival, forward_ms, draft_ms):
    k = len(survival)
    return k, (1 + sum(survival)) * forward_ms[0] / (forward_ms[k] + k * draft_ms)


def most_tokens_per_millisecond(survival, forward_ms, draft_ms):
    k, speedup = try_all(survival, forward_ms, draft_ms)
    return k, speedup / forward_ms[0]


def never_zero(survival, forward_ms, draft_ms):
    speedups = [
        (1 + sum(survival[:k])) * forward_ms[0] / (forward_ms[k] + k * draft_ms) for k in range(1, len(survival) + 1)
    ]
    best = max(range(len(speedups)), key=speedups.__getitem__)
    return best + 1, speedups[best]


def only_k(survival, forward_ms, draft_ms):
    return try_all(survival, forward_ms, draft_ms)[0]


ANSWERS = {
    "03.1": Answers(
        right=(ratio_at_most_one, exact_fraction),
        wrong=(
            Wrong(upside_down, "the ratio is upside down"),
            Wrong(threshold, "accept if and only if p >= q"),
            Wrong(only_p, "the draft's probability is ignored"),
            Wrong(unbounded, "a chance above 1"),
            Wrong(threshold_strict),
            Wrong(product),
            Wrong(difference),
        ),
    ),
    "03.2": Answers(
        right=(missing_amounts, missing_by_overlap, in_torch),
        wrong=(
            Wrong(not_normalised, "the residual is not renormalised"),
            Wrong(from_p, "redrawn from p"),
            Wrong(swapped, "p and q are swapped"),
            Wrong(absolute, "absolute differences"),
            Wrong(from_q, "redrawn from the draft"),
            Wrong(softmax_of_the_rest),
            Wrong(p_where_larger),
            Wrong(divided_by_one_minus_q),
        ),
    ),
    "03.3": Answers(
        right=(two_ways, over_all_drafts),
        wrong=(
            Wrong(believes, "it is always p"),
            Wrong(redraw_unweighted, "the redraw is not weighted"),
            Wrong(kept_only, "rejected words vanish"),
            Wrong(own_rejection, "each word is replaced by itself"),
            Wrong(by_threshold, "kept only where p >= q"),
            Wrong(kept_renormalised),
            Wrong(always_redrawn),
            Wrong(average_of_both),
        ),
    ),
    "03.4": Answers(
        right=(overlap, one_minus_tv),
        wrong=(
            Wrong(same_draw, "both draw the same word by chance"),
            Wrong(whole_difference, "half of the difference is forgotten"),
            Wrong(unweighted, "all words weigh the same"),
            Wrong(weighted_with_p, "weighted with p"),
            Wrong(distance, "this is the chance of a rejection"),
            Wrong(argmaxes_agree),
            Wrong(worst_ratio),
        ),
    ),
    "03.5": Answers(
        right=(by_index, by_a_point_mass),
        wrong=(
            Wrong(first_choice_as_a_draw, "judged as if it had been drawn"),
            Wrong(first_choice_by_overlap, "the overlap of p and q"),
            Wrong(first_choice_greedy, "kept if the target likes it best"),
            Wrong(first_choice_redrawn, "redrawn from p"),
            Wrong(first_choice_residual, "redrawn from max(0, p - q)"),
            Wrong(first_choice_unnormalised, "what is left is not renormalised"),
            Wrong(first_choice_from_q, "the draft's word is dropped from q instead of p"),
            Wrong(first_choice_of_the_target),
            Wrong(chance_only),
        ),
    ),
    "03.6": Answers(
        right=(walk, with_takewhile),
        wrong=(
            Wrong(keeps_later_matches, "matches after a mismatch are kept"),
            Wrong(no_correction, "the correction is missing"),
            Wrong(last_row, "the last row instead of the row after the accepted tokens"),
            Wrong(row_before, "the row is off by one"),
            Wrong(trusting, "the draft is believed"),
            Wrong(no_bonus, "no bonus token"),
            Wrong(all_or_nothing),
            Wrong(as_set),
            Wrong(off_by_one_compare),
        ),
    ),
    "03.7": Answers(
        right=(try_all, with_numpy),
        wrong=(
            Wrong(variant(own=0), "the target's own token is missing"),
            Wrong(variant(short=1), "the verify pass is one token short"),
            Wrong(variant(per_token=False), "the draft is paid once"),
            Wrong(variant(draft=0.0), "drafting is free"),
            Wrong(variant(second=True), "a rejection is charged a second pass"),
            Wrong(longest, "the longest draft"),
            Wrong(most_tokens_per_millisecond),
            Wrong(never_zero),
            Wrong(only_k),
        ),
    ),
}
