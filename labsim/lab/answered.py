"""A target's own greedy answers as training documents, and its states kept in memory: what a small training reads.

A draft learns what *its* target says, so the text has to be the target's own. For the course's targets it comes with
the course (`data/answers`); any other target answers the prompts of `data/prompts` first.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from ..features.source import StateSource, TargetStates
from ..models.load import Target
from ..models.paths import data_directory
from ..train.answer_store import Answer, read_answers, read_settings
from ..train.answers import Question, generate_answers
from ..train.prompts import read_prompts
from ..train.small_data import split
from ..train.ttt.data import Document

Side = Literal["train", "held_out"]
SHORTEST = 4  # tokens of an answer, below which there is no chain to speak of


def answered(
    target: Target,
    counts: Mapping[str, int],
    side: Side,
    *,
    max_new_tokens: int,
    longest: int,
    seed: int = 0,
) -> list[Document]:
    """Up to `counts[domain]` greedy answers per domain, drawn by `seed`, cut to `max_new_tokens`.

    Prompts above `longest` tokens and answers below four are left out. The sides never share a prompt.
    """
    found = shipped(target, side)
    if found is None:
        asked = questions(target, counts, side, seed=seed, longest=longest)
        found = list(generate_answers(target.model, target.stop_ids, asked, max_new_tokens=max_new_tokens))
    chosen = []
    for domain, count in counts.items():
        fitting = [
            one
            for one in sorted(found, key=lambda one: one.key)
            if one.domain == domain and len(one.prompt_ids) <= longest and len(one.answer_ids) >= SHORTEST
        ]
        random.Random(f"{side}/{domain}/{seed}").shuffle(fitting)
        chosen += [document(cut(one, max_new_tokens)) for one in fitting[:count]]
    return chosen


def shipped(target: Target, side: Side) -> list[Answer] | None:
    """The answers that come with the course, of one side of the split; None for a target without."""
    folder = data_directory() / "answers" / target.name / "greedy"
    if not (folder / "settings.json").exists():
        return None
    made_with = read_settings(folder)
    if (made_with.target, made_with.vocab_size) != (target.name, target.model.config.vocab_size):
        raise ValueError(f"{folder} holds answers of {made_with.target} over {made_with.vocab_size} tokens")
    return split(read_answers(folder))[side == "held_out"]


def questions(target: Target, counts: Mapping[str, int], side: Side, *, seed: int, longest: int) -> list[Question]:
    """Rendered prompts of `data/prompts`, up to `counts[domain]` of each domain."""
    every = read_prompts(data_directory() / "prompts" / f"{side}.jsonl")
    random.Random(f"{side}/{seed}").shuffle(every)
    found = []
    for domain, count in counts.items():
        asked = [
            Question(one.id, 0, domain, tuple(target.encode_chat(one.messages)))
            for one in every
            if one.domain == domain
        ]
        found += [one for one in asked if len(one.ids) <= longest][:count]
    return found


def cut(answer: Answer, tokens: int) -> Answer:
    """The answer's first `tokens` tokens, as a decoder with that limit gives them."""
    if len(answer.answer_ids) <= tokens:
        return answer
    return replace(answer, answer_ids=answer.answer_ids[:tokens], finish="length")


def document(answer: Answer) -> Document:
    """A greedy answer as a training document."""
    return Document(
        answer.key,
        answer.domain,
        (*answer.prompt_ids, *answer.answer_ids),
        len(answer.prompt_ids),
        greedy=True,
        stopped=answer.finish == "stop",
    )


class Remembered:
    """A source of states that asks another one only once per document."""

    def __init__(self, source: StateSource) -> None:
        self.source = source
        self._known: dict[tuple[int, ...], TargetStates] = {}

    def read(self, documents: Sequence[Sequence[int]]) -> list[TargetStates]:
        """One `TargetStates` per document of token ids, in order."""
        found = []
        for tokens in map(tuple, documents):
            if tokens not in self._known:
                [self._known[tokens]] = self.source.read([tokens])
            found.append(self._known[tokens])
        return found
