"""Answers to the exercises of notebook 06."""

import math

import numpy as np

from tests.mutants.harness import Answers, Wrong

# 06.1 who sees whom


def by_rule(length, step):
    mask = [[j <= t if b == 0 else j == t for b in range(step + 1) for j in range(length)] for t in range(length)]
    return mask, list(range(step, step + length))


def by_blocks(length, step):
    history, own = np.tril(np.ones((length, length), dtype=int)), np.eye(length, dtype=int)
    return np.hstack([history] + [own] * step), np.arange(length) + step


def lower_triangles(length, step):
    return np.hstack([np.tril(np.ones((length, length)))] * (step + 1)), np.arange(length) + step


def standing_still(length, step):
    mask, positions = by_rule(length, step)
    return mask, [at - step for at in positions]


def last_block_only(length, step):
    zeros = np.zeros((length, length))
    return np.hstack([zeros] * step + [np.tril(np.ones((length, length)))]), np.arange(length) + step


def as_fastmtp_does(length, step):
    mask, positions = last_block_only(length, step)
    return mask, positions - step


def history_only(length, step):
    zeros = np.zeros((length, length))
    return np.hstack([np.tril(np.ones((length, length)))] + [zeros] * step), np.arange(length) + step


def branch_only(length, step):
    return np.hstack([np.eye(length)] * (step + 1)), np.arange(length) + step


def moving_history(length, step):
    rows = [
        [(j <= t + step) if b == 0 else j == t for b in range(step + 1) for j in range(length)] for t in range(length)
    ]
    return rows, list(range(step, step + length))


def keys_side_by_side(length, step):
    """Keys ordered by position first, steps inside."""
    mask = [[j <= t if b == 0 else j == t for j in range(length) for b in range(step + 1)] for t in range(length)]
    return mask, list(range(step, step + length))


# 06.2 which places train


def listed(length, answer_start, step):
    return [t for t in range(length) if t + 1 >= answer_start and t + 2 + step < length]


def as_a_range(length, answer_start, step):
    return list(range(answer_start - 1, max(answer_start - 1, length - 2 - step)))


def from_the_answer_on(length, answer_start, step):
    return list(range(answer_start, max(answer_start, length - 2 - step)))


def same_at_all_steps(length, answer_start, step):
    return list(range(answer_start - 1, length - 2))


def read_token_exists(length, answer_start, step):
    return [t for t in range(answer_start - 1, length) if t + 1 + step <= length - 1]


def read_token_is_answer(length, answer_start, step):
    return [t for t in range(length) if t + 1 + step >= answer_start and t + 2 + step <= length - 1]


def everything(length, answer_start, step):
    return list(range(max(0, length - 2 - step)))


def one_too_early(length, answer_start, step):
    return [t for t in range(length) if t + 2 >= answer_start and t + 2 + step < length]


# 06.3 two softmaxes


def stable(out_a, lse_a, out_b, lse_b):
    top = max(lse_a, lse_b)
    a, b = math.exp(lse_a - top), math.exp(lse_b - top)
    return [(a * x + b * y) / (a + b) for x, y in zip(out_a, out_b, strict=True)], top + math.log(a + b)


def by_a_sigmoid(out_a, lse_a, out_b, lse_b):
    lse = float(np.logaddexp(lse_a, lse_b))
    share = math.exp(lse_a - lse)
    return np.array(out_a) * share + np.array(out_b) * (1 - share), lse


def in_float32(out_a, lse_a, out_b, lse_b):
    out_a, lse_a, out_b, lse_b = (np.asarray(one, np.float32) for one in (out_a, lse_a, out_b, lse_b))
    lse = np.logaddexp(lse_a, lse_b)
    return out_a * np.exp(lse_a - lse) + out_b * np.exp(lse_b - lse), lse


def half_and_half(out_a, lse_a, out_b, lse_b):
    return [(x + y) / 2 for x, y in zip(out_a, out_b, strict=True)], float(np.logaddexp(lse_a, lse_b))


def summed(out_a, lse_a, out_b, lse_b):
    return [x + y for x, y in zip(out_a, out_b, strict=True)], float(np.logaddexp(lse_a, lse_b))


def lse_summed(out_a, lse_a, out_b, lse_b):
    return stable(out_a, lse_a, out_b, lse_b)[0], lse_a + lse_b


def lse_maximum(out_a, lse_a, out_b, lse_b):
    return stable(out_a, lse_a, out_b, lse_b)[0], max(lse_a, lse_b)


def exchanged(out_a, lse_a, out_b, lse_b):
    out, lse = stable(out_a, lse_b, out_b, lse_a)
    return out, lse


def overflowing(out_a, lse_a, out_b, lse_b):
    with np.errstate(over="ignore", invalid="ignore"):
        a, b = np.exp(np.array([lse_a, lse_b]))
        return (a * np.array(out_a) + b * np.array(out_b)) / (a + b), float(np.log(a + b))


