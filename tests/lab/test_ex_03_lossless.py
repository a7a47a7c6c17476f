"""The instruments of notebook 03: exact probabilities, the chi-square test, planted mistakes, counted forwards."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import scipy.stats
import torch
from transformers import LlamaForCausalLM

from labsim.decode import accept
from labsim.decode.generate import generate, generate_batch
from labsim.drafts.ngram import NgramDrafter
from labsim.drafts.shape import Chain
from labsim.lab.lossless import (
    PLANTED,
    Fit,
    StubbornDrafter,
    chi_square,
    continuation_probabilities,
    counting_forwards,
    first_difference,
    planted,
)
from labsim.models.load import Target
from labsim.models.sampling import Sampling

from .tiny_target import noisy_drafter, tiny_target

PROMPT = list(range(40, 60)) * 2
TWO = Sampling(temperature=1.5, top_k=2)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiny") / "target"


@pytest.fixture(scope="module")
def target(directory: Path) -> Target:
    return tiny_target(directory)


@torch.no_grad()
def test_continuation_probabilities_by_brute_force(target: Target, directory: Path) -> None:
    """Every continuation's probability from transformers, one text at a time."""
    exact = continuation_probabilities(target, PROMPT, 3, TWO)
    assert len(exact) == 8 and sum(exact.values()) == pytest.approx(1, abs=1e-6)
    model = LlamaForCausalLM.from_pretrained(directory, dtype=torch.float64).eval()
    for tokens, probability in exact.items():
        logits = model(torch.tensor([[*PROMPT, *tokens]])).logits[0, len(PROMPT) - 1 : -1] / 1.5
        by_hand = 1.0
        for row, token in zip(logits, tokens, strict=True):
            best, indices = row.topk(2)
            by_hand *= float(best.softmax(-1)[indices.tolist().index(token)])
        assert probability == pytest.approx(by_hand, rel=1e-5)


def test_chi_square_equals_scipy() -> None:
    counts, p = {(0,): 48, (1,): 35, (2,): 17}, {(0,): 0.5, (1,): 0.3, (2,): 0.2}
    fit, wanted = chi_square(counts, p), scipy.stats.chisquare([48, 35, 17], [50, 30, 20])
    assert fit == Fit(pytest.approx(wanted.statistic), 2, pytest.approx(wanted.pvalue))


def test_chi_square_pools_rare_cells() -> None:
    counts = {(0,): 60, (1,): 30, (2,): 4, (3,): 6}
    p = {(0,): 0.6, (1,): 0.3, (2,): 0.04, (3,): 0.03, (4,): 0.03}
    wanted = scipy.stats.chisquare([60, 30, 10], [60, 30, 10])
    assert chi_square(counts, p) == Fit(pytest.approx(wanted.statistic), 2, pytest.approx(wanted.pvalue))


def test_an_impossible_answer_is_never_forgiven() -> None:
    assert chi_square({(0,): 999, (7,): 1}, {(0,): 1.0}) == Fit(math.inf, 0, 0.0, 1)
    with pytest.raises(ValueError, match="counts are all 0"):
        chi_square({}, {(0,): 1.0})


def sampled(target: Target, drafter: object, rows: int = 400) -> Counter:
    results = generate_batch(
        target, [PROMPT] * rows, drafter=drafter, shape=Chain(2), max_new_tokens=4, sampling=TWO, seed=3,
        stop_ids=frozenset(),
    )  # fmt: skip
    return Counter(one.tokens for one in results)


def test_the_right_sampler_fits_and_each_planted_mistake_does_not(target: Target, directory: Path) -> None:
    exact = continuation_probabilities(target, PROMPT, 4, TWO)
    drafter = noisy_drafter(directory, noise=0.3)
    assert chi_square(sampled(target, drafter), exact).p_value > 1e-4
    for mistake in PLANTED[:-1]:
        with planted(mistake):
            assert chi_square(sampled(target, drafter), exact).p_value < 1e-6, mistake
    assert chi_square(sampled(target, drafter), exact).p_value > 1e-4, "the mistake is gone after the block"


def test_rejected_tokens_that_stay_in_the_cache_change_the_answer(target: Target, directory: Path) -> None:
    """Greedy, where one other token shows: this target attends too little for 400 sampled answers to tell."""
    drafter = noisy_drafter(directory, noise=0.3)
    plain = generate(target, PROMPT, max_new_tokens=40, stop_ids=frozenset()).tokens
    run = partial(generate, target, PROMPT, shape=Chain(4), max_new_tokens=40, stop_ids=frozenset())
    with planted("rejected tokens stay cached"):
        assert run(drafter=drafter).tokens != plain
    assert run(drafter=drafter).tokens == plain


def test_a_planted_mistake_leaves_even_after_an_error() -> None:
    right = accept.judge
    with pytest.raises(RuntimeError), planted("redraw from p"):
        assert accept.judge is not right
        raise RuntimeError
    assert accept.judge is right
    with pytest.raises(ValueError, match="redraw from p"), planted("redraw from q"):
        pass


@pytest.mark.parametrize("kind", ["ngram", "small", "stubborn"])
def test_forwards_are_counted_from_outside(kind: str, target: Target, directory: Path) -> None:
    drafter = {"ngram": NgramDrafter(), "small": noisy_drafter(directory), "stubborn": StubbornDrafter(7)}[kind]
    with counting_forwards(target.model) as widths:
        result = generate(target, PROMPT, drafter=drafter, shape=Chain(4), max_new_tokens=20, stop_ids=frozenset())
    assert len(widths) == result.target_forwards
    assert widths == [len(PROMPT), *(1 + len(step.tokens) for step in result.steps)]
    assert sum(len(step.emitted) for step in result.steps) == 19
    again = generate(target, PROMPT, max_new_tokens=2, stop_ids=frozenset())
    assert len(widths) == result.target_forwards, "counting ends with the block"
    assert again.tokens == result.tokens[:2]


def test_first_difference(target: Target) -> None:
    plain = generate(target, PROMPT, max_new_tokens=6, stop_ids=frozenset()).tokens
    assert first_difference(target, PROMPT, plain, plain) is None
    cache = target.model.new_cache(1, 100)
    row = target.model.forward(torch.tensor([[*PROMPT, *plain[:3]]]), cache).logits_BQV[0, -1]
    best, second = sorted(row.tolist(), reverse=True)[:2]
    changed = [*plain[:3], (plain[3] + 1) % 257, *plain[4:]]
    found = first_difference(target, PROMPT, plain, changed)
    assert found is not None and found.position == 3
    assert found.gap == pytest.approx(best - second, abs=1e-9)


def test_a_stubborn_draft_repeats_itself(target: Target) -> None:
    (draft,) = StubbornDrafter(9).propose([PROMPT], Chain(3), TWO, [])
    assert draft.tokens == tuple(itertools.repeat(9, 3)) and draft.is_chain
