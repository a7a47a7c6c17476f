"""A draft whose own guesses are disturbed: noise on what it feeds itself, or the size of that held fixed.

From depth 2 on a draft consumes a state of its own making and the embedding of a token it guessed. With noise of
strength alpha, x becomes x + alpha rms(x) n, n standard normal, so that alpha = 1 is as much noise as there is signal.
Pinned, a state is stretched to one fixed root mean square and keeps its direction: what is then lost had been read off
the magnitude, which a draft can use as a clock of its depth (arXiv 2605.09992).

Depth 1, which reads the target's true states, is left alone. So acceptance at depth 1 never changes, and what can be
lost is what comes after it.

Shapes: B rows, L positions, F feature width, H hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...drafts.recurrent import Pair, RecurrentDraft, TTTStep
from ...models.cache import KVCache


@dataclass(frozen=True, kw_only=True)
class Disturbance:
    """What is done to a guess's inputs.

    Attributes:
        state_noise, embedding_noise: alpha, in units of the vector's own root mean square.
        pinned: root mean square to which each state is stretched before any noise; None leaves it.
        seed: of the noise.
    """

    state_noise: float = 0.0
    embedding_noise: float = 0.0
    pinned: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("state_noise", "embedding_noise"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is {getattr(self, name)}; right is 0 or more, in units of the vector's size")
        if self.pinned is not None and not 0 < self.pinned < float("inf"):
            raise ValueError(f"pinned is {self.pinned}; right is a root mean square above 0")


class Disturbed(RecurrentDraft):
    """The same draft, in training-time test as in decoding, with its guesses disturbed; for inference only."""

    def __init__(self, draft: RecurrentDraft, disturbance: Disturbance) -> None:
        super().__init__(draft.config, draft.embedding_VH, draft.head_VH)
        self.inner, self.disturbance = draft, disturbance
        self.packed = draft.packed
        self.generator = torch.Generator().manual_seed(disturbance.seed)
        self.guessing = False

    @property
    def layer(self) -> torch.nn.Module:
        return self.inner.layer

    def fuse(self, features_BLF: torch.Tensor) -> torch.Tensor:
        return self.inner.fuse(features_BLF)

    def enter(self, embeds_BLH: torch.Tensor, state_BLH: torch.Tensor) -> Pair:
        """Disturbs both inputs, when they are those of a guess."""
        if self.guessing:
            wanted = self.disturbance
            if wanted.pinned is not None:
                state_BLH = state_BLH * (wanted.pinned / sizes(state_BLH))
            state_BLH = self.noisy(state_BLH, wanted.state_noise)
            embeds_BLH = self.noisy(embeds_BLH, wanted.embedding_noise)
        return self.inner.enter(embeds_BLH, state_BLH)

    def noisy(self, x: torch.Tensor, strength: float) -> torch.Tensor:
        """x + strength rms(x) n; without strength nothing is drawn."""
        if not strength:
            return x
        drawn = torch.randn(x.shape, generator=self.generator).to(x.device, x.dtype)
        return x + strength * sizes(x) * drawn

    def leave(self, raw_BLH: torch.Tensor) -> Pair:
        return self.inner.leave(raw_BLH)

    def logits(self, output: torch.Tensor, step: int = 0) -> torch.Tensor:
        return self.inner.logits(output, step)

    @torch.no_grad()
    def ttt_forward(self, *arguments: Any, **options: Any) -> Iterator[TTTStep]:
        """Step 0 reads true states; every later one guesses."""
        self.guessing = False
        for step in super().ttt_forward(*arguments, **options):
            yield step
            self.guessing = True
        self.guessing = False

    def forward_cached(
        self,
        tokens_BQ: torch.Tensor,
        states_BQH: torch.Tensor,
        cache: KVCache,
        *,
        parents_BQ: Sequence[Sequence[int]] | None = None,
    ) -> Pair:
        """Entries with parents are nodes of a draft; those without are committed tokens with true states."""
        self.guessing = parents_BQ is not None
        return super().forward_cached(tokens_BQ, states_BQH, cache, parents_BQ=parents_BQ)


def sizes(x: torch.Tensor) -> torch.Tensor:
    """Root mean square of each vector along the last axis, which stays, with length 1."""
    return x.float().pow(2).mean(-1, keepdim=True).sqrt().to(x.dtype)
