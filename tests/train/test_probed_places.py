"""Unrolling chosen places only: the same logits as unrolling all, and the same acceptance."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labsim.drafts.eagle import EagleDraft
from labsim.drafts.eagle_config import EagleConfig
from labsim.drafts.vocabulary import DraftVocabulary, most_frequent
from labsim.features.source import TargetStates
from labsim.models.config import ModelConfig
from labsim.models.linear import Linear
from labsim.train.probes.disturbed import Disturbance, Disturbed
from labsim.train.probes.places import unroll_at, walk
from labsim.train.ttt.data import Document
from labsim.train.ttt.estimate import estimate
from labsim.train.ttt.recipe import TTTRecipe

TARGET = ModelConfig("llama", 12, 32, 24, 8, 4, 2, 8, 256, 1e-5, True)


def make_draft(post_norm: bool) -> tuple[EagleDraft, DraftVocabulary]:
    """Few tokens and sharp weights, so that random guesses are often right and attention is uneven."""
    make = EagleConfig.eagle31 if post_norm else EagleConfig.eagle3
    embedding_VH = torch.randn(12, 32, generator=torch.Generator().manual_seed(0))
    draft = EagleDraft(make(TARGET, draft_vocab_size=9), embedding_VH)
    draft.initialise(1)
    with torch.no_grad():
        for parameter in draft.parameters():
            if parameter.ndim == 2:
                parameter.mul_(10)
    return draft.eval(), most_frequent(torch.arange(12), 9)


class Random:
    """States that depend on nothing but the length."""

    def read(self, documents):
        generator = torch.Generator().manual_seed(5)
        return [
            TargetStates(
                torch.randn(len(one), 96, generator=generator), 4 * torch.randn(len(one), 32, generator=generator)
            )
            for one in documents
        ]


@pytest.mark.parametrize("post_norm", [False, True])
@pytest.mark.parametrize("pinned", [None, 2.0])
def test_the_same_logits(post_norm: bool, pinned: float | None) -> None:
    draft, _ = make_draft(post_norm)
    if pinned:
        draft = Disturbed(draft, Disturbance(pinned=pinned))
    tokens = torch.randint(0, 12, (40,), generator=torch.Generator().manual_seed(2)).tolist()
    features_TF = torch.randn(40, 96, generator=torch.Generator().manual_seed(3))
    places_P = torch.tensor([7, 8, 20, 33, 38])
    with torch.no_grad():
        whole = list(draft.ttt_forward(torch.tensor([tokens]), features_TF[None], 6))
    for step, output_PH in zip(whole, unroll_at(draft, tokens, features_TF, places_P, 6), strict=True):
        assert torch.allclose(output_PH, step.output_BLH[0, places_P], atol=2e-5), step.step


@pytest.mark.parametrize("stopped", [True, False])
def test_the_same_acceptance(stopped: bool) -> None:
    draft, vocabulary = make_draft(True)
    head = Linear(torch.randn(12, 32, generator=torch.Generator().manual_seed(6)))
    generator = torch.Generator().manual_seed(4)
    documents = [
        Document((str(n), 0), "chat", tuple(torch.randint(0, 12, (n,), generator=generator).tolist()), 9, True, stopped)
        for n in (*range(12, 40), 60, 90)
    ]
    recipe = TTTRecipe(draft="eagle3.1", ttt=2)
    expected = estimate(draft, documents, Random(), head, vocabulary, recipe, 7)
    assert walk(draft, documents, Random(), head, vocabulary, 7) == expected
    assert 10 < expected.accepted < expected.steps * 6, "the case must tell something"
    cut = [replace(one, stopped=not stopped) for one in documents]
    assert walk(draft, cut, Random(), head, vocabulary, 7) != expected, "some chain must reach the answer's end"


def test_a_sampled_answer_is_named() -> None:
    draft, vocabulary = make_draft(True)
    sampled = Document(("a", 0), "chat", tuple(range(12)), 5, greedy=False)
    with pytest.raises(ValueError, match=r"\('a', 0\) was sampled"):
        walk(draft, [sampled], Random(), Linear(torch.zeros(12, 32)), vocabulary, 2)
