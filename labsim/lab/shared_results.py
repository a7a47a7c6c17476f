"""What became of a shared row: bytes of a rank, measured and predicted, and what the trained drafts accept.

Memory is counted on logical ranks, each with its own count of live tensor storages, in the trainer's own step.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..decode.generate import generate_batch
from ..decode.result import GenerationResult
from ..drafts.load import trained
from ..drafts.shape import Chain
from ..models.load import Target
from ..parallel import logical
from ..parallel.layout import Kind
from ..parallel.mesh import Mesh
from ..train.evaluate import Row, summarise
from ..train.ttt.loss import Teacher, row_loss
from ..train.ttt.memory import DraftShape, StepSetting
from ..train.ttt.memory_measure import Measured, StepCase, count, random_case
from ..train.ttt.memory_peak import peak
from ..train.ttt.part import Part
from .shared_row import Held

DRAWS = 2000


@dataclass(frozen=True)
class PerRank:
    """Bytes of one rank, above what lies there before a step: at its worst moment, measured and by the formula, and
    between forward and backward.
    """

    ranks: int
    measured: int
    predicted: float
    saved: int

    @property
    def off(self) -> float:
        """How far the formula is off, as a share of the measured figure."""
        return self.predicted / self.measured - 1


def step_on_a_rank(mesh: Mesh, case: StepCase, kind: Kind, counted: int) -> Measured | None:
    """One step of this rank's part: teacher, loss, backward. Counting slows each operation: one rank of all is."""
    # Ranks of one process would add their gradients to the same weights.
    draft = copy.deepcopy(case.draft)
    part = Part.of(case.row, mesh, case.recipe.ttt, kind)
    states = part.states(Held(case.states[0]))

    def step(between: Callable[[], None]) -> None:
        last_ME = torch.cat([one.last_TE for one in states])
        keep = not case.recipe.logit_chunk
        teacher = Teacher.of(case.row, last_ME, case.head, case.vocabulary, keep=keep, part=part)
        loss, _ = row_loss(draft, case.row, states, teacher, case.recipe, part=part)
        between()
        loss.backward()

    if mesh.world.rank != counted:
        step(lambda: None)
        return None
    return count(step, torch.device("cpu"))


def bytes_per_rank(
    shape: DraftShape, setting: StepSetting, ring: int, ulysses: int = 1, *, kind: Kind = "zigzag", seed: int = 0
) -> PerRank:
    """Run a step on ring x ulysses logical ranks, count one of them (the second, which has a halo behind each of its
    runs) and predict it; `setting` describes the row, not the ranks.
    """
    case, ranks = random_case(shape, setting, seed=seed), ring * ulysses
    counted = min(1, ranks - 1)
    found = logical.run(step_on_a_rank, case, kind, counted, ring=ring, ulysses=ulysses, timeout_seconds=120)[counted]
    described = StepSetting(**{**vars(setting), "sequence_parallel": ranks, "places": len(case.row.teacher_places())})
    return PerRank(ranks, found.peak, peak(shape, described).step, found.saved)


def decode_prompts(
    target: Target, directory: Path, prompts: Sequence[Sequence[int]], *, k: int, max_new_tokens: int
) -> tuple[Row, list[GenerationResult]]:
    """Real greedy decoding of these prompts with the draft in a directory, summed up as `labsim eval` does."""
    drafter = trained(directory, target)
    results = generate_batch(target, prompts, drafter=drafter, shape=Chain(k), max_new_tokens=max_new_tokens)
    return summarise("prompts", None, results, (), k), results


def gain(one: Sequence[GenerationResult], other: Sequence[GenerationResult], seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval of the difference of two acceptance lengths on the same prompts, drawn in pairs.

    ValueError for different numbers of prompts.
    """
    if len(one) != len(other):
        raise ValueError(f"{len(one)} and {len(other)} answers: pairs need the same prompts")
    draws = np.random.default_rng(seed).integers(0, len(one), (DRAWS, len(one)))
    lengths = []
    for results in (one, other):
        accepted_P = np.array([sum(len(step.path) for step in result.steps) for result in results], float)
        steps_P = np.array([len(result.steps) for result in results], float)
        lengths.append(accepted_P[draws].sum(1) / np.maximum(1, steps_P[draws].sum(1)))
    low, high = np.percentile(lengths[0] - lengths[1], [2.5, 97.5])
    return float(low), float(high)
