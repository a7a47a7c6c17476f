# Solutions to notebook 05. One cell per exercise; each is one right answer among several.

import numpy as np

from labsim.lab.course import exercise


# %% 05.1
@exercise("05.1")
def to_hooks(layers, num_layers):
    if any(not 1 <= i < num_layers for i in layers):
        raise ValueError("the embedding and the normed last state are no layer's output")
    return [i - 1 for i in layers]


# %% 05.2
@exercise("05.2")
def training_rows(length, answer_start):
    return [(t, t + 1, t + 2) for t in range(answer_start - 1, length - 2)]


# %% 05.3
@exercise("05.3")
def layer_input(embedding, states, fc, embed_norm, state_norm):
    g = np.array(fc) @ np.concatenate(states)
    halves = []
    for x, weight in ((np.array(embedding), embed_norm), (g, state_norm)):
        halves.append(x / np.sqrt(np.mean(x**2) + 1e-6) * np.array(weight))
    return np.concatenate(halves), g


# %% 05.4
@exercise("05.4")
def both_ways(drafted, d2t, said, t2d):
    return [i + d2t[i] for i in drafted], [sum(t2d[:v]) if t2d[v] else -1 for v in said]


# %% 05.5
@exercise("05.5")
def perfect_length(answer, known, k):
    at = steps = 0
    while at < len(answer):
        run = 0
        while run < k and at + run < len(answer) and answer[at + run] in known:
            run += 1
        at += run + 1
        steps += 1
    return len(answer) / steps
