"""The loop: greedy output is the target's own, sampled output has the target's exact distribution, edges behave."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare
from transformers import LlamaForCausalLM

from labsim.decode import generate as generate_module
from labsim.decode.generate import generate, generate_batch
from labsim.decode.result import GenerationResult
from labsim.drafts.ngram import NgramDrafter
from labsim.drafts.protocol import Drafter
from labsim.drafts.shape import Chain, DynamicTree, Shape, StaticTree
from labsim.drafts.small import SmallModelDrafter
from labsim.models.cache import KVCache
from labsim.models.llama import LanguageModel
from labsim.models.load import Target
from labsim.models.sampling import Sampling
from tests.decode.planted import bonus_from_the_row_before, no_residual

VOCAB = 7  # of the tiny models in conftest.py
SHAPES = [Chain(1), Chain(4), StaticTree((3, 2, 1)), DynamicTree(4, 3, 8)]
PROMPTS = [[1, 2, 3, 1, 2], [4], [0, 5, 5, 6, 0, 5, 5], [6, 6]]


def drafter(kind: str, draft_model: LanguageModel) -> Drafter:
    return NgramDrafter() if kind == "ngram" else SmallModelDrafter(draft_model, VOCAB)


def by_transformers(model: LlamaForCausalLM, prompt: list[int], count: int) -> list[int]:
    """Greedy continuation, one whole forward per token, no cache."""
    text = list(prompt)
    with torch.no_grad():
        for _ in range(count):
            text.append(int(model(torch.tensor([text])).logits[0, -1].argmax()))
    return text[len(prompt) :]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["ngram", "small"])
def test_greedy_output_is_the_targets_own_in_a_batch(
    target: Target,
    reference: tuple[LlamaForCausalLM, Path],
    draft_model: LanguageModel,
    kind: str,
    shape: Shape,
) -> None:
    results = generate_batch(
        target, PROMPTS, drafter=drafter(kind, draft_model), shape=shape, max_new_tokens=40, stop_ids=frozenset()
    )
    for prompt, result in zip(PROMPTS, results, strict=True):
        assert list(result.tokens) == by_transformers(reference[0], prompt, 40)
        assert result.finish_reason == "length"
        assert len(set(result.tokens)) > 3, "a constant text would prove little"
    assert 0 < sum(result.accepted for result in results) < sum(result.drafted for result in results)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_counts_fit_together(target: Target, draft_model: LanguageModel, shape: Shape) -> None:
    result = generate(target, PROMPTS[0], drafter=SmallModelDrafter(draft_model, VOCAB), shape=shape, max_new_tokens=50)
    assert 1 + sum(len(step.emitted) for step in result.steps) == len(result.tokens) == 50
    assert result.target_forwards == 1 + len(result.steps)
    assert sum(result.histogram) == len(result.steps)
    assert result.acceptance_length == pytest.approx(1 + sum(result.survival))
    assert result.acceptance_length == pytest.approx((len(result.tokens) - 1) / len(result.steps))
    assert result.draft_acceptance_rate == pytest.approx(result.accepted / result.drafted)
    for step in result.steps:
        for node, parent in zip(step.path, (-1, *step.path), strict=False):
            assert step.parents[node] == parent


def test_plain_decoding_takes_one_forward_per_token(target: Target) -> None:
    result = generate(target, [1, 2], max_new_tokens=20)
    assert (result.target_forwards, result.acceptance_length, result.drafted) == (20, 1.0, 0)


# --- the distribution, exactly -------------------------------------------------------------------------------------

LENGTH = 3
SAMPLING = Sampling(temperature=0.9, top_k=4)


def exact_distribution(model: LlamaForCausalLM, prompt: list[int]) -> dict[tuple[int, ...], float]:
    """P(continuation) of every continuation of LENGTH tokens, from transformers, temperature and top-k by hand."""
    chances: dict[tuple[int, ...], float] = {}
    texts = torch.tensor([[*prompt, *tail] for tail in product(range(VOCAB), repeat=LENGTH)])
    with torch.no_grad():
        logits = model(texts).logits[:, len(prompt) - 1 : -1] / SAMPLING.temperature
    best = logits.topk(SAMPLING.top_k).indices
    kept = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, best, True)
    p = logits.exp() * kept
    p = p / p.sum(-1, keepdim=True)
    picked = p.gather(-1, texts[:, len(prompt) :, None]).squeeze(-1).prod(-1)
    for tail, chance in zip(product(range(VOCAB), repeat=LENGTH), picked.tolist(), strict=True):
        if chance > 0:
            chances[tail] = chance
    return chances


def p_value(
    target: Target, model: LlamaForCausalLM, make: object, shape: Shape, rows: int = 3000, new: int = LENGTH + 3
) -> float:
    """Chi-square of the first LENGTH tokens of many sampled answers; 0 when an impossible one appears."""
    prompt = [1, 2, 3, 1, 2]
    expected = exact_distribution(model, prompt)
    counts = dict.fromkeys(expected, 0)
    for batch in range(rows // 1000):
        results = generate_batch(
            target, [prompt] * 1000, drafter=make(), shape=shape, max_new_tokens=new, sampling=SAMPLING, seed=batch
        )
        for result in results:
            if result.tokens[:LENGTH] not in counts:
                return 0.0
            counts[result.tokens[:LENGTH]] += 1
    common = [tail for tail in expected if expected[tail] * rows >= 5]
    observed, wanted = [counts[tail] for tail in common], [expected[tail] * rows for tail in common]
    if len(common) < len(expected):
        observed.append(rows - sum(observed))
        wanted.append(rows - sum(wanted))
    return chisquare(observed, wanted, sum_check=False).pvalue


@pytest.mark.parametrize("shape", [Chain(3), StaticTree((2, 2)), DynamicTree(3, 2, 5)], ids=str)
@pytest.mark.parametrize("kind", ["ngram", "small"])
def test_sampled_answers_have_the_targets_distribution(
    target: Target,
    reference: tuple[LlamaForCausalLM, Path],
    draft_model: LanguageModel,
    kind: str,
    shape: Shape,
) -> None:
    assert p_value(target, reference[0], lambda: drafter(kind, draft_model), shape) > 1e-3


def small(draft_model: LanguageModel) -> SmallModelDrafter:
    return SmallModelDrafter(draft_model, VOCAB)


def test_it_would_show_if_there_were_no_residual(
    target: Target,
    reference: tuple[LlamaForCausalLM, Path],
    draft_model: LanguageModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_residual(monkeypatch)
    assert p_value(target, reference[0], lambda: small(draft_model), Chain(3)) < 1e-6


def test_it_would_show_if_the_bonus_came_from_the_wrong_row(
    target: Target,
    reference: tuple[LlamaForCausalLM, Path],
    draft_model: LanguageModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bonus_from_the_row_before(monkeypatch)
    assert p_value(target, reference[0], lambda: small(draft_model), Chain(1)) < 1e-6


def test_it_would_show_if_rejected_tokens_stayed_in_the_cache(
    target: Target,
    reference: tuple[LlamaForCausalLM, Path],
    draft_model: LanguageModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right, kept = KVCache.keep, []

    def keep_once(cache: KVCache, paths: list[list[int]]) -> None:
        if len(paths[0]) < cache.pending and not kept:
            kept.append(cache.pending - len(paths[0]))
            paths = [range(cache.pending)]
        right(cache, paths)

    expected = by_transformers(reference[0], PROMPTS[0], 40)
    own = NgramDrafter()  # keeps no cache of its own: only the target's is broken
    monkeypatch.setattr(KVCache, "keep", keep_once)
    result = generate(target, PROMPTS[0], drafter=own, shape=Chain(2), max_new_tokens=40)
    assert kept
    assert list(result.tokens) != expected


def test_a_seed_gives_the_same_answer_and_another_seed_another(target: Target, draft_model: LanguageModel) -> None:
    def run(seed: int) -> GenerationResult:
        return generate(
            target, [1, 2], drafter=small(draft_model), max_new_tokens=30, sampling=Sampling(1.0), seed=seed
        )

    assert run(4).tokens == run(4).tokens != run(5).tokens


# --- edges ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["none", "ngram", "small"])
def test_a_stop_token_ends_the_answer_wherever_it_comes(
    target: Target, reference: tuple[LlamaForCausalLM, Path], draft_model: LanguageModel, kind: str
) -> None:
    prompt = PROMPTS[2]
    whole = by_transformers(reference[0], prompt, 40)
    for stop in set(whole):
        expected = whole[: whole.index(stop) + 1]
        result = generate(
            target,
            prompt,
            drafter=None if kind == "none" else drafter(kind, draft_model),
            max_new_tokens=40,
            stop_ids=frozenset({stop}),
        )
        assert (list(result.tokens), result.finish_reason) == (expected, "stop")
        assert 1 + sum(len(step.emitted) for step in result.steps) == len(expected)


@pytest.mark.parametrize("new", [1, 2, 3, 5])
def test_max_new_tokens_is_exact(target: Target, draft_model: LanguageModel, new: int) -> None:
    for shape in SHAPES:
        result = generate(target, [1, 2, 3], drafter=small(draft_model), shape=shape, max_new_tokens=new)
        assert (len(result.tokens), result.finish_reason) == (new, "length")


@pytest.mark.parametrize("kind", ["none", "ngram", "small"])
def test_the_context_ends_an_answer(target: Target, draft_model: LanguageModel, kind: str) -> None:
    chosen = None if kind == "none" else drafter(kind, draft_model)
    result = generate(target, [1, 2, 3] * 30, drafter=chosen, shape=Chain(4) if chosen else None, max_new_tokens=50)
    assert (len(result.tokens), result.finish_reason) == (96 - 90, "context")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["none", "ngram", "small"])
def test_one_rows_end_is_not_the_batchs(
    target: Target, reference: tuple[LlamaForCausalLM, Path], draft_model: LanguageModel, kind: str, shape: Shape
) -> None:
    """Rows with room draft on beside one that has hardly any; padding needs no room."""
    chosen = None if kind == "none" else drafter(kind, draft_model)
    prompts = [[1, 2, 3, 1, 2], [1, 2, 3] * 30, [6, 6]]
    results = generate_batch(
        target, prompts, drafter=chosen, shape=shape if chosen else None, max_new_tokens=30, stop_ids=frozenset()
    )
    assert [result.finish_reason for result in results] == ["length", "context", "length"]
    for prompt, result in zip(prompts, results, strict=True):
        assert list(result.tokens) == by_transformers(reference[0], prompt, min(30, 96 - len(prompt)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_draft_of_a_shorter_context_stops_drafting(
    target: Target, draft_model: LanguageModel, shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [[1, 2, 3, 1, 2], [1, 2, 3] * 10, [6, 6] * 14]
    expected = generate_batch(target, prompts, max_new_tokens=40, stop_ids=frozenset())
    monkeypatch.setattr(draft_model, "config", replace(draft_model.config, max_positions=34))
    made = small(draft_model)
    results = generate_batch(target, prompts, drafter=made, shape=shape, max_new_tokens=40, stop_ids=frozenset())
    assert [result.tokens for result in results] == [result.tokens for result in expected]
    alone = generate(target, prompts[0], drafter=made, shape=shape, max_new_tokens=60, stop_ids=frozenset())
    assert alone.steps[0].tokens and not alone.steps[-2].tokens
    assert alone.tokens[:40] == expected[0].tokens


def test_a_prompt_in_several_chunks_gives_the_same(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = [[1, 2, 3] * 9, [4, 5], [6, 1] * 7]
    expected = [generate(target, prompt, max_new_tokens=12).tokens for prompt in prompts]
    monkeypatch.setattr(generate_module, "PREFILL_CHUNK", 5)
    results = generate_batch(target, prompts, max_new_tokens=12)
    assert [result.tokens for result in results] == expected
    assert results[0].prefill_forwards == 6


@pytest.mark.parametrize("kind", ["none", "ngram", "small"])
def test_a_prompt_that_rows_share_is_run_once_and_read_by_each(
    target: Target, draft_model: LanguageModel, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    prompts = [[1, 2, 3] * 4, [4, 5], [1, 2, 3] * 4, [6], [4, 5]]
    made = None if kind == "none" else drafter(kind, draft_model)
    own = [generate(target, prompt, drafter=made, max_new_tokens=20, stop_ids=frozenset()) for prompt in prompts]
    tokens_run, forward = [], target.model.forward

    def counted(tokens_BQ: torch.Tensor, *arguments: object, **options: object) -> object:
        tokens_run.append(len(tokens_BQ))
        return forward(tokens_BQ, *arguments, **options)

    monkeypatch.setattr(target.model, "forward", counted)
    results = generate_batch(target, prompts, drafter=made, max_new_tokens=20, stop_ids=frozenset())
    assert [result.tokens for result in results] == [result.tokens for result in own]
    assert tokens_run[:2] == [3, 5], "three texts, then a step of five rows"


def test_rows_are_copied_where_they_fit_only(target: Target) -> None:
    cache, once = target.model.new_cache(3, 4), target.model.new_cache(2, 6)
    once.lengths = [6, 2]
    with pytest.raises(ValueError, match="one row for each of 3, not 2"):
        cache.copy_rows(once, [0, 1])
    with pytest.raises(ValueError, match="has 4 slots per row and would need 6"):
        cache.copy_rows(once, [1, 0, 1])
    cache.copy_rows(once, [1, 1, 1])
    assert cache.lengths == [2, 2, 2]


def test_tokens_are_reported_as_they_come(target: Target, draft_model: LanguageModel) -> None:
    seen: dict[int, list[int]] = {0: [], 1: []}
    results = generate_batch(
        target,
        [[1, 2], [3]],
        drafter=small(draft_model),
        max_new_tokens=15,
        on_tokens=lambda row, tokens: seen[row].extend(tokens),
    )
    assert [tuple(seen[row]) for row in (0, 1)] == [result.tokens for result in results]


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ([], {}, "there is no prompt"),
        ([[]], {}, "prompt 0 is empty"),
        ([[1], [2] * 96], {}, "prompt 1 has 96 tokens, and the context of tiny holds 96"),
        ([[1]], {"max_new_tokens": 0}, "max_new_tokens is 0"),
        ([[7]], {}, "token id 7 is outside the vocabulary of 7"),
    ],
)
def test_wrong_input_is_named(target: Target, prompts: list[list[int]], options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate_batch(target, prompts, **options)
