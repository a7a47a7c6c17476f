"""What a draft may meet in service that its training never showed: templates, system messages, long contexts.

The draft changes nothing in a text, so the target answers anew in each situation, greedily, and the draft is judged
along those answers: what is compared is how well it guesses *this* target *there*. The same questions are asked in all
situations of a group, so that situations differ in nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..models.load import Target
from ..models.paths import data_directory
from ..train.answers import Question, generate_answers
from ..train.evaluate import lengthened
from ..train.probes.rendering import NONE, OWN, Rendering, template_called
from ..train.prompts import Prompt, read_prompts, read_system_prompts
from ..train.ttt.data import Document
from .answered import SHORTEST, document

GROUPS = ("template", "system message", "context")


@dataclass(frozen=True)
class Situation:
    """One way of asking.

    Attributes:
        name: as a legend says it; unique.
        group: one of GROUPS.
        template, bos: as in `Rendering`, the template by its name.
        systems: system messages, taken in turn; empty for the conversation's own.
        context: tokens up to which a prompt is filled with background text; None for its own length.
    """

    name: str
    group: str
    template: str = OWN
    bos: bool = True
    systems: tuple[str, ...] = ()
    context: int | None = None


# The paper's four corners first.
CORNERS = (
    Situation("own template", "template"),
    Situation("own, no BoS", "template", bos=False),
    Situation("no template", "template", NONE),
    Situation("neither", "template", NONE, bos=False),
)


def situations(target: Target, contexts: Sequence[int], others: Sequence[str]) -> tuple[Situation, ...]:
    """The four corners, templates that the draft never saw, system messages seen and unseen, and context lengths."""
    messages = read_system_prompts(data_directory() / "prompts" / "system_prompts.json")
    for name in others:
        template_called(name, target)
    return (
        *CORNERS,
        *(Situation(f"template {name}", "template", name) for name in others),
        Situation("system messages seen", "system message", systems=messages.train),
        Situation("system messages unseen", "system message", systems=messages.unseen),
        *(Situation(f"{tokens} tokens", "context", context=tokens) for tokens in contexts),
    )


def held_out(counts: Mapping[str, int], seed: int) -> list[Prompt]:
    """`counts[domain]` held-out prompts of each domain, drawn by `seed`."""
    every = read_prompts(data_directory() / "prompts" / "held_out.jsonl")
    found = []
    for domain, count in counts.items():
        ours = [prompt for prompt in every if prompt.domain == domain]
        found += random.Random(f"situations/{domain}/{seed}").sample(ours, min(count, len(ours)))
    return found


def answered_in(
    target: Target, situation: Situation, prompts: Sequence[Prompt], *, max_new_tokens: int, seed: int
) -> list[Document]:
    """The target's greedy answers there, as documents, in the order of the prompts.

    Answers below four tokens and prompts too long for the context are left out. ValueError when nothing is left.
    """
    asked, template = [], template_called(situation.template, target)
    room = target.model.config.max_positions - max_new_tokens
    for turn, prompt in enumerate(prompts):
        system = situation.systems[turn % len(situation.systems)] if situation.systems else None
        rendering = Rendering(template=template, bos=situation.bos, system=system)
        if situation.context is None:
            ids = rendering(target, prompt.messages)
        elif len(rendering(target, prompt.messages)) > situation.context:
            continue
        else:
            ids = lengthened(target, prompt, situation.context, random.Random(f"{prompt.id}/{seed}"), rendering)
        if len(ids) <= room:
            asked.append(Question(prompt.id, 0, prompt.domain, tuple(ids)))
    answers = generate_answers(target.model, target.stop_ids, asked, max_new_tokens=max_new_tokens)
    place = {question.prompt: turn for turn, question in enumerate(asked)}
    found = [document(one) for one in answers if len(one.answer_ids) >= SHORTEST]
    if not found:
        raise ValueError(
            f"{situation.name}: {target.name} gives no answer of {SHORTEST} tokens to {len(asked)} prompts"
        )
    return sorted(found, key=lambda one: place[one.key[0]])
