"""Drafting with a small model of the target's own kind (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv
2302.01318).

The drafter is a short Llama with its own KV cache. It may know only the target's most frequent tokens: `d2t` says which
target token each of its outputs is. A target token outside them can never be drafted, only rejected, so a reduced
vocabulary costs acceptance and never correctness.

After each verify pass the text has grown by the accepted tokens and one more. The drafter keeps those of its own
pending tokens that the text confirms, drops the rest, and runs what it has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from ..models.cache import KVCache, each_once
from ..models.llama import LanguageModel
from ..models.load import Target
from ..models.sampling import Sampling
from .expand import expand
from .protocol import Draft
from .shape import DynamicTree, Shape
from .small_checkpoint import read_small


class SmallModelDrafter:
    """A causal language model as a drafter.

    Args:
        model: the small model, on the target's device.
        target_ids_N: for each of the model's N outputs the target's token id; None when they are the same.
    """

    name = "small"
    hidden_layers: tuple[int, ...] = ()

    def __init__(self, model: LanguageModel, target_vocab_size: int, target_ids_N: torch.Tensor | None = None) -> None:
        self.model = model
        self.target_vocab_size = target_vocab_size
        self.target_ids_N = target_ids_N
        self.cache: KVCache | None = None
        self.pending: list[list[int]] = []

    @classmethod
    def from_directory(cls, path: str | Path, target: Target) -> SmallModelDrafter:
        """Load a draft directory made for `target`. ValueError when it was made for another or does not fit."""
        directory = Path(path)
        found = read_small(directory, target.model.config, target.name)
        model = LanguageModel.from_directory(
            directory,
            device=target.model.device,
            dtype=target.model.dtype,
            weights=found.weights,
            embedding_VE=target.model.embedding_VE if found.borrows_embedding else None,
            head_rows=len(found.vocabulary),
        )
        vocab_size = target.model.config.vocab_size
        ids_N = found.vocabulary.ids_N.to(target.model.device) if len(found.vocabulary) < vocab_size else None
        return cls(model, vocab_size, ids_N)

    def start(self, batch_size: int, capacity: int) -> None:
        self.cache = None
        self.batch_size, self.capacity = batch_size, capacity

    def observe(self, hidden: Sequence[dict[int, torch.Tensor]]) -> None:
        """Reads the text only."""

    def select(self, rows: Sequence[int]) -> None:
        if self.cache is not None:
            self.cache.select(rows)
            self.pending = [self.pending[row] for row in rows]

    def propose(
        self,
        texts: Sequence[Sequence[int]],
        shape: Shape,
        sampling: Sampling,
        generators: Sequence[torch.Generator],
    ) -> list[Draft]:
        if self.cache is None:
            runs = shape.depth * shape.top_k if isinstance(shape, DynamicTree) else shape.nodes
            self.cache = self.model.new_cache(len(texts), self.capacity + runs)
            self.pending = [[] for _ in texts]
        room = self.model.config.max_positions - max(map(len, texts))
        if room < 0:  # a text longer than this model's context is answered without drafts
            return [Draft()] * len(texts)
        root_BV = self._catch_up(texts)

        def run(tokens_BW: torch.Tensor, parents: list[list[int]]) -> torch.Tensor:
            for row, more in zip(self.pending, tokens_BW.tolist(), strict=True):
                row += more
            return self._widen(self.model.forward(tokens_BW, self.cache, parents_BQ=parents).logits_BQV)

        # The last level is drafted and not run: it needs no position.
        return expand(shape.limited(room + 1), root_BV, run, sampling, generators)

    def _catch_up(self, texts: Sequence[Sequence[int]]) -> torch.Tensor:
        """Bring the cache up to the end of each text; (B, V) logits after each one's last token."""
        cache = self.cache
        cache.keep([self._confirmed(row, text) for row, text in enumerate(texts)])
        self.pending = [[] for _ in texts]
        if max(cache.lengths) == 0:
            self._run_shared(texts)
        fresh = [list(text[length:]) for text, length in zip(texts, cache.lengths, strict=True)]
        width = max(map(len, fresh))
        tokens_BQ = torch.tensor([row + [0] * (width - len(row)) for row in fresh])
        parents = None
        if max(cache.lengths) + width > self.model.config.max_positions:  # of padding alone, which gets no position
            parents = [[*range(-1, len(row) - 1), *[-1] * (width - len(row))] for row in fresh]
        out = self.model.forward(tokens_BQ, cache, parents_BQ=parents, logits=[len(row) - 1 for row in fresh])
        cache.keep([range(len(row)) for row in fresh])
        return self._widen(out.logits_BQV)[:, 0]

    def _run_shared(self, texts: Sequence[Sequence[int]]) -> None:
        """Where rows begin alike up to their last token, run each beginning once and copy it."""
        distinct, of_row = each_once([text[:-1] for text in texts])
        if len(distinct) == len(texts) or not all(distinct):
            return
        width = max(map(len, distinct))
        once = self.model.new_cache(len(distinct), width)
        tokens_BQ = torch.tensor([[*row, *[0] * (width - len(row))] for row in distinct])
        self.model.forward(tokens_BQ, once, logits="none")
        once.keep([range(len(row)) for row in distinct])
        self.cache.copy_rows(once, of_row)

    def _confirmed(self, row: int, text: Sequence[int]) -> list[int]:
        """Path of pending tokens that the text has confirmed. The last token is left to run: its logits are needed."""
        path: list[int] = []
        at = -1
        parents, tokens = self.cache.parents[row], self.pending[row]
        for token in text[self.cache.lengths[row] : -1]:
            at = next((i for i, (p, t) in enumerate(zip(parents, tokens, strict=True)) if (p, t) == (at, token)), None)
            if at is None:
                break
            path.append(at)
        return path

    def _widen(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits over the target's vocabulary; -inf for tokens this draft does not know."""
        if self.target_ids_N is None:
            return logits
        wide = logits.new_full((*logits.shape[:-1], self.target_vocab_size), float("-inf"))
        wide[..., self.target_ids_N] = logits
        return wide
