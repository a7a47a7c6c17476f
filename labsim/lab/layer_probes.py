"""What a linear map can read off a target's states, layer by layer.

A probe is a matrix, fitted in closed form, that maps a state (normed to RMS 1, with a constant) to the *last* state
that belongs to the wanted token; the target's own head turns that into a token. So all probes speak through one mouth,
and their differences are differences of what the state holds.

    next          state at t                          -> last state at t        token t + 1
    after         state at t                          -> last state at t + 1    token t + 2, token t + 1 unknown
    after, told   state at t, embedding of t + 1      -> last state at t + 1    token t + 2, token t + 1 known

The third is the draft's job. Texts are the target's own greedy answers, whose every token is its first choice.

A linear probe shows what lies open, not what is there: a layer may hold more that only a deeper map can get at.

Shapes: P places, D width of a probe's input, E the target's hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..features.source import Online
from ..models.load import Target
from ..sim.intervals import Interval, wilson
from ..train.ttt.data import Document

JOBS = ("next", "after", "after, told")
TEXTS = 16  # per forward
RIDGE = 0.01  # of the mean variance of an input


@dataclass(frozen=True)
class Places:
    """Places of some documents: states by layer (P, E), embedding of the next token, last states, tokens.

    Attributes:
        states: by layer, normed to RMS 1; `embedding_PE` is that of token t + 1, normed too.
        last_PE, after_PE: the last normed states at t and at t + 1.
        next_P, next_but_one_P: tokens t + 1 and t + 2.
    """

    states: dict[int, torch.Tensor]
    embedding_PE: torch.Tensor
    last_PE: torch.Tensor
    after_PE: torch.Tensor
    next_P: torch.Tensor
    next_but_one_P: torch.Tensor

    def __len__(self) -> int:
        return len(self.next_P)


def gather(target: Target, documents: Sequence[Document], layers: Sequence[int]) -> Places:
    """All places from the prompt's last token on that have two tokens of their document behind them."""
    online, size = Online(target.model, layers), target.model.config.hidden_size
    parts: dict[int, list[torch.Tensor]] = {layer: [] for layer in layers}
    rest: list[list[torch.Tensor]] = [[] for _ in range(5)]
    read_all = [one for part in batched(documents) for one in online.read([document.tokens for document in part])]
    for document, read in zip(documents, read_all, strict=True):
        text_T = torch.tensor(document.tokens)
        here = slice(document.answer_start - 1, len(text_T) - 2)
        then = slice(document.answer_start, len(text_T) - 1)
        for layer, states_TE in zip(layers, read.features_TF.split(size, dim=-1), strict=True):
            parts[layer].append(unit(states_TE[here]))
        embedding_PE = target.model.embedding_VE[text_T[then].to(target.model.device)]
        for kept, new in zip(
            rest,
            (unit(embedding_PE), read.last_TE[here], read.last_TE[then], text_T[then], text_T[then.start + 1 :]),
            strict=True,
        ):
            kept.append(new.cpu())
    return Places({layer: torch.cat(found).cpu() for layer, found in parts.items()}, *map(torch.cat, rest))


def batched(documents: Sequence[Document]) -> list[Sequence[Document]]:
    """In portions: one forward for several texts is faster than one each."""
    return [documents[first : first + TEXTS] for first in range(0, len(documents), TEXTS)]


def unit(states_PE: torch.Tensor) -> torch.Tensor:
    """RMS 1: layers differ in size by an order of magnitude, which is no information."""
    states_PE = states_PE.float()
    return states_PE / states_PE.pow(2).mean(-1, keepdim=True).sqrt().clamp(min=1e-6)


@dataclass(frozen=True)
class Reading:
    """Share of held-out places at which the probe's token is the target's, with a Wilson interval."""

    accuracy: float
    interval: Interval


def probe(target: Target, training: Places, held_out: Places, layers: Sequence[int], job: str) -> Reading:
    """Fit on one side, count on the other. Several layers are concatenated. ValueError for an unknown job."""
    if job not in JOBS:
        raise ValueError(f"job is {job!r}; allowed: {', '.join(JOBS)}")
    weights_DE = fit(inputs(training, layers, job), training.last_PE if job == "next" else training.after_PE)
    guessed_PE = inputs(held_out, layers, job) @ weights_DE
    head = target.model.head
    said_P = head(guessed_PE.to(target.model.device, head.dtype)).argmax(dim=-1).cpu()
    right = int((said_P == (held_out.next_P if job == "next" else held_out.next_but_one_P)).sum())
    return Reading(right / len(held_out), wilson(right, len(held_out)))


def inputs(places: Places, layers: Sequence[int], job: str) -> torch.Tensor:
    """(P, D): states, the next token's embedding where the job is told of it, and a constant."""
    parts = [places.states[layer] for layer in layers]
    if job == "after, told":
        parts.append(places.embedding_PE)
    return torch.cat([*parts, torch.ones(len(places), 1)], dim=-1).double()


def fit(x_PD: torch.Tensor, y_PE: torch.Tensor) -> torch.Tensor:
    """Ridge regression: (x'x + r I) w = x'y, in float64."""
    gram_DD = x_PD.T @ x_PD
    ridge = RIDGE * gram_DD.diagonal().mean()
    gram_DD.diagonal().add_(ridge)
    return torch.linalg.solve(gram_DD, x_PD.T @ y_PE.double())
