"""Answers to the exercises of notebook 01."""

import math
from itertools import accumulate, pairwise

from tests.mutants.harness import Answers, Wrong

# 01.1 tokens per step from a per-token alpha


def closed_form(alpha, k):
    return (1 - alpha ** (k + 1)) / (1 - alpha)


def by_weighing_each_outcome(alpha, k):
    full = (k + 1) * alpha**k
    return full + sum((n + 1) * alpha**n * (1 - alpha) for n in range(k))


def by_recursion(alpha, k):
    return 1 + (alpha * by_recursion(alpha, k - 1) if k else 0)


def linear(alpha, k):
    return 1 + alpha * k


def without_bonus(alpha, k):
    return alpha * (1 - alpha**k) / (1 - alpha)


def one_term_short(alpha, k):
    return (1 - alpha**k) / (1 - alpha)


def all_or_nothing(alpha, k):
    return 1 + alpha**k * k


def endless(alpha, k):
    return 1 / (1 - alpha)


def second_pass_charged(alpha, k):
    """Divides by the forwards of a world in which a rejection costs a second pass."""
    return closed_form(alpha, k) / (2 - alpha**k)


def rounded(alpha, k):
    return round(closed_form(alpha, k))


# 01.3 alpha for a wanted speedup


def solved(target, k, overhead):
    alpha = (target * (1 + overhead) - 1) / k
    return None if alpha > 1 else alpha


def by_bisection(target, k, overhead):
    if (1 + k) / (1 + overhead) < target:
        return None
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 + k * middle) / (1 + overhead) < target else (low, middle)
    return (low + high) / 2


def no_overhead(target, k, overhead):
    alpha = (target - 1) / k
    return alpha if alpha <= 1 else None


def no_own_token(target, k, overhead):
    alpha = target * (1 + overhead) / k
    return alpha if alpha <= 1 else None


def per_token(target, k, overhead):
    goal = target * (1 + overhead)
    if goal > k + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(middle**i for i in range(k + 1)) < goal else (low, middle)
    return low


def above_one(target, k, overhead):
    return (target * (1 + overhead) - 1) / k


def clipped(target, k, overhead):
    return min(1.0, (target * (1 + overhead) - 1) / k)


def limit_without_overhead(target, k, overhead):
    return (target * (1 + overhead) - 1) / k if target <= k + 1 else None


def divided_by_k_plus_one(target, k, overhead):
    alpha = (target * (1 + overhead) - 1) / (k + 1)
    return alpha if alpha <= 1 else None


# 01.2 per-position rates


def with_pairwise(rates):
    return 1 + math.fsum(rates), [b / a for a, b in pairwise([1.0, *rates])]


def with_numpy(rates):
    import numpy as np

    survival = np.concatenate([[1.0], rates])
    return float(survival.sum()), survival[1:] / survival[:-1]


def as_conditional(rates):
    return 1 + sum(accumulate(rates, lambda a, b: a * b)), rates


def rates_without_bonus(rates):
    return sum(rates), with_pairwise(rates)[1]


def over_the_first(rates):
    return 1 + sum(rates), [rates[0]] + [r / rates[0] for r in rates[1:]]


def copied(rates):
    return 1 + sum(rates), list(rates)


def mean_rate(rates):
    return sum(rates) / len(rates), with_pairwise(rates)[1]


def inverted(rates):
    return 1 + sum(rates), [a / b for a, b in pairwise([1.0, *rates])]


def length_only(rates):
    return 1 + sum(rates)


# 01.4 mixed traffic


def by_steps(shares, alphas, k):
    steps = [s / (1 + k * a) for s, a in zip(shares, alphas, strict=True)]
    return sum(n * a for n, a in zip(steps, alphas, strict=True)) / sum(steps)


def from_the_mixed_length(shares, alphas, k):
    length = 1 / sum(s / (1 + k * a) for s, a in zip(shares, alphas, strict=True))
    return (length - 1) / k


def plain_average(shares, alphas, k):
    return sum(s * a for s, a in zip(shares, alphas, strict=True))


def drafts_without_own_token(shares, alphas, k):
    steps = [s / (k * a) for s, a in zip(shares, alphas, strict=True)]
    return sum(n * a for n, a in zip(steps, alphas, strict=True)) / sum(steps)


def wrong_way_round(shares, alphas, k):
    steps = [s * (1 + k * a) for s, a in zip(shares, alphas, strict=True)]
    return sum(n * a for n, a in zip(steps, alphas, strict=True)) / sum(steps)


def unweighted(shares, alphas, k):
    return sum(alphas) / len(alphas)


def mixed_tokens_per_step(shares, alphas, k):
    return 1 + k * by_steps(shares, alphas, k)


def geometric_mean(shares, alphas, k):
    return math.prod(a**s for s, a in zip(shares, alphas, strict=True))


def first_and_last(shares, alphas, k):
    return by_steps([shares[0], shares[-1]], [alphas[0], alphas[-1]], k)


def the_worst(shares, alphas, k):
    return min(alphas)


ANSWERS = {
    "01.1": Answers(
        right=(closed_form, by_weighing_each_outcome, by_recursion),
        wrong=(
            Wrong(linear, "this is 1 + K * alpha"),
            Wrong(without_bonus, "the bonus token is missing"),
            Wrong(one_term_short, "the last drafted token is missing"),
            Wrong(all_or_nothing, "all or nothing"),
            Wrong(endless, "an endless draft"),
            Wrong(second_pass_charged),
            Wrong(rounded),
        ),
    ),
    "01.3": Answers(
        right=(solved, by_bisection),
        wrong=(
            Wrong(no_overhead, "the overhead is missing"),
            Wrong(no_own_token, "the target's own token is missing"),
            Wrong(per_token, "this is a per-token alpha"),
            Wrong(above_one, "a rate above 1"),
            Wrong(clipped),
            Wrong(limit_without_overhead),
            Wrong(divided_by_k_plus_one),
        ),
    ),
    "01.2": Answers(
        right=(with_pairwise, with_numpy),
        wrong=(
            Wrong(as_conditional, "the rates are read as conditional"),
            Wrong(rates_without_bonus, "the target's own token is missing"),
            Wrong(over_the_first, "divided by the first rate"),
            Wrong(copied, "survival and conditional are the same list"),
            Wrong(mean_rate, "this is accepted/drafted"),
            Wrong(inverted),
            Wrong(length_only),
        ),
    ),
    "01.4": Answers(
        right=(by_steps, from_the_mixed_length),
        wrong=(
            Wrong(plain_average, "the plain average"),
            Wrong(drafts_without_own_token, "steps counted without the target's own token"),
            Wrong(wrong_way_round, "weighted the wrong way round"),
            Wrong(unweighted, "the shares are ignored"),
            Wrong(mixed_tokens_per_step, "this is tokens per step"),
            Wrong(geometric_mean),
            Wrong(the_worst),
            Wrong(first_and_last),
        ),
    ),
}
