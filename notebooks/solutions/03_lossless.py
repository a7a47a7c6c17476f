"""Solutions to notebook 03. One block per exercise; each is one right answer among several."""

from labsim.lab.course import exercise


# %% 03.1
@exercise("03.1")
def accept_chance(p, q):
    return min(1, p / q)


# %% 03.2
@exercise("03.2")
def corrected_distribution(p, q):
    left = [max(0, a - b) for a, b in zip(p, q, strict=True)]
    return [x / sum(left) for x in left]


# %% 03.3
@exercise("03.3")
def what_comes_out(p, q, r):
    kept = [min(a, b) for a, b in zip(p, q, strict=True)]
    rejected = 1 - sum(kept)
    return [k + rejected * x for k, x in zip(kept, r, strict=True)]


# %% 03.4
@exercise("03.4")
def acceptance_probability(p, q):
    return sum(min(a, b) for a, b in zip(p, q, strict=True))


# %% 03.5
@exercise("03.5")
def first_choice_of_the_draft(p, q):
    x = q.index(max(q))
    return p[x], [0 if i == x else a / (1 - p[x]) for i, a in enumerate(p)]


# %% 03.6
@exercise("03.6")
def greedy_step(draft, choices):
    n = 0
    while n < len(draft) and draft[n] == choices[n]:
        n += 1
    return [*draft[:n], choices[n]]


# %% 03.7
@exercise("03.7")
def best_k(survival, forward_ms, draft_ms):
    best = (0, 1.0)
    for k in range(1, len(survival) + 1):
        tokens = 1 + sum(survival[:k])
        speedup = tokens * forward_ms[0] / (forward_ms[k] + k * draft_ms)
        if speedup > best[1]:
            best = (k, speedup)
    return best
