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
from ...parallel.layout import Kind
from ...parallel.mesh import Mesh
from .data import Document, PackedRow
from .loss import Teacher, draft_device, ttt_steps
from .part import Part
from .recipe import TTTRecipe

SHARED_FROM = 8192  # tokens from which on a document is worth all ranks
PLACES = 1024
NO_GUESS = -1


@dataclass(frozen=True)
class Estimate:
    """Greedy chains of `k` over some documents.

    Attributes:
        steps: verify steps; `accepted` drafted tokens were accepted in them.
        survival: share of the steps that accepted at least 1, 2, ... k drafted tokens.
        marginal: share of right guesses at each depth, over all places, broken chains included; survival counts only
            the places where serving starts a chain, so the two differ at depth 1 already. It may reach deeper than k.
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


def estimate(draft: TrainedDraft, documents: Sequence[Document], *arguments: object, **options: object) -> Estimate:
    """Acceptance of greedy chains over all documents; everything else as `estimate_by_domain` takes it."""
    return estimate_by_domain(draft, documents, *arguments, **options)["all"]


@torch.no_grad()
def estimate_by_domain(
    draft: TrainedDraft,
    documents: Sequence[Document],
    source: StateSource,
    head: Linear,
    vocabulary: DraftVocabulary,
    recipe: TTTRecipe,
    k: int,
    mesh: Mesh | None = None,
    layout: Kind = "zigzag",
    *,
    shared_from: int = SHARED_FROM,
    depths: int = 0,
) -> dict[str, Estimate]:
    """Acceptance of greedy chains on greedy documents: of "all", and of each domain. ValueError for a sampled document.

    `depths` is how deep `marginal` looks, where that is more than k: a draft may be trained deeper than it is judged.

    Each document is walked once: the counts of all are the sum of the domains'.

    In full precision on a CPU; on a GPU in the recipe's, whose attention needs no score matrix. With a mesh each rank
    takes every so-manieth document, a document of `shared_from` tokens or more is shared by all, and all get the
    counts of all.
    """
    if sampled := next((document for document in documents if not document.greedy), None):
        raise ValueError(f"answer {sampled.key} was sampled; the walk is exact on greedy answers only")
    device = draft_device(draft)
    # However a draft was trained, its own branch is what a cache serves.
    recipe = replace(recipe, bf16=recipe.bf16 and device.type == "cuda", mtp_branch="own")
    domains = {domain: row for row, domain in enumerate(dict.fromkeys(one.domain for one in documents))}
    depths = max(k, depths)
    # Steps and accepted tokens; chains that reached, right guesses and guesses at each depth.
    counts = torch.zeros(len(domains), 2 + k + 2 * depths, dtype=torch.long)
    mesh = mesh or Mesh.alone()
    short = [one for one in documents if mesh.size == 1 or len(one.tokens) < shared_from]
    mine = [(one, None) for one in short[mesh.world.rank :: mesh.size]]
    for one in documents:
        if mesh.size > 1 and len(one.tokens) >= shared_from:
            mine.append((one, Part.of(PackedRow.of([one]), mesh, depth(draft, depths), layout)))
    for document, part in mine:
        correct = guesses(draft, document, source, head, vocabulary, recipe, depth(draft, depths), part)
        if part is not None and mesh.world.rank:
            continue  # the first one counts
        runs = chain_runs(correct, document.answer_tokens, k, document.stopped)
        reached = [sum(run > level for run in runs) for level in range(k)]
        beyond = [0] * (depths - len(correct))
        right, asked = [sum(hits) for hits in correct], [len(hits) for hits in correct]
        counts[domains[document.domain]] += torch.tensor(
            [len(runs), sum(runs), *reached, *right, *beyond, *asked, *beyond]
        )
    counts = mesh.world.all_reduce(counts.to(device), "held-out chains")
    of = {"all": documents} | {domain: [one for one in documents if one.domain == domain] for domain in domains}
    rows = [counts.sum(dim=0), *counts]
    return {domain: counted(len(of[domain]), row.tolist(), k) for domain, row in zip(of, rows, strict=True)}


def counted(documents: int, counts: Sequence[int], k: int) -> Estimate:
    """The estimate of one row of counts."""
    steps, accepted, *rest = counts
    reached, right, asked = rest[:k], rest[k : (k + len(rest)) // 2], rest[(k + len(rest)) // 2 :]
    survival = tuple(count / steps if steps else 0.0 for count in reached)
    marginal = tuple(hits / count if count else 0.0 for hits, count in zip(right, asked, strict=True))
    return Estimate(documents, steps, accepted, survival, marginal)


def guesses(
    draft: TrainedDraft,
    document: Document,
    source: StateSource,
    head: Linear,
    vocabulary: DraftVocabulary,
    recipe: TTTRecipe,
    steps: int,
    part: Part | None,
) -> list[list[bool]]:
    """For each depth, whether the guess at each place that counts is right; with `part` all ranks work at it."""
    row = PackedRow.of([document])
    [states] = part.states(source) if part else source.read([document.tokens])
    device = draft_device(draft)
    teacher = Teacher.of(row, states.last_TE.to(device), head, vocabulary, keep=False, part=part)
    features_1LF = states.features_TF[None].to(device, next(draft.parameters()).dtype)
    right_KL = torch.full((steps, features_1LF.shape[1]), NO_GUESS, dtype=torch.int8, device=device)
    with torch.autocast(device.type, torch.bfloat16, enabled=recipe.bf16):
        for step in ttt_steps(draft, row, features_1LF, recipe, steps, part=part):
            judged = part.judged(step.step) if part else teacher.judged(row, step.step)
            at_P, counts_P = (x.to(device) for x in judged)
            drafted_C, at_C = teacher.drafted_P[counts_P], at_P[counts_P]
            # A few places at a time: logits of a long text are gigabytes.
            for places, wanted in zip(at_C.split(PLACES), drafted_C.split(PLACES), strict=True):
                guessed = draft.logits(step.output_BLH[0, places], step.step).argmax(dim=-1)
                right_KL[step.step, places] = (guessed == wanted).to(torch.int8)
    if part:
        shards = part.mesh.world.all_gather(right_KL, "held-out guesses")
        right_KL = part.layout.join(list(shards), dim=1)
    return [[bool(one) for one in row if one != NO_GUESS] for row in right_KL.tolist()]


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
