"""The loss of a packed row: equal to its documents one by one, and to the definition from the serving side."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from labsim.drafts.vocabulary import DraftVocabulary
from labsim.features.source import Online
from labsim.models.load import Target, load_target
from labsim.train.ttt.build import build
from labsim.train.ttt.data import Document, PackedRow
from labsim.train.ttt.loss import Teacher, row_loss, step_loss
from labsim.train.ttt.recipe import KINDS, TTTRecipe

RECIPE = TTTRecipe(draft="eagle3.1", ttt=3, bf16=False, draft_vocab_size=300)


@pytest.fixture(scope="module")
def nano() -> Target:
    return load_target("nano", device="cpu")


def conversation(seed: int, length: int, start: int) -> Document:
    tokens = torch.randint(300, 900, (length,), generator=torch.Generator().manual_seed(seed)).tolist()
    return Document((str(seed), 0), "chat", tuple(tokens), start, True)


TWO = [conversation(1, 23, 9), conversation(2, 14, 3)]


def measured(nano: Target, recipe: TTTRecipe, documents: list[Document]) -> tuple[torch.Tensor, list, dict]:
    draft, vocabulary = build(recipe, nano, TWO)
    source = Online(nano.model, draft.config.feature_layers)
    row = PackedRow.of(documents)
    states = source.read([document.tokens for document in documents])
    teacher = Teacher.of(row, torch.cat([s.last_TE for s in states]), nano.model.head, vocabulary)
    loss, figures = row_loss(draft, row, states, teacher, recipe)
    loss.backward()
    return loss, figures, {name: p.grad for name, p in draft.named_parameters()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_row_is_its_documents(nano: Target, kind: str) -> None:
    """Nothing leaks over a border: per step, loss and gradient are the means over the documents' own places."""
    recipe = replace(RECIPE, draft=kind)
    for depth in range(1, recipe.ttt + 1):
        # One step's weight at a time, so that the documents' means can be weighed by their places.
        one = replace(recipe, ttt=depth)
        _packed, figures, gradient = measured(nano, one, TWO)
        parts = [measured(nano, one, [document]) for document in TWO]
        for step, figure in enumerate(figures):
            counts = [len(part[1][step].places_C) for part in parts]
            expected = sum(c * part[1][step].loss for c, part in zip(counts, parts, strict=True)) / sum(counts)
            assert figure.loss == pytest.approx(expected, rel=2e-5)
            assert len(figure.places_C) == sum(counts)
        if depth == 1:
            counts = [len(part[1][0].places_C) for part in parts]
            for name, grad in gradient.items():
                mixed = sum(c * part[2][name] for c, part in zip(counts, parts, strict=True)) / sum(counts)
                assert grad.abs().max() > 0, name
                torch.testing.assert_close(grad, mixed, rtol=2e-3, atol=2e-6)


def test_the_loss_is_that_of_drafting_with_a_cache(nano: Target) -> None:
    """Cross-entropy of every guess, computed the serving way: a cache, one chain per place, the text's own tokens."""
    [document] = TWO[:1]
    draft, vocabulary = build(RECIPE, nano, TWO)
    with torch.no_grad():
        for parameter in draft.parameters():
            if parameter.ndim == 1:  # norm weights of one would hide a second norm
                parameter.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(parameter.numel()))
    source = Online(nano.model, draft.config.feature_layers)
    [states] = source.read([document.tokens])
    row = PackedRow.of([document])
    teacher = Teacher.of(row, states.last_TE, nano.model.head, vocabulary)
    _, figures = row_loss(draft, row, [states], teacher, RECIPE)

    logits_TV = nano.model.forward(torch.tensor([document.tokens]), nano.model.new_cache(1, 64)).logits_BQV[0]
    p_TN = logits_TV[:, vocabulary.ids_N].softmax(-1)
    tokens = torch.tensor([document.tokens])
    with torch.no_grad():
        fused = draft.fuse(states.features_TF[None])
        for step in range(RECIPE.ttt):
            total, right, count = 0.0, [], 0
            for t in range(len(document.tokens)):
                if not (t + 1 >= document.answer_start and t + 2 + step < len(document.tokens)):
                    continue
                cache = draft.new_cache(1, 64)
                output, state = draft.forward_cached(tokens[:, 1 : t + 2], fused[:, : t + 1], cache)
                cache.keep([range(t + 1)])
                output, state = output[:, -1:], state[:, -1:]
                for j in range(1, step + 1):
                    output, state = draft.forward_cached(tokens[:, t + 1 + j : t + 2 + j], state, cache)
                    cache.keep([[0]])
                guess_N = draft.logits(output[0, 0]).log_softmax(-1)
                total -= float((p_TN[t + 1 + step] * guess_N).sum())
                right.append(int(vocabulary.ids_N[guess_N.argmax()]) == int(logits_TV[t + 1 + step].argmax()))
                count += 1
            assert figures[step].loss == pytest.approx(total / count, rel=1e-4)
            assert figures[step].correct_C.tolist() == right


