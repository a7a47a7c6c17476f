"""Faults of a trainer: the checkpoint is consistent, what it learnt is not what serving asks for.

None of them raises an error, and none shows in a loss that nobody compares with anything. Each is caught by a property
that a right trainer has:

    loss-mean-diluted     the gradient does not depend on how long the prompt is
    mask-of-x-t           the first guess of an answer trains, and no place past its end
    features-one-late     the state at t sees nothing of the token at t + 1
    pre-norm-feedback     under norm_output the state that enters step k >= 1 is norm(a)
    teacher-norm-twice    the teacher's distribution is the target's own

`planted_loss` computes the loss of one row with one of them; the tests of this module are the catches.

Shapes: L positions of a row, C places that count.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ..drafts.eagle import EagleDraft
from ..drafts.recurrent import Pair
from ..drafts.vocabulary import DraftVocabulary
from ..features.source import TargetStates
from ..models.linear import Linear
from ..train.ttt.data import PackedRow
from ..train.ttt.loss import Teacher, draft_device, row_loss, step_loss, ttt_steps
from ..train.ttt.recipe import TTTRecipe

TESTS = "tests/checkpoints/test_trainer_faults.py"


@dataclass(frozen=True)
class TrainerFault:
    """As `faults.Fault`; `caught_by` names a test."""

    name: str
    cause: str
    symptom: str
    remedy: str
    caught_by: str


TRAINER_FAULTS = (
    TrainerFault(
        "loss-mean-diluted",
        "the mean runs over all positions, masked ones counted",
        "loss and gradient shrink as prompts grow: rows with long prompts weigh less, and losses of two systems "
        "cannot be compared",
        "divide by the number of places that count",
        f"{TESTS}::test_the_gradient_does_not_depend_on_the_prompts_length",
    ),
    TrainerFault(
        "mask-of-x-t",
        "a place counts if token t belongs to the answer, where token t + 1 is the one that was just decided",
        "the first draft of each answer is never trained; short answers accept less",
        "shift the mask with the tokens: step k at t counts by token t + 1",
        f"{TESTS}::test_the_first_guess_of_an_answer_trains",
    ),
    TrainerFault(
        "features-one-late",
        "each position is given the state of the next one, which has read the token that is to be guessed from",
        "training looks better than it should, acceptance length about 1 in service",
        "pair the state at t with the token at t + 1",
        f"{TESTS}::test_a_state_knows_nothing_of_later_tokens",
    ),
    TrainerFault(
        "pre-norm-feedback",
        "norm_output only gates the norm before the head; the state before it is fed back",
        "the loss moves by 5e-4; served as 3.1 the draft is right at depth 1 and off from depth 2",
        "feed back what the head reads",
        f"{TESTS}::test_under_norm_output_the_normed_state_enters_the_next_step",
    ),
    TrainerFault(
        "teacher-norm-twice",
        "the last state is already normed, and the final norm is applied once more",
        "a teacher too soft or too sharp; the loss is plausible",
        "teacher = softmax(head(last normed state))",
        f"{TESTS}::test_the_teacher_says_what_the_target_says",
    ),
)
NAMES = tuple(fault.name for fault in TRAINER_FAULTS)


class PreNormFeedback(EagleDraft):
    """An EAGLE-3.1 whose next step is given the state before the norm: a released trainer's fault."""

    def leave(self, raw_BLH: torch.Tensor) -> Pair:
        output_BLH, _ = super().leave(raw_BLH)
        return output_BLH, raw_BLH


def pre_norm(draft: EagleDraft) -> PreNormFeedback:
    """The same parameters, fed back before the norm; config and checkpoint still say norm_output."""
    other = copy.copy(draft)
    other.__class__ = PreNormFeedback
    return other


def planted_loss(
    name: str | None,
    draft: EagleDraft,
    row: PackedRow,
    states: Sequence[TargetStates],
    head: Linear,
    norm_E: torch.Tensor,
    vocabulary: DraftVocabulary,
    recipe: TTTRecipe,
) -> torch.Tensor:
    """Loss of one row with a trainer's fault; None is the right one.

    Args:
        head, norm_E: the target's head and final norm weight; the norm is used by `teacher-norm-twice` alone.

    ValueError for a name not in NAMES.
    """
    if name is not None and name not in NAMES:
        raise ValueError(f"trainer fault {name!r} is not known: {', '.join(NAMES)}")
    last_LE = torch.cat([part.last_TE for part in states])
    if name == "teacher-norm-twice":
        last_LE = torch.nn.functional.rms_norm(last_LE, last_LE.shape[-1:], norm_E.to(last_LE), 1e-6)
    if name == "mask-of-x-t":
        row = mask_of_x_t(row)
    if name == "features-one-late":
        states = [
            replace(part, features_TF=torch.cat([part.features_TF[1:], part.features_TF[-1:]])) for part in states
        ]
    if name == "pre-norm-feedback":
        draft = pre_norm(draft)
    teacher = Teacher.of(row, last_LE, head, vocabulary)
    if name == "loss-mean-diluted":
        return diluted(draft, row, states, teacher, recipe)
    return row_loss(draft, row, states, teacher, recipe)[0]


def mask_of_x_t(row: PackedRow) -> PackedRow:
    """Counts position t by its own token."""
    return replace(row, starts_L=row.answer_L)


def diluted(
    draft: EagleDraft, row: PackedRow, states: Sequence[TargetStates], teacher: Teacher, recipe: TTTRecipe
) -> torch.Tensor:
    """`row_loss` with each step's sum divided by all positions."""
    device, length = draft_device(draft), row.tokens_1L.shape[1]
    features_1LF = torch.cat([part.features_TF for part in states])[None].to(device, torch.float32)
    last_LE = torch.cat([part.last_TE for part in states]).to(device, torch.float32)
    total = torch.zeros((), device=device)
    for step in ttt_steps(draft, row, features_1LF, recipe, recipe.ttt):
        at_P, counts_P = teacher.judged(row, step.step)
        if bool(counts_P.any()):
            mean, _ = step_loss(draft, step, at_P, counts_P, teacher, last_LE, recipe)
            total = total + recipe.weights[step.step] * mean * counts_P.sum() / length
    return total
