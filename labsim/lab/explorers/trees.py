"""Explorer of notebook 04: what a node gains and what it costs, for a chain and for a tree, by batch and context.

The tree is the best one for a draft whose first guess is right with chance `acceptance`, and of whose remaining mass
each further guess takes the share `NEXT_SHARE`: nodes are added in the order of their path chances. The chain is the
same draft without second guesses. Step times come from the cost model of Llama-3.1-8B on one H100 under SGLang, whose
overheads are fitted on public runs of both kinds (`data/calibration`); they include what branching itself costs.
Requests whose caches do not fit beside the weights have no step to time, and nothing is drawn for them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cache

from ...sim.acceptance import expected_tokens_geometric
from ...sim.cost import CostModel, cost_model
from ...sim.memory import requests_that_fit
from ..explorer import Explorer, Frame, Reference, Series, Slider, explore

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
NODES = (4, 8, 25, 60)
CONTEXTS = (1000, 4000, 8000, 16_000)
ACCEPTANCES = (0.5, 0.6, 0.7, 0.8)
AXIS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 40, 60)
NEXT_SHARE = 0.5
TOP_K, MAX_DEPTH, CONTEXT = 10, 6, 1000  # EAGLE-2's for 7B and 8B targets; tokens of context per request
GPU, MODEL = "h100", "llama-3.1-8b"


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
def best_at(acceptance: float, batch: int, context: int = CONTEXT) -> Best:
    """Over all lengths and sizes up to the largest on the axis."""
    cost, trees = serving_cost(), best_trees(acceptance, AXIS[-1])
    chains = {k: chain_speedup(cost, acceptance, k, batch, context) for k in range(1, 17)}
    grown = {n: tree_speedup(cost, trees[n], n, batch, context) for n in range(2, AXIS[-1] + 1)}
    k, n = max(chains, key=chains.__getitem__), max(grown, key=grown.__getitem__)
    return Best(k, chains[k], n, grown[n])


def break_even_tokens(cost: CostModel, tree: Grown, nodes: int, batch: int, context: int = CONTEXT) -> float:
    """Tokens per step at which a tree is as fast as plain decoding: its step's time over a plain step's."""
    return tree.length / tree_speedup(cost, tree, nodes, batch, context)


@cache
def serving_cost() -> CostModel:
    return cost_model(GPU, MODEL, "eagle3", engine="sglang")


@cache
def most_requests(context: int) -> int:
    """How many requests of that context fit on the GPU beside target and draft."""
    return requests_that_fit(GPU, MODEL, context, engine="sglang")


def chain_or_tree() -> Explorer:
    """Speedup over verified nodes; sliders for batch, context, nodes and the acceptance of the first guess."""
    return explore(
        _frame,
        {
            "batch": Slider("batch", BATCHES, unit="requests"),
            "context": Slider("context of each request", CONTEXTS, unit="tokens"),
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


def _frame(batch: int, context: int, nodes: int, acceptance: float) -> Frame:
    cost, trees = serving_cost(), best_trees(acceptance, AXIS[-1])
    if batch > most_requests(context):
        return _no_room(batch, context)
    chain = [chain_speedup(cost, acceptance, k, batch, context) for k in AXIS]
    # A tree of one node is the chain of one.
    tree = [chain[0] if n == 1 else tree_speedup(cost, trees[n], n, batch, context) for n in AXIS]
    here, best = tree_speedup(cost, trees[nodes], nodes, batch, context), best_at(acceptance, batch, context)
    needed = break_even_tokens(cost, trees[nodes], nodes, batch, context)
    winner = "tree" if best.tree_wins else "chain"
    text = (
        f"Batch {batch}, {context:,} tokens of context each, first guess right {acceptance:.0%}: a tree of {nodes} "
        f"nodes emits {trees[nodes].length:.2f} tokens per step and breaks even at {needed:.2f}: {here:.2f}x. Best "
        f"tree: {best.tree_nodes} nodes, {best.tree:.2f}x; best chain: K = {best.chain_nodes}, {best.chain:.2f}x. The "
        f"{winner} wins."
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


def _no_room(batch: int, context: int) -> Frame:
    text = (
        f"{batch} requests with {context:,} tokens of context each do not fit: beside the weights of target and draft "
        f"one {GPU.upper()} holds {most_requests(context)} of them. Take a smaller batch or a shorter context."
    )
    return Frame([Series("chain", AXIS, [None] * len(AXIS))], text=text, alt=f"An empty figure. {text}")
