"""Plain and speculative side by side: sameness is exact, and a place where they part is shown with its logit gap."""

from __future__ import annotations

import pytest
import torch

from labsim.decode.compare import compare, first_difference
from labsim.drafts.ngram import NgramDrafter
from labsim.drafts.shape import Chain
from labsim.models.load import Target
from labsim.models.sampling import Sampling


def test_repeats_alternate_and_agree(target: Target) -> None:
    comparison = compare(target, [1, 2, 3], repeats=3, drafter=NgramDrafter(), shape=Chain(3), max_new_tokens=20)
    assert comparison.identical
    assert len({result.tokens for result in (*comparison.plain, *comparison.speculative)}) == 1
    assert {result.drafted for result in comparison.plain} == {0}
    assert all(result.drafted > 0 for result in comparison.speculative)
    assert min(comparison.speedups) <= comparison.speedup <= max(comparison.speedups)


def test_a_difference_is_shown_with_the_targets_logit_gap(target: Target) -> None:
    plain = compare(target, [1, 2, 3], max_new_tokens=20).plain[0]
    other = (plain.tokens[7] + 1) % 7
    changed = (*plain.tokens[:7], other, *plain.tokens[8:])
    difference = first_difference(target, [1, 2, 3], plain.tokens, changed)
    assert (difference.position, difference.plain, difference.speculative) == (7, plain.tokens[7], other)
    text = torch.tensor([[1, 2, 3, *plain.tokens[:7]]])
    logits = target.model.forward(text, target.model.new_cache(1, 20)).logits_BQV[0, -1].sort().values
    assert difference.gap == pytest.approx(float(logits[-1] - logits[-2]))
    assert not difference.near_tie


def test_an_answer_that_ends_early_is_a_difference(target: Target) -> None:
    tokens = compare(target, [1, 2, 3], max_new_tokens=9).plain[0].tokens
    difference = first_difference(target, [1, 2, 3], tokens, tokens[:5])
    assert (difference.position, difference.plain, difference.speculative) == (5, tokens[5], -1)
    assert first_difference(target, [1, 2, 3], tokens, list(tokens)) is None


def test_sampled_answers_are_not_compared_token_by_token(target: Target) -> None:
    options = {"drafter": NgramDrafter(), "max_new_tokens": 30, "sampling": Sampling(1.0)}
    comparison = compare(target, [1, 2, 3], **options)
    assert comparison.plain[0].tokens != comparison.speculative[0].tokens
    assert comparison.difference is None
