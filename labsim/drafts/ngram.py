"""Prompt lookup: the next words often stand in the text already.

The drafter takes the last n tokens, finds where they occurred before, and proposes what followed there. It costs no
model and shines when an answer copies: edited code, quotations, tables. (Saxena's prompt-lookup decoding, 2023;
`ngram` in vLLM.)

The longest match wins and, among equals, the latest, since text resembles its near past. A tree takes several different
continuations at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..models.sampling import Sampling
from .protocol import Draft
from .shape import Chain, Shape


class NgramDrafter:
    """Copies what followed the longest earlier occurrence of the last `max_n` .. `min_n` tokens."""

    name = "ngram"
    hidden_layers: tuple[int, ...] = ()

    def __init__(self, max_n: int = 5, min_n: int = 1) -> None:
        if not 1 <= min_n <= max_n:
            raise ValueError(f"n-gram lengths from {min_n} to {max_n}: right is 1 <= min_n <= max_n")
        self.max_n, self.min_n = max_n, min_n
        self.rows: list[Index] = []

    def start(self, batch_size: int, capacity: int) -> None:
        self.rows = [Index(self.max_n, self.min_n) for _ in range(batch_size)]

    def observe(self, hidden: Sequence[dict[int, torch.Tensor]]) -> None:
        """Reads the text only."""

    def propose(
        self,
        texts: Sequence[Sequence[int]],
        shape: Shape,
        sampling: Sampling,
        generators: Sequence[torch.Generator],
    ) -> list[Draft]:
        drafts = []
        for index, text in zip(self.rows, texts, strict=True):
            index.read(text)
            branches = 1 if isinstance(shape, Chain) else shape.nodes
            drafts.append(merge(index.continuations(text, shape.depth, branches), shape.nodes))
        return drafts

    def select(self, rows: Sequence[int]) -> None:
        self.rows = [self.rows[row] for row in rows]


class Index:
    """For every n-gram of one row's text, where it ended; grown as the text grows."""

    def __init__(self, max_n: int, min_n: int) -> None:
        self.max_n, self.min_n = max_n, min_n
        self.ends: dict[tuple[int, ...], list[int]] = {}
        self.length = 0

    def read(self, text: Sequence[int]) -> None:
        """Index what is new. An n-gram that ends with the text is left out until something has followed it."""
        for end in range(max(self.length, 1), len(text)):
            for n in range(self.min_n, min(self.max_n, end) + 1):
                self.ends.setdefault(tuple(text[end - n : end]), []).append(end)
        self.length = max(self.length, len(text))

    def continuations(self, text: Sequence[int], depth: int, limit: int) -> list[list[int]]:
        """Up to `limit` different continuations of at most `depth` tokens, best first."""
        found: list[list[int]] = []
        for n in range(min(self.max_n, len(text)), self.min_n - 1, -1):
            for end in reversed(self.ends.get(tuple(text[-n:]), ())):
                ahead = list(text[end : end + depth])
                # The match may touch the end of the text, as in a loop: what follows it then is the draft itself.
                while ahead and len(ahead) < depth:
                    ahead.append(ahead[len(ahead) - (len(text) - end)])
                if ahead and ahead not in found:
                    found.append(ahead)
                if len(found) == limit:
                    return found
        return found


def merge(branches: Sequence[Sequence[int]], nodes: int) -> Draft:
    """One tree of the branches, common beginnings shared, cut to `nodes` tokens; earlier branches come first."""
    tokens: list[int] = []
    parents: list[int] = []
    known: dict[tuple[int, int], int] = {}
    for branch in branches:
        at = -1
        for token in branch:
            if (at, token) not in known:
                if len(tokens) == nodes:
                    break
                known[at, token] = len(tokens)
                tokens.append(token)
                parents.append(at)
            at = known[at, token]
    return Draft(tuple(tokens), tuple(parents))
