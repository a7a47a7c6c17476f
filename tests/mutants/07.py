"""Answers to the exercises of notebook 07."""

import math

import numpy as np

from tests.mutants.harness import Answers, Wrong

# 07.1 the size of a state


def by_definition(x):
    return math.sqrt(sum(v * v for v in x) / len(x))


def by_numpy(x):
    return np.linalg.norm(x) / np.sqrt(len(x))


def length(x):
    return float(np.linalg.norm(x))


def mean_square(x):
    return float(np.mean(np.square(x)))


def mean_of_absolutes(x):
    return sum(abs(v) for v in x) / len(x)


def deviation(x):
    return float(np.std(x))


def root_of_the_sum_by_width(x):
    return math.sqrt(sum(v * v for v in x)) / len(x)


# 07.2 three layers of one size


def part_by_part(low, middle, high):
    found = []
    for part in (low, middle, high):
        size = math.sqrt(sum(v * v for v in part) / len(part))
        found += [v / size for v in part]
    return found


def as_an_array(low, middle, high):
    x = np.array([low, middle, high])
    return (x / np.sqrt((x**2).mean(axis=1, keepdims=True))).flatten()


def eps_of_llama(low, middle, high):
    return [v / math.sqrt(sum(u * u for u in part) / len(part) + 1e-5) for part in (low, middle, high) for v in part]


def eps_of_qwen(low, middle, high):
    x = np.array([low, middle, high])
    return (x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-6)).flatten()


def one_norm(low, middle, high):
    x = np.array([*low, *middle, *high])
    return x / np.sqrt((x**2).mean())


def as_eagle_3(low, middle, high):
    return [*low, *middle, *high]


def of_unit_length(low, middle, high):
    x = np.array([low, middle, high])
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).flatten()


def layer_norm(low, middle, high):
    x = np.array([low, middle, high])
    return ((x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)).flatten()


def high_alone(low, middle, high):
    return [*low, *middle, *(np.array(high) / np.sqrt(np.mean(np.square(high))))]


def high_first(low, middle, high):
    return part_by_part(high, middle, low)


def by_the_largest(low, middle, high):
    return [v / max(map(abs, part)) for part in (low, middle, high) for v in part]


# 07.3 what is handed on


def normed(raw, weight):
    size = math.sqrt(sum(v * v for v in raw) / len(raw))
    return [v / size * w for v, w in zip(raw, weight, strict=True)]


def by_the_flag(raw, weight, norm_output):
    head = normed(raw, weight)
    if norm_output:
        return head, head
    return head, raw


def with_numpy(raw, weight, norm_output):
    raw = np.array(raw)
    head = raw / np.sqrt((raw**2).mean()) * np.array(weight)
    return head, np.where(norm_output, head, raw)


def raw_always(raw, weight, norm_output):
    return normed(raw, weight), list(raw)


def gated_head(raw, weight, norm_output):
    return (normed(raw, weight) if norm_output else raw), raw


def twice(raw, weight, norm_output):
    once = normed(raw, weight)
    return (normed(once, weight), once) if norm_output else (once, raw)


def weightless(raw, weight, norm_output):
    return by_the_flag(raw, [1.0] * len(raw), norm_output)


def upside_down(raw, weight, norm_output):
    return by_the_flag(raw, weight, not norm_output)


def normed_always(raw, weight, norm_output):
    return normed(raw, weight), normed(raw, weight)


def pair_exchanged(raw, weight, norm_output):
    head, state = by_the_flag(raw, weight, norm_output)
    return state, [v + 1 for v in head]


# 07.4 where the attention goes


def by_slices(weights, steps, window, sink):
    return weights[sink], sum(weights[-window:]), sum(weights[-steps:])


def by_positions(weights, steps, window, sink):
    query = len(weights) - 1
    recent = sum(w for at, w in enumerate(weights) if query - at < window)
    own = sum(w for at, w in enumerate(weights) if at >= len(weights) - steps)
    return weights[sink], recent, own


def prefix_window(weights, steps, window, sink):
    prefix = weights[: len(weights) - steps]
    return weights[sink], sum(prefix[-window:]), sum(weights[-steps:])


def window_before_the_branch(weights, steps, window, sink):
    return weights[sink], sum(weights[-(window + steps) :]), sum(weights[-steps:])


def without_itself(weights, steps, window, sink):
    return weights[sink], sum(weights[-window - 1 : -1]), sum(weights[-steps:])


def last_key(weights, steps, window, sink):
    return weights[sink], sum(weights[-window:]), weights[-1]


def largest(weights, steps, window, sink):
    return max(weights), sum(weights[-window:]), sum(weights[-steps:])


def first_token(weights, steps, window, sink):
    return weights[0], sum(weights[-window:]), sum(weights[-steps:])


def own_outside_the_window(weights, steps, window, sink):
    return weights[sink], max(0.0, sum(weights[-window:]) - sum(weights[-steps:])), sum(weights[-steps:])


# 07.5 find the fault

RIGHT = {"A": "fc-norm-flag-off", "B": "feedback-flag", "C": "d2t-zeros"}


def named():
    return dict(RIGHT)


def named_in_another_order():
    return {letter: RIGHT[letter] for letter in "CBA"}


