"""The by-hand rules of notebook 04 are the rules of the package, and the tree law is exact."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from labsim.decode.accept import judge
from labsim.drafts.expand import expand_dynamic
from labsim.drafts.protocol import Draft
from labsim.drafts.shape import DynamicTree
from labsim.lab.exercises import trees_by_hand as hand
from labsim.lab.exercises.tree_answers import some_table, some_tree
from labsim.lab.exercises.trees_by_hand import best_nodes, eagle2_tree, mask_and_positions, sibling_chances
from labsim.lab.lossless import chi_square
from labsim.lab.tree_law import distance, draw_steps, enumerate_step, random_model, sequences
from labsim.models.cache import KVCache
from labsim.models.tree_mask import newest

SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_path_chances_are_what_trials_give(seed: int) -> None:
    """Monte Carlo over whole steps: siblings exclude each other, a node is tried only where its parent stands."""
    rng = random.Random(seed)
    parents, chance = some_tree(rng)
    expected, total, steps = 1 + sum(hand.path_chances(parents, chance)), 0, 20_000
    for _ in range(steps):
        at, emitted = -1, 1
        while at is not None:
            children = [i for i, parent in enumerate(parents) if parent == at]
            weights = [chance[i] for i in children]
            at = rng.choices([*children, None], [*weights, 1 - sum(weights)])[0]
            emitted += at is not None
        total += emitted
    assert total / steps == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_mask_by_hand_is_the_mask_of_the_model(seed: int) -> None:
    parents, _ = some_tree(random.Random(seed))
    length = 5 + seed
    cache = KVCache(1, 1, 1, length + len(parents), 2)
    cache.lengths = [length]
    cache.extend(len(parents), [parents])
    where = newest(cache, len(parents))
    mask, positions = mask_and_positions(parents, length)
    assert where.positions_BQ[0].tolist() == positions
    if where.mask_BQS is None:
        pytest.fail("a tree needs a mask")
    visible = where.mask_BQS[0] == 0
    assert visible[:, :length].all()
    assert visible[:, length:].tolist() == mask


@pytest.mark.parametrize("seed", SEEDS)
def test_sibling_chances_are_those_of_the_accepting_code(seed: int) -> None:
    """`judge` accepts where a uniform draw lies below the chance: draws just below and just above find it."""
    rng = random.Random(seed)
    p, q = (torch.tensor([rng.uniform(0.05, 1) for _ in range(5)], dtype=torch.float64) for _ in range(2))
    p, q = p / p.sum(), q / q.sum()
    siblings = rng.sample(range(5), 3)
    chances = sibling_chances(p.tolist(), q.tolist(), siblings)
    p_V, q_V, draws = p, q, 4000
    for token, chance in zip(siblings, chances, strict=True):
        generator = torch.Generator().manual_seed(seed)
        taken = sum(judge(p_V, token, q_V, generator)[1] for _ in range(draws))
        assert taken / draws == pytest.approx(chance, abs=0.035)
        if chance == 1:
            break
        p_V = rejected(p_V, token, q_V, generator)
        q_V = q_V.clone()
        q_V[token] = 0
        q_V = q_V / q_V.sum()


def rejected(p_V: torch.Tensor, token: int, q_V: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """What `judge` leaves of p after a rejection, tried until one happens."""
    while True:
        left_V, taken = judge(p_V, token, q_V, generator)
        if not taken:
            return left_V


@pytest.mark.parametrize("seed", range(20))
def test_eagle_2_by_hand_is_the_expansion_of_the_package(seed: int) -> None:
    table, depth, top_k, nodes = some_table(random.Random(seed))
    words = "abcd"
    kept = eagle2_tree(table, depth, top_k, nodes)
    paths: list[tuple[str, ...]] = []

    def log_chances(path: tuple[str, ...]) -> torch.Tensor:
        return torch.tensor([table[path][word] for word in words], dtype=torch.float64).log()

    def run(tokens_BW: torch.Tensor, parents: list[list[int]]) -> torch.Tensor:
        fresh = [
            (*(paths[parent] if parent >= 0 else ()), words[token])
            for token, parent in zip(tokens_BW[0].tolist(), parents[0], strict=True)
        ]
        paths.extend(fresh)
        return torch.stack([log_chances(path) for path in fresh])[None]

    (draft,) = expand_dynamic(DynamicTree(depth, top_k, nodes), log_chances(())[None], run)
    assert set(named(draft, words)) == set(kept)


def named(draft: Draft, words: str) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for token, parent in zip(draft.tokens, draft.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), words[token]))
    return found


def test_more_requests_never_ask_for_more_nodes() -> None:
    lengths = [1 + sum(0.7 * 0.8**i for i in range(n)) for n in range(20)]
    chosen = [best_nodes(lengths, 7.0, 0.02, batch) for batch in (1, 4, 16, 64, 256)]
    assert chosen == sorted(chosen, reverse=True) and chosen[0] > chosen[-1]


@pytest.mark.parametrize("widths", [(1,), (3,), (2, 1), (2, 2), (1, 1)])
@pytest.mark.parametrize("seed", [0, 3])
def test_the_law_of_a_step_is_the_targets_own(widths: tuple[int, ...], seed: int) -> None:
    p, q = random_model(3, seed), random_model(3, seed + 50)
    wanted = sequences(p, len(widths) + 1)
    assert sum(wanted.values()) == pytest.approx(1, abs=1e-12)
    assert set(wanted) == set(itertools.product(range(3), repeat=len(widths) + 1))
    assert distance(enumerate_step(p, q, widths), wanted) < 1e-12


def test_forgetting_the_rejections_shows_only_where_there_are_siblings() -> None:
    p, q = random_model(3, 1), random_model(3, 2)
    for widths, visible in (((1, 1), False), ((2, 1), True), ((3,), True)):
        wanted = sequences(p, len(widths) + 1)
        assert (distance(enumerate_step(p, q, widths, forget_rejections=True), wanted) > 1e-3) == visible


def test_the_real_code_draws_from_that_law_and_the_test_would_notice_a_fault() -> None:
    p, q, widths = random_model(3, 4), random_model(3, 9), (2, 1)
    drawn = draw_steps(p, q, widths, 1500, seed=1)
    assert sum(drawn.values()) == 1500
    assert chi_square(drawn, sequences(p, 3)).p_value > 1e-3
    assert chi_square(drawn, enumerate_step(p, q, widths, forget_rejections=True)).p_value < 1e-6
