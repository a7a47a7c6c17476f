"""Rotary positions around an all-to-all: two right ways, four wrong ones, and where in the text each goes wrong.

Attention sees differences of positions only. So a fault shows where a query and a key were given positions of
different kinds, and on a mesh without such a pair it does not exist.

Shapes: B rows, H heads, L tokens of a rank, D head dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ..attention.usp import USP
from ..drafts.rotary import frequencies, rotate
from ..parallel import logical
from ..parallel.layout import Layout
from ..parallel.mesh import Mesh
from ..sim.errors import unknown_name
from .dense_attention import dense
from .ring_lab import WRONG_FROM
from .usp_run import Problem

Positions = Callable[[Layout, int, int], torch.Tensor]
ROPE = {"rope_theta": 10000.0, "rope_scaling": None}


@dataclass(frozen=True)
class Way:
    """Which positions rank (ring_rank, ulysses_rank) gives its rows before the swap and inside; None: it does not."""

    what: str
    before: Positions | None = None
    inside: Positions | None = None


def own(layout: Layout, r: int, u: int) -> torch.Tensor:
    return layout.positions(r, u)


def of_the_ring_rank(layout: Layout, r: int, u: int) -> torch.Tensor:
    return layout.ring_positions(r)


RIGHT = {
    "before the swap": Way("each rank its own positions", before=own),
    "inside": Way("positions of the whole ring rank", inside=of_the_ring_rank),
}
FAULTS = {
    "rotated twice": Way("before the swap and inside", before=own, inside=of_the_ring_rank),
    "counted from zero": Way(
        "each rank counts its own tokens from 0, before the swap",
        before=lambda layout, r, u: torch.arange(layout.local_length),
    ),
    "own positions inside": Way(
        "inside, the rank's own positions again and again (SpecForge, once)",
        inside=lambda layout, r, u: layout.positions(r, u).repeat(layout.ulysses),
    ),
    "zigzag forgotten": Way(
        "inside, positions of a contiguous layout",
        inside=lambda layout, r, u: (
            r * layout.local_length * layout.ulysses + torch.arange(layout.local_length * layout.ulysses)
        ),
    ),
}


def way(name: str) -> Way:
    """ValueError for an unknown name."""
    known = RIGHT | FAULTS
    if name not in known:
        raise unknown_name("way to rotate", name, known)
    return known[name]


def turned(x_BHLD: torch.Tensor, positions_L: torch.Tensor) -> torch.Tensor:
    """Rotated to its positions."""
    per_position, scale = frequencies(ROPE, x_BHLD.shape[-1], 1)
    angles = torch.outer(positions_L.double(), per_position).repeat(1, 2)[None]
    return rotate(x_BHLD, angles.cos() * scale, angles.sin() * scale)


def on_a_rank(mesh: Mesh, problem: Problem, name: str) -> torch.Tensor:
    """This rank's output."""
    layout, place, chosen = problem.layout, (mesh.ring.rank, mesh.ulysses.rank), way(name)
    q, k, v, _ = (layout.cut(x[0], 2, *place) for x in problem.inputs())
    if chosen.before is not None:
        q, k = (turned(x, chosen.before(layout, *place)) for x in (q, k))
    usp = USP(mesh, layout)
    q, k, v = usp.enter(q, k, v)
    if chosen.inside is not None:
        q, k = (turned(x, chosen.inside(layout, *place)) for x in (q, k))
    return usp(q, k, v)


def error_by_position(problem: Problem, name: str) -> list[float]:
    """Largest error of the output at each position of the text, over the largest entry of the right output."""
    layout = problem.layout
    parts = logical.run(on_a_rank, problem, name, ring=layout.ring, ulysses=layout.ulysses)
    q, k, v, _ = (x[0] for x in problem.inputs())
    where = torch.arange(layout.length)
    right, _ = dense(turned(q, where), turned(k, where), v)
    off = (layout.join(parts, 2) - right).abs().amax(dim=(0, 1, 3)) / right.abs().max()
    return off.tolist()


def seen_on(problems: Sequence[Problem], name: str) -> list[tuple[int, int, str, bool]]:
    """(ring, ulysses, layout, output wrong) on each mesh."""
    return [
        (
            problem.layout.ring,
            problem.layout.ulysses,
            problem.layout.kind,
            max(error_by_position(problem, name)) > WRONG_FROM,
        )
        for problem in problems
    ]
