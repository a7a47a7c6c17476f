"""A step of a real target's training, run at short rows and read off for the one that is wanted.

Bytes grow with the length of the row as a + b L: a are gradients and copies of weights, b what each token keeps. Two
short rows give both; where the wanted row is short itself, it is run. Weights and moments are counted apart, exactly:
they are what does not depend on the row at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...models.load import Target
from .memory_measure import measure, real_case
from .memory_peak import peak, resident
from .recipe import TTTRecipe

LENGTHS = {"cpu": (128, 256), "cuda": (1024, 2048)}
DIRECT = {"cpu": 512, "cuda": 4096}  # rows up to here are run themselves


@dataclass(frozen=True)
class Row:
    """One row that was run: bytes at the step's worst moment, between forward and backward, and the formula's peak."""

    positions: int
    peak: int
    saved: int
    predicted: float


@dataclass(frozen=True)
class Probe:
    """Bytes of a training step of `positions` on `device`.

    Attributes:
        step: at the worst moment, above what lies there before; `saved` of them between forward and backward.
        weights: trained parameters and what is borrowed of the target, in float32; `moments` the optimiser's.
        target: the target's own weights.
        states: the target's states of the row.
        extrapolated: the row itself was not run.
    """

    device: str
    positions: int
    step: float
    saved: float
    weights: float
    moments: float
    target: float
    states: float
    rows: tuple[Row, ...]
    extrapolated: bool

    @property
    def total(self) -> float:
        return self.step + self.weights + self.moments + self.target + self.states


def probe(target: Target, recipe: TTTRecipe, positions: int, *, told: Callable[[str], None] = lambda _: None) -> Probe:
    """Run the step. ValueError for a row that no context holds, or too short for the steps."""
    device = target.model.device.type
    kind = "cuda" if device == "cuda" else "cpu"
    shortest = recipe.ttt + 3
    if positions < shortest:
        raise ValueError(f"seq is {positions}; a row of {recipe.ttt} TTT steps needs at least {shortest} tokens")
    context = target.model.config.max_positions
    lengths = tuple(min(length, context) for length in LENGTHS[kind])
    direct = positions <= min(DIRECT[kind], context)
    if not direct and lengths[0] >= lengths[1]:
        raise ValueError(
            f"{target.name} has a context of {context} tokens, too short to extrapolate from; --seq {context}"
        )
    rows = []
    for length in (positions,) if direct else lengths:
        told(f"one step of {length} tokens")
        case = real_case(target, replace(recipe, seq=max(8, length)), length)
        if kind == "cuda":
            measure(case)  # the first call makes what stays: kernels' workspaces
        found = measure(case)
        rows.append(Row(length, found.peak, found.saved, peak(case.shape, case.setting()).step))
    first, last = rows[0], rows[-1]

    def at(small: float, large: float) -> float:
        if first.positions == last.positions:
            return large
        return large + (large - small) / (last.positions - first.positions) * (positions - last.positions)

    there = resident(case.shape, replace(case.setting(), positions=positions, places=None))
    return Probe(
        device,
        positions,
        at(first.peak, last.peak),
        at(first.saved, last.saved),
        there["parameters"],
        there["optimizer"],
        target_bytes(target),
        there["features"],
        tuple(rows),
        not direct,
    )


def target_bytes(target: Target) -> float:
    """Weights of the target: matrices, embedding, norms."""
    model = target.model
    tied = 0 if model.config.tied else model.embedding_VE.nbytes
    return float(model.weight_bytes + tied)
