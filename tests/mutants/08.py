"""Answers to the exercises of notebook 08."""

import numpy as np

from tests.mutants.harness import Answers, Wrong

# 08.3 one score matrix


def by_blocks(heads, length, step, width):
    return sum(heads * length**2 * width for _ in range(step + 1))


def by_shape(heads, length, step, width):
    return float(np.prod([heads, length, (step + 1) * length, width], dtype=float))


def history(heads, length, step, width):
    return heads * length**2 * width


def from_one(heads, length, step, width):
    return heads * length**2 * step * width


def headless(heads, length, step, width):
    return length**2 * (step + 1) * width


def square(heads, length, step, width):
    return heads * (length * (step + 1)) ** 2 * width


def linear(heads, length, step, width):
    return heads * (step + 1) * length * width


def count(heads, length, step, width):
    return heads * length**2 * (step + 1)


def all_steps(heads, length, step, width):
    return heads * length**2 * width * (step + 1) * (step + 2) // 2


# 08.1 a sum or a product


def additive(length, steps, taps, teacher, layer, logits):
    return length * taps + length * teacher + sum(length * (layer + logits) for _ in range(steps))


def per_token(length, steps, taps, teacher, layer, logits):
    return (taps + teacher + steps * layer + steps * logits) * length


def product(length, steps, taps, teacher, layer, logits):
    return length * steps * (taps + teacher + layer + logits)


def taps_times_layer(length, steps, taps, teacher, layer, logits):
    return length * (teacher + steps * logits + steps * taps * layer)


def one_logits(length, steps, taps, teacher, layer, logits):
    return length * (taps + teacher + logits + steps * layer)


def teachers(length, steps, taps, teacher, layer, logits):
    return length * taps + length * steps * (teacher + layer + logits)


def many_taps(length, steps, taps, teacher, layer, logits):
    return length * (teacher + steps * (layer + logits + taps))


def forgetful(length, steps, taps, teacher, layer, logits):
    return length * sum((taps, teacher, layer, logits))


def no_teacher(length, steps, taps, teacher, layer, logits):
    return length * (taps + steps * (layer + logits))


# 08.2 activations or parameters


def divided(parameters, per_token):
    whole, _ = divmod(16 * parameters, per_token)
    return whole + 1


def searched(parameters, per_token):
    tokens = max(0, 16 * parameters // per_token - 2)
    while tokens * per_token <= 16 * parameters:
        tokens += 1
    return tokens


def weights(parameters, per_token):
    return 4 * parameters // per_token + 1


def without_gradients(parameters, per_token):
    return 12 * parameters // per_token + 1


def narrow(parameters, per_token):
    return 8 * parameters // per_token + 1


def ceiling(parameters, per_token):
    return (16 * parameters + per_token - 1) // per_token


def floor(parameters, per_token):
    return 16 * parameters // per_token


def a_fraction(parameters, per_token):
    return 16 * parameters / per_token + 1


# 08.4 the cheapest remedy


def in_order(tried, memory, reserve):
    for name, size in tried:
        if size + reserve * memory <= memory:
            return name
    return "none"


def filtered(tried, memory, reserve):
    fitting = [name for name, size in tried if size <= memory * (1 - reserve)]
    return fitting[0] if fitting else "none"


def smallest(tried, memory, reserve):
    size, name = min((size, name) for name, size in tried)
    return name if size <= memory * (1 - reserve) else "none"


def to_the_brim(tried, memory, reserve):
    fitting = [name for name, size in tried if size <= memory]
    return fitting[0] if fitting else "none"


def last_fitting(tried, memory, reserve):
    fitting = [name for name, size in tried if size <= memory * (1 - reserve)]
    return fitting[-1] if fitting else "none"


def all_gpus(tried, memory, reserve):
    return tried[len(tried) - 1][0]


def always_a_remedy(tried, memory, reserve):
    fitting = [name for name, size in tried[1:] if size <= memory * (1 - reserve)]
    return fitting[0] if fitting else "none"


def first_that_does_not(tried, memory, reserve):
    return next((name for name, size in tried if size > memory * (1 - reserve)), "none")


def reserve_on_top(tried, memory, reserve):
    """Leaves the reserve as a share of what the step takes, not of the GPU."""
    return next((name for name, size in tried if size <= memory / (1 + reserve)), "none")


def always_nine_tenths(tried, memory, reserve):
    return next((name for name, size in tried if size <= 0.9 * memory), "none")


# 08.5 how long a row


def per_rank(memory, fixed, per_token, ranks):
    here = (memory - fixed) // per_token
    return here * ranks if here > 0 else 0


def counted(memory, fixed, per_token, ranks):
    return ranks * int(np.clip((memory - fixed) // per_token, 0, None))


def sharded_weights(memory, fixed, per_token, ranks):
    return max(0, (ranks * memory - fixed) // per_token)


def empty(memory, fixed, per_token, ranks):
    return ranks * (memory // per_token)


def one_share(memory, fixed, per_token, ranks):
    return max(0, memory - fixed) // per_token


def upwards(memory, fixed, per_token, ranks):
    return ranks * max(0, (memory - fixed + per_token - 1) // per_token)


def broken_tokens(memory, fixed, per_token, ranks):
    return max(0, ranks * (memory - fixed) // per_token)


def weights_divided(memory, fixed, per_token, ranks):
    return max(0, (memory - fixed // ranks) // per_token) * ranks


ANSWERS = {
    "08.3": Answers(
        right=(by_blocks, by_shape),
        wrong=(
            Wrong(history, "the history only"),
            Wrong(from_one, "steps counted from 1"),
            Wrong(headless, "one matrix for all heads"),
            Wrong(square, "queries grow as well"),
            Wrong(linear, "linear in the length"),
            Wrong(count, "scores, not bytes"),
            Wrong(all_steps),
        ),
    ),
    "08.1": Answers(
        right=(additive, per_token),
        wrong=(
            Wrong(product, "everything times k"),
            Wrong(taps_times_layer, "a product of taps and layer"),
            Wrong(one_logits, "logits of one step"),
            Wrong(teachers, "a teacher for each step"),
            Wrong(many_taps, "taps for each step"),
            Wrong(forgetful, "steps that leave nothing behind"),
            Wrong(no_teacher),
        ),
    ),
    "08.2": Answers(
        right=(divided, searched),
        wrong=(
            Wrong(weights, "weights alone"),
            Wrong(without_gradients, "no gradients"),
            Wrong(narrow, "half precision"),
            Wrong(ceiling, "as many is not more"),
            Wrong(floor, "rounded down"),
            Wrong(a_fraction),
        ),
    ),
    "08.4": Answers(
        right=(in_order, filtered),
        wrong=(
            Wrong(smallest, "the smallest of all"),
            Wrong(to_the_brim, "no reserve"),
            Wrong(last_fitting, "the last that fits"),
            Wrong(all_gpus, "more GPUs at once"),
            Wrong(always_a_remedy, "a remedy where none is needed"),
            Wrong(first_that_does_not),
            Wrong(reserve_on_top, "the reserve is a share of the step"),
            Wrong(always_nine_tenths),
        ),
    ),
    "08.5": Answers(
        right=(per_rank, counted),
        wrong=(
            Wrong(sharded_weights, "weights divided as well"),
            Wrong(empty, "an empty GPU"),
            Wrong(one_share, "one rank's share"),
            Wrong(upwards, "rounded up"),
            Wrong(broken_tokens, "shards of broken tokens"),
            Wrong(weights_divided),
        ),
    ),
}
