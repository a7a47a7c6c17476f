"""The explorer of notebook 04: best trees against brute force, prices against the cost model, and the flip."""

from __future__ import annotations

import itertools
import math

import pytest

from labsim.lab.explorers import trees
from labsim.sim.acceptance import expected_tokens_geometric


def ranks(acceptance: float) -> list[float]:
    left, found = 1 - acceptance, [acceptance]
    while len(found) < trees.TOP_K:
        found.append(left / 2)
        left /= 2
    return found


@pytest.mark.parametrize("acceptance", [0.5, 0.7, 0.85])
def test_the_best_tree_holds_the_likeliest_of_all_paths(acceptance: float) -> None:
    """Brute force over every path that is not too deep, through the first four ranks."""
    chances = sorted(
        (
            math.prod(path)
            for depth in range(1, trees.MAX_DEPTH + 1)
            for path in itertools.product(ranks(acceptance)[:4], repeat=depth)
        ),
        reverse=True,
    )
    grown = trees.best_trees(acceptance, 12)
    for n in range(13):
        assert grown[n].length == pytest.approx(1 + sum(chances[:n]))


def test_a_tree_of_given_counts_by_hand() -> None:
    """0.6, then 0.2: two at depth 1, then the three best of 0.36, 0.12, 0.06, 0.12, 0.04, ..."""
    grown = trees.by_depth(0.6, (2, 3))
    assert grown.depth == 2
    assert grown.length == pytest.approx(1 + 0.6 + 0.2 + 0.36 + 0.12 + 0.12)


def test_counts_of_one_are_a_chain() -> None:
    assert trees.by_depth(0.7, (1,) * 5).length == pytest.approx(expected_tokens_geometric(0.7, 5))


@pytest.mark.parametrize("acceptance", trees.ACCEPTANCES)
def test_at_equal_width_no_chain_emits_more_than_the_best_tree(acceptance: float) -> None:
    grown = trees.best_trees(acceptance, trees.MAX_DEPTH)
    for k in range(1, trees.MAX_DEPTH + 1):
        assert grown[k].length >= expected_tokens_geometric(acceptance, k) - 1e-12


def test_speedups_are_tokens_over_the_price_of_the_step() -> None:
    cost, grown = trees.serving_cost(), trees.best_trees(0.6, 25)
    whole = cost.tree_step_seconds(8, grown[25].depth, 10, 26, 8 * trees.CONTEXT)
    plain = cost.step_seconds(8, 0, 8 * trees.CONTEXT)
    assert trees.tree_speedup(cost, grown[25], 25, 8) == pytest.approx(grown[25].length * plain / whole)
    chain = cost.step_seconds(8, 3, 8 * trees.CONTEXT)
    assert trees.chain_speedup(cost, 0.6, 3, 8) == pytest.approx((1 + 0.6 + 0.36 + 0.216) * plain / chain)


@pytest.mark.parametrize("acceptance", trees.ACCEPTANCES)
def test_the_tree_wins_alone_and_the_chain_in_a_crowd(acceptance: float) -> None:
    wins = [trees.best_at(acceptance, batch).tree_wins for batch in trees.BATCHES]
    assert wins[0] and not wins[-1]
    assert wins == sorted(wins, reverse=True), "once flipped, a larger batch never flips it back"


@pytest.mark.parametrize("acceptance", trees.ACCEPTANCES)
def test_the_best_number_of_nodes_never_grows_with_the_batch(acceptance: float) -> None:
    sizes = [trees.best_at(acceptance, batch).tree_nodes for batch in trees.BATCHES]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]


@pytest.mark.parametrize("acceptance", trees.ACCEPTANCES)
@pytest.mark.parametrize("batch", [16, 32, 64])
def test_long_context_makes_rows_cheap_again(acceptance: float, batch: int) -> None:
    """The cache is read once per request, whatever the number of nodes, so its share falls on plain decoding too."""
    found = [trees.best_at(acceptance, batch, context) for context in (1000, 4000, 16_000)]
    assert [one.tree for one in found] == sorted(one.tree for one in found)
    assert found[0].tree_nodes <= found[1].tree_nodes <= found[2].tree_nodes and found[0].tree < found[2].tree


def test_what_needs_no_more_than_the_longest_path_depends_on_the_context() -> None:
    """By hand from the cost model: 60 nodes, 7 deep, at 64 requests."""
    cost, sixty = trees.serving_cost(), trees.best_trees(0.6, 60)[60]
    for context in (1000, 4000):
        whole = cost.tree_step_seconds(64, sixty.depth, 10, 61, 64 * context)
        needed = whole / cost.step_seconds(64, 0, 64 * context)
        assert trees.break_even_tokens(cost, sixty, 60, 64, context) == pytest.approx(needed)
        assert (needed > sixty.depth + 1) == (context == 1000)


def test_nothing_is_drawn_for_requests_that_do_not_fit() -> None:
    """16.06 GB of weights, the draft's, and 131,072 B + the draft's cache per token, beside 5 % that stay free."""
    assert 64 < trees.most_requests(4000) < 128 and trees.most_requests(1000) > 128
    explorer = trees.chain_or_tree()
    for (batch, context, *_), frame in explorer.frames.items():
        empty = all(value is None for series in frame.series for value in series.y)
        assert empty == (batch > trees.most_requests(context)) == ("do not fit" in frame.text)


def test_the_frame_says_what_it_draws() -> None:
    explorer = trees.chain_or_tree()
    alone, crowd = (explorer.set(batch=batch, nodes=25, acceptance=0.6) for batch in (1, 128))
    assert "The tree wins." in alone.text and "The chain wins." in crowd.text
    chosen = {series.name: series for series in crowd.series}["chosen tree"]
    assert chosen.x == (25,) and chosen.y[0] < 1
    at = trees.AXIS.index(25)
    assert {series.name: series for series in crowd.series}["tree"].y[at] == chosen.y[0]
    assert crowd.mark == (25, "25 nodes")


def test_every_point_lies_inside_the_axis() -> None:
    explorer = trees.chain_or_tree()
    low, high = explorer.spec["yRange"]
    drawn = [y for frame in explorer.frames.values() for series in frame.series for y in series.y if y is not None]
    assert low <= min(drawn) and max(drawn) <= high
