"""Documents and packed rows.

A document is a prompt and the target's own answer to it. A row holds several documents one behind the other, as many
as fit, so that no place is spent on padding; attention runs per document, and no token, target or chain crosses a
border.

Which places train. Step k at position t reads the state at t and token t + 1 + k, and guesses token t + 2 + k. In
serving a chain starts where the token at t + 1 has just been decided and belongs to the answer, so a place counts if

    token t + 1 is an answer token   and   token t + 2 + k still belongs to the document.

The first is the mask of x_{t+1}: trainers that mask by x_t never train the first guess of an answer.

Shapes: L positions of a packed row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ..answer_store import Answer


@dataclass(frozen=True)
class Document:
    """A conversation; `tokens[answer_start:]` is the answer.

    Attributes:
        greedy: the target decoded it greedily.
        stopped: the answer's last token is the one that ended it; otherwise it was cut.
    """

    key: tuple[str, int]
    domain: str
    tokens: tuple[int, ...]
    answer_start: int
    greedy: bool
    stopped: bool = False

    @property
    def answer_tokens(self) -> int:
        return len(self.tokens) - self.answer_start


def documents(answers: Sequence[Answer], seq: int, *, greedy: bool) -> list[Document]:
    """Conversations cut to `seq` tokens. One whose answer has fewer than two tokens left trains nothing: left out."""
    found = []
    for answer in answers:
        whole = (*answer.prompt_ids, *answer.answer_ids)
        tokens, start = whole[:seq], len(answer.prompt_ids)
        if len(tokens) - start >= 2:
            stopped = answer.finish == "stop" and len(whole) <= seq
            found.append(Document(answer.key, answer.domain, tokens, start, greedy, stopped))
    return found


@dataclass(frozen=True)
class PackedRow:
    """Documents one behind the other.

    Attributes:
        tokens_1L: all tokens.
        answer_L: which tokens belong to an answer.
        starts_L: where a chain may start: the next token belongs to an answer.
        rest_L: how many tokens of the same document follow.
    """

    documents: tuple[Document, ...]
    tokens_1L: torch.Tensor
    answer_L: torch.Tensor
    starts_L: torch.Tensor
    rest_L: torch.Tensor

    @classmethod
    def of(cls, documents: Sequence[Document]) -> PackedRow:
        """ValueError without documents."""
        if not documents:
            raise ValueError("a packed row needs at least one document")
        places = [torch.arange(len(document.tokens)) for document in documents]
        pairs = list(zip(documents, places, strict=True))
        return cls(
            tuple(documents),
            torch.tensor([[token for document in documents for token in document.tokens]]),
            torch.cat([place >= document.answer_start for document, place in pairs]),
            torch.cat([place + 1 >= document.answer_start for document, place in pairs]),
            torch.cat([len(document.tokens) - 1 - place for document, place in pairs]),
        )

    @property
    def lengths(self) -> list[int]:
        return [len(document.tokens) for document in self.documents]

    def places(self, step: int) -> torch.Tensor:
        """Positions (P,) whose guess at TTT step `step` counts."""
        return (self.starts_L & (self.rest_L >= step + 2)).nonzero()[:, 0]

    def teacher_places(self) -> torch.Tensor:
        """Positions at which some step needs the target's distribution: the answer's tokens but its last."""
        return (self.answer_L & (self.rest_L >= 1)).nonzero()[:, 0]


def pack(documents: Sequence[Document], seq: int, seed: int, epoch: int) -> list[list[Document]]:
    """Rows of one epoch, documents in random order; the same for the same seed and epoch.

    Each document goes into the first row with room for it among the few last ones: little stays empty, and the order
    stays random.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    rows: list[list[Document]] = []
    room: list[int] = []
    for index in torch.randperm(len(documents), generator=generator).tolist():
        document = documents[index]
        length = len(document.tokens)
        if length > seq:
            raise ValueError(f"document {document.key} has {length} tokens, and a row holds {seq}")
        place = next((i for i in range(max(0, len(rows) - 8), len(rows)) if room[i] >= length), None)
        if place is None:
            rows.append([])
            room.append(seq)
            place = len(rows) - 1
        rows[place].append(document)
        room[place] -= length
    return rows


def endless_rows(documents: Sequence[Document], seq: int, seed: int, start: int) -> Iterator[list[Document]]:
    """The rows of epoch 0, 1, 2, ..., from row `start` on."""
    row, epoch = 0, 0
    while True:
        rows = pack(documents, seq, seed, epoch)
        yield from rows[max(0, start - row) :]
        row, epoch = row + len(rows), epoch + 1
