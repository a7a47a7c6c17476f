"""The draft vocabulary: the public offsets by hand, and the mappings that load without a word elsewhere refused."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from labsim.drafts.vocabulary import DraftVocabulary, count_tokens, coverage, most_frequent, size_for_coverage

ANSWERS = [[5, 5, 2, 8], [], [5, 8, 8, 3], [9]]


def test_the_most_frequent_tokens_in_order_of_their_ids() -> None:
    counts = count_tokens(ANSWERS, 12)
    assert counts.tolist() == [0, 0, 1, 1, 0, 3, 0, 0, 3, 1, 0, 0]
    vocabulary = most_frequent(counts, 4)
    # 5 and 8 three times; 2, 3 and 9 once, the lower ids first.
    assert vocabulary.ids_N.tolist() == [2, 3, 5, 8]
    assert vocabulary.d2t.tolist() == [2, 2, 3, 5]
    assert vocabulary.t2d.nonzero().flatten().tolist() == [2, 3, 5, 8]
    assert vocabulary.draft_id_V.tolist() == [-1, -1, 0, 1, -1, 2, -1, -1, 3, -1, -1, -1]
    assert vocabulary.d2t.dtype == torch.int64 and vocabulary.t2d.dtype == torch.bool


def test_more_tokens_than_were_seen_are_padded_with_the_lowest_unused() -> None:
    assert most_frequent(count_tokens(ANSWERS, 12), 7).ids_N.tolist() == [0, 1, 2, 3, 5, 8, 9]


def test_coverage_is_the_share_of_answer_tokens_that_can_be_said() -> None:
    counts = count_tokens(ANSWERS, 12)
    ranked = [count for _, count in Counter(token for answer in ANSWERS for token in answer).most_common()]
    for size in range(1, 13):
        assert coverage(counts, most_frequent(counts, size)) == pytest.approx(sum(ranked[:size]) / 9)
    assert [size_for_coverage(counts, share) for share in (0.1, 1 / 3, 0.34, 6 / 9, 0.7, 1.0)] == [1, 1, 2, 2, 3, 5]
    with pytest.raises(ValueError, match="no tokens were counted"):
        coverage(torch.zeros(12, dtype=torch.long), DraftVocabulary.whole(12))


def test_logits_are_widened_to_the_targets_tokens() -> None:
    wide = DraftVocabulary.of([1, 4], 6).widen(torch.tensor([[0.5, -2.0]]))
    assert wide.tolist() == [[-torch.inf, 0.5, -torch.inf, -torch.inf, -2.0, -torch.inf]]
    same = torch.randn(2, 6)
    assert DraftVocabulary.whole(6).widen(same) is same


def test_public_offsets_are_read_back() -> None:
    vocabulary = DraftVocabulary.of([2, 3, 5, 8], 12)
    for t2d in (vocabulary.t2d, None):
        assert torch.equal(DraftVocabulary.from_public(vocabulary.d2t, 12, t2d).ids_N, vocabulary.ids_N)
    # The first tokens of the target are a possible vocabulary, if t2d says so too.
    first = DraftVocabulary.of([0, 1, 2], 12)
    assert DraftVocabulary.from_public(first.d2t, 12, first.t2d).ids_N.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("d2t", "t2d", "message"),
    [
        ([0, 0, 0], None, "d2t is zero throughout and there is no t2d"),
        ([0, 0, 0], [2, 3, 5], "t2d and d2t name different tokens"),
        ([2, 3, 5, 11], None, "leads to the target id 14 of 12; it must hold offsets, not ids"),
        ([3, 2, 2], None, "offsets .* that never fall"),
        ([-1, 0, 0], None, "offsets"),
        ([0.0, 1.0], None, "d2t is torch.float32"),
    ],
)
def test_a_mapping_that_cannot_be_right_is_refused(d2t: list, t2d: list[int] | None, message: str) -> None:
    member = None
    if t2d is not None:
        member = torch.zeros(12, dtype=torch.bool)
        member[t2d] = True
    with pytest.raises(ValueError, match=message):
        DraftVocabulary.from_public(torch.tensor(d2t), 12, member)


@pytest.mark.parametrize(("size", "vocab"), [(0, 5), (6, 5)])
def test_an_impossible_size_is_named(size: int, vocab: int) -> None:
    with pytest.raises(ValueError, match=f"draft vocabulary of {size}; the target has {vocab}"):
        most_frequent(torch.ones(vocab, dtype=torch.long), size)


def test_a_foreign_token_is_named() -> None:
    with pytest.raises(ValueError, match="token id 12 is outside the vocabulary of 12"):
        count_tokens([[3, 12]], 12)
    with pytest.raises(ValueError, match="names an id twice"):
        DraftVocabulary.of([3, 3], 12)
