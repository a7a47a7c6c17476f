"""The texts that a draft is trained on within a notebook: answers of the target itself.

The course ships answers of its targets, but a target may have been trained anew since, and then those are another
model's words. On a greedy answer every token is the target's first choice, which one forward shows; where it is not
so, or nothing is shipped, the page asks the target itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ..features.source import Online
from ..models.load import Target
from ..models.paths import data_directory
from ..train.answer_store import Answer
from ..train.answers import Question, generate_answers
from ..train.nano.corpus import DOMAINS, training_prompts
from ..train.prompts import read_prompts
from ..train.small_data import split
from ..train.ttt.data import Document, documents
from ..train.ttt.run import find, read_data, spread

CHECKED = 6  # answers of each side that are compared with the target
OWN_SHARE = 0.97  # batched and single forwards may differ at ties
CHOOSING = 10  # held-out documents that choose a checkpoint; the others only measure


@dataclass(frozen=True)
class PageData:
    """Documents by what they are for.

    Attributes:
        training: what drafts learn from.
        choosing: held out; they choose between checkpoints of one training.
        measuring: held out; every figure comes from these.
    """

    training: tuple[Document, ...]
    choosing: tuple[Document, ...]
    measuring: tuple[Document, ...]

    @property
    def answer_tokens(self) -> int:
        return sum(document.answer_tokens for document in self.training)


def open_data(
    target: Target, *, training: int, measuring: int, seq: int, longest_prompt: int, measured_tokens: int, seed: int = 0
) -> PageData:
    """Documents of at most `seq` tokens with short prompts, so that most of a row trains.

    Held-out answers are cut to `measured_tokens`: what is decoded on a page should end soon.

    ValueError when there are too few held-out documents to choose and to measure by.
    """
    ours, theirs = shipped(target, seq)
    if not ours:
        ours, theirs = asked(target, training + CHOOSING + measuring, seq, measured_tokens, seed)
    ours = [one for one in ours if one.answer_start <= longest_prompt]
    theirs = [cut(one, measured_tokens) for one in theirs if one.answer_start <= 2 * longest_prompt]
    theirs = spread(theirs, CHOOSING + measuring)
    if len(theirs) <= CHOOSING or not ours:
        raise ValueError(f"{len(ours)} training and {len(theirs)} held-out answers; more than {CHOOSING} are needed")
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(ours), generator=generator).tolist()[:training]
    return PageData(tuple(ours[i] for i in order), tuple(theirs[:CHOOSING]), tuple(theirs[CHOOSING:]))


def cut(document: Document, answer_tokens: int) -> Document:
    """The document up to so many tokens of its answer."""
    if document.answer_tokens <= answer_tokens:
        return document
    return replace(document, tokens=document.tokens[: document.answer_start + answer_tokens], stopped=False)


def shipped(target: Target, seq: int) -> tuple[list[Document], list[Document]]:
    """Training and held-out documents of the course's own greedy answers; none where they are not this target's."""
    if not (data_directory() / "answers" / target.name).is_dir():
        print(f"The course ships no answers of {target.name}: they are generated here.")
        return [], []
    # Whatever their template: what decides is whether the tokens are this target's choices.
    data = read_data(find("shipped", target.name), target, seq, any_template=True)
    sides = [[one for one in side if one.greedy] for side in (data.training, data.held_out)]
    share = min(own_share(target, side[:CHECKED]) for side in sides)
    if share < OWN_SHARE:
        print(f"The shipped answers are another {target.name}'s ({share:.0%} of the tokens): new ones are generated.")
        return [], []
    return sides[0], sides[1]


def own_share(target: Target, documents: Sequence[Document]) -> float:
    """Share of answer tokens that are the target's first choice; 0 without documents."""
    last = Online(target.model, (target.model.config.num_layers,))
    right = asked = 0
    for document in documents:
        [states] = last.read([document.tokens])
        first = document.answer_start
        choices = target.model.head(states.last_TE[first - 1 : -1].to(target.model.head.dtype)).argmax(dim=-1)
        right += int((choices.cpu() == torch.tensor(document.tokens[first:])).sum())
        asked += document.answer_tokens
    return right / asked if asked else 0.0


def asked(target: Target, count: int, seq: int, new_tokens: int, seed: int) -> tuple[list[Document], list[Document]]:
    """Greedy answers of the target to `count` training-side prompts, split by prompt; a tenth or more is held out."""
    if target.name == "nano":
        share = -(-count // 2)
        conversations = [
            (f"{domain}-{i}", domain, messages)
            for domain in ("chat", "code")
            for i, messages in enumerate(training_prompts(domain, share, seed + 11))
        ]
    else:
        prompts = read_prompts(data_directory() / "prompts" / "train.jsonl")
        conversations = [(one.id, one.domain, list(one.messages)) for one in prompts if one.domain in DOMAINS]
    questions = []
    for name, domain, messages in conversations:
        ids = tuple(target.encode_chat(messages))
        if len(ids) <= seq - new_tokens // 2:
            questions.append(Question(name, 0, domain, ids))
    answers = list(
        generate_answers(
            target.model, target.stop_ids, questions[:count], max_new_tokens=new_tokens, batch_size=48, seed=seed
        )
    )
    answers.sort(key=lambda answer: answer.key)  # they finish in no particular order
    ours, theirs = split(answers)
    wanted = len(answers) // 5
    theirs, ours = theirs + ours[: max(0, wanted - len(theirs))], ours[max(0, wanted - len(theirs)) :]
    return documents(ours, seq, greedy=True), documents(theirs, seq, greedy=True)


def as_answers(documents: Sequence[Document]) -> list[Answer]:
    """The same texts in the form in which a small draft's trainer takes them."""
    return [
        Answer(
            *one.key,
            one.domain,
            one.tokens[: one.answer_start],
            one.tokens[one.answer_start :],
            "stop" if one.stopped else "length",
        )
        for one in documents
    ]
