"""How long would greedy chains be, without decoding them.

Along a greedy answer a draft that has guessed right so far has read exactly the answer's own tokens. So one TTT forward
over the finished answer shows every guess that decoding would have seen, from every place, and walking over the answer
gives the acceptance length itself and not an estimate of it:

    at the place before the next token, accept the run of right guesses, at most k; the target adds one token; go on

The walk counts as serving does: chains start where the last one ended, a token outside the draft vocabulary breaks a
chain, and the acceptance length is 1 + accepted / steps.

Shapes: P places of the teacher, C of them that count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ...drafts.eagle_checkpoint import TrainedDraft
from ...drafts.vocabulary import DraftVocabulary
from ...features.source import StateSource
from ...models.linear import Linear
from ...parallel.group import Group
from .data import Document, PackedRow
from .loss import Teacher, draft_device, ttt_steps
from .recipe import TTTRecipe


@dataclass(frozen=True)
class Estimate:
    """Greedy chains of `k` over some documents.

    Attributes:
        steps: verify steps; `accepted` drafted tokens were accepted in them.
        survival: share of the steps that accepted at least 1, 2, ... k drafted tokens.
        marginal: share of right guesses at each depth, over all places, broken chains included; survival counts only
            the places where serving starts a chain, so the two differ at depth 1 already.
    """

    documents: int
    steps: int
    accepted: int
    survival: tuple[float, ...]
    marginal: tuple[float, ...]

    @property
    def acceptance_length(self) -> float:
        return 1 + self.accepted / self.steps if self.steps else 1.0

    @property
    def conditional(self) -> tuple[float, ...]:
        """Share of the chains alive at each depth that survive it; 0 where none is alive."""
        before = (1.0, *self.survival[:-1])
        return tuple(now / then if then else 0.0 for now, then in zip(self.survival, before, strict=True))


@torch.no_grad()
def estimate(
    draft: TrainedDraft,
    documents: Sequence[Document],
    source: StateSource,
    head: Linear,
    vocabulary: DraftVocabulary,
    recipe: TTTRecipe,
    k: int,
    world: Group | None = None,
) -> Estimate:
    """Acceptance of greedy chains on greedy documents, in full precision. ValueError for a sampled document.

    With `world` each rank takes every so-manieth document, and all get the counts of all.
    """
    if sampled := next((document for document in documents if not document.greedy), None):
        raise ValueError(f"answer {sampled.key} was sampled; the walk is exact on greedy answers only")
    # However a draft was trained, its own branch is what a cache serves.
    recipe = replace(recipe, bf16=False, mtp_branch="own")
    steps = accepted = 0
    reached, right, asked = [0] * k, [0] * k, [0] * k
    device = draft_device(draft)
    for document in documents[world.rank :: world.size] if world else documents:
        row = PackedRow.of([document])
        [states] = source.read([document.tokens])
        teacher = Teacher.of(row, states.last_TE.to(device), head, vocabulary)
        features_1LF = states.features_TF[None].to(device, next(draft.parameters()).dtype)
        correct = []
        for step in ttt_steps(draft, row, features_1LF, recipe, depth(draft, k)):
            at_P, counts_P = teacher.judged(row, step.step)
            guessed_C = draft.logits(step.output_BLH[0, at_P[counts_P]], step.step).argmax(dim=-1)
            hits = (guessed_C == teacher.drafted_P[counts_P]).tolist()
            correct.append(hits)
            right[step.step] += sum(hits)
            asked[step.step] += len(hits)
        for run in chain_runs(correct, document.answer_tokens, k, document.stopped):
            steps += 1
            accepted += run
            for level in range(run):
                reached[level] += 1
    if world:
        counts = torch.tensor([steps, accepted, *reached, *right, *asked], device=device)
        steps, accepted, *rest = world.all_reduce(counts, "held-out chains").tolist()
        reached, right, asked = rest[:k], rest[k : 2 * k], rest[2 * k :]
    survival = tuple(count / steps if steps else 0.0 for count in reached)
    marginal = tuple(hits / count if count else 0.0 for hits, count in zip(right, asked, strict=True))
    return Estimate(len(documents), steps, accepted, survival, marginal)


def depth(draft: TrainedDraft, k: int) -> int:
    """Parallel heads reach no further than there are heads."""
    return min(k, getattr(draft.config, "num_heads", k)) if draft.config.kind == "heads" else k


def chain_runs(correct: Sequence[Sequence[bool]], answer_tokens: int, k: int, stopped: bool) -> list[int]:
    """Accepted drafted tokens of each verify step of an answer.

    `correct[j][i]` is the guess at depth j + 1 of the chain that starts behind the answer's token i. The first token
    comes from the prompt's own forward. A drafted stop token ends the answer; otherwise its last token is the target's
    own, since a decoder drafts no further than it may go.

    >>> chain_runs([[True, True, False], [True, False], [True]], answer_tokens=4, k=3, stopped=True)
    [3]
    >>> chain_runs([[True, True, False], [True, False], [True]], answer_tokens=4, k=3, stopped=False)
    [2]
    >>> chain_runs([[True, False, True], [False, False], [True]], answer_tokens=4, k=3, stopped=True)
    [1, 1]
    """
    runs, at = [], 0
    while (left := answer_tokens - 1 - at) > 0:
        room = min(k, len(correct), left if stopped else left - 1)
        run = 0
        while run < room and correct[run][at]:
            run += 1
        runs.append(run)
        at += run + 1
    return runs