def test_a_target_token_outside_the_draft_vocabulary_is_never_right(nano: Target) -> None:
    recipe = replace(RECIPE, draft_vocab_size=5)
    keep, drop = measured(nano, recipe, TWO), measured(nano, replace(recipe, oov="drop"), TWO)
    draft, vocabulary = build(recipe, nano, TWO)
    states = Online(nano.model, draft.config.feature_layers).read([document.tokens for document in TWO])
    teacher = Teacher.of(PackedRow.of(TWO), torch.cat([s.last_TE for s in states]), nano.model.head, vocabulary)
    outside = teacher.drafted_P < 0
    assert int(outside.sum()) > 0
    assert len(vocabulary) == 5
    assert isinstance(vocabulary, DraftVocabulary)
    for figure in keep[1]:
        said = figure.places_C + 1 + keep[1].index(figure)
        assert not bool((figure.correct_C & outside[torch.isin(teacher.places_P, said)]).any())
    assert keep[0].item() != drop[0].item()


@pytest.mark.parametrize("kind", ["eagle3", "eagle1"])
@pytest.mark.parametrize("chunk", [0, 4])
def test_a_double_precision_loss_is_the_exact_mean(kind: str, chunk: int) -> None:
    """The mean by `math`, place by place: a weight of 1/7 in float32 would be off by 1e-8."""
    places, size = 11, 6
    generator = torch.Generator().manual_seed(3)
    output_PH, last_PH = torch.randn(2, places, size, dtype=torch.float64, generator=generator)
    p_PN = torch.rand(places, size, dtype=torch.float64, generator=generator)
    p_PN /= p_PN.sum(dim=-1, keepdim=True)
    counts_P = torch.arange(places) % 3 > 0
    every = torch.arange(places)
    teacher = Teacher(every, p_PN, every, every % size, lambda at: p_PN[at])
    draft = SimpleNamespace(logits=lambda output_PH, step: output_PH)
    step = SimpleNamespace(output_BLH=output_PH[None], step=0)
    recipe = replace(RECIPE, draft=kind, logit_chunk=chunk)
    loss, _ = step_loss(draft, step, every, counts_P, teacher, last_PH, recipe)

    entropies, distances = [], []
    for place in counts_P.nonzero()[:, 0].tolist():
        said, meant = output_PH[place].tolist(), last_PH[place].tolist()
        log_sum = math.log(math.fsum(map(math.exp, said)))
        entropies.append(math.fsum(p * (log_sum - x) for p, x in zip(p_PN[place].tolist(), said, strict=True)))
        off = [abs(x - y) for x, y in zip(said, meant, strict=True)]
        distances.append(math.fsum(0.5 * d * d if d < 1 else d - 0.5 for d in off) / size)
    exact = math.fsum(entropies) / len(entropies)
    if kind == "eagle1":
        exact = 0.1 * exact + math.fsum(distances) / len(distances)
    assert loss.dtype == torch.float64
    assert loss.item() == pytest.approx(exact, rel=1e-15)
