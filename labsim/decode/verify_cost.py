"""The verify cost curve: how long one target forward takes when it carries 1, 2, ... 16 tokens.

Speculation emits `acceptance_length` tokens per forward, and that forward carries K drafted tokens more than a plain
one:

    speedup = acceptance_length * T(1) / (T(1 + K) + draft)

So everything depends on T(1 + K) / T(1). As long as fetching the weights takes longer than multiplying with them, T is
flat and drafted tokens are verified for nothing; from the width on where arithmetic takes over, each costs its
share. On a large GPU that is at some hundred tokens, which concurrent users fill. On a CPU it depends on the kernel:
see `labsim.models.linear`.

The widths are timed in turn, round after round, so that a slow moment of the machine hits all of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import torch

from ..models.llama import LanguageModel

WARM_UPS = 2


@dataclass(frozen=True)
class VerifyCost:
    """Measured forwards.

    Attributes:
        context: committed tokens in the cache.
        widths: tokens per forward, ascending.
        seconds: for each width the time of its forward in each round.
    """

    context: int
    widths: tuple[int, ...]
    seconds: tuple[tuple[float, ...], ...]

    def median(self, width: int) -> float:
        """Seconds of a forward of `width` tokens. ValueError for a width that was not measured."""
        return statistics.median(self._of(width))

    def quartiles(self, width: int) -> tuple[float, float]:
        """The seconds that a quarter and three quarters of the rounds stayed below."""
        low, _, high = statistics.quantiles(self._of(width), n=4, method="inclusive")
        return low, high

    def ratio(self, width: int) -> float:
        """T(width) / T(narrowest width), the median over the rounds of the ratio within a round."""
        return statistics.median(self._ratios(width))

    def ratio_quartiles(self, width: int) -> tuple[float, float]:
        """Quartiles over the rounds of the ratio within a round."""
        low, _, high = statistics.quantiles(self._ratios(width), n=4, method="inclusive")
        return low, high

    def _ratios(self, width: int) -> list[float]:
        return [wide / narrow for wide, narrow in zip(self._of(width), self.seconds[0], strict=True)]

    def _of(self, width: int) -> tuple[float, ...]:
        if width not in self.widths:
            raise ValueError(f"width {width} was not measured; measured: {', '.join(map(str, self.widths))}")
        return self.seconds[self.widths.index(width)]


def measure_verify_cost(
    model: LanguageModel,
    *,
    widths: Sequence[int] = tuple(range(1, 17)),
    context: int = 256,
    rounds: int = 9,
    seed: int = 0,
) -> VerifyCost:
    """Time one forward, logits after every token included, for each width behind `context` committed tokens.

    The tokens are random: the time does not depend on them. ValueError for widths below 1, fewer than two rounds, or a
    context that the model cannot hold.
    """
    widths = tuple(sorted(set(widths)))
    if not widths or widths[0] < 1:
        raise ValueError(f"widths are {list(widths)}; right is one or more numbers of tokens, each at least 1")
    if rounds < 2:
        raise ValueError(f"rounds is {rounds}; a spread needs at least 2")
    longest = model.config.max_positions - widths[-1]
    if not 1 <= context <= longest:
        raise ValueError(f"context is {context}; right is 1 to {longest}, the model's context less {widths[-1]} tokens")
    generator = torch.Generator().manual_seed(seed)
    tokens_1N = torch.randint(model.config.vocab_size, (1, context + widths[-1]), generator=generator)
    cache = model.new_cache(1, context + widths[-1])
    model.forward(tokens_1N[:, :context], cache, logits="none")
    cache.keep([range(context)])

    def timed(width: int) -> float:
        synchronize(model.device)
        start = perf_counter()
        model.forward(tokens_1N[:, context : context + width], cache)
        synchronize(model.device)
        elapsed = perf_counter() - start
        cache.forget_pending()
        return elapsed

    for _ in range(WARM_UPS):
        for width in widths:
            timed(width)
    measured = [[timed(width) for width in widths] for _ in range(rounds)]
    return VerifyCost(context, widths, tuple(zip(*measured, strict=True)))


def synchronize(device: torch.device) -> None:
    """Wait for a GPU, which works behind the program's back."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
