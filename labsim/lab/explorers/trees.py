"""Explorer of notebook 04: what a node gains and what it costs, for a chain and for a tree, by batch size.

The tree is the best one for a draft whose first guess is right with chance `acceptance`, and of whose remaining mass
each further guess takes the share `NEXT_SHARE`: nodes are added in the order of their path chances. The chain is the
same draft without second guesses. Step times come from the cost model of Llama-3.1-8B on one H100 under SGLang, whose
overheads are fitted on public runs of both kinds (`data/calibration`); they include what branching itself costs.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cache

from ...sim.acceptance import expected_tokens_geometric
from ...sim.cost import CostModel, cost_model
from ..explorer import Explorer, Frame, Reference, Series, Slider, explore

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
NODES = (2, 4, 8, 16, 25, 40, 60)
ACCEPTANCES = (0.5, 0.6, 0.7, 0.8)
AXIS = (*range(1, 11), 12, 14, 16, 20, 25, 32, 40, 50, 60)
NEXT_SHARE = 0.5
TOP_K, MAX_DEPTH, CONTEXT = 10, 7, 1000  # EAGLE-2's defaults; tokens of context per request


@dataclass(frozen=True)
class Grown:
    """Best tree of some number of nodes: tokens per step, and how many draft forwards it takes."""

    length: float
    depth: int


@cache
def best_trees(acceptance: float, nodes: int, next_share: float = NEXT_SHARE) -> tuple[Grown, ...]:
    """The best trees of 0, 1, ..., `nodes` nodes: each adds the most likely path that is not in it yet."""
    rest = 1 - acceptance
    ranks = [acceptance, *(rest * next_share * (1 - next_share) ** r for r in range(TOP_K - 1))]
    waiting = [(-chance, 1) for chance in ranks]
    heapq.heapify(waiting)
    found = [Grown(1.0, 0)]
    for _ in range(nodes):
        chance, depth = heapq.heappop(waiting)
        found.append(Grown(found[-1].length - chance, max(found[-1].depth, depth)))
        if depth < MAX_DEPTH:
            for rank in ranks:
                heapq.heappush(waiting, (chance * rank, depth + 1))
    return tuple(found)


def by_depth(acceptance: float, counts: tuple[int, ...], next_share: float = NEXT_SHARE) -> Grown:
    """A tree of fixed size per depth, such as EAGLE-1's 4, 8, 8, 3, 2: at each depth the likeliest paths that fit."""
    rest = 1 - acceptance
    ranks = [acceptance, *(rest * next_share * (1 - next_share) ** r for r in range(TOP_K - 1))]
    level, length = [1.0], 1.0
    for count in counts:
        level = sorted((chance * rank for chance in level for rank in ranks), reverse=True)[:count]
        length += sum(level)
    return Grown(length, len(counts))


def tree_speedup(cost: CostModel, tree: Grown, nodes: int, batch: int, context: int = CONTEXT) -> float:
    """Tokens per second against plain decoding, for a tree of that many nodes per request."""
    kv = batch * context
    plain = cost.step_seconds(batch, 0, kv)
    return tree.length * plain / cost.tree_step_seconds(batch, tree.depth, TOP_K, nodes + 1, kv)


def chain_speedup(cost: CostModel, acceptance: float, k: int, batch: int, context: int = CONTEXT) -> float:
    """The same for a chain of k tokens."""
    return expected_tokens_geometric(acceptance, k) / cost.step_ratio(batch, k, batch * context)


@dataclass(frozen=True)
class Best:
    """The best chain and the best tree at one batch size: nodes and speedup."""

    chain_nodes: int
    chain: float
    tree_nodes: int
    tree: float

    @property
    def tree_wins(self) -> bool:
        return self.tree > self.chain


@cache
def best_at(acceptance: float, batch: int) -> Best:
    """Over all lengths and sizes up to the largest on the axis."""
    cost, trees = serving_cost(), best_trees(acceptance, AXIS[-1])
    k = max(range(1, 17), key=lambda k: chain_speedup(cost, acceptance, k, batch))
    n = max(range(2, AXIS[-1] + 1), key=lambda n: tree_speedup(cost, trees[n], n, batch))
    return Best(k, chain_speedup(cost, acceptance, k, batch), n, tree_speedup(cost, trees[n], n, batch))


@cache
def serving_cost() -> CostModel:
    return cost_model("h100", "llama-3.1-8b", "eagle3", engine="sglang")


def chain_or_tree() -> Explorer:
    """Speedup over verified nodes; sliders for batch, nodes and the acceptance of the first guess."""
    return explore(
        _frame,
        {
            "batch": Slider("batch", BATCHES, unit="requests"),
            "nodes": Slider("nodes", NODES, value=25, unit="per request"),
            "acceptance": Slider("chance of the first guess", ACCEPTANCES, value=0.6),
        },
        title="One chain or many?",
        x_label="drafted nodes per request",
        y_label="speedup (x)",
        x_scale="log2",
        y_range=(0.0, 3.5),
        reference=Reference(1.0, "no gain"),
    )


def _frame(batch: int, nodes: int, acceptance: float) -> Frame:
    cost, trees = serving_cost(), best_trees(acceptance, AXIS[-1])
    chain = [chain_speedup(cost, acceptance, k, batch) for k in AXIS]
    # A tree of one node is the chain of one.
    tree = [chain[0] if n == 1 else tree_speedup(cost, trees[n], n, batch) for n in AXIS]
    here, best = tree_speedup(cost, trees[nodes], nodes, batch), best_at(acceptance, batch)
    kv = batch * CONTEXT
    needed = cost.tree_step_seconds(batch, trees[nodes].depth, TOP_K, nodes + 1, kv) / cost.step_seconds(batch, 0, kv)
    winner = "tree" if best.tree_wins else "chain"
    text = (
        f"Batch {batch}, first guess right {acceptance:.0%}: a tree of {nodes} nodes emits {trees[nodes].length:.2f} "
        f"tokens per step and breaks even at {needed:.2f}: {here:.2f}x. Best tree: {best.tree_nodes} nodes, "
        f"{best.tree:.2f}x; best chain: K = {best.chain_nodes}, {best.chain:.2f}x. The {winner} wins."
    )
    return Frame(
        [
            Series("chain", AXIS, chain),
            Series("tree", AXIS, tree),
            Series("best chain", [best.chain_nodes], [best.chain], kind="points"),
            Series("best tree", [best.tree_nodes], [best.tree], kind="points"),
            Series("chosen tree", [nodes], [here], kind="points"),
        ],
        text=text,
        alt=f"Two curves over the number of nodes, each with one summit; three marked points. {text}",
        mark=(nodes, f"{nodes} nodes"),
    )
