"""From answers to training examples for a small draft: a reduced vocabulary, labels, a split, batches.

The small draft reads the whole conversation and is judged on the answer only. At each place of the answer it is told
what the target held likely there: the kept candidates where the answers have them (soft labels), the chosen token
otherwise.

A draft vocabulary of N tokens (`labsim.drafts.vocabulary`) makes the draft's head N rows instead of V.

Shapes: B rows, L tokens, T candidates, N draft vocabulary, V target vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ..drafts.vocabulary import DraftVocabulary, count_tokens, most_frequent
from .answer_store import Answer

PADDING = 0  # rows are padded on the right, where causal attention never looks back from a real token
HELD_OUT_SHARE = 0.1


def draft_vocabulary(answers: Sequence[Answer], size: int, vocab_size: int) -> DraftVocabulary:
    """The `size` tokens that the answers use most; padded with the lowest unused ids if they use fewer.

    Ties go to the lower id. ValueError for a size outside 1..vocab_size.
    """
    return most_frequent(count_tokens((answer.answer_ids for answer in answers), vocab_size), size)


def split(answers: Sequence[Answer]) -> tuple[list[Answer], list[Answer]]:
    """Training and held-out answers. All answers to a prompt fall on the same side, by a hash of its id."""
    kept: tuple[list[Answer], list[Answer]] = ([], [])
    for answer in answers:
        draw = int.from_bytes(hashlib.sha256(answer.prompt.encode()).digest()[:4], "big") / 2**32
        kept[draw < HELD_OUT_SHARE].append(answer)
    return kept


@dataclass(frozen=True)
class TrainingBatch:
    """Conversations padded to one length, and what the draft should say after each token.

    Attributes:
        tokens_BL: target ids.
        rows_P, places_P: the P places, over all rows, whose next token belongs to an answer.
        labels_PT: draft ids of the candidates there; 0 where a candidate is outside the draft vocabulary.
        weights_PT: their probabilities, 0 outside the draft vocabulary, summing to one. A place none of whose
            candidates the draft can say is left out.
    """

    tokens_BL: torch.Tensor
    rows_P: torch.Tensor
    places_P: torch.Tensor
    labels_PT: torch.Tensor
    weights_PT: torch.Tensor


def make_batch(answers: Sequence[Answer], vocabulary: DraftVocabulary) -> TrainingBatch:
    """One batch of these answers."""
    longest = max(len(a.prompt_ids) + len(a.answer_ids) for a in answers) - 1
    tokens_BL = torch.full((len(answers), longest), PADDING)
    rows, places, ids, probabilities = [], [], [], []
    for row, answer in enumerate(answers):
        text = torch.tensor([*answer.prompt_ids, *answer.answer_ids])
        tokens_BL[row, : len(text) - 1] = text[:-1]
        count = len(answer.answer_ids)
        rows.append(torch.full((count,), row))
        places.append(torch.arange(count) + len(answer.prompt_ids) - 1)
        soft = answer.top_ids_AT is not None
        ids.append(answer.top_ids_AT.long() if soft else torch.tensor(answer.answer_ids)[:, None])
        probabilities.append(answer.top_logprobs_AT.float().exp() if soft else torch.ones(count, 1))
    width = max(part.shape[1] for part in ids)
    ids_PT = torch.cat([torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in ids])
    weights_PT = torch.cat([torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in probabilities])
    labels_PT = vocabulary.draft_id_V[ids_PT]
    weights_PT = weights_PT * (labels_PT >= 0)
    mass_P = weights_PT.sum(dim=1)
    said = mass_P > 0
    weights_PT = weights_PT[said] / mass_P[said, None]
    return TrainingBatch(
        tokens_BL, torch.cat(rows)[said], torch.cat(places)[said], labels_PT[said].clamp(min=0), weights_PT
    )


def batches(answers: Sequence[Answer], tokens_per_batch: int, seed: int, epoch: int) -> list[list[Answer]]:
    """Groups of answers of similar length, in random order; the same for the same seed and epoch.

    A group holds at most `tokens_per_batch` tokens with its padding, or one answer that is longer by itself.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    # Lengths are blurred before sorting, so that an epoch does not group the same answers as the last one.
    noise = torch.rand(len(answers), generator=generator).tolist()
    lengths = [len(a.prompt_ids) + len(a.answer_ids) for a in answers]
    order = sorted(range(len(answers)), key=lambda i: lengths[i] * (0.9 + 0.2 * noise[i]))
    groups: list[list[Answer]] = []
    longest = 0
    for index in order:
        longest = max(longest, lengths[index])
        if not groups or (len(groups[-1]) + 1) * longest > tokens_per_batch:
            groups.append([])
            longest = lengths[index]
        groups[-1].append(answers[index])
    return [groups[i] for i in torch.randperm(len(groups), generator=generator).tolist()]


def endless_batches(answers: Sequence[Answer], tokens_per_batch: int, seed: int, start: int) -> Iterator[list[Answer]]:
    """The groups of epoch 0, 1, 2, ..., from step `start` on."""
    step, epoch = 0, 0
    while True:
        groups = batches(answers, tokens_per_batch, seed, epoch)
        yield from groups[max(0, start - step) :]
        step, epoch = step + len(groups), epoch + 1
