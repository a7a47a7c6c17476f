"""Drafts that read the target's states, inside the decoding loop: output is the target's own, and every drafted token
was drawn from what the training-time forward says at that place, from the first after the prompt to the last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare
from transformers import LlamaForCausalLM

from labsim.decode.generate import generate_batch
from labsim.drafts import eagle_drafter
from labsim.drafts.eagle_drafter import EagleDrafter
from labsim.drafts.protocol import Draft
from labsim.drafts.shape import Chain, DynamicTree, Shape, StaticTree
from labsim.drafts.vocabulary import DraftVocabulary
from labsim.models.load import Target
from labsim.models.sampling import GREEDY, Sampling

from .feature_drafts import KINDS, KNOWN, Expected, build, drafter_of, path_to

SHAPES = [Chain(1), Chain(4), StaticTree((3, 2, 1)), DynamicTree(4, 3, 8)]
PROMPTS = [[1, 2, 3, 1, 2], [4], [0, 5, 5, 6, 0, 5, 5], [6, 6]]
Pair = tuple[LlamaForCausalLM, Path]


def by_transformers(model: LlamaForCausalLM, prompt: list[int], count: int) -> list[int]:
    """Greedy continuation, one whole forward per token, no cache."""
    text = list(prompt)
    with torch.no_grad():
        for _ in range(count):
            text.append(int(model(torch.tensor([text])).logits[0, -1].argmax()))
    return text[len(prompt) :]


@pytest.fixture(scope="module")
def greedy_texts(tiny_reference: Pair) -> list[list[int]]:
    return [by_transformers(tiny_reference[0], prompt, 40) for prompt in PROMPTS]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_output_is_the_targets_own_in_a_batch(
    tiny_target: Target, greedy_texts: list[list[int]], kind: str, shape: Shape, packed: bool
) -> None:
    draft, vocabulary = build(kind, tiny_target)
    if packed and kind != "heads":
        draft.pack(head=tiny_target.model.head)
    drafter = drafter_of(draft, vocabulary)
    results = generate_batch(
        tiny_target, PROMPTS, drafter=drafter, shape=shape, max_new_tokens=40, stop_ids=frozenset()
    )
    assert [list(result.tokens) for result in results] == greedy_texts
    assert all(len(set(tokens)) > 3 for tokens in greedy_texts), "a constant text would prove little"
    assert 0 < sum(result.accepted for result in results) < sum(result.drafted for result in results)


# --- every drafted token against the training-time forward ----------------------------------------------------------

SAMPLING = Sampling(temperature=1.3)


class Recorded:
    """Passes everything on to a drafter and remembers each proposal with its texts."""

    def __init__(self, drafter: EagleDrafter) -> None:
        self.drafter, self.name, self.hidden_layers = drafter, drafter.name, drafter.hidden_layers
        self.seen: list[tuple[tuple[int, ...], Draft]] = []
        self.batches: list[int] = []
        self.shapes: list[Shape] = []
        self.start, self.observe, self.select = drafter.start, drafter.observe, drafter.select

    def propose(self, texts: Sequence[Sequence[int]], shape: Shape, *rest: object) -> list[Draft]:
        drafts = self.drafter.propose(texts, shape, *rest)
        self.shapes += [shape] * len(texts)
        self.seen += [(tuple(text), draft) for text, draft in zip(texts, drafts, strict=True)]
        self.batches.append(len(texts))
        return drafts


def first_siblings(draft: Draft) -> list[int]:
    """The nodes drawn from the draft's unchanged distribution: later siblings are drawn from what is left of it."""
    return [node for node, parent in enumerate(draft.parents) if draft.parents.index(parent) == node]


def record(target: Target, drafter: EagleDrafter, shape: Shape) -> Recorded:
    recorded = Recorded(drafter)
    # Rows accept different numbers of tokens, so they leave the batch at different times.
    generate_batch(
        target, PROMPTS, drafter=recorded, shape=shape, max_new_tokens=24, sampling=SAMPLING, stop_ids=frozenset()
    )
    return recorded


def largest_error(recorded: Recorded, expected: Expected) -> dict[int, float]:
    """By depth the largest difference of a drafted token's distribution from what TTT says there."""
    errors: dict[int, float] = {}
    for text, draft in recorded.seen:
        for node in first_siblings(draft):
            path = path_to(draft, node)
            difference = float((draft.q_NV[node] - expected.q(text, path, SAMPLING.temperature)).abs().max())
            errors[len(path) + 1] = max(errors.get(len(path) + 1, 0.0), difference)
    return errors


