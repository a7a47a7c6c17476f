"""Growing a draft from a model, level by level: chain, static tree, dynamic tree.

Whoever can answer "which tokens may follow these nodes?" can draft in every shape; the drafter supplies only that
question as `run`. One call per depth, all nodes of a level together.

Under sampling a chain draws each token from the draft's distribution q, and a static tree draws siblings without
replacement, each remembering the q it was drawn from. A dynamic tree takes the most likely tokens, without chance.
Either way acceptance stays lossless, because it is told how each token came about.

Shapes: B rows, W nodes of a level, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ..models.sampling import Sampling, distribution
from .protocol import Draft
from .shape import Chain, DynamicTree, Shape, StaticTree

# (tokens_BW, parents): run one level and return its next-token logits (B, W, V). A parent is an index among the
# nodes run so far in this draft, -1 for the text's last token.
Run = Callable[[torch.Tensor, list[list[int]]], torch.Tensor]


def expand(
    shape: Shape,
    root_logits_BV: torch.Tensor,
    run: Run,
    sampling: Sampling,
    generators: Sequence[torch.Generator],
) -> list[Draft]:
    """One draft per row. `root_logits_BV` are the draft's logits after the text's last token."""
    if shape.depth == 0:
        return [Draft()] * root_logits_BV.shape[0]
    if isinstance(shape, DynamicTree):
        return expand_dynamic(shape, root_logits_BV, run)
    widths = (1,) * shape.k if isinstance(shape, Chain) else shape.widths
    return expand_static(StaticTree(widths), root_logits_BV, run, sampling, generators)


def expand_static(
    shape: StaticTree,
    root_logits_BV: torch.Tensor,
    run: Run,
    sampling: Sampling,
    generators: Sequence[torch.Generator],
) -> list[Draft]:
    """Every node of depth d gets `widths[d]` children: the most likely ones, or drawn without replacement."""
    batch = root_logits_BV.shape[0]
    tokens: list[list[int]] = [[] for _ in range(batch)]
    parents: list[int] = []
    q: list[list[torch.Tensor]] = [[] for _ in range(batch)]
    level, logits_BWV = [-1], root_logits_BV[:, None]
    for depth, width in enumerate(shape.widths):
        width = min(width, logits_BWV.shape[-1])
        if sampling.greedy:
            children = logits_BWV.topk(width, dim=-1).indices.flatten(1).tolist()
        else:
            children = []
            for row in range(batch):
                drawn, q_rows = draw_without_replacement(
                    distribution(logits_BWV[row], sampling).cpu(), width, generators[row]
                )
                children.append(drawn)
                q[row] += q_rows
        first = len(parents)
        parents += [node for node in level for _ in range(width)]
        for row in range(batch):
            tokens[row] += children[row]
        level = list(range(first, len(parents)))
        if depth + 1 < len(shape.widths):
            logits_BWV = run(torch.tensor(children), [parents[first:]] * batch)
    return [Draft(tuple(tokens[row]), tuple(parents), torch.stack(q[row]) if q[row] else None) for row in range(batch)]


def draw_without_replacement(
    q_WV: torch.Tensor, width: int, generator: torch.Generator
) -> tuple[list[int], list[torch.Tensor]]:
    """`width` different tokens per node, and for each the distribution it was drawn from.

    The second sibling is drawn from q without the first, renormalised, and so on. Where q has fewer tokens than `width`
    (top-k, top-p), the last ones are drawn uniformly; acceptance judges them by that uniform q, so they do no harm.
    """
    tokens, q_rows = [], []
    for q_V in q_WV:
        left_V = q_V.clone()
        for _ in range(width):
            mass = left_V.sum()
            now_V = left_V / mass if mass > 0 else torch.full_like(left_V, 1 / left_V.numel())
            token = int(torch.multinomial(now_V, 1, generator=generator))
            tokens.append(token)
            q_rows.append(now_V)
            left_V = left_V.clone()
            left_V[token] = 0
    return tokens, q_rows


def expand_dynamic(shape: DynamicTree, root_logits_BV: torch.Tensor, run: Run) -> list[Draft]:
    """Expand the `top_k` most promising nodes of each depth, then keep the best `nodes` of all that was seen.

    A node's value is the product of the draft's probabilities along its path: EAGLE-2's estimate of the chance that the
    target accepts the whole path. A child is never worth more than its parent, so the best nodes form a tree.
    """
    batch, vocab = root_logits_BV.shape
    pools = [Pool() for _ in range(batch)]
    width = min(shape.top_k, vocab)
    values_BWV = root_logits_BV.float().log_softmax(-1)[:, None]
    for depth in range(shape.depth):
        top = values_BWV.topk(width, dim=-1)
        for row, pool in enumerate(pools):
            pool.add(top.indices[row].tolist(), top.values[row].tolist())
        if depth + 1 < shape.depth:
            chosen = [pool.choose(width) for pool in pools]
            logits_BWV = run(torch.tensor([tokens for tokens, _, _ in chosen]), [parents for _, parents, _ in chosen])
            above_BW1 = torch.tensor([values for _, _, values in chosen], device=logits_BWV.device)[..., None]
            values_BWV = above_BW1 + logits_BWV.float().log_softmax(-1)
    return [pool.best(shape.nodes) for pool in pools]


class Pool:
    """All candidates of one row: token, parent candidate, value (log probability of its path)."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.values: list[float] = []
        self.level = [-1]  # candidates expanded last, in the order in which they were run
        self.newest: list[int] = []
        self.run_index: dict[int, int] = {-1: -1}

    def add(self, tokens: list[list[int]], values: list[list[float]]) -> None:
        """Children of the nodes expanded last, one list per node."""
        self.newest = []
        for parent, more, worth in zip(self.level, tokens, values, strict=True):
            for token, value in zip(more, worth, strict=True):
                self.newest.append(len(self.tokens))
                self.tokens.append(token)
                self.parents.append(parent)
                self.values.append(value)

    def choose(self, width: int) -> tuple[list[int], list[int], list[float]]:
        """The `width` best of the newest candidates, to be run next: tokens, parents as run indices, values."""
        best = sorted(self.newest, key=lambda node: -self.values[node])[:width]
        for node in best:
            self.run_index[node] = len(self.run_index) - 1
        self.level = best
        return (
            [self.tokens[node] for node in best],
            [self.run_index[self.parents[node]] for node in best],
            [self.values[node] for node in best],
        )

    def best(self, nodes: int) -> Draft:
        """The `nodes` most valuable candidates as a tree. Ties go to the earlier one: a parent precedes its child."""
        kept = sorted(sorted(range(len(self.tokens)), key=lambda node: (-self.values[node], node))[:nodes])
        new = {old: index for index, old in enumerate(kept)} | {-1: -1}
        return Draft(tuple(self.tokens[i] for i in kept), tuple(new[self.parents[i]] for i in kept))
