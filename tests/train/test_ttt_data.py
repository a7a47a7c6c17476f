"""Documents, packing and the places that train, against the definition written out."""

from __future__ import annotations

import pytest
import torch

from labsim.train.answer_store import Answer
from labsim.train.ttt.data import Document, PackedRow, documents, endless_rows, pack

DOCUMENTS = [
    Document((f"d{i}", 0), "chat", tuple(range(100 * i, 100 * i + length)), start, True)
    for i, (length, start) in enumerate([(9, 4), (6, 1), (5, 3), (7, 6), (12, 2)])
]


def test_places_are_those_of_the_definition() -> None:
    """Step k at t counts iff token t+1 is an answer token and token t+2+k still belongs to the document."""
    row = PackedRow.of(DOCUMENTS)
    for step in range(8):
        expected, offset = [], 0
        for document in DOCUMENTS:
            expected += [
                offset + t
                for t in range(len(document.tokens))
                if t + 1 >= document.answer_start and t + 2 + step < len(document.tokens)
            ]
            offset += len(document.tokens)
        assert row.places(step).tolist() == expected
    teachers = set(row.teacher_places().tolist())
    needed = {t + 1 + step for step in range(8) for t in row.places(step).tolist()}
    assert needed == teachers


def test_the_first_guess_after_the_prompt_trains_and_no_place_reaches_past_a_border() -> None:
    row = PackedRow.of(DOCUMENTS)
    first = DOCUMENTS[0]
    assert first.answer_start - 1 in row.places(0)
    tokens = row.tokens_1L[0]
    for step in range(8):
        for t in row.places(step).tolist():
            assert tokens[t] // 100 == tokens[t + 2 + step] // 100


def test_every_document_is_packed_once_an_epoch_and_rows_fit() -> None:
    rows = pack(DOCUMENTS, 16, seed=3, epoch=0)
    assert sorted(d.key for row in rows for d in row) == sorted(d.key for d in DOCUMENTS)
    assert all(sum(len(d.tokens) for d in row) <= 16 for row in rows)
    assert rows == pack(DOCUMENTS, 16, seed=3, epoch=0)
    assert any(rows != pack(DOCUMENTS, 16, seed=3, epoch=epoch) for epoch in (1, 2, 3))
    with pytest.raises(ValueError, match="12 tokens, and a row holds 10"):
        pack(DOCUMENTS, 10, seed=0, epoch=0)


def test_a_resumed_stream_goes_on_where_it_was() -> None:
    def take(start: int, count: int) -> list[list[Document]]:
        stream = endless_rows(DOCUMENTS, 16, 5, start)
        return [next(stream) for _ in range(count)]

    whole = take(0, 14)
    for start in (1, 3, 4, 9):
        assert take(start, 14 - start) == whole[start:]


def test_answers_become_documents() -> None:
    answers = [
        Answer("whole", 0, "chat", (1, 2, 3), (4, 5, 6), "stop"),
        Answer("cut", 0, "chat", (1, 2, 3), (4, 5, 6, 7, 8, 9), "stop"),
        Answer("empty", 0, "chat", tuple(range(7)), (4, 5, 6), "stop"),
    ]
    whole, cut = documents(answers, 8, greedy=True)
    assert (whole.tokens, whole.answer_start, whole.stopped) == ((1, 2, 3, 4, 5, 6), 3, True)
    assert (cut.tokens, cut.stopped) == ((1, 2, 3, 4, 5, 6, 7, 8), False)
    assert torch.equal(PackedRow.of([whole]).rest_L, torch.tensor([5, 4, 3, 2, 1, 0]))
