"""Plain against speculative, side by side: the same answer, and how much sooner.

Speed is a ratio of two measurements on a machine that does other things too, so the two runs alternate and each
repeats. Sameness is exact. Where float arithmetic of a block and of single rows rounds differently, two logits that
nearly tie may swap; such a place is reported with the gap between them, and is no error while the gap is below
`NEAR_TIE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import torch

from ..models.load import Target
from .generate import generate
from .result import GenerationResult

NEAR_TIE = 1e-4


@dataclass(frozen=True)
class Difference:
    """The first place where two greedy answers part.

    Attributes:
        position: index into the answer.
        plain, speculative: the two tokens there; -1 past an answer's end.
        gap: the target's largest logit less its second largest at that place.
    """

    position: int
    plain: int
    speculative: int
    gap: float

    @property
    def near_tie(self) -> bool:
        return self.gap < NEAR_TIE


@dataclass(frozen=True)
class Comparison:
    """Interleaved repeats of both ways, on one prompt. `difference` is None when all answers are the same tokens."""

    plain: tuple[GenerationResult, ...]
    speculative: tuple[GenerationResult, ...]
    difference: Difference | None

    @property
    def identical(self) -> bool:
        return self.difference is None

    @property
    def speedups(self) -> tuple[float, ...]:
        """Decode speed with a draft over decode speed without, repeat by repeat."""
        pairs = zip(self.plain, self.speculative, strict=True)
        return tuple(fast.tokens_per_second / slow.tokens_per_second for slow, fast in pairs)

    @property
    def speedup(self) -> float:
        return median(self.speedups)


def compare(target: Target, prompt: Sequence[int], *, repeats: int = 1, **options: object) -> Comparison:
    """Generate with `options` and, interleaved with it, without a drafter.

    Under sampling the answers differ by design, since the two ways spend chance differently; their distribution is
    the same, which one answer cannot show. `difference` then stays None.
    """
    plain_options = {key: value for key, value in options.items() if key not in ("drafter", "shape")}
    plain, speculative = [], []
    for chosen in (
        plain_options,
        options,
    ):
        generate(target, prompt, **{**chosen, "max_new_tokens": min(8, int(options.get("max_new_tokens", 8)))})
    for repeat in range(repeats):
        runs = [(plain, plain_options), (speculative, options)]
        for results, chosen in runs if repeat % 2 == 0 else reversed(runs):
            results.append(generate(target, prompt, **chosen))
    sampling = options.get("sampling")
    greedy = sampling is None or sampling.greedy
    difference = first_difference(target, prompt, plain[0].tokens, speculative[0].tokens) if greedy else None
    return Comparison(tuple(plain), tuple(speculative), difference)


def first_difference(
    target: Target, prompt: Sequence[int], plain: Sequence[int], speculative: Sequence[int]
) -> Difference | None:
    """Where two greedy answers to a prompt part, with the target's logit gap there; None if they don't."""
    ends = [(*tokens, -1) for tokens in (plain, speculative)]
    position = next((i for i, (a, b) in enumerate(zip(*ends, strict=False)) if a != b), None)
    if position is None:
        return None
    text = torch.tensor([[*prompt, *plain[:position]]])
    cache = target.model.new_cache(1, text.shape[1])
    top = target.model.forward(text, cache, logits="last").logits_BQV[0, 0].topk(2).values
    return Difference(position, ends[0][position], ends[1][position], float(top[0] - top[1]))
