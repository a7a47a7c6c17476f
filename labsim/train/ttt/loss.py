"""The loss of training-time test: at every depth, the target's own distribution as the label.

    loss = sum_k w_k mean_(t) [ - sum_v p_(t+1+k)(v) log q_k,t(v) ]

p is the target's distribution after the token that step k reads, renormalised over the draft vocabulary; q_k,t the
draft's guess in step k of the chain that starts at t. Means run over the places that count (`data.places`), not over
all positions: a mean over B*T would make the step size depend on how long the prompts are.

EAGLE-1 is trained as its authors do: its output is pulled towards the target's next last state (SmoothL1, weight 1) and
the cross-entropy weighs 0.1.

Shapes: P places of the teacher, C of them that count, N draft vocabulary, V target vocabulary, L positions of the row,
E the target's hidden size.
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
        places_P: the positions, ascending.
        p_PN: probabilities over the draft vocabulary, summing to one.
        choice_P: the target's first choice, a target id. `drafted_P` is its draft id, -1 outside the draft vocabulary.
    """

    places_P: torch.Tensor
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
        choice_P = torch.cat(choices)
        return cls(places, torch.cat(kept), choice_P, vocabulary.draft_id_V.to(choice_P.device)[choice_P])

    def judged(self, row: PackedRow, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(where the guess about what follows each of the places was made in TTT step `step`, whether it counts)."""
        at_P = self.places_P - 1 - step
        counts_P = torch.isin(at_P, row.places(step).to(at_P.device))
        return at_P.clamp(min=0), counts_P


@dataclass(frozen=True)
class StepFigures:
    """One TTT step over a row: mean loss in nats, and for each place that counts whether the guess was right.

    `places_C` are where the guesses were made, ascending; right is what the target's first choice is.
    """

    loss: float
    places_C: torch.Tensor
    correct_C: torch.Tensor


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
            at_P, counts_P = teacher.judged(row, step.step)
            if not bool(counts_P.any()):
                break
            loss, correct_P = step_loss(draft, step, at_P, counts_P, teacher, last_LE, recipe)
            total = total + recipe.weights[step.step] * loss
            figures.append(StepFigures(loss.item(), at_P[counts_P], correct_P[counts_P]))
    return total, figures


def step_loss(
    draft: TrainedDraft,
    step: TTTStep,
    at_P: torch.Tensor,
    counts_P: torch.Tensor,
    teacher: Teacher,
    last_LE: torch.Tensor,
    recipe: TTTRecipe,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(loss, whether each guess is right).

    All of the teacher's places are computed and the few that do not count are weighed with 0: choosing rows of `p_PN`
    would keep a copy of it for each step's backward.
    """
    output_PH = step.output_BLH[0, at_P]
    logits_PN = draft.logits(output_PH, step.step).float()
    correct_P = logits_PN.detach().argmax(dim=-1) == teacher.drafted_P
    weighed_P = counts_P & (teacher.drafted_P >= 0) if recipe.oov == "drop" else counts_P
    weight_P = weighed_P / weighed_P.sum().clamp(min=1)
    entropies_P = -(teacher.p_PN * logits_PN.log_softmax(dim=-1)).sum(dim=-1)
    loss = (entropies_P * weight_P).sum()
    if recipe.draft == "eagle1":
        distance_P = smooth_l1_loss(output_PH.float(), last_LE[teacher.places_P], reduction="none").mean(dim=-1)
        loss = EAGLE1_CROSS_ENTROPY * loss + (distance_P * counts_P).sum() / counts_P.sum()
    return loss, correct_P


def draft_device(draft: TrainedDraft) -> torch.device:
    return next(draft.parameters()).device
