"""Answers to the exercises of notebook 05."""

import numpy as np

from tests.mutants.harness import Answers, Wrong

# 05.1 two numberings


def by_check_and_list(layers, num_layers):
    if min(layers) < 1 or max(layers) >= num_layers:
        raise ValueError("no layer's output")
    return [layer - 1 for layer in layers]


def one_by_one(layers, num_layers):
    outputs = {i + 1: i for i in range(num_layers - 1)}
    found = []
    for layer in layers:
        if layer not in outputs:
            raise ValueError(layer)
        found.append(outputs[layer])
    return found


def unchanged(layers, num_layers):
    return list(layers)


def plus_one(layers, num_layers):
    return [layer + 1 for layer in layers]


def without_a_look(layers, num_layers):
    return [layer - 1 for layer in layers]


def only_the_embedding_refused(layers, num_layers):
    if 0 in layers:
        raise ValueError("the embedding")
    return [layer - 1 for layer in layers]


def the_published_defaults(layers, num_layers):
    return [1, num_layers // 2 - 1, num_layers - 4]


def reversed_order(layers, num_layers):
    return by_check_and_list(layers, num_layers)[::-1]


# 05.2 training rows


def by_comprehension(length, answer_start):
    return [(t, t + 1, t + 2) for t in range(answer_start - 1, length - 2)]


def by_guessed_token(length, answer_start):
    rows = []
    for guessed in range(length):
        if guessed - 1 >= answer_start:
            rows.append((guessed - 2, guessed - 1, guessed))
    return rows


def late_features(length, answer_start):
    return [(t - 1, t - 1, t) for t in range(answer_start + 1, length)]


def masked_by_x_t(length, answer_start):
    return [(t, t + 1, t + 2) for t in range(length - 2) if t >= answer_start]


def guesses_its_input(length, answer_start):
    return [(s, token, token) for s, token, _ in by_comprehension(length, answer_start)]


def without_a_shift(length, answer_start):
    return [(s, s, token) for s, token, _ in by_comprehension(length, answer_start)]


def prompt_too(length, answer_start):
    return [(t, t + 1, t + 2) for t in range(length - 2)]


def one_too_many(length, answer_start):
    return [(t, t + 1, t + 2) for t in range(answer_start - 1, length - 1)]


def last_row_lost(length, answer_start):
    return by_comprehension(length, answer_start)[:-1]


# 05.3 the entry


def norm(x, weight):
    x = np.asarray(x, float)
    return x / np.sqrt((x * x).mean() + 1e-6) * np.asarray(weight)


def fused(states, fc):
    return np.asarray(fc, float) @ np.concatenate([np.asarray(s, float) for s in states])


def with_numpy(embedding, states, fc, embed_norm, state_norm):
    g = fused(states, fc)
    return np.concatenate([norm(embedding, embed_norm), norm(g, state_norm)]), g


def with_lists(embedding, states, fc, embed_norm, state_norm):
    flat = [x for state in states for x in state]
    g = [sum(w * x for w, x in zip(row, flat, strict=True)) for row in fc]
    halves = []
    for x, weight in ((embedding, embed_norm), (g, state_norm)):
        size = (sum(v * v for v in x) / len(x) + 1e-6) ** 0.5
        halves += [v / size * w for v, w in zip(x, weight, strict=True)]
    return halves, g


def state_first(embedding, states, fc, embed_norm, state_norm):
    g = fused(states, fc)
    return np.concatenate([norm(g, state_norm), norm(embedding, embed_norm)]), g


def normed_residual(embedding, states, fc, embed_norm, state_norm):
    x, _ = with_numpy(embedding, states, fc, embed_norm, state_norm)
    return x, x[len(embedding) :]


def residual_from_the_token(embedding, states, fc, embed_norm, state_norm):
    return with_numpy(embedding, states, fc, embed_norm, state_norm)[0], np.asarray(embedding)


def one_norm(embedding, states, fc, embed_norm, state_norm):
    g = fused(states, fc)
    return norm(np.concatenate([embedding, g]), np.concatenate([embed_norm, state_norm])), g


def raw_state(embedding, states, fc, embed_norm, state_norm):
    g = fused(states, fc)
    return np.concatenate([norm(embedding, embed_norm), g]), g


def added(embedding, states, fc, embed_norm, state_norm):
    g = fused(states, fc)
    return norm(embedding, embed_norm) + norm(g, state_norm), g


def high_first(embedding, states, fc, embed_norm, state_norm):
    return with_numpy(embedding, states[::-1], fc, embed_norm, state_norm)


def averaged(embedding, states, fc, embed_norm, state_norm):
    g = np.mean(np.asarray(states, float), axis=0)
    return np.concatenate([norm(embedding, embed_norm), norm(g, state_norm)]), g


def without_eps(embedding, states, fc, embed_norm, state_norm):
    g = fused(states, fc)
    parts = (np.asarray(embedding), np.asarray(embed_norm)), (g, np.asarray(state_norm))
    return np.concatenate([x / np.linalg.norm(x) * len(x) ** 0.5 * weight for x, weight in parts]), g


def norms_swapped(embedding, states, fc, embed_norm, state_norm):
    return with_numpy(embedding, states, fc, state_norm, embed_norm)


# 05.4 d2t and t2d


def forward_ids(drafted, d2t):
    return [i + d2t[i] for i in drafted]


def back_ids(said, t2d):
    return [sum(t2d[:v]) if t2d[v] else -1 for v in said]


def by_sums(drafted, d2t, said, t2d):
    return forward_ids(drafted, d2t), back_ids(said, t2d)


def by_index_of(drafted, d2t, said, t2d):
    ids = np.arange(len(d2t)) + np.array(d2t)
    back = np.full(len(t2d), -1)
    back[ids] = np.arange(len(ids))
    return ids[drafted], back[said]


def absolute(drafted, d2t, said, t2d):
    return [d2t[i] for i in drafted], back_ids(said, t2d)


def untranslated(drafted, d2t, said, t2d):
    return list(drafted), back_ids(said, t2d)


def membership_as_index(drafted, d2t, said, t2d):
    return forward_ids(drafted, d2t), [int(t2d[v]) if t2d[v] else -1 for v in said]


def from_one(drafted, d2t, said, t2d):
    return forward_ids(drafted, d2t), [sum(t2d[: v + 1]) if t2d[v] else -1 for v in said]


def neighbours(drafted, d2t, said, t2d):
    return forward_ids(drafted, d2t), [sum(t2d[:v]) for v in said]


def pairs_swapped(drafted, d2t, said, t2d):
    return back_ids(said, t2d), forward_ids(drafted, d2t)


# 05.5 a perfect draft


def by_walking(answer, known, k):
    at = steps = 0
    while at < len(answer):
        run = 0
        while run < k and at + run < len(answer) and answer[at + run] in known:
            run += 1
        at, steps = at + run + 1, steps + 1
    return len(answer) / steps


def by_counting_down(answer, known, k):
    steps, left = 0, 0
    for token in answer:
        if left == 0:
            steps, left = steps + 1, k + 1
        left = left - 1 if token in known else 0
    return len(answer) / steps


def jumped(answer, known, k):
    sayable = sum(token in known for token in answer)
    return len(answer) / max(1, -(-sayable // k)) if sayable else 1.0


def no_bonus(answer, known, k):
    at = steps = 0
    while at < len(answer):
        run = 0
        while run < k and at + run < len(answer) and answer[at + run] in known:
            run += 1
        at, steps = at + max(run, 1), steps + 1
    return len(answer) / steps


def linear(answer, known, k):
    return 1 + k * np.mean([token in known for token in answer])


def geometric(answer, known, k):
    c = sum(token in known for token in answer) / len(answer)
    return sum(c**i for i in range(k + 1))


def full_steps(answer, known, k):
    return k + 1


def coverage_only(answer, known, k):
    return sum(token in known for token in answer) / len(answer)


ANSWERS = {
    "05.1": Answers(
        right=(by_check_and_list, one_by_one),
        wrong=(
            Wrong(unchanged, "the same numbers in both"),
            Wrong(plus_one, "one too high"),
            Wrong(without_a_look, "the embedding and the normed state are layers too"),
            Wrong(only_the_embedding_refused, "the last state is a layer's output"),
            Wrong(the_published_defaults),
            Wrong(reversed_order),
        ),
    ),
    "05.2": Answers(
        right=(by_comprehension, by_guessed_token),
        wrong=(
            Wrong(late_features, "features one position late"),
            Wrong(masked_by_x_t, "the mask of x_t"),
            Wrong(guesses_its_input, "guessing the token that is read"),
            Wrong(without_a_shift, "the token of the state itself"),
            Wrong(prompt_too, "the prompt is trained too"),
            Wrong(one_too_many, "a row past the end"),
            Wrong(last_row_lost),
        ),
    ),
    "05.3": Answers(
        right=(with_numpy, with_lists),
        wrong=(
            Wrong(state_first, "state first, embedding second"),
            Wrong(normed_residual, "the residual starts at the normed state"),
            Wrong(residual_from_the_token, "the residual starts at the embedding"),
            Wrong(one_norm, "one norm over both"),
            Wrong(raw_state, "the state is not normed"),
            Wrong(added, "added instead of concatenated"),
            Wrong(high_first, "high before low"),
            Wrong(averaged, "the three states are averaged"),
            Wrong(without_eps, "eps left out"),
            Wrong(norms_swapped),
        ),
    ),
    "05.4": Answers(
        right=(by_sums, by_index_of),
        wrong=(
            Wrong(absolute, "d2t taken for absolute ids"),
            Wrong(untranslated, "draft ids are target ids"),
            Wrong(membership_as_index, "t2d taken for an index"),
            Wrong(from_one, "counted from one"),
            Wrong(neighbours, "outsiders get a neighbour's id"),
            Wrong(pairs_swapped),
        ),
    ),
    "05.5": Answers(
        right=(by_walking, by_counting_down),
        wrong=(
            Wrong(jumped, "unknown tokens are jumped over"),
            Wrong(no_bonus, "no token of the target's own"),
            Wrong(linear, "1 + k times the coverage"),
            Wrong(geometric, "coverage multiplied along the chain"),
            Wrong(full_steps, "always k + 1"),
            Wrong(coverage_only),
        ),
    ),
}
