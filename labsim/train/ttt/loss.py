"""The loss of training-time test: at every depth, the target's own distribution as the label.

    loss = sum_k w_k mean_(t) [ - sum_v p_(t+1+k)(v) log q_k,t(v) ]

p is the target's distribution after the token that step k reads, renormalised over the draft vocabulary; q_k,t the
draft's guess in step k of the chain that starts at t. Means run over the places that count (`data.places`), not over
all positions: a mean over B*T would make the step size depend on how long the prompts are.

EAGLE-1 is trained as its authors do: its output is pulled towards the target's next last state (SmoothL1, weight 1) and
the cross-entropy weighs 0.1.

At long rows the logits are most of a step's memory: p once and q of every step, places times N. With
`recipe.logit_chunk` they exist for that many places at a time: backward computes a chunk's q again, and p is made of
the target's last states each time. Loss and gradients are the same but for the order of sums.

Shapes: P places of the teacher, C of them that count, N draft vocabulary, V target vocabulary, L positions of the row,
E the target's hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn.functional import smooth_l1_loss
from torch.utils.checkpoint import checkpoint

from ...attention.lse import at_least_float32
from ...attention.ttt import ttt_attention
from ...drafts.eagle_checkpoint import TrainedDraft
from ...drafts.heads import ParallelHeads
from ...drafts.recurrent import BranchAttention, TTTStep
from ...drafts.vocabulary import DraftVocabulary
from ...features.source import TargetStates
from ...models.linear import Linear
from .data import PackedRow
from .part import Part
from .recipe import TTTRecipe

EAGLE1_CROSS_ENTROPY = 0.1
TEACHER_CHUNK = 256


@dataclass(frozen=True)
class Teacher:
    """What the target says after each answer token of a row.

    Attributes:
        places_P: the positions, ascending, as rows of the states that it was made of.
        p_PN: probabilities over the draft vocabulary, summing to one; None where they are made when needed.
        choice_P: the target's first choice, a target id. `drafted_P` is its draft id, -1 outside the draft vocabulary.
        make: `p_PN` of some positions, made anew.
    """

    places_P: torch.Tensor
    p_PN: torch.Tensor | None
    choice_P: torch.Tensor
    drafted_P: torch.Tensor
    make: Callable[[torch.Tensor], torch.Tensor]

    @classmethod
    def of(
        cls,
        row: PackedRow,
        last_LE: torch.Tensor,
        head: Linear,
        vocabulary: DraftVocabulary,
        *,
        keep: bool = True,
        part: Part | None = None,
    ) -> Teacher:
        """From the target's last states. The full distribution exists for a few positions at a time only.

        Args:
            last_LE: of the whole row; with `part`, of `part.teacher_positions` only.
            keep: False for a recipe with `logit_chunk`, which asks `make` for a chunk at a time.
        """
        places = row.teacher_places() if part is None else torch.arange(len(last_LE))
        places = places.to(last_LE.device)
        say = partial(target_says, last_LE, head, vocabulary.ids_N.to(last_LE.device))
        p_PN, choice_P = say(places, keep=keep)
        return cls(places, p_PN, choice_P, vocabulary.draft_id_V.to(choice_P.device)[choice_P], lambda at: say(at)[0])

    def judged(self, row: PackedRow, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(where the guess about what follows each of the places was made in TTT step `step`, whether it counts)."""
        at_P = self.places_P - 1 - step
        counts_P = torch.isin(at_P, row.places(step).to(at_P.device))
        return at_P.clamp(min=0), counts_P


