"""Measures of real steps, on a tiny random target and a draft that agrees with it now and then."""

from __future__ import annotations

import random

import pytest
import torch

from labsim.decode.generate import generate_batch
from labsim.decode.result import GenerationResult, PhaseSeconds, Step
from labsim.drafts.shape import Chain, DynamicTree, StaticTree
from labsim.drafts.small import SmallModelDrafter
from labsim.lab.tree_steps import (
    branch_difference,
    draft_chances,
    gain_interval,
    judged_nodes,
    length_interval,
    pooled_length,
    sharpened,
    texts_before,
)
from labsim.models.load import Target

from .tiny_target import noisy_drafter, tiny_target


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Target, SmallModelDrafter]:
    directory = tmp_path_factory.mktemp("tiny")
    return tiny_target(directory), noisy_drafter(directory)


@pytest.fixture(scope="module")
def answers(pair) -> list[GenerationResult]:
    target, drafter = pair
    prompts = [[1, 2, 3, 4], [9, 8, 7]]
    return generate_batch(target, prompts, drafter=drafter, shape=DynamicTree(3, 3, 7), max_new_tokens=24)


def made(accepted: list[int]) -> GenerationResult:
    """An answer whose steps accepted that many tokens of a chain of 4."""
    steps = tuple(Step((0,) * 4, (-1, 0, 1, 2), tuple(range(n)), 5, "corrected") for n in accepted)
    return GenerationResult((1,), (5,), "length", steps, 1, PhaseSeconds(), 0)


def test_the_texts_before_the_steps_rebuild_the_answer(answers: list[GenerationResult]) -> None:
    for one in answers:
        texts = list(texts_before(one))
        assert len(texts) == len(one.steps)
        assert texts[0][0] == [*one.prompt_tokens, one.tokens[0]]
        last, step = texts[-1]
        assert tuple(last) + step.emitted == one.prompt_tokens + one.tokens


def test_draft_chances_are_those_of_separate_forwards(pair, answers: list[GenerationResult]) -> None:
    _, drafter = pair
    text, step = list(texts_before(answers[0]))[2]
    found = draft_chances(drafter, text, step)
    paths: list[list[int]] = []
    for token, parent, chance in zip(step.tokens, step.parents, found, strict=True):
        before = paths[parent] if parent >= 0 else []
        tokens = [*text, *before]
        logits = drafter.model.forward(
            torch.tensor([tokens]), drafter.model.new_cache(1, len(tokens)), logits="last"
        ).logits_BQV[0, 0]
        assert chance == pytest.approx(float(logits.softmax(-1)[token]), abs=1e-6)
        paths.append([*before, token])


def test_a_reduced_vocabulary_is_mapped(pair, answers: list[GenerationResult]) -> None:
    """With every second output known, chances are renormalised over those, and columns are found by target id."""
    _, drafter = pair
    text, step = next(texts_before(answers[0]))
    ids = torch.tensor(sorted({*step.tokens, *range(0, 257, 2)}))
    reduced = SmallModelDrafter(drafter.model, 257, ids)

    class Reduced:
        """The drafter's model with only those outputs."""

        new_cache = drafter.model.new_cache

        @staticmethod
        def forward(*arguments: object, **options: object):
            out = drafter.model.forward(*arguments, **options)
            return type(out)(out.logits_BQV[..., ids])

    reduced.model = Reduced
    whole, part = draft_chances(drafter, text, step), draft_chances(reduced, text, step)
    assert all(b >= a for a, b in zip(whole, part, strict=True)) and part != whole
    same_parent = [i for i, parent in enumerate(step.parents) if parent < 0]
    assert part[same_parent[0]] / part[same_parent[1]] == pytest.approx(whole[same_parent[0]] / whole[same_parent[1]])


def test_one_forward_over_the_tree_equals_one_per_branch(pair, answers: list[GenerationResult]) -> None:
    target, _ = pair
    for text, step in list(texts_before(answers[1]))[:4]:
        assert branch_difference(target.model, text, step) < 1e-9


def test_a_leak_between_branches_would_show(pair, answers: list[GenerationResult]) -> None:
    """The same tokens run as one chain, as with a causal mask, differ from the branches."""
    target, _ = pair
    text, step = next((t, s) for t, s in texts_before(answers[0]) if s.parents.count(-1) > 1)
    causal = Step(step.tokens, tuple(range(-1, len(step.tokens) - 1)), (), None, "stop")
    leaf = len(step.tokens) - 1
    tree_row = logits_after(target, text, step)[leaf]
    chain_row = logits_after(target, text, causal)[leaf]
    assert float((tree_row - chain_row).abs().max()) > 1e-3


