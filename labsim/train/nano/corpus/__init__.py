"""What `nano` reads: four domains, each with a training and a held-out side that share no prompt and no template.

- chat: generated talk (stories, plans, sums, letters, ...) and questions about Python answered from real docstrings.
- code: the installed standard library's functions as requests (write, rename, document, ...) and as plain source.
- agent: tool calls with JSON arguments, tool output, errors, a new plan, an answer that quotes the output.
- document: long documents with facts stated early and asked for later, with word-for-word quotations.
- in chat, code and document a part is natural prose: SmolLM2's answers to the project's training prompts.

Everything follows from a seed and the Python version: the standard library is read where it is installed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from . import agent, answered, chat, code, documents, reference
from .side import Side

Message = dict[str, str]
DOMAINS = ("chat", "code", "agent", "document")
# Share of training tokens per domain.
MIX = {"chat": 0.30, "code": 0.28, "agent": 0.21, "document": 0.21}


def check_domain(domain: str) -> None:
    """ValueError for a domain that does not exist."""
    if domain not in DOMAINS:
        near = difflib.get_close_matches(domain, DOMAINS, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"unknown domain {domain!r}: {hint}(known: {', '.join(DOMAINS)})")


def conversation(domain: str, side: Side, *, max_words: int = 1100) -> list[Message]:
    """One conversation of a domain, ending with the assistant. `max_words` bounds a document's length."""
    check_domain(domain)
    if natural := answered.conversation(domain, side, max_words):
        return natural
    if domain == "chat":
        return (reference if side.chance(0.3) else chat).conversation(side)
    if domain == "document":
        return documents.conversation(side, low=min(60, max_words), high=max_words)
    return {"code": code, "agent": agent}[domain].conversation(side)


def texts(domain: str, side: Side, *, max_words: int = 1100) -> Iterator[list[Message] | str]:
    """An endless stream of conversations; in the code domain every fifth text is plain source instead."""
    check_domain(domain)
    while True:
        yield (
            code.source_text(side)
            if domain == "code" and side.chance(0.2)
            else conversation(domain, side, max_words=max_words)
        )


def _prompts(domain: str, count: int, held_out: bool, seed: int) -> list[list[Message]]:
    if count < 0:
        raise ValueError(f"count = {count} is negative (give 0 or more)")
    check_domain(domain)
    side = Side(held_out, f"prompts/{domain}/{seed}")
    prompts: dict[str, list[Message]] = {}
    while len(prompts) < count:
        messages = conversation(domain, side, max_words=700)
        ends = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
        prompt = messages[: side.rng.choice(ends)]
        prompts.setdefault(repr(prompt), prompt)
    return list(prompts.values())


def training_prompts(domain: str, count: int, seed: int) -> list[list[Message]]:
    """Different chat prompts of the training side, ending with a user or tool turn. ValueError for a bad domain."""
    return _prompts(domain, count, False, seed)


def held_out_prompts(domain: str, count: int, seed: int) -> list[list[Message]]:
    """Different chat prompts of the held-out side, ending with a user or tool turn. ValueError for a bad domain."""
    return _prompts(domain, count, True, seed)