@pytest.mark.parametrize("shape", [Chain(4), StaticTree((2, 2, 1))], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_drafted_token_comes_from_what_training_computes(tiny_target: Target, kind: str, shape: Shape) -> None:
    draft, vocabulary = build(kind, tiny_target)
    recorded = record(tiny_target, drafter_of(draft, vocabulary), shape)
    assert len(recorded.seen) > 20 and len(set(recorded.batches)) > 1, "rows must finish at different times"
    errors = largest_error(recorded, Expected(draft, vocabulary, tiny_target))
    assert set(errors) == set(range(1, shape.depth + 1))
    assert max(errors.values()) < 1e-10


@pytest.mark.parametrize("kind", ["eagle1", "eagle3", "eagle3.1", "mtp"])
def test_a_dynamic_tree_holds_the_most_likely_paths(tiny_target: Target, kind: str) -> None:
    shape = DynamicTree(4, 3, 20)
    draft, vocabulary = build(kind, tiny_target)
    recorded = Recorded(drafter_of(draft, vocabulary))
    generate_batch(tiny_target, PROMPTS, drafter=recorded, shape=shape, max_new_tokens=16, stop_ids=frozenset())
    expected = Expected(draft, vocabulary, tiny_target)
    whole = [pair for pair, limited in zip(recorded.seen, recorded.shapes, strict=True) if limited == shape]
    assert len(whole) > 6 and max(max(drafted.depths()) for _, drafted in whole) > 2
    for text, drafted in whole:
        beam, seen = [((), 0.0)], {}
        for _ in range(shape.depth):
            children = []
            for path, worth in beam:
                top = expected.logits(text, path).log_softmax(-1).topk(shape.top_k)
                children += [
                    ((*path, token), worth + value)
                    for token, value in zip(top.indices.tolist(), top.values.tolist(), strict=True)
                ]
            seen |= dict(children)
            beam = sorted(children, key=lambda child: -child[1])[: shape.top_k]
        right = set(sorted(seen, key=lambda path: -seen[path])[: shape.nodes])
        assert {(*path_to(drafted, node), token) for node, token in enumerate(drafted.tokens)} == right


def test_a_long_prompt_is_caught_up_in_chunks(tiny_target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eagle_drafter, "CATCH_UP_CHUNK", 3)
    draft, vocabulary = build("eagle3.1", tiny_target)
    recorded = record(tiny_target, drafter_of(draft, vocabulary), Chain(3))
    assert max(largest_error(recorded, Expected(draft, vocabulary, tiny_target)).values()) < 1e-10


# --- planted bugs in serving ----------------------------------------------------------------------------------------


class KeepsItsGuesses(EagleDrafter):
    """The right drafted entries stay in the prefix, with the draft's own states."""

    def propose(self, texts: Sequence[Sequence[int]], *rest: object) -> list[Draft]:
        if self.cache is not None and self.cache.pending:
            for row in range(len(texts)):
                kept = min(sum(map(len, self.features[row])) - 1, self.cache.pending)
                self.features[row] = [torch.cat(self.features[row])[kept:]]
                self.cache.lengths[row] += kept
        return super().propose(texts, *rest)


class OneLate(EagleDrafter):
    def observe(self, hidden: Sequence[dict[int, torch.Tensor]]) -> None:
        super().observe([{layer: states.roll(1, dims=0) for layer, states in row.items()} for row in hidden])


class RootStateForAll(EagleDrafter):
    """Every drafted token consumes the root's state."""

    def _run(self, tokens_BW: torch.Tensor, parents: list[list[int]]) -> torch.Tensor:
        pending = self.pending_BPH
        self.pending_BPH = self.root_BH[:, None].expand(-1, max(1, pending.shape[1]), -1)[:, : pending.shape[1]]
        return super()._run(tokens_BW, parents)


@pytest.mark.parametrize(("bug", "depth_1"), [(KeepsItsGuesses, True), (OneLate, True), (RootStateForAll, False)])
def test_it_would_show_if_serving_differed(tiny_target: Target, bug: type[EagleDrafter], depth_1: bool) -> None:
    draft, vocabulary = build("eagle3.1", tiny_target)
    recorded = record(tiny_target, bug(draft, vocabulary), Chain(4))
    errors = largest_error(recorded, Expected(draft, vocabulary, tiny_target))
    assert (errors[1] > 1e-3) is depth_1
    assert errors[4] > 1e-3


# --- the distribution -----------------------------------------------------------------------------------------------

LENGTH, ROWS = 2, 3000
NOISY = Sampling(temperature=0.9, top_k=4)


def exact_distribution(model: LlamaForCausalLM, prompt: list[int], vocab: int) -> dict[tuple[int, ...], float]:
    tails = list(product(range(vocab), repeat=LENGTH))
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *tail] for tail in tails])).logits[:, len(prompt) - 1 : -1]
    kept = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, logits.topk(NOISY.top_k).indices, True)
    p = (logits / NOISY.temperature).exp() * kept
    p = p / p.sum(-1, keepdim=True)
    chances = p.gather(-1, torch.tensor(tails)[..., None]).squeeze(-1).prod(-1).tolist()
    return {tail: chance for tail, chance in zip(tails, chances, strict=True) if chance > 0}