@torch.no_grad()
def target_says(
    last_LE: torch.Tensor, head: Linear, ids_N: torch.Tensor, places_P: torch.Tensor, *, keep: bool = True
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """(p_PN, or None without `keep`; the first choice among all V) at some positions, few of them at a time."""
    kept, choices = [], []
    for part in places_P.split(TEACHER_CHUNK):
        logits_PV = at_least_float32(head(last_LE[part].to(head.dtype)))
        choices.append(logits_PV.argmax(dim=-1))
        if keep:
            kept.append(logits_PV[:, ids_N].softmax(dim=-1))
    return torch.cat(kept) if keep else None, torch.cat(choices)


@dataclass(frozen=True)
class StepFigures:
    """One TTT step over a row: mean loss in nats, and for each place that counts whether the guess was right.

    `places_C` are where the guesses were made, ascending; right is what the target's first choice is.
    """

    loss: float
    places_C: torch.Tensor
    correct_C: torch.Tensor


def ttt_steps(
    draft: TrainedDraft,
    row: PackedRow,
    features_1LF: torch.Tensor,
    recipe: TTTRecipe,
    steps: int,
    attention: BranchAttention | None = None,
    part: Part | None = None,
) -> Iterator[TTTStep]:
    """The draft's own unrolling, with attention inside each document, or another implementation of it."""
    if part is not None:
        attention = part.attention
    if isinstance(draft, ParallelHeads):
        return draft.ttt_forward(row.tokens_1L.to(features_1LF.device), features_1LF, steps)
    return draft.ttt_forward(
        row.tokens_1L.to(features_1LF.device),
        features_1LF,
        steps,
        branch=recipe.mtp_branch if recipe.draft == "mtp" else "own",
        attention=attention or partial(ttt_attention, documents=row.lengths),
        checkpointing=recipe.checkpointing,
        view=part,
    )


def row_loss(
    draft: TrainedDraft,
    row: PackedRow,
    states: Sequence[TargetStates],
    teacher: Teacher,
    recipe: TTTRecipe,
    attention: BranchAttention | None = None,
    part: Part | None = None,
) -> tuple[torch.Tensor, list[StepFigures]]:
    """Weighted loss of a row, and the figures of each step. Steps for which the row is too short are left out.

    With `part`, this rank's share of it: shares, and their gradients, add up over the ranks.
    """
    device, dtype = draft_device(draft), next(draft.parameters()).dtype
    features_1LF = torch.cat([one.features_TF for one in states])[None].to(device, dtype)
    last_LE = torch.cat([one.last_TE for one in states]).to(device, dtype)
    total, figures = torch.zeros((), device=device, dtype=dtype), []
    over_ranks = part.total if part else lambda count: count
    with torch.autocast(device.type, torch.bfloat16, enabled=recipe.bf16):
        for step in ttt_steps(draft, row, features_1LF, recipe, recipe.ttt, attention, part):
            at_P, counts_P = part.judged(step.step) if part else teacher.judged(row, step.step)
            at_P, counts_P = at_P.to(device), counts_P.to(device)
            # A rank without a guess of its own goes on as long as another has one: its keys are needed.
            if not bool(over_ranks(counts_P.sum())):
                break
            loss, correct_P = step_loss(draft, step, at_P, counts_P, teacher, last_LE, recipe, over_ranks)
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
    over_ranks: Callable[[torch.Tensor], torch.Tensor] = lambda count: count,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(loss, whether each guess is right). `over_ranks` adds up a count of guesses.

    All of the teacher's places are computed and the few that do not count are weighed with 0: choosing rows of `p_PN`
    would keep a copy of it for each step's backward.
    """
    output_PH = step.output_BLH[0, at_P]
    if recipe.logit_chunk:
        judge = partial(checkpoint, chunk_entropy, draft, step.step, use_reentrant=False, preserve_rng_state=False)
        # split, not slices: their backward would fill a whole (P, H) for every chunk.
        chunks = zip(*(x.split(recipe.logit_chunk) for x in (output_PH, teacher.places_P)), strict=True)
        found = [judge(output_CH, teacher.make, places_C) for output_CH, places_C in chunks]
        entropies_P, guess_P = (torch.cat(part) for part in zip(*found, strict=True))
    else:
        entropies_P, guess_P = entropy(draft, step.step, output_PH, teacher.p_PN)
    correct_P = guess_P == teacher.drafted_P
    weighed_P = counts_P & (teacher.drafted_P >= 0) if recipe.oov == "drop" else counts_P
    weight_P = weighed_P.to(entropies_P) / over_ranks(weighed_P.sum()).clamp(min=1)
    loss = (entropies_P * weight_P).sum()
    if recipe.draft == "eagle1":
        distance_P = smooth_l1_loss(at_least_float32(output_PH), last_LE[teacher.places_P], reduction="none").mean(
            dim=-1
        )
        loss = EAGLE1_CROSS_ENTROPY * loss + (distance_P * counts_P).sum() / over_ranks(counts_P.sum())
    return loss, correct_P


def entropy(
    draft: TrainedDraft, step: int, output_PH: torch.Tensor, p_PN: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(cross-entropy in nats, the draft's first choice as a draft id) at each place."""
    logits_PN = at_least_float32(draft.logits(output_PH, step))
    guess_P = logits_PN.detach().argmax(dim=-1)
    return -(p_PN * logits_PN.log_softmax(dim=-1)).sum(dim=-1), guess_P


def chunk_entropy(
    draft: TrainedDraft,
    step: int,
    output_PH: torch.Tensor,
    make: Callable[[torch.Tensor], torch.Tensor],
    places_P: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`entropy` of a few places, whose p is made of the target's states in here and dies with them."""
    kind = output_PH.device.type
    # Without autocast's cache, every chunk casts the head anew, and the chunks' gradients add up in the head's own
    # precision: hundreds of sums in bfloat16 would lose them.
    with torch.autocast(
        kind, torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind), cache_enabled=False
    ):
        return entropy(draft, step, output_PH, make(places_P))


def draft_device(draft: TrainedDraft) -> torch.device:
    return next(draft.parameters()).device
