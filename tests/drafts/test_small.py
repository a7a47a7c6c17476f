"""The small-model drafter against transformers: after any history of accepts and rejects its proposals are those of the
same model run from the first token on."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

from labsim.drafts.protocol import Draft
from labsim.drafts.shape import Chain, DynamicTree, Shape, StaticTree
from labsim.drafts.small import SmallModelDrafter
from labsim.models.llama import LanguageModel
from labsim.models.sampling import GREEDY, Sampling, distribution
from tests.tiny_llama import tiny_llama

VOCAB, KNOWN = 61, 23
SHAPES = (Chain(4), StaticTree((3, 2, 1)), DynamicTree(4, 3, 9))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[LlamaForCausalLM, Path, Path, list[int]]:
    """transformers' float64 model; the directory with all outputs; one with KNOWN of them; the ids of those."""
    whole, reduced = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("reduced")
    sizes = {"hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 128}
    model = tiny_llama(whole, seed=5, vocab_size=VOCAB, sharpness=8, **sizes)
    ids = sorted(random.Random(1).sample(range(VOCAB), KNOWN))
    weights = load_file(whole / "model.safetensors")
    weights["lm_head.weight"] = weights["lm_head.weight"][ids].contiguous()
    weights["d2t"] = torch.tensor(ids) - torch.arange(KNOWN)
    save_file(weights, reduced / "model.safetensors")
    raw = json.loads((whole / "config.json").read_text())
    (reduced / "config.json").write_text(json.dumps(raw | {"draft_vocab_size": KNOWN}))
    return model, whole, reduced, ids


class Reference:
    """The same model without a cache: every question is a whole forward of transformers."""

    def __init__(self, model: LlamaForCausalLM, ids: list[int] | None = None) -> None:
        self.model, self.ids = model, ids or list(range(VOCAB))

    @torch.no_grad()
    def logits(self, text: tuple[int, ...]) -> torch.Tensor:
        wide = torch.full((VOCAB,), float("-inf"), dtype=torch.float64)
        wide[self.ids] = self.model(torch.tensor([text])).logits[0, -1, self.ids]
        return wide

    def ranked(self, text: tuple[int, ...], count: int) -> list[tuple[int, float]]:
        top = self.logits(text).log_softmax(-1).topk(count)
        return list(zip(top.indices.tolist(), top.values.tolist(), strict=True))

    def paths(self, text: list[int], shape: Shape) -> set[tuple[int, ...]]:
        """All nodes of the draft, each as the tokens that lead to it."""
        text = tuple(text)
        if isinstance(shape, DynamicTree):
            beam, seen = [((), 0.0)], {}
            for _ in range(shape.depth):
                children = [
                    ((*path, token), worth + more)
                    for path, worth in beam
                    for token, more in self.ranked(text + path, shape.top_k)
                ]
                seen |= dict(children)
                beam = sorted(children, key=lambda child: -child[1])[: shape.top_k]
            return set(sorted(seen, key=lambda path: -seen[path])[: shape.nodes])
        widths = (1,) * shape.k if isinstance(shape, Chain) else shape.widths
        level, found = [()], set()
        for width in widths:
            level = [(*path, token) for path in level for token, _ in self.ranked(text + path, width)]
            found |= set(level)
        return found


def over_some(reduced: Path, ids: list[int]) -> SmallModelDrafter:
    """The drafter of the reduced directory, in float64."""
    weights = {name: tensor for name, tensor in load_file(reduced / "model.safetensors").items() if name != "d2t"}
    model = LanguageModel.from_directory(reduced, dtype=torch.float64, weights=weights, head_rows=len(ids))
    return SmallModelDrafter(model, VOCAB, torch.tensor(ids, dtype=torch.long))


@pytest.fixture(params=["whole", "reduced"])
def pair(checkpoint, request: pytest.FixtureRequest) -> tuple[SmallModelDrafter, Reference]:
    model, whole, reduced, ids = checkpoint
    if request.param == "whole":
        return SmallModelDrafter(LanguageModel.from_directory(whole, dtype=torch.float64), VOCAB), Reference(model)
    drafter = over_some(reduced, ids)
    return drafter, Reference(model, ids)


def paths(draft: Draft) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for token, parent in zip(draft.tokens, draft.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


def propose(
    drafter: SmallModelDrafter, texts: list[list[int]], shape: Shape, sampling: Sampling = GREEDY
) -> list[Draft]:
    return drafter.propose(texts, shape, sampling, [torch.Generator().manual_seed(row) for row in range(len(texts))])


@pytest.mark.parametrize("shape", SHAPES, ids=["chain", "static", "dynamic"])
def test_proposals_after_any_history_equal_a_fresh_run(pair, shape: Shape) -> None:
    drafter, reference = pair
    rng = random.Random(8)
    texts = [[rng.randrange(VOCAB) for _ in range(length)] for length in (3, 9, 5)]
    drafter.start(3, 100)
    for step in range(6):
        drafts = propose(drafter, texts, shape)
        for text, draft in zip(texts, drafts, strict=True):
            assert set(paths(draft)) == reference.paths(text, shape)
            assert len(paths(draft)) == len(draft.tokens)
        for text, draft in zip(texts, drafts, strict=True):
            # Accept a random path, or nothing; then a token that may or may not have been drafted.
            accepted = rng.choice([(), *paths(draft)])
            text += [*accepted, rng.randrange(VOCAB)]
        if step == 3:
            drafter.select([0, 2])
            texts = [texts[0], texts[2]]


def test_a_text_that_grew_by_a_sibling_is_followed(pair) -> None:
    """The token after a rejection may be a drafted sibling that was not on the accepted path."""
    drafter, reference = pair
    text, shape = [1, 2, 3], StaticTree((3, 2))
    drafter.start(1, 60)
    (draft,) = propose(drafter, [text], shape)
    for branch in (2, 1, 0):
        firsts = [token for token, parent in zip(draft.tokens, draft.parents, strict=True) if parent < 0]
        text = [*text, firsts[branch]]
        (draft,) = propose(drafter, [text], shape)
        assert set(paths(draft)) == reference.paths(text, shape)


def test_a_sampled_chain_is_drawn_from_the_models_own_distribution(pair) -> None:
    drafter, reference = pair
    sampling, text = Sampling(0.8, top_k=5), [4, 8, 15]
    drafter.start(1, 40)
    (draft,) = propose(drafter, [text], Chain(3), sampling)
    for node, (token, q_V) in enumerate(zip(draft.tokens, draft.q_NV, strict=True)):
        want_V = distribution(reference.logits((*text, *draft.tokens[:node]))[None], sampling)[0]
        assert torch.allclose(q_V.double(), want_V, atol=1e-9)
        assert q_V[token] > 0


def test_a_token_outside_the_reduced_vocabulary_is_never_drafted(checkpoint) -> None:
    _, _, reduced, ids = checkpoint
    drafter = over_some(reduced, ids)
    rng = random.Random(0)
    for shape in SHAPES:
        drafter.start(1, 40)
        (draft,) = propose(drafter, [[rng.randrange(VOCAB) for _ in range(6)]], shape)
        assert set(draft.tokens) <= set(ids) and len(draft.tokens) == shape.nodes


def test_a_new_generation_forgets_the_old_one(pair) -> None:
    drafter, reference = pair
    drafter.start(2, 40)
    propose(drafter, [[1, 2, 3], [4, 5]], Chain(3))
    drafter.start(1, 40)
    (draft,) = propose(drafter, [[9, 8, 7, 6]], Chain(3))
    assert set(paths(draft)) == reference.paths([9, 8, 7, 6], Chain(3))


def test_what_the_text_confirms_is_not_run_again(pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a full match only the last drafted token and the bonus are new, also in a row that has moved up."""
    drafter, _ = pair
    drafter.start(2, 60)
    texts = [[1, 2, 3], [7, 8, 9]]
    drafts = propose(drafter, texts, Chain(4))
    drafter.select([1])
    widths: list[int] = []
    forward = drafter.model.forward
    monkeypatch.setattr(drafter.model, "forward", lambda *a, **k: widths.append(a[0].shape[1]) or forward(*a, **k))
    propose(drafter, [[*texts[1], *drafts[1].tokens, 0]], Chain(4))
    assert widths == [2, 1, 1, 1]
