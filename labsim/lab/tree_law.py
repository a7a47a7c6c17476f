"""The exact law of what one verify step over a sampled tree emits, by enumeration, and the same by drawing.

Speculation is lossless when the emitted tokens have the target's own distribution. On a vocabulary of a few words
that can be computed instead of tested: every way in which siblings can be drawn, every accept and every reject, with
its probability. A step emits between 1 and depth + 1 tokens, so shorter outcomes are continued by the target itself
and whole sequences of depth + 1 tokens are compared.

`enumerate_step` follows the rule of `labsim.decode.accept` with its own `residual`; `draw_steps` runs the real
drafting and accepting code. The two are independent ways to the same law.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence

import torch

from ..decode.accept import accept_sampled, residual
from ..drafts.expand import expand
from ..drafts.shape import StaticTree
from ..models.sampling import Sampling

Path = tuple[int, ...]
Law = dict[Path, float]
Model = Callable[[Path], torch.Tensor]


def random_model(vocabulary: int, seed: int) -> Model:
    """A language model that is a table: next-word probabilities (float64) after any path, drawn from the seed."""

    def after(path: Path) -> torch.Tensor:
        rng = random.Random(f"{seed} {path}")
        weights = torch.tensor([rng.uniform(0.05, 1) ** 2 for _ in range(vocabulary)], dtype=torch.float64)
        return weights / weights.sum()

    return after


def sequences(p: Model, length: int, path: Path = ()) -> Law:
    """Probability of every sequence of `length` words under the model itself."""
    if length == 0:
        return {path: 1.0}
    p_V, law = p(path), {}
    for word, chance in enumerate(p_V.tolist()):
        for sequence, rest in sequences(p, length - 1, (*path, word)).items():
            law[sequence] = chance * rest
    return law


def enumerate_step(p: Model, q: Model, widths: Sequence[int], *, forget_rejections: bool = False) -> Law:
    """Law of the first depth + 1 words when a static tree of these widths is drafted from q and verified by p.

    `forget_rejections` plants a fault: each sibling is judged by p itself, as if its elder ones had not been tried.
    """
    length, law = len(widths) + 1, Counter()

    def emit(path: Path, chance: float) -> None:
        for sequence, rest in sequences(p, length - len(path), path).items():
            law[sequence] += chance * rest

    def grow(path: Path, chance: float) -> None:
        if len(path) == len(widths):  # a leaf: the bonus token comes from p
            emit(path, chance)
            return
        for siblings in itertools.permutations(range(len(q(path))), widths[len(path)]):
            p_V, q_V, reached = p(path), q(path).clone(), chance
            for word in siblings:  # drawn without replacement
                q_V = q_V / q_V.sum()
                reached *= float(q_V[word])
                q_V = q_V.index_fill(0, torch.tensor([word]), 0)
            q_V = q(path).clone()
            for word in siblings:
                q_V = q_V / q_V.sum()
                accept = min(1.0, float(p_V[word] / q_V[word]))
                grow((*path, word), reached * accept)
                reached *= 1 - accept
                left_V = residual(p_V, word, q_V)
                p_V = p(path) if forget_rejections else left_V
                q_V = q_V.index_fill(0, torch.tensor([word]), 0)
            for word, corrected in enumerate(left_V.tolist()):
                emit((*path, word), reached * corrected)

    grow((), 1.0)
    return dict(law)


def draw_steps(p: Model, q: Model, widths: Sequence[int], steps: int, seed: int) -> Counter[Path]:
    """How often each sequence came out in `steps` steps of the real code: `expand`, then `accept_sampled`."""
    generator, shape, sampling = (
        torch.Generator().manual_seed(seed),
        StaticTree(tuple(widths)),
        Sampling(temperature=1.0),
    )
    counts: Counter[Path] = Counter()
    for _ in range(steps):
        nodes: list[Path] = []

        def run(tokens_BW: torch.Tensor, parents: list[list[int]], nodes: list[Path] = nodes) -> torch.Tensor:
            fresh = [
                (*(nodes[parent] if parent >= 0 else ()), token)
                for token, parent in zip(tokens_BW[0].tolist(), parents[0], strict=True)
            ]
            nodes += fresh
            return torch.stack([q(path).log() for path in fresh])[None]

        (draft,) = expand(shape, q(()).log()[None], run, sampling, [generator])
        paths: list[Path] = []
        for token, parent in zip(draft.tokens, draft.parents, strict=True):
            paths.append((*(paths[parent] if parent >= 0 else ()), token))
        outcome = accept_sampled(draft, torch.stack([p(path) for path in [(), *paths]]), generator)
        emitted = (*(draft.tokens[node] for node in outcome.path), outcome.token)
        while len(emitted) <= len(widths):  # the target goes on by itself
            emitted = (*emitted, int(torch.multinomial(p(emitted), 1, generator=generator)))
        counts[emitted] += 1
    return counts


def distance(one: Law, other: Law) -> float:
    """Largest difference between two laws in the probability of any sequence."""
    return max(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in one.keys() | other.keys())
