"""Shapes of drafts: their sizes by counting real trees, and what they refuse."""

from __future__ import annotations

import itertools

import pytest

from labsim.drafts.shape import MAX_NODES, Chain, DynamicTree, StaticTree


@pytest.mark.parametrize("widths", [(1,), (3,), (4, 2, 1), (2, 3, 2), (1, 1, 1, 1)])
def test_a_static_tree_has_as_many_nodes_as_there_are_paths(widths: tuple[int, ...]) -> None:
    paths = [
        path
        for depth in range(1, len(widths) + 1)
        for path in itertools.product(*(range(width) for width in widths[:depth]))
    ]
    shape = StaticTree(widths)
    assert (shape.nodes, shape.depth) == (len(paths), max(map(len, paths)))


def test_a_chain_is_the_tree_of_width_one() -> None:
    for k in range(1, 9):
        assert (Chain(k).nodes, Chain(k).depth) == (StaticTree((1,) * k).nodes, StaticTree((1,) * k).depth) == (k, k)


def test_a_limit_cuts_the_depth_and_nothing_else() -> None:
    assert Chain(5).limited(3) == Chain(3)
    assert Chain(5).limited(9) == Chain(5)
    assert StaticTree((4, 2, 1)).limited(2) == StaticTree((4, 2))
    assert StaticTree((4, 2, 1)).limited(7) == StaticTree((4, 2, 1))
    assert DynamicTree(6, 4, 20).limited(2) == DynamicTree(2, 4, 20)
    assert DynamicTree(6, 4, 20).limited(8) == DynamicTree(6, 4, 20)


@pytest.mark.parametrize("shape", [Chain(5), StaticTree((4, 2)), DynamicTree(3, 2, 6)])
def test_with_no_room_left_nothing_is_drafted(shape: Chain | StaticTree | DynamicTree) -> None:
    assert shape.limited(0) == Chain(0)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Chain(-1), "k is -1"),
        (lambda: Chain(MAX_NODES + 1), f"k is {MAX_NODES + 1}"),
        (lambda: StaticTree(()), r"widths are \(\)"),
        (lambda: StaticTree((4, 0)), r"widths are \(4, 0\)"),
        (lambda: StaticTree((32, 32)), "1056 nodes; at most 512"),
        (lambda: DynamicTree(0, 4, 8), "depth 0"),
        (lambda: DynamicTree(4, 0, 8), "top_k 0"),
        (lambda: DynamicTree(4, 2, 3), r"3 nodes; right is its depth \(4\)"),
        (lambda: DynamicTree(4, 2, MAX_NODES + 1), "513 nodes"),
    ],
)
def test_an_impossible_shape_is_named(build, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        build()
