"""Prompt lookup against a plain scan of the text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labsim.drafts.ngram import NgramDrafter, merge
from labsim.drafts.protocol import Draft
from labsim.drafts.shape import Chain, DynamicTree, Shape, StaticTree
from labsim.models.sampling import GREEDY


def propose(drafter: NgramDrafter, texts: Sequence[Sequence[int]], shape: Shape) -> list[Draft]:
    return drafter.propose(texts, shape, GREEDY, [None] * len(texts))


def started(rows: int = 1, max_n: int = 3, min_n: int = 1) -> NgramDrafter:
    drafter = NgramDrafter(max_n, min_n)
    drafter.start(rows, 1000)
    return drafter


def scan(text: Sequence[int], depth: int, max_n: int, min_n: int) -> list[list[int]]:
    """All continuations, best first, by comparing every place with the end of the text."""
    found = []
    for n in range(min(max_n, len(text)), min_n - 1, -1):
        for place in range(len(text) - n - 1, -1, -1):
            if list(text[place : place + n]) == list(text[-n:]):
                grown = list(text)
                for i in range(depth):
                    grown.append(grown[place + n + i])
                ahead = grown[len(text) :]
                if ahead not in found:
                    found.append(ahead)
    return found


TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=40)


@given(TEXTS, st.integers(1, 8), st.integers(1, 4), st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_a_chain_is_what_followed_the_longest_and_latest_match(text, depth, min_n, more) -> None:
    (draft,) = propose(started(max_n=min_n + more, min_n=min_n), [text], Chain(depth))
    found = scan(text, depth, min_n + more, min_n)
    assert list(draft.tokens) == (found[0] if found else [])
    assert draft.is_chain and draft.q_NV is None


@given(TEXTS, st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=8))
@settings(max_examples=80, deadline=None)
def test_an_index_that_grows_with_the_text_equals_a_fresh_one(text, steps) -> None:
    growing = started()
    for step in [[], *steps]:
        text = text + step
        assert propose(growing, [text], Chain(5)) == propose(started(), [text], Chain(5))


@given(TEXTS)
@settings(max_examples=80, deadline=None)
def test_a_tree_holds_the_best_continuations_without_a_double(text) -> None:
    (draft,) = propose(started(), [text], DynamicTree(4, 4, 10))
    seen, known = set(), [()]
    for token, parent in zip(draft.tokens, draft.parents, strict=True):
        known.append((*known[parent + 1], token))
        seen.add(known[-1])
    assert len(seen) == len(draft.tokens) <= 10
    wanted: dict[tuple[int, ...], None] = {}
    for ahead in scan(text, 4, 3, 1)[:10]:
        wanted |= {tuple(ahead[:i]): None for i in range(1, 5)}
    assert seen == set(list(wanted)[:10])


def test_a_loop_goes_on_as_a_loop() -> None:
    (draft,) = propose(started(), [[1, 2, 1, 2, 1]], Chain(6))
    assert draft.tokens == (2, 1, 2, 1, 2, 1)


def test_a_longer_match_beats_a_later_one() -> None:
    text = [1, 2, 3, 9, 8, 3, 7, 1, 2, 3]
    assert propose(started(), [text], Chain(1))[0].tokens == (9,)
    assert propose(started(max_n=1), [text], Chain(1))[0].tokens == (7,)


def test_two_continuations_share_their_beginning() -> None:
    assert merge([[5, 6, 7], [5, 8], [9]], 10) == Draft((5, 6, 7, 8, 9), (-1, 0, 1, 0, -1))
    assert merge([[5, 6, 7], [5, 8], [9]], 4) == Draft((5, 6, 7, 8), (-1, 0, 1, 0))


def test_new_text_gives_an_empty_draft() -> None:
    for shape in (Chain(4), StaticTree((2, 2)), DynamicTree(3, 2, 6)):
        assert propose(started(), [[1, 2, 3, 4]], shape) == [Draft()]


def test_rows_have_texts_of_their_own_and_a_finished_one_leaves() -> None:
    drafter = started(rows=3)
    texts = [[1, 2, 1], [3, 4, 3], [5, 6, 5]]
    assert [draft.tokens for draft in propose(drafter, texts, Chain(1))] == [(2,), (4,), (6,)]
    drafter.select([0, 2])
    assert [draft.tokens for draft in propose(drafter, [[1, 2, 1, 2], [5, 6, 5, 6]], Chain(1))] == [(1,), (5,)]


@pytest.mark.parametrize(("max_n", "min_n"), [(0, 0), (2, 3), (3, 0)])
def test_impossible_lengths_are_named(max_n: int, min_n: int) -> None:
    with pytest.raises(ValueError, match=f"from {min_n} to {max_n}"):
        NgramDrafter(max_n, min_n)
