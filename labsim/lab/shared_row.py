"""A row of training-time test shared by ranks, under the loupe: the loss of every guess, the bytes of every step.

Everything here lets the trainer's own parts compute (`labsim.train.ttt.part`, the draft's `ttt_forward`, `labsim.
attention.usp`); nothing of it is written again. In float64, so that a difference is a fault and not rounding.

Shapes: L positions of the row, E the target's hidden size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ..features.source import TargetStates
from ..parallel import logical
from ..parallel.layout import Kind
from ..parallel.mesh import Mesh
from ..train.ttt.data import Document, PackedRow
from ..train.ttt.loss import Teacher, entropy, ttt_steps
from ..train.ttt.memory import DraftShape, StepSetting
from ..train.ttt.memory_measure import StepCase, random_case
from ..train.ttt.part import Part
from .planted_shared import FAULTS, faulty_draft, faulty_part

SHAPE = DraftShape(
    kind="eagle3.1", hidden=32, target_hidden=32, vocab=128, draft_vocab=64, features=3, heads=4, kv_heads=2,
    head_dim=8, intermediate=48,
)  # fmt: skip
WRONG_FROM = 1e-9  # nats: no rounding in float64

Losses = list[dict[int, float]]


@dataclass(frozen=True)
class Held:
    """The one document's states, of which a rank reads some."""

    states: TargetStates

    def read_at(self, document: Sequence[int], features_at: torch.Tensor, last_at: torch.Tensor) -> TargetStates:
        return TargetStates(self.states.features_TF[features_at], self.states.last_TE[last_at])


class DoubleHead:
    """A target's head in float64."""

    dtype = torch.float64

    def __init__(self, head_VE: torch.Tensor) -> None:
        self.head_VE = head_VE.double()

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        return states @ self.head_VE.T


def small_row(length: int, steps: int, seed: int) -> StepCase:
    """A random draft and one document of `length` different tokens, an answer from the second on: every guess counts.

    ValueError for more tokens than the small vocabulary has.
    """
    if length > SHAPE.vocab:
        raise ValueError(f"length is {length}; right is at most {SHAPE.vocab}, the tokens of this small vocabulary")
    setting = StepSetting(positions=length, ttt=steps, bf16=False, state_bytes=4, device="cpu")
    case = random_case(SHAPE, setting, seed=seed)
    # Weights of the usual start are so small that attention hardly matters; a trained draft's are not.
    draft = case.draft.double()
    with torch.no_grad():
        for parameter in draft.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8)
    tokens = torch.randperm(SHAPE.vocab, generator=torch.Generator().manual_seed(seed))[:length].tolist()
    states = [TargetStates(one.features_TF.double(), one.last_TE.double()) for one in case.states]
    return replace(
        case,
        draft=draft,
        head=DoubleHead(case.head.weight_OI),
        row=PackedRow.of([Document(("row", seed), "random", tuple(tokens), 1, True)]),
        states=states,
    )


def losses_on_a_rank(mesh: Mesh, case: StepCase, kind: Kind, fault: str | None = None) -> Losses:
    """By step, the loss in nats of each guess that this rank makes, by its position in the row."""
    part_type = faulty_part(fault) if fault else Part
    draft = faulty_draft(fault, case.draft) if fault else case.draft
    part = part_type.of(case.row, mesh, case.recipe.ttt, kind)
    [states] = part.states(Held(case.states[0]))
    teacher = Teacher.of(case.row, states.last_TE, case.head, case.vocabulary, part=part)
    found: Losses = []
    with torch.no_grad():
        for step in ttt_steps(draft, case.row, states.features_TF[None], case.recipe, case.recipe.ttt, part=part):
            at_P, counts_P = part.judged(step.step)
            nats_P, _ = entropy(draft, step.step, step.output_BLH[0, at_P], teacher.p_PN)
            found.append(dict(zip(part.positions_L[at_P[counts_P]].tolist(), nats_P[counts_P].tolist(), strict=True)))
    return found


def guess_losses(case: StepCase, kind: Kind, ring: int, ulysses: int = 1, fault: str | None = None) -> Losses:
    """The same of all ranks together; positions ascending."""
    ranks = logical.run(losses_on_a_rank, case, kind, fault, ring=ring, ulysses=ulysses)
    together: Losses = [{} for _ in range(case.recipe.ttt)]
    for rank in ranks:
        for step, losses in enumerate(rank):
            together[step] |= losses
    return [dict(sorted(losses.items())) for losses in together]


def differences(found: Losses, right: Losses) -> list[list[float]]:
    """By step and position, how far the loss is from the right one, in nats. ValueError where guesses are missing."""
    if [list(one) for one in found] != [list(one) for one in right]:
        raise ValueError("the two hold losses of different guesses; right is the same row, cut and uncut")
    return [[abs(a[t] - b[t]) for t in b] for a, b in zip(found, right, strict=True)]


def wrong_places(found: Losses, right: Losses) -> list[list[int]]:
    """By step, the positions whose loss is wrong."""
    return [[t for t, off in enumerate(row) if off > WRONG_FROM] for row in differences(found, right)]


def all_faults(case: StepCase, kind: Kind, ring: int) -> dict[str, list[list[float]]]:
    """Differences to one rank's losses, by fault; "healthy" first."""
    right = guess_losses(case, kind, 1)
    names = [None, *FAULTS]
    return {name or "healthy": differences(guess_losses(case, kind, ring, fault=name), right) for name in names}


def traffic_on_a_rank(mesh: Mesh, case: StepCase, kind: Kind) -> list[dict[str, int]]:
    """Bytes that this rank sends, by operation: in the forward of each step, then, as the last entry, in backward."""
    part = Part.of(case.row, mesh, case.recipe.ttt, kind)
    [states] = part.states(Held(case.states[0]))
    found, before = [], Counter(mesh.bytes_sent)

    def sent_since() -> dict[str, int]:
        nonlocal before
        now = Counter(mesh.bytes_sent)
        sent, before = dict(now - before), now
        return sent

    outputs = []
    for step in ttt_steps(case.draft, case.row, states.features_TF[None], case.recipe, case.recipe.ttt, part=part):
        outputs.append(step.output_BLH.sum())
        found.append(sent_since())
    # A logical rank's gradients are its own: the weights are one object, so none are accumulated in them.
    torch.autograd.grad(sum(outputs), list(case.draft.parameters()), allow_unused=True)
    return [*found, sent_since()]


def traffic(case: StepCase, ring: int, ulysses: int = 1, kind: Kind = "zigzag") -> list[dict[str, int]]:
    """The same, once: all ranks send alike. AssertionError where they do not."""
    first, *others = logical.run(traffic_on_a_rank, case, kind, ring=ring, ulysses=ulysses)
    assert all(one == first for one in others), "ranks of one layout send the same number of bytes"
    return first


def halo_of(case: StepCase, ring: int, kind: Kind) -> list[list[int]]:
    """By rank, the positions beyond its own of which it reads the teacher's state."""

    def one(mesh: Mesh) -> list[int]:
        part = Part.of(case.row, mesh, case.recipe.ttt, kind)
        return sorted(set(part.teacher_positions.tolist()) - set(part.positions_L.tolist()))

    return logical.run(one, ring=ring)
