"""What an EAGLE draft reads, on paper: right answers, inputs and mistakes of notebook 05.

Positions count from 0. The state at position i is the target's after it has read token i, so it is known once token i
went through the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from ..compare import difference

EPS = 1e-6
Row = tuple[int, int, int]


def hook_ids(layers: Sequence[int], num_layers: int) -> list[int]:
    """ "State after i layers" as the layer whose output it is. ValueError for states that no layer puts out so."""
    for layer in layers:
        if not 1 <= layer < num_layers:
            raise ValueError(f"state {layer} is no layer's output as it is")
    return [layer - 1 for layer in layers]


def hooked(shift: int) -> Any:
    """A wrong renumbering: every id moved by `shift`, the two special states not noticed."""
    return lambda layers, num_layers: [layer + shift for layer in layers]


def training_rows(length: int, answer_start: int) -> list[Row]:
    """(state, token read, token guessed), by position, of all rows that train depth 1."""
    return [(t, t + 1, t + 2) for t in range(answer_start - 1, length - 2)]


def rows_by(first: Any, last: Any, row: Any) -> Any:
    """A wrong list: `row(t)` for t from first(answer_start) to last(length), both included."""
    return lambda length, start: [row(t) for t in range(first(start), last(length) + 1)]


def right_row(t: int) -> Row:
    return t, t + 1, t + 2


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float = EPS) -> np.ndarray:
    """x / sqrt(mean(x^2) + eps) * weight."""
    return x / np.sqrt(np.mean(x**2) + eps) * weight


def entry(
    embedding, states, fc, embed_norm, state_norm, *, order="embedding first", start="raw", fuse="low to high", eps=EPS
):
    """What EAGLE-3's layer is fed with: (attention's input, start of the residual stream); the options are mistakes."""
    embedding, fc = np.asarray(embedding, float), np.asarray(fc, float)
    parts = [np.asarray(part, float) for part in states]
    if fuse == "high to low":
        parts = parts[::-1]
    g = sum(parts) / len(parts) if fuse == "mean" else fc @ np.concatenate(parts)
    if order == "one norm over both":
        both = np.concatenate([embedding, g])
        return rms_norm(both, np.concatenate([embed_norm, state_norm])), g
    token, state = rms_norm(embedding, np.asarray(embed_norm), eps), rms_norm(g, np.asarray(state_norm), eps)
    if order == "raw state":
        state = g
    halves = [state, token] if order == "state first" else [token, state]
    joined = token + state if order == "added" else np.concatenate(halves)
    return joined, {"raw": g, "normed": state, "embedding": embedding}[start]


def entry_like(**mistakes: Any) -> Any:
    """`entry` with mistakes, as a plain function of the exercise's arguments."""
    return lambda embedding, states, fc, embed_norm, state_norm: entry(
        embedding, states, fc, embed_norm, state_norm, **mistakes
    )


def some_entry(rng: Random) -> tuple[Any, ...]:
    size = rng.choice((2, 3, 4))

    def vector(scale: float = 1.0) -> list[float]:
        return [round(scale * rng.gauss(0, 1), 3) for _ in range(size)]

    fc = [[round(rng.gauss(0, 0.5), 3) for _ in range(3 * size)] for _ in range(size)]
    norms = [[round(rng.uniform(0.5, 1.5), 3) for _ in range(size)] for _ in range(2)]
    return vector(0.1), [vector(), vector(3), vector(9)], fc, *norms


def same_entry(got: Any, wanted: Any) -> str | None:
    """Pairs of vectors; lists are as good as arrays."""
    if not isinstance(got, tuple | list) or len(got) != 2:
        return "the answer should be a pair: the attention's input and the start of the residual stream"
    for part, right, name in zip(got, wanted, ("attention's input", "residual"), strict=True):
        plain = part.tolist() if hasattr(part, "tolist") else list(part) if isinstance(part, Sequence) else part
        if found := difference(plain, [float(x) for x in right], rel_tol=1e-4, abs_tol=1e-5):
            return f"{name}: {found}"
    return None


def translate(drafted: Sequence[int], d2t: Sequence[int], said: Sequence[int], t2d: Sequence[bool]) -> Any:
    """(target ids of drafted ids, draft ids of the target's tokens or -1)."""
    draft_id = {int(i + offset): i for i, offset in enumerate(d2t)}
    return [int(i + d2t[i]) for i in drafted], [draft_id.get(int(token), -1) for token in said]


def translated(there: Any, back: Any) -> Any:
    """A wrong translation: `there(i, d2t)` and `back(token, d2t, t2d)`."""
    return lambda drafted, d2t, said, t2d: (
        [there(i, d2t) for i in drafted],
        [back(token, d2t, t2d) for token in said],
    )


def right_there(i: int, d2t: Sequence[int]) -> int:
    return i + d2t[i]


def right_back(token: int, d2t: Sequence[int], t2d: Sequence[bool]) -> int:
    return sum(map(bool, t2d[:token])) if t2d[token] else -1


def some_vocabulary(rng: Random) -> tuple[list[int], list[int], list[int], list[bool]]:
    size = rng.randint(6, 12)
    ids = sorted(rng.sample(range(1, size), rng.randint(3, size - 2)))
    d2t = [token - i for i, token in enumerate(ids)]
    drafted = [rng.randrange(len(ids)) for _ in range(4)]
    return drafted, d2t, [rng.randrange(size) for _ in range(6)], [token in ids for token in range(size)]


def same_translation(got: Any, wanted: Any) -> str | None:
    """Two lists of integers; arrays and tensors are as good."""
    if not isinstance(got, tuple | list) or len(got) != 2:
        return "the answer should be a pair of lists: target ids, draft ids"
    for part, right, name in zip(got, wanted, ("target ids", "draft ids"), strict=True):
        plain = part.tolist() if hasattr(part, "tolist") else list(part) if isinstance(part, Sequence) else part
        if found := difference(plain, right):
            return f"{name}: {found}"
    return None


def perfect_length(answer: Sequence[int], known: set[int] | frozenset[int], k: int) -> float:
    """Tokens per verify step of a draft that is never wrong, but can say the `known` tokens only."""
    at = steps = 0
    while at < len(answer):
        run = 0
        while run < k and at + run < len(answer) and answer[at + run] in known:
            run += 1
        at, steps = at + run + 1, steps + 1
    return len(answer) / steps


def share_known(answer: Sequence[int], known: set[int] | frozenset[int]) -> float:
    return sum(token in known for token in answer) / len(answer)


def skipping_unknown(answer: Sequence[int], known: set[int], k: int) -> float:
    """The mistake that a token outside does not end a chain, but is jumped over by the draft."""
    sayable = [token for token in answer if token in known]
    steps = -(-len(sayable) // k) if sayable else len(answer)
    return len(answer) / max(1, steps)


def without_the_targets_token(answer: Sequence[int], known: set[int], k: int) -> float:
    """The mistake that a step emits accepted tokens only; an empty step costs a step and gets one token."""
    at = steps = 0
    while at < len(answer):
        run = 0
        while run < k and at + run < len(answer) and answer[at + run] in known:
            run += 1
        at, steps = at + max(1, run), steps + 1
    return len(answer) / steps


def some_answer(rng: Random) -> tuple[list[int], set[int], int]:
    known = set(rng.sample(range(8), 5))
    answer = [rng.choice(sorted(known)) if rng.random() < 0.7 else rng.randrange(8) for _ in range(rng.randint(9, 24))]
    return answer, known, rng.randint(2, 5)
