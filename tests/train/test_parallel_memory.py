"""What a rank keeps in memory when a row is shared: against the formula, and against one rank's share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cache

import pytest
import torch

from labsim.features.source import TargetStates
from labsim.parallel import logical
from labsim.parallel.mesh import Mesh
from labsim.train.ttt.loss import Teacher, row_loss
from labsim.train.ttt.memory import DraftShape, StepSetting
from labsim.train.ttt.memory_measure import Measured, StepCase, count, random_case
from labsim.train.ttt.memory_peak import peak
from labsim.train.ttt.part import Part

SHAPE = DraftShape(
    kind="eagle3.1", hidden=64, target_hidden=64, vocab=512, draft_vocab=384, features=3, heads=8, kv_heads=8,
    head_dim=8, intermediate=176,
)  # fmt: skip
LENGTH, TTT = 2048, 3


def setting(ranks: int = 1) -> StepSetting:
    return StepSetting(
        positions=LENGTH, ttt=TTT, bf16=False, sequence_parallel=ranks, state_bytes=4, device="cpu", places=LENGTH - 3
    )


class Held:
    """The one document's states."""

    def __init__(self, states: TargetStates) -> None:
        self.states = states

    def read_at(self, document: Sequence[int], features_at: torch.Tensor, last_at: torch.Tensor) -> TargetStates:
        return TargetStates(self.states.features_TF[features_at], self.states.last_TE[last_at])


def step_of_a_rank(mesh: Mesh, case: StepCase, kind: str) -> Measured:
    draft = copy.deepcopy(case.draft)
    part = Part.of(case.row, mesh, TTT, kind)
    states = part.states(Held(case.states[0]))

    def step(between: Callable[[], None]) -> None:
        last = torch.cat([one.last_TE for one in states])
        teacher = Teacher.of(case.row, last, case.head, case.vocabulary, part=part)
        loss, _ = row_loss(draft, case.row, states, teacher, case.recipe, part=part)
        between()
        loss.backward()

    return count(step, torch.device("cpu"))


@cache
def measured(ring: int, ulysses: int, kind: str) -> tuple[Measured, ...]:
    case = random_case(SHAPE, setting())
    return tuple(logical.run(step_of_a_rank, case, kind, ring=ring, ulysses=ulysses, timeout_seconds=120))


@pytest.mark.parametrize(("ring", "ulysses"), [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (8, 1), (2, 4), (1, 8)])
def test_peak_is_the_formulas_and_activations_fall_with_the_ranks(ring: int, ulysses: int) -> None:
    ranks = ring * ulysses
    [whole] = measured(1, 1, "zigzag")
    predicted = peak(SHAPE, setting(ranks)).step
    for rank in measured(ring, ulysses, "zigzag"):
        print(f"ring {ring} ulysses {ulysses}: peak {rank.peak / predicted:.3f} of the formula, "
              f"activations {rank.saved * ranks / whole.saved:.3f} of 1/{ranks}")  # fmt: skip
        assert rank.peak == pytest.approx(predicted, rel=0.10)
        assert rank.saved == pytest.approx(whole.saved / ranks, rel=0.15)
