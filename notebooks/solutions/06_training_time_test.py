# Solutions to notebook 06. One cell per exercise; each is one right answer among several.

from labsim.lab.course import exercise

# %% 06.1
@exercise("06.1")
def mask_by_hand(length, step):
    mask = [
        [j <= t if b == 0 else j == t for b in range(step + 1) for j in range(length)]
        for t in range(length)
    ]
    return mask, [t + step for t in range(length)]

# %% 06.2
@exercise("06.2")
def places(length, answer_start, step):
    return [t for t in range(length) if t + 1 >= answer_start and t + 2 + step < length]

# %% 06.3
from math import exp, log

@exercise("06.3")
def merge_by_hand(out_a, lse_a, out_b, lse_b):
    top = max(lse_a, lse_b)
    a, b = exp(lse_a - top), exp(lse_b - top)
    return [(a * x + b * y) / (a + b) for x, y in zip(out_a, out_b)], top + log(a + b)

# %% 06.4
@exercise("06.4")
def accuracies(chains):
    depths = range(len(chains[0]))
    survival = [sum(all(chain[: d + 1]) for chain in chains) / len(chains) for d in depths]
    before = [1.0, *survival[:-1]]
    conditional = [now / then if then else 0.0 for now, then in zip(survival, before)]
    return conditional, 1 + sum(survival)

# %% 06.5
@exercise("06.5")
def checkpoint(looks):
    return max(looks, key=lambda look: sum(look[2]))[0]
