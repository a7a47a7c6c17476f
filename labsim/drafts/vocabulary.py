"""The draft vocabulary: a head that knows only the tokens that answers use.

A head over all V tokens is most of a one-layer draft: 49,152 x 576 weights beside 9 million for everything else. Text
uses few of its tokens often, so EAGLE-3 keeps the N most frequent ones of the *answers* (what is drafted), sorted by
id. A token outside can never be drafted, only rejected: N costs acceptance, never correctness, and `coverage` says
how much at most.

The public layout stores two tensors:

    d2t  int64 (N,)   an offset: draft id i stands for target id i + d2t[i]
    t2d  bool  (V,)   membership: true where a target id has a draft id

So d2t is never negative and never falls, and t2d is true exactly at i + d2t[i]. A d2t taken for absolute ids, or left
at zero, drafts the wrong tokens without any error: decoding stays lossless and accepts next to nothing. Hence the
checks.

Shapes: N draft vocabulary, V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class DraftVocabulary:
    """Which target tokens a draft can propose.

    Attributes:
        ids_N: target ids, ascending.
        draft_id_V: draft id of each target id, -1 for a token outside.
    """

    ids_N: torch.Tensor
    draft_id_V: torch.Tensor

    @classmethod
    def of(cls, ids: Iterable[int] | torch.Tensor, vocab_size: int) -> DraftVocabulary:
        """The vocabulary of these target ids. ValueError for an id twice, or outside the target's vocabulary."""
        ids_N = torch.as_tensor(list(ids) if not isinstance(ids, torch.Tensor) else ids, dtype=torch.long).cpu()
        ids_N = ids_N.sort().values
        if len(ids_N) == 0 or int(ids_N[0]) < 0 or int(ids_N[-1]) >= vocab_size:
            raise ValueError(f"a draft vocabulary needs ids from 0 to {vocab_size - 1}, at least one")
        if not bool((ids_N.diff() > 0).all()):
            raise ValueError("a draft vocabulary names an id twice; each may stand for one token only")
        draft_id_V = torch.full((vocab_size,), -1, dtype=torch.long)
        draft_id_V[ids_N] = torch.arange(len(ids_N))
        return cls(ids_N, draft_id_V)

    @classmethod
    def whole(cls, vocab_size: int) -> DraftVocabulary:
        """Every target token, for a draft that uses the target's own head."""
        return cls.of(torch.arange(vocab_size), vocab_size)

    @classmethod
    def from_public(
        cls, d2t_N: torch.Tensor, vocab_size: int, t2d_V: torch.Tensor | None = None, *, name: str = "the checkpoint"
    ) -> DraftVocabulary:
        """From a checkpoint's `d2t` and, where it has one, `t2d`. ValueError when they cannot be right."""
        if d2t_N.ndim != 1 or d2t_N.is_floating_point() or d2t_N.dtype == torch.bool:
            raise ValueError(f"{name}: d2t is {d2t_N.dtype} of shape {tuple(d2t_N.shape)}; right is int64 (N,)")
        d2t_N = d2t_N.long().cpu()
        size = len(d2t_N)
        ids_N = torch.arange(size) + d2t_N
        if size and (int(d2t_N[0]) < 0 or bool((d2t_N.diff() < 0).any())):
            raise ValueError(f"{name}: d2t must hold offsets (target id less draft id) that never fall")
        if size and not 0 <= int(ids_N[-1]) < vocab_size:
            raise ValueError(
                f"{name}: d2t leads to the target id {int(ids_N[-1])} of {vocab_size}; it must hold offsets, not ids"
            )
        if t2d_V is None:
            if size < vocab_size and not bool(d2t_N.any()):
                raise ValueError(
                    f"{name}: d2t is zero throughout and there is no t2d, which would make the draft's {size} tokens "
                    "the target's first ones; the mapping was lost when it was written"
                )
            return cls.of(ids_N, vocab_size)
        found = cls.of(ids_N, vocab_size)
        if t2d_V.shape != (vocab_size,) or not torch.equal(t2d_V.bool().cpu(), found.t2d):
            raise ValueError(f"{name}: t2d and d2t name different tokens; they come from different trainings")
        return found

    def __len__(self) -> int:
        return len(self.ids_N)

    @property
    def d2t(self) -> torch.Tensor:
        """(N,) int64: target id less draft id."""
        return self.ids_N - torch.arange(len(self.ids_N))

    @property
    def t2d(self) -> torch.Tensor:
        """(V,) bool."""
        return self.draft_id_V >= 0

    def widen(self, logits_N: torch.Tensor) -> torch.Tensor:
        """Logits (..., N) to (..., V): -inf for tokens outside."""
        if len(self.ids_N) == len(self.draft_id_V):
            return logits_N
        wide = logits_N.new_full((*logits_N.shape[:-1], len(self.draft_id_V)), float("-inf"))
        wide[..., self.ids_N.to(logits_N.device)] = logits_N
        return wide


def count_tokens(answers: Iterable[Sequence[int]], vocab_size: int) -> torch.Tensor:
    """How often each target token occurs, (V,) int64. Give it the answers only, without their prompts."""
    counts_V = torch.zeros(vocab_size, dtype=torch.long)
    for tokens in answers:
        if len(tokens):
            ids = torch.as_tensor(tokens, dtype=torch.long)
            low, high = int(ids.min()), int(ids.max())
            if low < 0 or high >= vocab_size:
                raise ValueError(f"token id {low if low < 0 else high} is outside the vocabulary of {vocab_size}")
            counts_V += torch.bincount(ids, minlength=vocab_size)
    return counts_V


def most_frequent(counts_V: torch.Tensor, size: int) -> DraftVocabulary:
    """The `size` most frequent tokens; ties, and the padding when fewer were seen, go to the lowest ids.

    ValueError for a size outside 1..V.
    """
    vocab_size = len(counts_V)
    if not 1 <= size <= vocab_size:
        raise ValueError(f"draft vocabulary of {size}; the target has {vocab_size} tokens")
    ranked = counts_V.sort(descending=True, stable=True).indices
    return DraftVocabulary.of(ranked[:size], vocab_size)


def coverage(counts_V: torch.Tensor, vocabulary: DraftVocabulary) -> float:
    """Share of the counted tokens that the draft can say: an upper bound of the acceptance at any depth."""
    total = int(counts_V.sum())
    if total == 0:
        raise ValueError("no tokens were counted, so there is no coverage: count answers first")
    return int(counts_V[vocabulary.ids_N].sum()) / total


def size_for_coverage(counts_V: torch.Tensor, share: float) -> int:
    """The smallest N whose most frequent tokens cover that share of the counted ones."""
    if not 0 < share <= 1:
        raise ValueError(f"coverage of {share}; right is above 0 and at most 1, such as 0.99")
    covered = counts_V.sort(descending=True).values.cumsum(0)
    if int(covered[-1]) == 0:
        raise ValueError("no tokens were counted, so there is no coverage: count answers first")
    # Integers compare exactly where a quotient of floats would not.
    return int((covered < share * int(covered[-1])).sum()) + 1
