"""The loss of training-time test: at every depth, the target's own distribution as the label.

    loss = sum_k w_k mean_(t) [ - sum_v p_(t+1+k)(v) log q_k,t(v) ]

p is the target's distribution after the token that step k reads, renormalised over the draft vocabulary; q_k,t the
draft's guess in step k of the chain that starts at t. Means run over the places that count (`data.places`), not over
all positions: a mean over B*T would make the step size depend on how long the prompts are.

EAGLE-1 is trained as its authors do: its output is pulled towards the target's next last state (SmoothL1, weight 1) and
the cross-entropy weighs 0.1.

Shapes: P places, N draft vocabulary, V target vocabulary, L positions of the row, E the target's hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn.functional import smooth_l1_loss

from ...attention.ttt import ttt_attention
from ...drafts.eagle_checkpoint import TrainedDraft
from ...drafts.heads import ParallelHeads
from ...drafts.recurrent import TTTStep
from ...drafts.vocabulary import DraftVocabulary
from ...features.source import TargetStates
from ...models.linear import Linear
from .data import PackedRow
from .recipe import TTTRecipe

EAGLE1_CROSS_ENTROPY = 0.1
TEACHER_CHUNK = 256


@dataclass(frozen=True)
class Teacher:
    """What the target says after each answer token of a row.

    Attributes:
        row_L: for each position the row of `p_PN` that belongs to it, -1 where there is none.
        p_PN: probabilities over the draft vocabulary, summing to one.
        choice_P: the target's first choice, a target id. `drafted_P` is its draft id, -1 outside the draft vocabulary.
    """

    row_L: torch.Tensor
    p_PN: torch.Tensor
    choice_P: torch.Tensor
    drafted_P: torch.Tensor

    @classmethod
    def of(cls, row: PackedRow, last_LE: torch.Tensor, head: Linear, vocabulary: DraftVocabulary) -> Teacher:
        """From the target's last states. The full distribution exists for a few positions at a time only."""
        places = row.teacher_places().to(last_LE.device)
        ids_N = vocabulary.ids_N.to(last_LE.device)
        kept, choices = [], []
        for part in places.split(TEACHER_CHUNK):
            logits_PV = head(last_LE[part].to(head.dtype)).float()
            choices.append(logits_PV.argmax(dim=-1))
            kept.append(logits_PV[:, ids_N].softmax(dim=-1))
        row_L = torch.full((len(last_LE),), -1, device=last_LE.device)
        row_L[places] = torch.arange(len(places), device=last_LE.device)
        choice_P = torch.cat(choices)
        return cls(row_L, torch.cat(kept), choice_P, vocabulary.draft_id_V.to(choice_P.device)[choice_P])


@dataclass(frozen=True)
class StepFigures:
    """One TTT step over a row: mean loss in nats, and for each place whether the guess was the target's choice."""

    loss: float
    places_P: torch.Tensor
    correct_P: torch.Tensor


def ttt_steps(draft: TrainedDraft, row: PackedRow, features_1LF: torch.Tensor, recipe: TTTRecipe, steps: int):
    """The draft's own unrolling, with attention inside each document."""
    if isinstance(draft, ParallelHeads):
        return draft.ttt_forward(row.tokens_1L.to(features_1LF.device), features_1LF, steps)
    return draft.ttt_forward(
        row.tokens_1L.to(features_1LF.device),
        features_1LF,
        steps,
        branch=recipe.mtp_branch if recipe.draft == "mtp" else "own",
        attention=partial(ttt_attention, documents=row.lengths),
        checkpointing=recipe.checkpointing,
    )


def row_loss(
    draft: TrainedDraft,
    row: PackedRow,
    states: Sequence[TargetStates],
    teacher: Teacher,
    recipe: TTTRecipe,
) -> tuple[torch.Tensor, list[StepFigures]]:
    """Weighted loss of a row, and the figures of each step. Steps for which the row is too short are left out."""
    device = draft_device(draft)
    features_1LF = torch.cat([part.features_TF for part in states])[None].to(device, torch.float32)
    last_LE = torch.cat([part.last_TE for part in states]).to(device, torch.float32)
    total, figures = torch.zeros((), device=device), []
    with torch.autocast(device.type, torch.bfloat16, enabled=recipe.bf16):
        for step in ttt_steps(draft, row, features_1LF, recipe, recipe.ttt):
            places = row.places(step.step).to(device)
            if len(places) == 0:
                break
            loss, correct = step_loss(draft, step, places, teacher, last_LE, recipe)
            total = total + recipe.weights[step.step] * loss
            figures.append(StepFigures(loss.item(), places, correct))
    return total, figures


def step_loss(
    draft: TrainedDraft,
    step: TTTStep,
    places_P: torch.Tensor,
    teacher: Teacher,
    last_LE: torch.Tensor,
    recipe: TTTRecipe,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(loss, whether each guess is right)."""
    output_PH = step.output_BLH[0, places_P]
    logits_PN = draft.logits(output_PH, step.step).float()
    rows_P = teacher.row_L[places_P + 1 + step.step]
    guessed_P = logits_PN.detach().argmax(dim=-1)
    correct_P = guessed_P == teacher.drafted_P[rows_P]
    entropies_P = -(teacher.p_PN[rows_P] * logits_PN.log_softmax(dim=-1)).sum(dim=-1)
    if recipe.oov == "drop":
        sayable_P = teacher.drafted_P[rows_P] >= 0
        loss = (entropies_P * sayable_P).sum() / sayable_P.sum().clamp(min=1)
    else:
        loss = entropies_P.mean()
    if recipe.draft == "eagle1":
        loss = EAGLE1_CROSS_ENTROPY * loss + smooth_l1_loss(output_PH.float(), last_LE[places_P + 1 + step.step])
    return loss, correct_P


def draft_device(draft: TrainedDraft) -> torch.device:
    return next(draft.parameters()).device