def logits_after(target: Target, text: list[int], step: Step) -> torch.Tensor:
    last = len(text) - 1
    parents = [*range(-1, last), *(last if parent < 0 else len(text) + parent for parent in step.parents)]
    cache = target.model.new_cache(1, len(parents))
    return target.model.forward(torch.tensor([[*text, *step.tokens]]), cache, parents_BQ=[parents]).logits_BQV[
        0, len(text) :
    ]


def test_judged_nodes_know_their_fate_and_their_rank(pair) -> None:
    target, drafter = pair
    results = generate_batch(target, [[1, 2, 3]], drafter=drafter, shape=StaticTree((3, 2)), max_new_tokens=20)
    steps = judged_nodes(drafter, results, limit=100)
    whole = [step for step in steps if len(step) == 9]
    assert whole
    assert [sum(node.accepted for node in step) for step in steps] == [
        len(s.path) for s in results[0].steps if s.tokens
    ]
    for step in whole:
        assert [node.rank for node in step] == [1, 2, 3, 1, 2, 1, 2, 1, 2]
        assert [node.depth for node in step] == [1] * 3 + [2] * 6
        assert all(node.parent_accepted for node in step if node.accepted)
        assert all(0 < node.chance <= 1 for node in step)
        first = [node.chance for node in step if node.depth == 1]
        assert first == sorted(first, reverse=True)


def test_a_limit_spreads_over_all_answers(pair, answers: list[GenerationResult]) -> None:
    _, drafter = pair
    assert len(judged_nodes(drafter, answers, limit=3)) == 3
    everything = sum(1 for one in answers for step in one.steps if step.tokens)
    assert len(judged_nodes(drafter, answers, limit=1000)) == everything


def test_pooled_length_weighs_steps_not_answers() -> None:
    assert pooled_length([made([4, 4]), made([0] * 8)]) == 1 + 8 / 10
    assert pooled_length([made([])]) == 1.0


def test_intervals_cover_the_truth_as_often_as_they_promise() -> None:
    """Answers of different difficulty: the true mean lies inside about 95 % of the intervals."""
    rng, inside, trials = random.Random(0), 0, 120
    for trial in range(trials):
        sample = []
        for _ in range(20):
            chance = rng.betavariate(4, 2)
            sample.append(made([sum(rng.random() < chance for _ in range(4)) for _ in range(15)]))
        low, high = length_interval(sample, trial, draws=200)
        inside += low <= 1 + 4 * 4 / 6 <= high
    assert 0.86 <= inside / trials <= 0.99


def test_pairing_makes_a_difference_sharp() -> None:
    rng = random.Random(1)
    base = [[rng.randint(0, 1) + hard for _ in range(20)] for hard in (0, 1, 2, 3) * 4]
    one, other = [made([n + (n < 4) for n in row]) for row in base], [made(row) for row in base]
    low, high = gain_interval(one, other, 0)
    wide = length_interval(other, 0)
    assert 0 < low <= high <= 1
    assert high - low < (wide.high - wide.low) / 4


def test_unpaired_answers_are_refused() -> None:
    with pytest.raises(ValueError, match="1 and 2 answers"):
        gain_interval([made([1])], [made([1]), made([2])], 0)


def test_a_chain_and_its_pooled_length_agree_with_the_result(pair) -> None:
    target, drafter = pair
    (one,) = generate_batch(target, [[5, 6, 7]], drafter=drafter, shape=Chain(4), max_new_tokens=30)
    assert pooled_length([one]) == pytest.approx(one.acceptance_length)


def test_sharpening_changes_the_confidence_and_not_the_guesses(pair, answers: list[GenerationResult]) -> None:
    target, drafter = pair
    sharp = sharpened(drafter, 3.0)
    text, step = next(texts_before(answers[0]))
    mild, strong = draft_chances(drafter, text, step), draft_chances(sharp, text, step)
    roots = [i for i, parent in enumerate(step.parents) if parent < 0]
    assert strong[roots[0]] > mild[roots[0]]
    assert strong[roots[1]] / strong[roots[0]] == pytest.approx((mild[roots[1]] / mild[roots[0]]) ** 3, rel=1e-4)
    one, other = (
        generate_batch(target, [[1, 2, 3]], drafter=d, shape=Chain(4), max_new_tokens=20)[0] for d in (drafter, sharp)
    )
    assert one.steps == other.steps
    with pytest.raises(ValueError, match="factor is 0"):
        sharpened(drafter, 0)
