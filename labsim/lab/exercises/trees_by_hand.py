"""Trees small enough for paper: path chances, mask, siblings, EAGLE-2. What the exercises of notebook 04 compare with.

Plain lists and floats, written to be read. `labsim.drafts`, `labsim.decode` and `labsim.models.tree_mask` hold the same
rules for tensors and batches, and tests hold the two together.

A tree is a list of parents: node i follows node parents[i], -1 being the text's last token; parents come first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .by_hand import accept_chance, normalised, residual

Table = Mapping[tuple[str, ...], Mapping[str, float]]


def depths(parents: Sequence[int]) -> list[int]:
    """Depth of each node; a child of the text's last token has depth 1."""
    found: list[int] = []
    for parent in parents:
        found.append(1 if parent < 0 else found[parent] + 1)
    return found


def path_chances(parents: Sequence[int], chance: Sequence[float]) -> list[float]:
    """For each node the chance that its whole path is accepted: the product of `chance` along it."""
    found: list[float] = []
    for parent, one in zip(parents, chance, strict=True):
        found.append(one * (found[parent] if parent >= 0 else 1.0))
    return found


def mask_and_positions(parents: Sequence[int], length: int) -> tuple[list[list[bool]], list[int]]:
    """Which node sees which (itself and its ancestors), and where each stands below a text of `length` tokens."""
    mask: list[list[bool]] = []
    for node, parent in enumerate(parents):
        row = list(mask[parent]) if parent >= 0 else [False] * len(parents)
        row[node] = True
        mask.append(row)
    return mask, [length + sum(row) - 1 for row in mask]


def sibling_chances(p: Sequence[float], q: Sequence[float], siblings: Sequence[int]) -> list[float]:
    """Acceptance chance of each sibling when it is reached; drawn from q without replacement and tried in order."""
    p, q, chances = list(p), list(q), []
    for token in siblings:
        chances.append(accept_chance(p[token], q[token]))
        p = residual(p, q)
        q[token] = 0.0
        q = normalised(q)
    return chances


def eagle2_tree(
    table: Table,
    depth: int,
    top_k: int,
    nodes: int,
    *,
    value: str = "product",
    beam: str = "best",
    pool: str = "all",
) -> list[tuple[str, ...]]:
    """EAGLE-2 (arXiv 2406.16858, section 4): the `nodes` likeliest paths of everything that the expansion saw.

    The options name wrong ways, for the exercise's misconceptions: `value` "own" or "sum" ranks differently, `beam`
    "all" expands every candidate, `pool` "expanded", "last" or "in order" chooses among other candidates.
    """
    worth: dict[tuple[str, ...], float] = {(): 1.0 if value != "sum" else 0.0}
    product: dict[tuple[str, ...], float] = {(): 1.0}
    level: list[tuple[str, ...]] = [()]
    expanded: list[tuple[str, ...]] = []
    children: list[tuple[str, ...]] = []
    for _ in range(depth):
        children = []
        for path in level:
            for word in sorted(table[path], key=lambda word: -table[path][word])[:top_k]:
                one, child = table[path][word], (*path, word)
                children.append(child)
                product[child] = product[path] * one
                worth[child] = {"product": product[child], "own": one, "sum": worth[path] + one}[value]
        # An own-chance ranking is about the choice at the end; the beam follows paths in either case.
        best = sorted(children, key=lambda child: -(product if value == "own" else worth)[child])
        level = best if beam == "all" else best[:top_k]
        expanded += level
    candidates = {
        "all": [path for path in worth if path],
        "in order": [path for path in worth if path],
        "expanded": expanded,
        "last": children,
    }[pool]
    if pool != "in order":
        candidates = sorted(candidates, key=lambda path: -worth[path])
    return candidates[:nodes]


def best_nodes(lengths: Sequence[float], fixed_ms: float, row_ms: float, batch: int) -> int:
    """The number of nodes with the most tokens per second."""
    return max(range(len(lengths)), key=lambda n: tokens_per_ms(lengths[n], n, fixed_ms, row_ms, batch))


def tokens_per_ms(length: float, nodes: int, fixed_ms: float, row_ms: float, batch: int) -> float:
    """Tokens of one request over the time of a step in which each of `batch` requests verifies `nodes` nodes."""
    return length / (fixed_ms + row_ms * batch * (nodes + 1))
