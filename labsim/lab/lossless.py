"""Instruments that show whether decoding with a draft changes the answer.

- `continuation_probabilities` computes the target's exact distribution over all short continuations, with plain
  forwards over whole sequences: no cache that is cut, no draft, nothing of what is under test;
- `chi_square` compares counted answers with it;
- `planted` breaks the sampler on purpose, to see that the comparison would notice;
- `first_difference` tells a rounding tie from a wrong token (it is `labsim.decode.compare`'s);
- `counting_forwards` counts the target's forwards from outside.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from ..decode import accept
from ..decode.compare import first_difference as first_difference
from ..drafts.protocol import Draft
from ..drafts.shape import Shape
from ..models.cache import KVCache
from ..models.llama import LanguageModel
from ..models.load import Target
from ..models.sampling import Sampling, distribution
from ..sim.errors import unknown_name

Tokens = tuple[int, ...]
SMALLEST_EXPECTED = 5.0  # cells that expect fewer are pooled, as the chi-square approximation asks
# By name, since the package may offer the function `generate` in the module's place.
_LOOP = importlib.import_module("labsim.decode.generate")
PLANTED = ("redraw from p", "accept only where p >= q", "bonus from the row before", "rejected tokens stay cached")


def continuation_probabilities(
    target: Target, prompt: Sequence[int], length: int, sampling: Sampling
) -> dict[Tokens, float]:
    """Probability of every continuation of `length` tokens. Feasible where top_k is small: top_k ** length of them."""
    found: dict[Tokens, float] = {(): 1.0}
    for _ in range(length):
        before = list(found)
        p_NV = distribution(next_logits(target, [[*prompt, *one] for one in before]), sampling).double().cpu()
        found = {
            (*one, token): found[one] * float(p_V[token])
            for one, p_V in zip(before, p_NV, strict=True)
            for token in p_V.nonzero().flatten().tolist()
        }
    return found


def next_logits(target: Target, texts: Sequence[Sequence[int]]) -> torch.Tensor:
    """(N, V) logits after each of N texts of one length: one forward over the whole texts."""
    cache = target.model.new_cache(len(texts), len(texts[0]))
    return target.model.forward(torch.tensor(texts), cache, logits="last").logits_BQV[:, 0]


@dataclass(frozen=True)
class Fit:
    """Outcome of a chi-square test. `p_value` is the chance of a worse fit if the counts came from the probabilities;
    `impossible` counts answers that the probabilities rule out.
    """

    statistic: float
    degrees: int
    p_value: float
    impossible: int = 0


def chi_square(counts: Mapping[Tokens, int], probabilities: Mapping[Tokens, float]) -> Fit:
    """Pearson's test of counted against exact probabilities; rare cells are pooled. ValueError without any count."""
    total = sum(counts.values())
    if total == 0:
        raise ValueError("counts are all 0; allowed: at least one answer")
    impossible = sum(n for key, n in counts.items() if probabilities.get(key, 0.0) == 0.0)
    cells, rare = [], [0.0, 0.0]
    for key, probability in probabilities.items():
        cell = [float(counts.get(key, 0)), total * probability]
        if cell[1] >= SMALLEST_EXPECTED:
            cells.append(cell)
        else:
            rare = [rare[0] + cell[0], rare[1] + cell[1]]
    if rare[1] >= SMALLEST_EXPECTED or not cells:
        cells.append(rare)
    else:
        cells[-1] = [cells[-1][0] + rare[0], cells[-1][1] + rare[1]]
    if impossible:
        return Fit(math.inf, len(cells) - 1, 0.0, impossible)
    statistic = sum((seen - expected) ** 2 / expected for seen, expected in cells if expected > 0)
    degrees = len(cells) - 1
    if degrees == 0:
        return Fit(statistic, 0, 1.0)
    half = torch.tensor([degrees / 2, statistic / 2], dtype=torch.float64)
    return Fit(statistic, degrees, float(torch.special.gammaincc(half[0], half[1])))


