"""Learners' answers to the exercises of notebook 04: wrong ones that people write, random inputs, fair comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ..compare import difference
from .by_hand import normalised, residual, some_distribution
from .trees_by_hand import Table, depths, mask_and_positions, path_chances


def leaves(parents: Sequence[int]) -> list[int]:
    return [node for node in range(len(parents)) if node not in parents]


def best_branch(parents: Sequence[int], chance: Sequence[float]) -> float:
    paths = path_chances(parents, chance)
    gains: list[float] = []
    for node, parent in enumerate(parents):
        gains.append(paths[node] + (gains[parent] if parent >= 0 else 0))
    return 1 + max(gains)


def whole_branches(parents: Sequence[int], chance: Sequence[float]) -> float:
    paths, deep = path_chances(parents, chance), depths(parents)
    return 1 + sum(deep[leaf] * paths[leaf] for leaf in leaves(parents))


def some_tree(rng: Random) -> tuple[list[int], list[float]]:
    """A tree of depth 2 or more with a fork in it; the chances of siblings add up to less than 1."""
    parents = [-1, -1, 0]
    parents += [rng.randint(-1, node - 1) for node in range(3, rng.randint(4, 9))]
    left: dict[int, float] = {}
    chance = []
    for parent in parents:
        one = round(left.get(parent, 1.0) * rng.uniform(0.3, 0.7), 3)
        left[parent] = left.get(parent, 1.0) - one
        chance.append(one)
    return parents, chance


def same_mask(got: Any, wanted: Any) -> str | None:
    """1 and 0 are as good as True and False, and an array as good as lists."""
    if not isinstance(got, Sequence) or isinstance(got, str) or len(got) != 2:
        return "the answer should be a pair: the mask and the positions"
    mask, positions = map(_as_list, got)
    rows = map(_as_list, mask) if isinstance(mask, Sequence) and not isinstance(mask, str) else None
    plain = mask if rows is None else [list(map(bool, row)) if isinstance(row, Sequence) else row for row in rows]
    for part, right, name in ((plain, wanted[0], "mask"), (positions, wanted[1], "positions")):
        if found := difference(part, right):
            return f"{name}: {found}"
    return None


def _as_list(part: Any) -> Any:
    return part.tolist() if hasattr(part, "tolist") else part


def masked(sees: Any, position: Any) -> Any:
    """A wrong pair: `sees(i, j, line)` and `position(index, depth, length)`; `line` holds i and its ancestors."""

    def wrong(parents: Sequence[int], length: int) -> tuple[list[list[bool]], list[int]]:
        right, _ = mask_and_positions(parents, length)
        nodes, deep = range(len(parents)), depths(parents)
        lines = [{j for j in nodes if right[i][j]} for i in nodes]
        mask = [[bool(sees(i, j, lines[i], parents)) for j in nodes] for i in nodes]
        return mask, [position(i, deep[i], length) for i in nodes]

    return wrong


def right_position(index: int, depth: int, length: int) -> int:
    return length + depth - 1


def right_sight(i: int, j: int, line: set[int], parents: Sequence[int]) -> bool:
    return j in line


def some_mask_input(rng: Random) -> tuple[list[int], int]:
    return some_tree(rng)[0], rng.randint(1, 40)


def judged(update_p: str = "residual", update_q: str = "without", ratio: str = "p/q") -> Any:
    """Sibling chances with one part of the rule changed."""

    def wrong(p: Sequence[float], q: Sequence[float], siblings: Sequence[int]) -> list[float]:
        p, q, chances = list(p), list(q), []
        for token in siblings:
            if p[token] == 0 and ratio == "q/p":
                chances.append(1.0)
            else:
                chances.append(min(1.0, p[token] / q[token] if ratio == "p/q" else q[token] / p[token]))
            if update_p == "residual":
                p = residual(p, q)
            elif update_p == "not renormalised":
                p = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
            elif update_p == "without":
                p = normalised([0.0 if i == token else x for i, x in enumerate(p)])
            if update_q == "without":
                q = normalised([0.0 if i == token else x for i, x in enumerate(q)])
        return chances

    return wrong


def some_siblings(rng: Random) -> tuple[list[float], list[float], list[int]]:
    size = rng.randint(4, 6)
    p, q = some_distribution(rng, size), some_distribution(rng, size)
    # The first sibling is one that the draft likes too much, so that the second is really reached.
    first = max(range(size), key=lambda i: q[i] - p[i])
    others = [i for i in range(size) if i != first]
    return p, q, [first, *rng.sample(others, rng.randint(1, 2))]


def same_paths(got: Any, wanted: Any) -> str | None:
    """Order does not matter; lists are as good as tuples."""
    if isinstance(got, str | Mapping) or not hasattr(got, "__iter__"):
        return "the answer should be a collection of paths, each a tuple of words"
    found = [tuple(path) if isinstance(path, list | tuple) else path for path in got]
    strange = next((path for path in found if not isinstance(path, tuple)), None)
    if strange is not None:
        return f"each path should be a tuple of words, but one is {strange!r}"
    if len(set(found)) < len(found):
        return f"{max(found, key=found.count)!r} is in the answer twice"
    if len(found) != len(wanted):
        return f"{len(found)} paths are kept, expected {len(wanted)}"
    spare = sorted(set(found) - set(wanted))
    missing = sorted(set(wanted) - set(found))
    return f"{spare[0]!r} should not be kept, {missing[0]!r} should" if spare else None


def some_table(rng: Random) -> tuple[Table, int, int, int]:
    depth, words = 3, "abcd"
    table: dict[tuple[str, ...], dict[str, float]] = {}
    level: list[tuple[str, ...]] = [()]
    for _ in range(depth):
        for path in level:
            # Of different sharpness, as real contexts are: some nodes are sure of their next word, some are not.
            weights = [rng.random() ** rng.choice([1, 2, 6]) + 1e-3 for _ in words]
            table[path] = {word: round(w / sum(weights), 4) for word, w in zip(words, weights, strict=True)}
        level = [(*path, word) for path in level for word in words]
    top_k = rng.choice([2, 3])
    return table, depth, top_k, rng.randint(top_k + 1, 2 * top_k**2)


def some_prices(rng: Random) -> tuple[list[float], float, float, int]:
    gain, lengths = rng.uniform(0.5, 0.8), [1.0]
    fade = rng.uniform(0.7, 0.9)
    for n in range(rng.randint(10, 24)):
        lengths.append(round(lengths[-1] + gain * fade**n, 4))
    # Dear rows too: then the best answer is not to speculate at all.
    row_ms = rng.choice([rng.uniform(0.02, 0.06), rng.uniform(0.1, 0.5)])
    return lengths, round(rng.uniform(5, 20), 2), round(row_ms, 3), rng.choice([1, 4, 16, 64, 128])
