"""Parallel heads: several future tokens from one forward, each guessed without knowing the others (Medusa; Cai et al.,
arXiv 2401.10774).

Head i reads the target's last state at position t and guesses x_{t+2+i}: the target's own head has already said
x_{t+1}.

    logits_i = W_i (h + silu(R_i h))

There is no recurrence: nothing is fed back, so nothing drifts, and training-time test has nothing to unroll. What is
missing instead is the dependence: head 1 does not know what head 0 said, and "New" goes with "York" as well as with
"York's". In the frame of this package head i is step i, so the same trainer and the same measures serve it.

Shapes: B rows, L positions, F feature width, H hidden size, N draft vocabulary, V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn
from torch.nn.functional import silu

from ..models.config import ModelConfig
from ..models.sampling import Sampling
from .expand import expand
from .protocol import Draft
from .recurrent import TTTStep
from .shape import Shape
from .vocabulary import DraftVocabulary


@dataclass(frozen=True, kw_only=True)
class HeadsConfig:
    """`num_heads` guesses; `num_blocks` residual blocks in each head. `hidden_size` is the target's."""

    vocab_size: int
    draft_vocab_size: int
    hidden_size: int
    num_heads: int
    feature_layers: tuple[int, ...]
    num_blocks: int = 1
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        if self.num_heads < 1 or self.num_blocks < 0:
            raise ValueError(f"{self.num_heads} heads of {self.num_blocks} blocks; at least 1 head is needed")
        if not 1 <= self.draft_vocab_size <= self.vocab_size:
            raise ValueError(f"draft_vocab_size is {self.draft_vocab_size}; right is 1 to {self.vocab_size}")
        if len(self.feature_layers) != 1:
            raise ValueError(f"parallel heads read one layer of the target, not {list(self.feature_layers)}")

    @property
    def kind(self) -> str:
        return "heads"

    @property
    def feature_size(self) -> int:
        return self.hidden_size

    @classmethod
    def beside(cls, target: ModelConfig, **settings: Any) -> Self:
        """Four heads on the target's last normed state, over its whole vocabulary, except for what `settings` say."""
        sizes = {
            "vocab_size": target.vocab_size,
            "draft_vocab_size": target.vocab_size,
            "hidden_size": target.hidden_size,
            "num_heads": 4,
            "feature_layers": (target.num_layers,),
        }
        return cls(**(sizes | settings))


class ResidualBlock(nn.Module):
    """h + silu(R h + b)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return h + silu(self.linear(h))


class ParallelHeads(nn.Module):
    """Medusa's heads, by the names of its checkpoints: `medusa_head.{i}.{block}.linear`, `medusa_head.{i}.{blocks}`."""

    def __init__(self, config: HeadsConfig) -> None:
        super().__init__()
        self.config = config
        self.medusa_head = nn.ModuleList(
            nn.ModuleList(
                [ResidualBlock(config.hidden_size) for _ in range(config.num_blocks)]
                + [nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)]
            )
            for _ in range(config.num_heads)
        )

    def ttt_forward(self, tokens_BT: torch.Tensor, features_BLF: torch.Tensor, steps: int) -> Iterator[TTTStep]:
        """Step i is head i at every position; the tokens are not read. ValueError for more steps than heads."""
        if not 1 <= steps <= self.config.num_heads:
            raise ValueError(f"steps is {steps}; this draft has heads for 1 to {self.config.num_heads}")
        if features_BLF.shape[-1] != self.config.feature_size:
            raise ValueError(f"features of width {features_BLF.shape[-1]}; these heads read {self.config.feature_size}")
        for step in range(steps):
            output = self.output(features_BLF, step)
            yield TTTStep(step, output, output)

    def output(self, features: torch.Tensor, step: int) -> torch.Tensor:
        """(..., H) after head `step`'s residual blocks."""
        for block in self.medusa_head[step][:-1]:
            features = block(features)
        return features

    def logits(self, output: torch.Tensor, step: int) -> torch.Tensor:
        """(..., H) to (..., N), by head `step`."""
        return self.medusa_head[step][-1](output)

    @torch.no_grad()
    def initialise(self, seed: int, head_NH: torch.Tensor | None = None) -> ParallelHeads:
        """Residual blocks at zero, so that each head starts as the plain head: the target's rows, or normal draws."""
        generator = torch.Generator().manual_seed(seed)
        for *blocks, last in self.medusa_head:
            for block in blocks:
                block.linear.weight.zero_()
                block.linear.bias.zero_()
            if head_NH is None:
                head_NH_drawn = torch.randn(last.weight.shape, generator=generator) * self.config.initializer_range
                last.weight.copy_(head_NH_drawn)
            else:
                last.weight.copy_(head_NH)
        return self


class HeadsDrafter:
    """Parallel heads as a drafter. A draft is at most as deep as there are heads."""

    name = "heads"

    def __init__(self, draft: ParallelHeads, vocabulary: DraftVocabulary) -> None:
        if len(vocabulary) != draft.config.draft_vocab_size:
            raise ValueError(f"a vocabulary of {len(vocabulary)} tokens for heads over {draft.config.draft_vocab_size}")
        self.draft, self.vocabulary = draft, vocabulary
        self.hidden_layers = draft.config.feature_layers
        self.states: list[torch.Tensor | None] = []

    def start(self, batch_size: int, capacity: int) -> None:
        self.states = [None] * batch_size

    def observe(self, hidden: Sequence[dict[int, torch.Tensor]]) -> None:
        """Only the last state counts: all heads read that one."""
        self.states = [row[self.hidden_layers[0]][-1] for row in hidden]

    def select(self, rows: Sequence[int]) -> None:
        self.states = [self.states[row] for row in rows]

    @torch.no_grad()
    def propose(
        self,
        texts: Sequence[Sequence[int]],
        shape: Shape,
        sampling: Sampling,
        generators: Sequence[torch.Generator],
    ) -> list[Draft]:
        shape = shape.limited(self.draft.config.num_heads)
        if any(state is None for state in self.states) or len(self.states) != len(texts):
            raise ValueError("parallel heads draft from the target's states: call observe before propose")
        weight = self.draft.medusa_head[0][-1].weight
        states_BH = torch.stack(self.states).to(weight.device, weight.dtype)
        depths: list[list[int]] = [[] for _ in texts]

        def at(depth: int) -> torch.Tensor:
            return self.vocabulary.widen(self.draft.logits(self.draft.output(states_BH, depth), depth))

        def run(tokens_BW: torch.Tensor, parents: list[list[int]]) -> torch.Tensor:
            for row, above in zip(depths, parents, strict=True):
                row += [1 if parent < 0 else row[parent] + 1 for parent in above]
            # One call is one level, so all its nodes have the same depth.
            return at(depths[0][-1])[:, None].expand(-1, tokens_BW.shape[1], -1)

        return expand(shape, at(0), run, sampling, generators)