@pytest.mark.parametrize("shape", [Chain(2), StaticTree((2, 2)), DynamicTree(2, 2, 4)], ids=str)
@pytest.mark.parametrize("kind", ["eagle3.1", "heads"])
def test_sampled_answers_have_the_targets_distribution(
    tiny_target: Target, tiny_reference: Pair, kind: str, shape: Shape
) -> None:
    prompt = [1, 2, 3, 1, 2]
    expected = exact_distribution(tiny_reference[0], prompt, 7)
    counts = dict.fromkeys(expected, 0)
    drafter = drafter_of(*build(kind, tiny_target))
    for seed in range(ROWS // 1000):
        results = generate_batch(
            tiny_target,
            [prompt] * 1000,
            drafter=drafter,
            shape=shape,
            max_new_tokens=LENGTH + 2,
            sampling=NOISY,
            seed=seed,
        )
        for result in results:
            counts[result.tokens[:LENGTH]] += 1
    common = [tail for tail in expected if expected[tail] * ROWS >= 5]
    observed, wanted = [counts[tail] for tail in common], [expected[tail] * ROWS for tail in common]
    if len(common) < len(expected):
        observed.append(ROWS - sum(observed))
        wanted.append(ROWS - sum(wanted))
    assert len(common) > 6
    assert chisquare(observed, wanted, sum_check=False).pvalue > 1e-3


# --- the rest -------------------------------------------------------------------------------------------------------


def test_a_token_outside_the_draft_vocabulary_is_never_drafted(tiny_target: Target) -> None:
    for kind in ("eagle3", "heads"):
        recorded = Recorded(drafter_of(*build(kind, tiny_target)))
        generate_batch(tiny_target, PROMPTS, drafter=recorded, shape=StaticTree((3, 2)), max_new_tokens=12)
        assert {token for _, draft in recorded.seen for token in draft.tokens} <= set(KNOWN)


def test_a_drafter_serves_one_generation_after_another(tiny_target: Target, greedy_texts: list[list[int]]) -> None:
    drafter = drafter_of(*build("eagle3.1", tiny_target))
    for count in (4, 2, 4):
        results = generate_batch(
            tiny_target, PROMPTS[:count], drafter=drafter, shape=Chain(3), max_new_tokens=40, stop_ids=frozenset()
        )
        assert [list(result.tokens) for result in results] == greedy_texts[:count]


def test_states_that_do_not_fit_the_text_are_refused(tiny_target: Target) -> None:
    drafter = drafter_of(*build("eagle3", tiny_target))
    drafter.start(1, 20)
    drafter.observe([{layer: torch.zeros(2, 16, dtype=torch.float64) for layer in drafter.hidden_layers}])
    with pytest.raises(ValueError, match="row 0: 3 new tokens and 2 target states"):
        drafter.propose([[1, 2, 3, 4]], Chain(2), GREEDY, [torch.Generator()])
    with pytest.raises(ValueError, match="a vocabulary of 7 tokens for a draft of 5"):
        EagleDrafter(build("eagle3", tiny_target)[0], DraftVocabulary.whole(7))
