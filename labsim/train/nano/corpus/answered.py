"""Natural prose: what SmolLM2 answered to the project's own prompts (`data/answers/smollm2/greedy.jsonl`).

Grammars teach sentences, these teach English. They belong to the training side alone: the held-out prompts of
`data/prompts` are not among them. Answers that run in circles are left out, and so are tool calls, which SmolLM2 writes
badly.
"""

from __future__ import annotations

import json
from functools import cache

from ....models.paths import data_directory
from ...prompts import read_prompts
from .side import Side

# Share of a domain's conversations.
SHARE = {"chat": 0.35, "code": 0.15, "document": 0.12}
MOST_REPETITION = 0.3


def repetition(text: str, width: int = 4) -> float:
    """Share of the windows of `width` words that occurred before in the text."""
    words = text.split()
    windows = [tuple(words[i : i + width]) for i in range(len(words) - width + 1)]
    return 1 - len(set(windows)) / len(windows) if windows else 0.0


def whole_sentences(record: dict[str, str]) -> str:
    """The answer; one that met the length limit ends with its last whole sentence or line."""
    text = record["text"]
    if record["finish"] == "stop":
        return text
    return text[: max(text.rfind(". "), text.rfind("\n"), text.rfind(".\n")) + 1].rstrip() or text


@cache
def conversations(domain: str) -> tuple[tuple[dict[str, str], ...], ...]:
    """All answered prompts of a domain, each with its answer as the last message."""
    with (data_directory() / "answers" / "smollm2" / "greedy.jsonl").open(encoding="utf-8") as lines:
        answers = {record["prompt"]: whole_sentences(record) for record in map(json.loads, lines)}
    prompts = [prompt for prompt in read_prompts(data_directory() / "prompts" / "train.jsonl") if prompt.id in answers]
    return tuple(
        (*prompt.messages, {"role": "assistant", "content": answers[prompt.id]})
        for prompt in prompts
        if prompt.domain == domain and repetition(answers[prompt.id]) <= MOST_REPETITION
    )


def conversation(domain: str, side: Side, max_words: int) -> list[dict[str, str]] | None:
    """One of them, as often as the domain's share says; None for the generated kinds."""
    if side.held_out or not side.chance(SHARE.get(domain, 0)):
        return None
    chosen = side.rng.choice(conversations(domain))
    return list(chosen) if sum(len(m["content"].split()) for m in chosen) <= max_words else None
