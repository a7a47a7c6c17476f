"""Growing drafts: each shape against a brute-force search over all paths of a small random model."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from labsim.drafts.expand import draw_without_replacement, expand
from labsim.drafts.protocol import Draft
from labsim.drafts.shape import Chain, DynamicTree, Shape, StaticTree
from labsim.models.sampling import GREEDY, Sampling, distribution

from .path_model import PathModel

SAMPLED = Sampling(temperature=1.0)


def generators(count: int, seed: int = 0) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed + row) for row in range(count)]


def grow(model: PathModel, shape: Shape, sampling: Sampling = GREEDY, seed: int = 0) -> list[Draft]:
    return expand(shape, model.root(), model.run, sampling, generators(model.batch, seed))


def paths(draft: Draft) -> list[tuple[int, ...]]:
    """Every node as the tokens that lead to it."""
    found: list[tuple[int, ...]] = []
    for token, parent in zip(draft.tokens, draft.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


def value(model: PathModel, row: int, path: tuple[int, ...]) -> float:
    """Log probability of a whole path."""
    return sum(model.log_probabilities(row, path[:i])[token] for i, token in enumerate(path))


def ranked(model: PathModel, row: int, path: tuple[int, ...]) -> list[int]:
    """Tokens after `path`, most likely first."""
    chances = model.log_probabilities(row, path)
    return sorted(range(model.vocab), key=lambda token: -chances[token])


def eagle_2(model: PathModel, row: int, shape: DynamicTree) -> set[tuple[int, ...]]:
    """EAGLE-2, section 4, written over sets of paths: expand by beam, then re-rank everything that was seen."""
    beam, seen = [()], {}
    for _ in range(shape.depth):
        children = [(*path, token) for path in beam for token in ranked(model, row, path)[: shape.top_k]]
        seen |= {child: value(model, row, child) for child in children}
        beam = sorted(children, key=lambda child: -seen[child])[: shape.top_k]
    return set(sorted(seen, key=lambda path: -seen[path])[: shape.nodes])


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 4), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_a_dynamic_tree_is_what_eagle_2_prescribes(seed: int, depth: int, top_k: int, extra: int) -> None:
    model, shape = PathModel(6, batch=2, seed=seed), DynamicTree(depth, top_k, depth + extra)
    for row, draft in enumerate(grow(model, shape)):
        assert set(paths(draft)) == eagle_2(model, row, shape)


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_enough_expansion_finds_the_best_nodes_of_all_paths(seed: int) -> None:
    """The n best nodes hold at most n of one level, so a beam of n misses none of them."""
    model, nodes, depth = PathModel(5, seed=seed), 12, 4
    everything = [path for d in range(1, depth + 1) for path in itertools.product(range(5), repeat=d)]
    best = sorted(everything, key=lambda path: -value(model, 0, path))[:nodes]
    (draft,) = grow(model, DynamicTree(depth, nodes, nodes))
    assert set(paths(draft)) == set(best)


def test_a_dynamic_tree_runs_the_draft_once_per_depth_and_never_after_the_last() -> None:
    model = PathModel(8)
    grow(model, DynamicTree(4, 3, 10))
    assert model.calls == [3, 3, 3]


@pytest.mark.parametrize("widths", [(1, 1, 1), (3,), (2, 2), (4, 2, 1)])
def test_a_greedy_static_tree_takes_the_most_likely_children(widths: tuple[int, ...]) -> None:
    model = PathModel(7, batch=3, seed=5)
    for row, draft in enumerate(grow(model, StaticTree(widths))):
        level, wanted = [()], []
        for width in widths:
            level = [(*path, token) for path in level for token in ranked(model, row, path)[:width]]
            wanted += level
        assert paths(draft) == wanted
        assert draft.q_NV is None


def test_a_greedy_chain_follows_the_most_likely_token() -> None:
    model = PathModel(9, batch=2, seed=1)
    for row, draft in enumerate(grow(model, Chain(5))):
        path: tuple[int, ...] = ()
        for _ in range(5):
            path += (ranked(model, row, path)[0],)
        assert draft.tokens == path and draft.is_chain
    assert model.calls == [1, 1, 1, 1]


def test_an_empty_chain_asks_nothing() -> None:
    model = PathModel(4, batch=2)
    assert grow(model, Chain(0)) == [Draft(), Draft()]
    assert model.calls == []


@given(
    st.sampled_from(
        [Chain(4), StaticTree((3, 2, 2)), StaticTree((9, 1)), DynamicTree(4, 3, 11), DynamicTree(3, 9, 40)]
    ),
    st.sampled_from([GREEDY, SAMPLED, Sampling(0.7, top_k=2), Sampling(1.3, top_p=0.6)]),
    st.integers(0, 10_000),
)
@settings(max_examples=40, deadline=None)
def test_parents_come_first_and_no_sibling_twice(shape: Shape, sampling: Sampling, seed: int) -> None:
    model = PathModel(6, batch=2, seed=seed)
    for draft in grow(model, shape, sampling, seed):
        assert all(parent < node for node, parent in enumerate(draft.parents))
        assert len(draft.tokens) <= shape.nodes and max(draft.depths()) <= shape.depth
        if sampling.top_k == 0 and sampling.top_p == 1:
            assert len(set(paths(draft))) == len(draft.tokens)


def test_rows_do_not_depend_on_each_other() -> None:
    one, both = PathModel(6, batch=1, seed=2), PathModel(6, batch=2, seed=2)
    for shape in (Chain(3), StaticTree((3, 2)), DynamicTree(3, 2, 7)):
        assert grow(one, shape)[0] == grow(both, shape)[0]
        one.nodes, both.nodes = [[]], [[], []]


def test_each_drafted_token_remembers_the_distribution_it_was_drawn_from() -> None:
    """q of the second sibling is q without the first, renormalised: what acceptance needs to stay lossless."""
    model, sampling = PathModel(5, seed=3), Sampling(temperature=0.8, top_p=0.95)
    (draft,) = grow(model, StaticTree((2, 2)), sampling, seed=11)
    assert draft.q_NV.shape == (6, 5)
    known = paths(draft)
    for node, (token, parent) in enumerate(zip(draft.tokens, draft.parents, strict=True)):
        before = [draft.tokens[i] for i in range(node) if draft.parents[i] == parent]
        logits = torch.tensor(model.logits(0, known[parent] if parent >= 0 else ()), dtype=torch.float64)
        q = distribution(logits[None], sampling)[0]
        q[before] = 0
        assert torch.allclose(draft.q_NV[node], q / q.sum(), atol=1e-12)
        assert draft.q_NV[node, token] > 0


def test_draws_without_replacement_have_the_exact_distribution() -> None:
    q, draws = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64), 4000
    generator = torch.Generator().manual_seed(7)
    counts: Counter[tuple[int, ...]] = Counter()
    for _ in range(draws):
        tokens, _ = draw_without_replacement(q[None], 2, generator)
        counts[tuple(tokens)] += 1
    pairs = list(itertools.permutations(range(4), 2))
    expected = [float(q[a] * q[b] / (1 - q[a])) * draws for a, b in pairs]
    assert sum(counts.values()) == sum(counts[pair] for pair in pairs)
    assert chisquare([counts[pair] for pair in pairs], expected).pvalue > 1e-3


def test_where_too_few_tokens_have_a_chance_the_rest_is_uniform_and_says_so() -> None:
    q = torch.tensor([[0.0, 1.0, 0.0, 0.0]])
    tokens, rows = draw_without_replacement(q, 3, torch.Generator().manual_seed(0))
    assert tokens[0] == 1
    assert rows[0].tolist() == [0, 1, 0, 0]
    assert rows[1].tolist() == rows[2].tolist() == [0.25] * 4


def test_the_seed_decides_a_sampled_tree() -> None:
    shape = StaticTree((3, 3))
    first, again, other = (grow(PathModel(20, seed=1), shape, SAMPLED, seed)[0].tokens for seed in (1, 1, 2))
    assert first == again != other
