"""Accept: which drafted tokens stand, and which token comes after them.

Speculative sampling (Leviathan et al., arXiv 2211.17192, section 2.3; Chen et al., arXiv 2302.01318). A token x
drawn from the draft's q is accepted with probability min(1, p(x)/q(x)); after a rejection the token is drawn from
what p has and q lacked, the residual norm(max(0, p - q)). The two ways to emit x then add up to exactly p(x):

    q(x) min(1, p(x)/q(x))  +  P(reject) * max(0, p(x) - q(x)) / P(reject)  =  p(x)

For siblings the rule repeats: the residual takes the place of p and the next sibling is tried (SpecInfer, arXiv
2305.09781). A token chosen without chance has a point mass for q: it is accepted with probability p(x), and its
residual is p without x. Greedy decoding is the case where p is itself a point mass: a token is accepted if and only
if it is the argmax.

When the path reaches a leaf, the row of p after that leaf gives one more token for free, the bonus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from ..drafts.protocol import Draft


@dataclass(frozen=True)
class Accepted:
    """Outcome for one row.

    Attributes:
        path: accepted drafted tokens, as indices into the draft.
        token: the token that follows them.
        kind: `bonus` when no draft was left to judge, `corrected` when at least one was rejected in its place.
    """

    path: tuple[int, ...]
    token: int
    kind: Literal["bonus", "corrected"]


def accept_greedy(draft: Draft, choices: Sequence[int]) -> Accepted:
    """`choices[0]` is the target's argmax after the last token, `choices[1 + i]` after drafted token i."""
    children = children_of(draft)
    path: list[int] = []
    at = -1
    while True:
        following = [child for child in children[at] if draft.tokens[child] == choices[1 + at]]
        if not following:
            return Accepted(tuple(path), choices[1 + at], "corrected" if children[at] else "bonus")
        at = following[0]
        path.append(at)


def accept_sampled(draft: Draft, p_NV: torch.Tensor, generator: torch.Generator) -> Accepted:
    """Speculative sampling over a tree.

    Args:
        draft: N drafted tokens with the distributions they were drawn from.
        p_NV: (1 + N, V) the target's distributions, after the last token and after each drafted one; on the CPU.
        generator: the row's own source of chance.
    """
    children = children_of(draft)
    path: list[int] = []
    at = -1
    while True:
        p_V = p_NV[1 + at]
        accepted = None
        for child in children[at]:
            p_V, taken = judge(p_V, draft.tokens[child], None if draft.q_NV is None else draft.q_NV[child], generator)
            if taken:
                accepted = child
                break
        if accepted is None:
            token = int(torch.multinomial(p_V, 1, generator=generator))
            return Accepted(tuple(path), token, "corrected" if children[at] else "bonus")
        at = accepted
        path.append(at)


def judge(
    p_V: torch.Tensor, token: int, q_V: torch.Tensor | None, generator: torch.Generator
) -> tuple[torch.Tensor, bool]:
    """Accept or reject one drafted token; after a rejection the returned distribution is the residual."""
    chance = float(p_V[token]) if q_V is None else float(p_V[token] / q_V[token])
    if float(torch.rand((), generator=generator, dtype=torch.float64)) < chance:
        return p_V, True
    return residual(p_V, token, q_V), False


def residual(p_V: torch.Tensor, token: int, q_V: torch.Tensor | None) -> torch.Tensor:
    """norm(max(0, p - q)); for a token chosen without chance, p without that token."""
    if q_V is None:
        left_V = p_V.clone()
        left_V[token] = 0
    else:
        left_V = (p_V - q_V).clamp_(min=0)
    mass = left_V.sum()
    # Rounding can reject with p = q, where nothing is left; the token itself is then a draw from p.
    return left_V / mass if mass > 0 else p_V


def children_of(draft: Draft) -> dict[int, list[int]]:
    """For each node, and -1 for the text's last token, the nodes that follow it, in the order to try."""
    children: dict[int, list[int]] = {node: [] for node in range(-1, len(draft.tokens))}
    for node, parent in enumerate(draft.parents):
        children[parent].append(node)
    return children
