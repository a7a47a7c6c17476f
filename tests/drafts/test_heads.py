"""Parallel heads: each guess by hand, independent of the others, and no deeper than there are heads."""

from __future__ import annotations

import pytest
import torch

from labsim.drafts.heads import HeadsConfig, HeadsDrafter, ParallelHeads
from labsim.drafts.shape import Chain, StaticTree
from labsim.drafts.vocabulary import DraftVocabulary
from labsim.models.sampling import GREEDY

from .eagle_cases import randomise

CONFIG = HeadsConfig(vocab_size=11, draft_vocab_size=6, hidden_size=8, num_heads=3, num_blocks=2, feature_layers=(4,))
VOCABULARY = DraftVocabulary.of([0, 2, 4, 7, 8, 10], 11)


@pytest.fixture
def heads() -> ParallelHeads:
    draft = ParallelHeads(CONFIG).double()
    randomise(draft, 5)
    return draft


def by_hand(heads: ParallelHeads, h: torch.Tensor, step: int) -> torch.Tensor:
    """(N,): two residual blocks and a matrix."""
    weights = heads.state_dict()
    for block in range(2):
        y = (
            weights[f"medusa_head.{step}.{block}.linear.weight"] @ h
            + weights[f"medusa_head.{step}.{block}.linear.bias"]
        )
        h = h + y * torch.sigmoid(y)
    return weights[f"medusa_head.{step}.2.weight"] @ h


@torch.no_grad()
def test_each_step_is_one_head(heads: ParallelHeads) -> None:
    features = torch.randn(2, 5, 8, dtype=torch.float64)
    for step in heads.ttt_forward(torch.zeros(2, 5, dtype=torch.long), features, 3):
        logits = heads.logits(step.output_BLH, step.step)
        for row in range(2):
            for t in range(5):
                assert torch.allclose(logits[row, t], by_hand(heads, features[row, t], step.step), atol=1e-12)


@torch.no_grad()
def test_a_tree_takes_each_depth_from_its_head_whatever_was_said_before(heads: ParallelHeads) -> None:
    drafter = HeadsDrafter(heads, VOCABULARY)
    drafter.start(2, 30)
    states = torch.randn(2, 3, 8, dtype=torch.float64)
    drafter.observe([{4: states[0]}, {4: states[1]}])
    generators = [torch.Generator(), torch.Generator()]
    drafts = drafter.propose([[1, 2], [3]], StaticTree((2, 2, 1)), GREEDY, generators)
    for row, draft in enumerate(drafts):
        best = [by_hand(heads, states[row, -1], step).topk(2).indices.tolist() for step in range(3)]
        best = [[int(VOCABULARY.ids_N[i]) for i in pair] for pair in best]
        assert list(draft.tokens) == [*best[0], *best[1] * 2, *([best[2][0]] * 4)]
        assert draft.parents == (-1, -1, 0, 0, 1, 1, 2, 3, 4, 5)
    deep = drafter.propose([[1, 2], [3]], Chain(7), GREEDY, generators)
    assert [len(draft.tokens) for draft in deep] == [3, 3]
    drafter.select([1])
    (alone,) = drafter.propose([[3]], Chain(3), GREEDY, generators[:1])
    assert alone.tokens == deep[1].tokens


def test_untrained_heads_start_as_the_plain_head() -> None:
    rows = torch.randn(6, 8)
    heads = ParallelHeads(CONFIG).initialise(0, rows)
    features = torch.randn(1, 4, 8)
    for step in heads.ttt_forward(torch.zeros(1, 4, dtype=torch.long), features, 3):
        assert torch.allclose(heads.logits(step.output_BLH, step.step), features @ rows.T, atol=1e-5)


def test_wrong_input_is_named(heads: ParallelHeads) -> None:
    tokens, features = torch.zeros(1, 4, dtype=torch.long), torch.zeros(1, 4, 8, dtype=torch.float64)
    with pytest.raises(ValueError, match="steps is 4; this draft has heads for 1 to 3"):
        next(heads.ttt_forward(tokens, features, 4))
    with pytest.raises(ValueError, match="features of width 5; these heads read 8"):
        next(heads.ttt_forward(tokens, features[..., :5], 1))
    drafter = HeadsDrafter(heads, VOCABULARY)
    drafter.start(1, 9)
    with pytest.raises(ValueError, match="call observe before propose"):
        drafter.propose([[1]], Chain(2), GREEDY, [torch.Generator()])