@contextlib.contextmanager
def planted(mistake: str) -> Iterator[None]:
    """Decode with a known mistake inside the block. ValueError with the nearest match for a mistake not in PLANTED.

    "rejected tokens stay cached" happens at the first verify step of the block only: room for more is not reserved.
    """
    right_judge, right_sampled = accept.judge, accept.accept_sampled
    if mistake not in PLANTED:
        raise unknown_name("mistake", mistake, PLANTED)

    def redraw_from_p(p_V: torch.Tensor, token: int, q_V: torch.Tensor | None, generator: torch.Generator):
        _, taken = right_judge(p_V, token, q_V, generator)
        return p_V, taken

    def threshold(p_V: torch.Tensor, token: int, q_V: torch.Tensor | None, generator: torch.Generator):
        taken = float(p_V[token]) >= (1.0 if q_V is None else float(q_V[token]))
        return (p_V if taken else accept.residual(p_V, token, q_V)), taken

    def row_before(draft: Draft, p_NV: torch.Tensor, generator: torch.Generator) -> accept.Accepted:
        right = right_sampled(draft, p_NV, generator)
        if right.kind == "corrected" or not right.path:
            return right
        before = p_NV[1 + draft.parents[right.path[-1]]]
        return accept.Accepted(right.path, int(torch.multinomial(before, 1, generator=generator)), right.kind)

    right_verify, right_keep = _LOOP.verify, KVCache.keep
    uncut: set[int] = set()

    def noting(model: LanguageModel, cache: KVCache, *rest: object):
        uncut.add(id(cache))  # the target's: a draft that is wrong about the text would not change the answer
        return right_verify(model, cache, *rest)

    def keep_all_once(cache: KVCache, paths: Sequence[Sequence[int]]) -> None:
        if id(cache) in uncut and not done:
            done.append(True)
            paths = [range(cache.pending)] * cache.batch_size
        right_keep(cache, paths)

    done: list[bool] = []
    try:
        if mistake == "bonus from the row before":
            _LOOP.accept_sampled = row_before
        elif mistake == "rejected tokens stay cached":
            _LOOP.verify, KVCache.keep = noting, keep_all_once
        else:
            accept.judge = redraw_from_p if mistake == "redraw from p" else threshold
        yield
    finally:
        accept.judge, _LOOP.accept_sampled = right_judge, right_sampled
        _LOOP.verify, KVCache.keep = right_verify, right_keep


@contextlib.contextmanager
def counting_forwards(model: LanguageModel) -> Iterator[list[int]]:
    """A list that grows by the number of tokens of each forward of `model` inside the block."""
    widths: list[int] = []
    right = model.forward

    def counted(tokens_BQ: torch.Tensor, *arguments: object, **options: object):
        widths.append(tokens_BQ.shape[1])
        return right(tokens_BQ, *arguments, **options)

    model.forward = counted  # type: ignore[method-assign]
    try:
        yield widths
    finally:
        del model.forward  # the class's own method shows again


class StubbornDrafter:
    """Guesses one and the same token for ever: a draft that is (almost) never right."""

    name = "stubborn"
    hidden_layers: tuple[int, ...] = ()

    def __init__(self, token: int) -> None:
        self.token = token

    def start(self, batch_size: int, capacity: int) -> None:
        """Nothing to prepare."""

    def observe(self, hidden: Sequence[dict[int, torch.Tensor]]) -> None:
        """Reads nothing."""

    def select(self, rows: Sequence[int]) -> None:
        """Keeps nothing per row."""

    def propose(
        self,
        texts: Sequence[Sequence[int]],
        shape: Shape,
        sampling: Sampling,
        generators: Sequence[torch.Generator],
    ) -> list[Draft]:
        """A chain of the token, as long as the shape is deep."""
        return [Draft.chain(list(itertools.repeat(self.token, shape.depth))) for _ in texts]
