# Solutions to notebook 07. One cell per exercise; each is one right answer among several.

from labsim.lab.course import answer, exercise

# %% 07.1
@exercise("07.1")
def size(x):
    return (sum(v * v for v in x) / len(x)) ** 0.5

# %% 07.2
@exercise("07.2")
def read_by_fc(low, middle, high):
    found = []
    for part in (low, middle, high):
        own = (sum(v * v for v in part) / len(part)) ** 0.5
        found += [v / own for v in part]
    return found

# %% 07.3
@exercise("07.3")
def hand_on(raw, weight, norm_output):
    own = (sum(v * v for v in raw) / len(raw)) ** 0.5
    normed = [v / own * w for v, w in zip(raw, weight)]
    return normed, normed if norm_output else raw

# %% 07.4
@exercise("07.4")
def look_at(weights, steps, window, sink):
    return weights[sink], sum(weights[-window:]), sum(weights[-steps:])

# %% 07.5
answer("07.5", {"A": "fc-norm-flag-off", "B": "feedback-flag", "C": "d2t-zeros"})

# %% 07.6
answer(
    "07.6",
    {
        "D": "residual-flag",
        "E": "d2t-stale",
        "F": "template-differs",
        "G": "halves-swapped",
        "H": "layers-one-off",
    },
)

# %% 07.7
answer("07.7", {"J": "mask-of-x-t", "K": "loss-mean-diluted"})
