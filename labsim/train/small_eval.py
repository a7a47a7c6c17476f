"""How good is a small draft, without decoding: agreement with the target, and the acceptance that follows from it.

Along a greedy answer, a draft that has guessed right so far has read exactly the answer's own tokens. So one forward
over the finished answer ("teacher-forced") shows every guess that greedy decoding would have seen, and walking over
the agreed and disagreed places gives the acceptance length of a chain of K drafted tokens, not an estimate of it:

    step: accept the run of agreed places, at most K; the target adds one token; go on behind it.

What the target would say is its own first choice: the answer's token in a greedy answer, the likeliest kept candidate
in a sampled one (whose acceptance is not computed: a draft is fed the sampled text there).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .answer_store import Answer
from .small import SmallDraft
from .small_data import DraftVocabulary, make_batch


@dataclass(frozen=True)
class Agreement:
    """Per domain and over all: share of places where draft and target agree, and tokens per step of a greedy chain.

    Attributes:
        agreement: agreed places / places.
        coverage: places whose target token is in the draft vocabulary / places; the ceiling of `agreement`.
        acceptance_length: 1 + accepted drafts per step, chains of `k` (with the target's own token).
    """

    places: int
    agreement: float
    coverage: float
    acceptance_length: float
    k: int


def agreed_places(
    draft: SmallDraft, vocabulary: DraftVocabulary, answers: Sequence[Answer], rows: int = 8
) -> list[list[bool]]:
    """For each answer, place by place, whether the draft's first choice is the target's."""
    everything = []
    for start in range(0, len(answers), rows):
        group = answers[start : start + rows]
        tokens_BL = make_batch(group, vocabulary).tokens_BL
        with torch.no_grad():
            states_BLE = draft(tokens_BL)
            for row, answer in enumerate(group):
                first = len(answer.prompt_ids) - 1
                states_AE = states_BLE[row, first : first + len(answer.answer_ids)]
                guessed_A = vocabulary.ids_N[draft.lm_head(states_AE).argmax(dim=-1)]
                everything.append((guessed_A == first_choices(answer)).tolist())
    return everything


def first_choices(answer: Answer) -> torch.Tensor:
    """What greedy decoding would say at each place of the answer."""
    if answer.top_ids_AT is not None:
        return answer.top_ids_AT[:, 0].long()
    return torch.tensor(answer.answer_ids)


def evaluate(
    draft: SmallDraft, vocabulary: DraftVocabulary, answers: Sequence[Answer], k: int = 4
) -> dict[str, Agreement]:
    """Agreement by domain and under "all". ValueError when there is nothing to judge by."""
    if not answers:
        raise ValueError("no held-out answers: a few dozen prompts are needed before one falls into the held-out tenth")
    agreed = agreed_places(draft, vocabulary, answers)
    covered = [vocabulary.t2d[first_choices(answer)].tolist() for answer in answers]
    domains = {"all": range(len(answers))} | {
        domain: [i for i, answer in enumerate(answers) if answer.domain == domain]
        for domain in sorted({answer.domain for answer in answers})
    }
    report = {}
    for domain, chosen in domains.items():
        places = sum(len(agreed[i]) for i in chosen)
        # An answer's first token comes from the prompt's own forward; only the others take steps.
        stepped = [agreed[i][1:] for i in chosen if len(agreed[i]) > 1]
        steps = sum(chain_steps(row, k) for row in stepped)
        report[domain] = Agreement(
            places,
            sum(sum(agreed[i]) for i in chosen) / places,
            sum(sum(covered[i]) for i in chosen) / places,
            sum(map(len, stepped)) / steps if steps else 1.0,
            k,
        )
    return report


def chain_steps(agreed: Sequence[bool], k: int) -> int:
    """Verify passes that greedy decoding of this answer takes with chains of `k` drafted tokens.

    >>> chain_steps([True, True, False, True], k=4)
    2
    """
    place, steps = 0, 0
    while place < len(agreed):
        run = 0
        while run < k and place + run < len(agreed) and agreed[place + run]:
            run += 1
        place += run + 1
        steps += 1
    return steps
