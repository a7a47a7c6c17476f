"""Attention drift on paper: the right rules of notebook 07, inputs for its exercises, and mistakes people make.

States are lists of numbers. Attention weights of one query list the prefix's keys 0..t first, then its own branch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random

State = Sequence[float]

# The faults behind the letters of exercises 07.5 and 07.6, and what is offered; names as in `checkpoints.faults`.
CURVES: Mapping[str, str] = {"A": "fc-norm-flag-off", "B": "feedback-flag", "C": "d2t-zeros"}
CAUSES: Mapping[str, str] = {
    "d2t-zeros": "the table from draft ids to target ids is all zeros",
    "fc-norm-flag-off": "the config says that there are no norms before fc",
    "feedback-flag": "the config says that the raw state is handed on",
    "layers-one-off": "the target's layers are counted from the other end of a layer",
}

MORE_CURVES: Mapping[str, str] = {
    "D": "residual-flag",
    "E": "d2t-stale",
    "F": "template-differs",
    "G": "halves-swapped",
    "H": "layers-one-off",
}
MORE_CAUSES: Mapping[str, str] = {
    "d2t-stale": "the mapping was counted anew beside the head's old rows",
    "d2t-zeros": "the mapping is all zeros",
    "feedback-flag": "the raw state is handed on",
    "halves-swapped": "state and embedding have changed places in the concatenation",
    "layers-one-off": "each feature layer is its neighbour",
    "residual-flag": "the residual starts behind the norm at the entry",
    "template-differs": "a chat template that is not the target's lies beside the weights",
}

# Those behind the letters of 07.7; names as in `checkpoints.trainer_faults`.
TRAINING_CURVES: Mapping[str, str] = {"J": "mask-of-x-t", "K": "loss-mean-diluted"}
TRAINING_CAUSES: Mapping[str, str] = {
    "features-one-late": "each place is given the state of the next place",
    "loss-mean-diluted": "the mean runs over all places of the row, those that do not count as well",
    "mask-of-x-t": "a place counts if its own token belongs to the answer, not if the next one does",
    "pre-norm-feedback": "the state is fed back before the norm",
    "teacher-norm-twice": "the teacher's last state is normed once more",
}


def rms(x: State) -> float:
    """Root mean square, |x| / sqrt(number of entries)."""
    return math.sqrt(sum(value * value for value in x) / len(x))


def rms_norm(x: State, weight: State, eps: float = 0.0) -> list[float]:
    """x / sqrt(mean(x^2) + eps), entry by entry times the weight."""
    size = math.sqrt(sum(value * value for value in x) / len(x) + eps)
    return [value / size * w for value, w in zip(x, weight, strict=True)]


def fused_input(low: State, middle: State, high: State) -> list[float]:
    """What `fc` reads in EAGLE-3.1: each layer at its own size of 1, one after the other (norm weights at 1)."""
    return [value for part in (low, middle, high) for value in rms_norm(part, [1.0] * len(part))]


def handed_on(raw: State, weight: State, norm_output: bool) -> tuple[list[float], list[float]]:
    """(what the head reads, what the next depth consumes)."""
    normed = rms_norm(raw, weight)
    return normed, normed if norm_output else list(raw)


def shares(weights: State, steps: int, window: int, sink: int) -> tuple[float, float, float]:
    """(sink, recent, own branch) of one query's attention; `steps` keys of its own branch come last."""
    prefix = len(weights) - steps
    recent = sum(weight for at, weight in enumerate(weights) if len(weights) - 1 - at < window)
    return weights[sink], recent, sum(weights[prefix:])


def norm_over_all(low: State, middle: State, high: State) -> list[float]:
    """`norm_before_fc`: one norm over the concatenation, which keeps the layers' proportions."""
    whole = [*low, *middle, *high]
    return rms_norm(whole, [1.0] * len(whole))


def with_eps(low: State, middle: State, high: State, eps: float) -> list[float]:
    """As in a model, whose norms never divide by zero."""
    return [value for part in (low, middle, high) for value in rms_norm(part, [1.0] * len(part), eps)]


def unit_length(x: State) -> list[float]:
    size = math.sqrt(sum(value * value for value in x))
    return [value / size for value in x]


def centred(x: State) -> list[float]:
    """LayerNorm: the mean taken off first."""
    mean = sum(x) / len(x)
    return rms_norm([value - mean for value in x], [1.0] * len(x))


def some_state(rng: Random, size: int | None = None, scale: float = 1.0) -> list[float]:
    """A few numbers whose mean is not zero, none of them zero."""
    return [
        round(scale * (rng.uniform(0.2, 3.0) * rng.choice([1, 1, -1])), 3) for _ in range(size or rng.randint(3, 5))
    ]


def some_layers(rng: Random) -> tuple[list[float], list[float], list[float]]:
    """Three layers of one width and very different sizes."""
    size = rng.randint(2, 4)
    low, middle, high = (some_state(rng, size, scale) for scale in (0.5, 3.0, 40.0))
    return low, middle, high


def some_output(rng: Random) -> tuple[list[float], list[float], bool]:
    size = rng.randint(2, 4)
    weight = [round(rng.uniform(0.4, 2.5), 3) for _ in range(size)]
    return some_state(rng, size, 5.0), weight, rng.random() < 0.6


def some_weights(rng: Random) -> tuple[list[float], int, int, int]:
    """Uneven weights that sum to one, a branch shorter or longer than the window, and a sink at 0 or 1."""
    prefix, steps = rng.randint(4, 7), rng.randint(1, 4)
    raw = [rng.uniform(0.2, 2.0) for _ in range(prefix + steps)]
    sink = rng.randint(0, 1)
    raw[sink] += rng.choice([0.0, 5.0])
    weights = [round(value / sum(raw), 4) for value in raw]
    return weights, steps, rng.randint(2, 5), sink
