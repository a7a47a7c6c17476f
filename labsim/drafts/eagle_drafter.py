"""Drafting with a recurrent draft: true states for what is committed, its own for what it guesses.

    text       x_0 ... x_{n-2}  x_{n-1}          the last token has no target state yet
    states     g_0 ... g_{n-2}                   from the target's verify pass
    entries    (g_t, x_{t+1}),  t = 0..n-2       one position behind the text: the last one reads the last token

The entry of the last token gives the first drafted token, straight after the prompt. Each drafted token then makes an
entry of its own, with the state that its parent handed over, one position further on.

A verify pass brings the target's true states for the accepted tokens. So *all* drafted entries are dropped, also the
right ones, and the accepted tokens are run again with true states: the prefix never holds a guess.

Shapes: B rows, Q entries, P pending entries, F feature width, H hidden size, N draft vocabulary, V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..models.cache import KVCache
from ..models.sampling import Sampling
from .expand import expand
from .protocol import Draft
from .recurrent import RecurrentDraft
from .shape import DynamicTree, Shape
from .vocabulary import DraftVocabulary

CATCH_UP_CHUNK = 2048  # entries per row and forward: bounds the activations of a long prompt


class EagleDrafter:
    """A recurrent draft (EAGLE-1, 3, 3.1 or MTP) as a drafter, for chains and trees.

    Args:
        draft: on the target's device; `pack()` it first for speed.
        vocabulary: which target tokens its head says.
    """

    def __init__(self, draft: RecurrentDraft, vocabulary: DraftVocabulary) -> None:
        if len(vocabulary) != draft.config.draft_vocab_size:
            raise ValueError(f"a vocabulary of {len(vocabulary)} tokens for a draft of {draft.config.draft_vocab_size}")
        self.draft, self.vocabulary = draft, vocabulary
        self.name = draft.config.kind
        self.hidden_layers = draft.config.feature_layers
        self.cache: KVCache | None = None
        self.features: list[list[torch.Tensor]] = []
        self.pending_BPH: torch.Tensor | None = None
        self.root_BH: torch.Tensor | None = None

    def start(self, batch_size: int, capacity: int) -> None:
        self.cache = None
        self.batch_size, self.capacity = batch_size, capacity
        self.features = [[] for _ in range(batch_size)]

    def observe(self, hidden: Sequence[dict[int, torch.Tensor]]) -> None:
        """The target's states at the tokens just committed, kept until the next proposal."""
        for row, states in zip(self.features, hidden, strict=True):
            row.append(torch.cat([states[layer] for layer in self.hidden_layers], dim=-1))

    def select(self, rows: Sequence[int]) -> None:
        self.features = [self.features[row] for row in rows]
        if self.cache is not None:
            self.cache.forget_pending()
            self.cache.select(rows)

    @torch.no_grad()
    def propose(
        self,
        texts: Sequence[Sequence[int]],
        shape: Shape,
        sampling: Sampling,
        generators: Sequence[torch.Generator],
    ) -> list[Draft]:
        if self.cache is None:
            runs = shape.depth * shape.top_k if isinstance(shape, DynamicTree) else shape.nodes
            self.cache = self.draft.new_cache(len(texts), self.capacity + runs)
        self.cache.forget_pending()
        root_BV = self._catch_up(texts)
        self.pending_BPH = self.root_BH.new_empty(len(texts), 0, self.root_BH.shape[-1])
        return expand(shape, root_BV, self._run, sampling, generators)

    def _catch_up(self, texts: Sequence[Sequence[int]]) -> torch.Tensor:
        """Enter every committed token with its true state; (B, V) logits after each text's last token."""
        cache = self.cache
        fresh = [list(text[length + 1 :]) for text, length in zip(texts, cache.lengths, strict=True)]
        features = [torch.cat(row) if row else None for row in self.features]
        for row, (tokens, states) in enumerate(zip(fresh, features, strict=True)):
            count = 0 if states is None else len(states)
            if count != len(tokens) or not tokens:
                raise ValueError(
                    f"row {row}: {len(tokens)} new tokens and {count} target states; the target's states at the "
                    "tokens before each of them must be observed first, and at least one"
                )
        counts = [len(row) for row in fresh]
        batch, width = len(texts), max(counts)
        tokens_BQ = torch.zeros(batch, width, dtype=torch.long)
        features_BQF = features[0].new_zeros(batch, width, features[0].shape[-1])
        for row, (tokens, states) in enumerate(zip(fresh, features, strict=True)):
            tokens_BQ[row, : counts[row]] = torch.tensor(tokens)
            features_BQF[row, : counts[row]] = states
        features_BQF = features_BQF.to(cache.kv.device, cache.kv.dtype)
        output_BH, root_BH = [None] * batch, [None] * batch
        for start in range(0, width, CATCH_UP_CHUNK):
            chunk = slice(start, start + CATCH_UP_CHUNK)
            states_BQH = self.draft.fuse(features_BQF[:, chunk])
            output_BQH, next_BQH = self.draft.forward_cached(tokens_BQ[:, chunk], states_BQH, cache)
            cache.keep([range(min(max(0, count - start), states_BQH.shape[1])) for count in counts])
            for row, count in enumerate(counts):
                if start < count <= start + CATCH_UP_CHUNK:
                    output_BH[row], root_BH[row] = output_BQH[row, count - 1 - start], next_BQH[row, count - 1 - start]
        self.features = [[] for _ in texts]
        self.root_BH = torch.stack(root_BH)
        return self.vocabulary.widen(self.draft.logits(torch.stack(output_BH)))

    def _run(self, tokens_BW: torch.Tensor, parents: list[list[int]]) -> torch.Tensor:
        """One level of the draft: each node consumes the state that its parent handed over."""
        handed_BPH = torch.cat([self.root_BH[:, None], self.pending_BPH], dim=1)
        above_BW = torch.tensor(parents, device=handed_BPH.device) + 1
        states_BWH = handed_BPH.gather(1, above_BW[..., None].expand(-1, -1, handed_BPH.shape[-1]))
        output_BWH, next_BWH = self.draft.forward_cached(tokens_BW, states_BWH, self.cache, parents_BQ=parents)
        self.pending_BPH = torch.cat([self.pending_BPH, next_BWH], dim=1)
        return self.vocabulary.widen(self.draft.logits(output_BWH))