def a_and_b():
    return {"A": "feedback-flag", "B": "fc-norm-flag-off", "C": "d2t-zeros"}


def b_and_c():
    return {"A": "fc-norm-flag-off", "B": "d2t-zeros", "C": "feedback-flag"}


def a_and_c():
    return {"A": "d2t-zeros", "B": "feedback-flag", "C": "fc-norm-flag-off"}


def layers():
    return {"A": "layers-one-off", "B": "feedback-flag", "C": "d2t-zeros"}


def all_the_same():
    return dict.fromkeys(RIGHT, "feedback-flag")


# 07.6 five more

MORE = {"D": "residual-flag", "E": "d2t-stale", "F": "template-differs", "G": "halves-swapped", "H": "layers-one-off"}


def five():
    return dict(MORE)


def five_backwards():
    return {letter: MORE[letter] for letter in "HGFED"}


def d_and_h():
    return MORE | {"D": "layers-one-off", "H": "residual-flag"}


def zeros():
    return MORE | {"E": "d2t-zeros"}


def e_and_g():
    return MORE | {"E": "halves-swapped", "G": "d2t-stale"}


def feedback():
    return MORE | {"G": "feedback-flag"}


def f_and_h():
    return MORE | {"F": "layers-one-off", "H": "template-differs"}


def four_of_them():
    return {letter: fault for letter, fault in MORE.items() if letter != "F"}


# 07.7 two wrong losses

LOSSES = {"J": "mask-of-x-t", "K": "loss-mean-diluted"}


def two():
    return dict(LOSSES)


def two_backwards():
    return {letter: LOSSES[letter] for letter in "KJ"}


def j_and_k():
    return {"J": "loss-mean-diluted", "K": "mask-of-x-t"}


def late():
    return LOSSES | {"J": "features-one-late"}


def fed_back():
    return LOSSES | {"J": "pre-norm-feedback"}


def teacher():
    return LOSSES | {"K": "teacher-norm-twice"}


def one_of_them():
    return {"J": "mask-of-x-t"}


ANSWERS = {
    "07.1": Answers(
        right=(by_definition, by_numpy),
        wrong=(
            Wrong(length, "the length of the vector"),
            Wrong(mean_square, "no root"),
            Wrong(mean_of_absolutes, "the mean of absolute values"),
            Wrong(deviation, "the standard deviation"),
            Wrong(root_of_the_sum_by_width),
        ),
    ),
    "07.2": Answers(
        right=(part_by_part, as_an_array),
        wrong=(
            Wrong(one_norm, "one norm over all three"),
            Wrong(as_eagle_3, "no norm at all"),
            Wrong(of_unit_length, "unit length in place of unit size"),
            Wrong(layer_norm, "LayerNorm"),
            Wrong(high_alone, "only the high layer is normed"),
            Wrong(eps_of_llama, "an eps put in"),
            Wrong(eps_of_qwen, "a small eps put in"),
            Wrong(high_first),
            Wrong(by_the_largest),
        ),
    ),
    "07.3": Answers(
        right=(by_the_flag, with_numpy),
        wrong=(
            Wrong(raw_always, "raw feedback in both"),
            Wrong(gated_head, "the flag taken for the head's norm"),
            Wrong(twice, "normed twice"),
            Wrong(weightless, "the weight forgotten"),
            Wrong(upside_down, "the flag upside down"),
            Wrong(normed_always, "always normed"),
            Wrong(pair_exchanged),
        ),
    ),
    "07.4": Answers(
        right=(by_slices, by_positions),
        wrong=(
            Wrong(prefix_window, "recent means recent in the prefix"),
            Wrong(window_before_the_branch, "the window is put before the branch"),
            Wrong(without_itself, "the query itself does not count"),
            Wrong(last_key, "only its own key"),
            Wrong(largest, "the sink is the largest weight"),
            Wrong(first_token, "the sink is always the first token"),
            Wrong(own_outside_the_window),
        ),
    ),
    "07.5": Answers(
        right=(named, named_in_another_order),
        wrong=(
            Wrong(a_and_b, "feedback and fusion exchanged"),
            Wrong(b_and_c, "feedback and mapping exchanged"),
            Wrong(a_and_c, "fusion and mapping exchanged"),
            Wrong(layers, "layers one off"),
            Wrong(all_the_same),
        ),
    ),
    "07.6": Answers(
        right=(five, five_backwards),
        wrong=(
            Wrong(d_and_h, "residual and layers exchanged"),
            Wrong(zeros, "zeros in place of a stale mapping"),
            Wrong(e_and_g, "mapping and input exchanged"),
            Wrong(feedback, "a feedback fault in place of the halves"),
            Wrong(f_and_h, "template and layers exchanged"),
            Wrong(four_of_them),
        ),
    ),
    "07.7": Answers(
        right=(two, two_backwards),
        wrong=(
            Wrong(j_and_k, "mask and mean exchanged"),
            Wrong(late, "features in place of the mask"),
            Wrong(fed_back, "feedback in place of the mask"),
            Wrong(teacher, "teacher in place of the mean"),
            Wrong(one_of_them),
        ),
    ),
}
