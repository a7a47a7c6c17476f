"""Where target states come from: the target itself (online), or files that it filled once (offline).

A draft's training reads, for each document, the states of a few layers (its input) and the last normed state (its
teacher: the target's head makes logits of it). Both sources give the same, so the trainer does not know which it has.

Shapes: T tokens of a document, F width of the concatenated feature layers, E the target's hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from ..models.llama import LanguageModel


@dataclass(frozen=True)
class TargetStates:
    """States at each position of one document.

    Attributes:
        features_TF: the feature layers, concatenated in the order in which the draft names them.
        last_TE: the last state, normed: what the target's head reads.
    """

    features_TF: torch.Tensor
    last_TE: torch.Tensor


class StateSource(Protocol):
    """Gives states for documents."""

    def read(self, documents: Sequence[Sequence[int]]) -> list[TargetStates]:
        """One `TargetStates` per document of token ids, in order."""

    def read_at(self, document: Sequence[int], features_at: torch.Tensor, last_at: torch.Tensor) -> TargetStates:
        """The features at some positions of a document, and its last states at others; both ascending."""


class Online:
    """The target in the loop: nothing on disk, one more forward per step."""

    def __init__(self, model: LanguageModel, feature_layers: Sequence[int]) -> None:
        self.model, self.layers = model, tuple(feature_layers)

    def read(self, documents: Sequence[Sequence[int]]) -> list[TargetStates]:
        """All documents in one forward, padded on the right, where causal attention never looks back from a token."""
        last = self.model.config.num_layers
        longest = max(map(len, documents))
        tokens_BT = torch.zeros(len(documents), longest, dtype=torch.long)
        for row, document in enumerate(documents):
            tokens_BT[row, : len(document)] = torch.tensor(document)
        cache = self.model.new_cache(len(documents), longest)
        layers = sorted({*self.layers, last})
        hidden = self.model.forward(tokens_BT, cache, hidden_layers=layers, logits="none").hidden
        return [
            TargetStates(
                torch.cat([hidden[layer][row, : len(document)] for layer in self.layers], dim=-1),
                hidden[last][row, : len(document)],
            )
            for row, document in enumerate(documents)
        ]

    def read_at(self, document: Sequence[int], features_at: torch.Tensor, last_at: torch.Tensor) -> TargetStates:
        """The target reads the whole document for it, on every rank; files (`FeatureStore`) spare that."""
        if len(features_at) + len(last_at) == 0:
            document = document[:1]
        [states] = self.read([document])
        device = states.last_TE.device
        return TargetStates(states.features_TF[features_at.to(device)], states.last_TE[last_at.to(device)])
