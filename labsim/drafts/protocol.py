"""What a draft is, and what a drafter must be able to do.

A draft is a tree of tokens below the last token of the text. A chain is the tree with one branch. Every drafter, from a
string match to EAGLE-3, fills the same small protocol, so one decoding loop serves them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from ..models.sampling import Sampling
from .shape import Shape


@dataclass(frozen=True)
class Draft:
    """Drafted tokens of one row.

    Attributes:
        tokens: N token ids, parents before children, siblings in the order in which they are to be tried.
        parents: for each token the index of the one it follows, -1 for a child of the text's last token.
        q_NV: for each token the distribution it was drawn from, given that its earlier siblings were drawn and
            rejected; None when the tokens were chosen without chance (a string match, the top k), which is a point
            mass each.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    q_NV: torch.Tensor | None = None

    @classmethod
    def chain(cls, tokens: Sequence[int], q_NV: torch.Tensor | None = None) -> Draft:
        return cls(tuple(tokens), tuple(range(-1, len(tokens) - 1)), q_NV)

    @property
    def is_chain(self) -> bool:
        return self.parents == tuple(range(-1, len(self.tokens) - 1))

    def depths(self) -> list[int]:
        """Depth of each token; a child of the text's last token has depth 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return depths

    def limited(self, depth: int) -> Draft:
        """The same draft without the tokens deeper than `depth`."""
        kept = [i for i, d in enumerate(self.depths()) if d <= depth]
        if len(kept) == len(self.tokens):
            return self
        new = {old: i for i, old in enumerate(kept)} | {-1: -1}
        return Draft(
            tuple(self.tokens[i] for i in kept),
            tuple(new[self.parents[i]] for i in kept),
            None if self.q_NV is None else self.q_NV[kept],
        )


class Drafter(Protocol):
    """Proposes drafts for the rows of a batch.

    `hidden_layers` names the target's residual streams that it reads; () for a drafter that sees only the text.
    """

    name: str
    hidden_layers: tuple[int, ...]

    def start(self, batch_size: int, capacity: int) -> None:
        """Begin a new generation of that many rows, each at most `capacity` tokens long."""

    def observe(self, hidden: Sequence[dict[int, torch.Tensor]]) -> None:
        """Take, per row, the target's states (n, E) at the tokens just committed. Called only with `hidden_layers`."""

    def propose(
        self,
        texts: Sequence[Sequence[int]],
        shape: Shape,
        sampling: Sampling,
        generators: Sequence[torch.Generator],
    ) -> list[Draft]:
        """One draft per row, given each row's whole text so far. A draft may be shorter than the shape, or empty."""

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these rows only: the others have finished."""
