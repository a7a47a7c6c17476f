"""The shape of a draft: how many guesses, arranged how.

- a **chain** of k tokens: every engine's default;
- a **static tree**: the same widths each time, 4,2,1 meaning four first guesses, two children for each, one for each
  of those
  (SpecInfer, arXiv 2305.09781; Medusa and EAGLE-1 use hand-tuned ones);
- a **dynamic tree**: grown where the draft is confident, then re-ranked and cut to a fixed number of nodes (EAGLE-2,
  arXiv
  2406.16858, section 4).

Compared fairly they have the same number of nodes, since that is what the target's forward pays for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MAX_NODES = 512
MAX_CANDIDATES = 1 << 15  # that a dynamic tree ranks: more is slower than plain decoding, on any machine


@dataclass(frozen=True)
class Chain:
    """k drafted tokens in a row. k = 0 is plain decoding."""

    k: int

    def __post_init__(self) -> None:
        if not 0 <= self.k <= MAX_NODES:
            raise ValueError(f"k is {self.k}; right is 0 (no drafting) to {MAX_NODES} drafted tokens")

    @property
    def depth(self) -> int:
        return self.k

    @property
    def nodes(self) -> int:
        return self.k

    def limited(self, depth: int) -> Chain:
        return Chain(min(self.k, depth))


@dataclass(frozen=True)
class StaticTree:
    """`widths[d]` children for every node of depth d; the text's last token is depth 0."""

    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.widths or min(self.widths) < 1:
            raise ValueError(f"tree widths are {self.widths}; right is a width of at least 1 per depth, such as 4,2,1")
        if self.nodes > MAX_NODES:
            raise ValueError(f"the tree {self.widths} has {self.nodes} nodes; at most {MAX_NODES} are verified at once")

    @property
    def depth(self) -> int:
        return len(self.widths)

    @property
    def nodes(self) -> int:
        total, level = 0, 1
        for width in self.widths:
            level *= width
            total += level
        return total

    def limited(self, depth: int) -> Shape:
        return StaticTree(self.widths[:depth]) if depth > 0 else Chain(0)


@dataclass(frozen=True)
class DynamicTree:
    """`top_k` candidates per expanded node, `top_k` nodes expanded per depth, the best `nodes` of all kept."""

    depth: int
    top_k: int
    nodes: int

    def __post_init__(self) -> None:
        if self.depth < 1 or self.top_k < 1:
            raise ValueError(f"dynamic tree of depth {self.depth} and top_k {self.top_k}: both must be at least 1")
        if (candidates := self.depth * self.top_k**2) > MAX_CANDIDATES:
            raise ValueError(
                f"dynamic tree of depth {self.depth} and top_k {self.top_k} ranks {candidates} candidates "
                f"(depth * top_k * top_k); right is at most {MAX_CANDIDATES}"
            )
        if not self.depth <= self.nodes <= MAX_NODES:
            raise ValueError(f"dynamic tree of {self.nodes} nodes; right is its depth ({self.depth}) to {MAX_NODES}")

    def limited(self, depth: int) -> Shape:
        return replace(self, depth=min(self.depth, depth)) if depth > 0 else Chain(0)


Shape = Chain | StaticTree | DynamicTree