def raising(out_a, lse_a, out_b, lse_b):
    """The same with `math`, whose own error says what happened."""
    total = math.exp(lse_a) + math.exp(lse_b)
    out = [(math.exp(lse_a) * x + math.exp(lse_b) * y) / total for x, y in zip(out_a, out_b, strict=True)]
    return out, math.log(total)


def weighted_by_lse(out_a, lse_a, out_b, lse_b):
    total = (lse_a + lse_b) or 1.0
    out = [(lse_a * x + lse_b * y) / total for x, y in zip(out_a, out_b, strict=True)]
    return out, float(np.logaddexp(lse_a, lse_b))


# 06.4 three accuracies


def by_counting(chains):
    depth = len(chains[0])
    alive, conditional, accepted = list(chains), [], 0
    for d in range(depth):
        left = [chain for chain in alive if chain[d]]
        conditional.append(len(left) / len(alive) if alive else 0.0)
        accepted += len(left)
        alive = left
    return conditional, 1 + accepted / len(chains)


def by_cumulative_products(chains):
    survival = np.cumprod(np.array(chains, dtype=float), axis=1).mean(axis=0)
    before = np.concatenate([[1.0], survival[:-1]])
    return np.divide(survival, before, out=np.zeros_like(survival), where=before > 0), 1 + survival.sum()


def means(chains):
    return np.array(chains, dtype=float).mean(axis=0)


def marginal_as_conditional(chains):
    return list(means(chains)), by_counting(chains)[1]


def product(chains):
    return by_counting(chains)[0], 1 + float(np.cumprod(means(chains)).sum())


def marginal_everywhere(chains):
    return list(means(chains)), 1 + float(np.cumprod(means(chains)).sum())


def joint_as_conditional(chains):
    return list(np.cumprod(np.array(chains, dtype=float), axis=1).mean(axis=0)), by_counting(chains)[1]


def without_the_bonus(chains):
    conditional, length = by_counting(chains)
    return conditional, length - 1


def all_hits(chains):
    return by_counting(chains)[0], 1 + float(means(chains).sum())


def bonus_twice(chains):
    conditional, length = by_counting(chains)
    return conditional, length + 1


# 06.5 which checkpoint


def longest(looks):
    return max(looks, key=lambda look: sum(look[2]))[0]


def by_sorting(looks):
    return sorted(looks, key=lambda look: 1 + sum(look[2]), reverse=True)[0][0]


def lowest_loss(looks):
    return sorted(looks, key=lambda look: look[1])[0][0]


def last(looks):
    return looks[len(looks) - 1][0]


def best_start(looks):
    return max((look[2][0], look[0]) for look in looks)[1]


def best_end(looks):
    return max((look[2][-1], look[0]) for look in looks)[1]


def highest_loss(looks):
    return max(looks, key=lambda look: look[1])[0]


ANSWERS = {
    "06.1": Answers(
        right=(by_rule, by_blocks),
        wrong=(
            Wrong(lower_triangles, "branch keys of other positions are seen"),
            Wrong(standing_still, "positions are not advanced"),
            Wrong(last_block_only, "only the keys of its own step"),
            Wrong(as_fastmtp_does, "the public MTP form"),
            Wrong(history_only, "the branch is left out"),
            Wrong(branch_only, "the prefix is left out"),
            Wrong(moving_history, "true states from the future"),
            Wrong(keys_side_by_side),
        ),
    ),
    "06.2": Answers(
        right=(listed, as_a_range),
        wrong=(
            Wrong(from_the_answer_on, "the mask of x_t"),
            Wrong(same_at_all_steps, "the same places at every step"),
            Wrong(read_token_exists, "a place too many at the end"),
            Wrong(read_token_is_answer, "chains that start in the prompt"),
            Wrong(everything, "the prompt is trained too"),
            Wrong(one_too_early),
        ),
    ),
    "06.3": Answers(
        right=(stable, by_a_sigmoid, in_float32),
        wrong=(
            Wrong(half_and_half, "a plain average"),
            Wrong(summed, "the outputs are added"),
            Wrong(lse_summed, "log-sum-exps are added"),
            Wrong(lse_maximum, "the larger log-sum-exp is kept"),
            Wrong(exchanged, "the two weights are exchanged"),
            Wrong(overflowing, "exponentials overflow"),
            Wrong(raising),
            Wrong(weighted_by_lse),
        ),
    ),
    "06.4": Answers(
        right=(by_counting, by_cumulative_products),
        wrong=(
            Wrong(marginal_as_conditional, "marginal for conditional"),
            Wrong(product, "a product of marginals"),
            Wrong(marginal_everywhere, "marginals throughout"),
            Wrong(joint_as_conditional, "survival for conditional"),
            Wrong(without_the_bonus, "no token of the target's own"),
            Wrong(all_hits, "every right guess is emitted"),
            Wrong(bonus_twice),
        ),
    ),
    "06.5": Answers(
        right=(longest, by_sorting),
        wrong=(
            Wrong(lowest_loss, "the lowest loss"),
            Wrong(last, "the last one"),
            Wrong(best_start, "the best first guess"),
            Wrong(best_end, "the deepest guess decides"),
            Wrong(highest_loss),
        ),
    ),
}
