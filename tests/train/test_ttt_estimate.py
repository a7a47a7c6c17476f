"""The walk over a finished answer gives exactly the acceptance that decoding that answer gives."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from labsim.decode.generate import generate
from labsim.drafts.eagle_checkpoint import TrainedDraft
from labsim.drafts.load import load_drafter
from labsim.drafts.shape import Chain
from labsim.features.source import Online
from labsim.models.load import Target, load_target
from labsim.parallel import logical
from labsim.parallel.mesh import Mesh
from labsim.train.answers import Question, generate_answers
from labsim.train.ttt.build import build
from labsim.train.ttt.data import Document, documents
from labsim.train.ttt.estimate import Estimate, chain_runs, estimate, estimate_by_domain
from labsim.train.ttt.loop import identity_of, train
from labsim.train.ttt.recipe import TTTRecipe

PROMPTS = ["Tell me a story about a fox.", "Name four animals.", "What is 12 plus 30?", "Write a function that adds."]
NEW_TOKENS = 48


@pytest.fixture(scope="module")
def nano() -> Target:
    return load_target("nano", device="cpu")


@pytest.fixture(scope="module")
def answered(nano: Target) -> list[Document]:
    questions = [Question(f"p{i}", 0, "chat", tuple(nano.encode_chat(text))) for i, text in enumerate(PROMPTS)]
    answers = generate_answers(nano.model, nano.stop_ids, questions, max_new_tokens=NEW_TOKENS)
    return sorted(documents(list(answers), 256, greedy=True), key=lambda document: document.key)


@pytest.mark.parametrize("kind", ["eagle3", "eagle3.1", "mtp", "heads", "eagle1"])
def test_the_walk_is_the_decoding(nano: Target, answered: list[Document], kind: str, tmp_path: Path) -> None:
    """A draft that has learned these four answers a little is right often and wrong often."""
    recipe = TTTRecipe(
        draft=kind, ttt=3, steps=14, seq=256, learning_rate=3e-3, bf16=False, evaluate_every=14, draft_vocab_size=600
    )
    draft, vocabulary = build(recipe, nano, answered)
    source = Online(nano.model, draft.config.feature_layers)
    identity = identity_of(recipe, nano, answered)
    train(draft, vocabulary, nano, source, answered, answered, recipe, tmp_path, identity=identity)
    drafter = load_drafter(str(tmp_path), nano)
    k = 3
    found = estimate(drafter.draft, answered, source, nano.model.head, vocabulary, recipe, k)
    runs = []
    for document in answered:
        result = generate(
            nano,
            list(document.tokens[: document.answer_start]),
            drafter=drafter,
            shape=Chain(k),
            max_new_tokens=NEW_TOKENS,
        )
        assert result.tokens == document.tokens[document.answer_start :]
        runs += [len(step.path) for step in result.steps]
    assert found.steps == len(runs)
    assert found.accepted == sum(runs)
    assert 0 < found.accepted < k * found.steps, "a draft that is always right or wrong proves nothing"
    assert found.survival == pytest.approx([sum(run > i for run in runs) / len(runs) for i in range(k)])
    assert found.acceptance_length == pytest.approx(1 + sum(found.survival))


def shared(mesh: Mesh, draft: TrainedDraft, answered: list[Document], *arguments: object, kind: str) -> Estimate:
    return estimate(copy.deepcopy(draft), answered, *arguments, mesh, kind, shared_from=70)


@pytest.mark.parametrize(("ring", "ulysses"), [(1, 1), (3, 1), (2, 2)])
@pytest.mark.parametrize("kind", ["zigzag", "contiguous"])
def test_ranks_count_what_one_rank_counts(
    nano: Target, answered: list[Document], ring: int, ulysses: int, kind: str
) -> None:
    """Long documents are shared, short ones dealt out; some of both are here."""
    lengths = [len(document.tokens) for document in answered]
    assert min(lengths) < 70 <= max(lengths), lengths
    recipe = TTTRecipe(draft="eagle3.1", ttt=3, seq=256, bf16=False, draft_vocab_size=600)
    draft, vocabulary = build(recipe, nano, answered)
    given = (Online(nano.model, draft.config.feature_layers), nano.model.head, vocabulary, recipe, 3)
    alone = estimate(draft, answered, *given)
    assert alone.accepted > 0
    work = partial(shared, kind=kind)
    for found in logical.run(work, draft, answered, *given, ring=ring, ulysses=ulysses, timeout_seconds=120):
        assert found == alone


def test_all_is_the_sum_of_the_domains(nano: Target, answered: list[Document]) -> None:
    """Each as if walked alone."""
    recipe = TTTRecipe(draft="eagle3.1", ttt=3, seq=256, bf16=False, draft_vocab_size=600)
    draft, vocabulary = build(recipe, nano, answered)
    given = (Online(nano.model, draft.config.feature_layers), nano.model.head, vocabulary, recipe, 3)
    code, chat = ([replace(one, domain=domain) for one in answered] for domain in ("code", "chat"))
    mixed = [chat[0], code[1], chat[2], chat[3]]
    found = estimate_by_domain(draft, mixed, *given)
    alone = {"all": mixed, "chat": [mixed[0], *mixed[2:]], "code": [mixed[1]]}
    assert found == {domain: estimate(draft, some, *given) for domain, some in alone.items()}
    assert list(found) == ["all", "chat", "code"] and found["all"].steps > found["chat"].steps > 0
    deeper = estimate(draft, mixed, *given, depths=5)
    assert len(deeper.marginal) == 5 and deeper.marginal[:3] == found["all"].marginal
    assert (deeper.steps, deeper.survival) == (found["all"].steps, found["all"].survival)


def test_walks_by_hand() -> None:
    always = [[True] * 9] * 3
    assert chain_runs(always, 10, 3, stopped=True) == [3, 3, 1]
    assert chain_runs(always, 10, 3, stopped=False) == [3, 3, 0]
    assert chain_runs([[False] * 4], 5, 1, stopped=True) == [0, 0, 0, 0]
    assert chain_runs([[True], []], 1, 2, stopped=True) == []


def test_sampled_answers_are_refused(nano: Target, answered: list[Document]) -> None:
    sampled = Document(("s", 3), "chat", answered[0].tokens, answered[0].answer_start, False)
    recipe = TTTRecipe(draft="mtp")
    draft, vocabulary = build(recipe, nano, answered)
    source = Online(nano.model, draft.config.feature_layers)
    with pytest.raises(ValueError, match=r"'s', 3.*sampled"), torch.no_grad():
        estimate(draft, [sampled], source, nano.model.head, vocabulary, recipe, 2)
