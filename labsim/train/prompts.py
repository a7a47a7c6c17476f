"""Prompt sets: what a target is asked, so that its own answers become a draft's training data.

A draft has to guess what *this* target says next, not what a good text says. So its data are the target's answers, and
only the questions are written by hand. A prompt set is a JSONL file, one conversation per line, ending where the target
has to answer:

    {"id": "chat-0001", "domain": "chat", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}

Agent prompts end with a tool's result or with a user, and list the `tools` (JSON schemas) that their system message
shows. The split is the file's name: `train.jsonl`, `held_out.jsonl`, `bench_chat.jsonl`. `data/prompts/README.md` says
which set is for what; `system_prompts.json` holds instructions that training sees (`train`) and never sees (`unseen`).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOMAINS = ("chat", "code", "agent", "document")
ROLES = ("system", "user", "assistant", "tool")
KEYS = {"id", "domain", "messages", "tools"}


@dataclass(frozen=True)
class Prompt:
    """A conversation that waits for the assistant's next turn.

    Attributes:
        id: unique within its file.
        domain: one of DOMAINS.
        split: the file's name without its ending.
        messages: `{"role", "content"}` each, as chat templates take them; the last is the user's or a tool's.
        tools: JSON schemas of the tools that the assistant may call; empty outside agent prompts.
    """

    id: str
    domain: str
    split: str
    messages: tuple[dict[str, str], ...]
    tools: tuple[dict[str, object], ...] = ()


@dataclass(frozen=True)
class SystemPrompts:
    """System messages that training uses and others that it never sees."""

    train: tuple[str, ...]
    unseen: tuple[str, ...]


def read_prompts(path: str | Path) -> list[Prompt]:
    """The prompts of a JSONL file, in its order.

    ValueError naming file and line for a line that is no prompt, or whose id or conversation an earlier line has;
    FileNotFoundError if there is no such file.
    """
    path = Path(path)
    prompts: list[Prompt] = []
    first_line: dict[str, int] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        prompt = parse_prompt(line, path.stem, where)
        for key in (prompt.id, json.dumps(prompt.messages)):
            if key in first_line:
                what = f"id {prompt.id!r}" if key == prompt.id else f"conversation of {prompt.id!r}"
                raise ValueError(f"{where}: {what} is already on line {first_line[key]}; each may occur once")
            first_line[key] = number
        prompts.append(prompt)
    if not prompts:
        raise ValueError(f"{path}: no prompts; expected one JSON object per line")
    return prompts


def parse_prompt(line: str, split: str, where: str) -> Prompt:
    """One line of a prompt file. `where` (file:line) begins the ValueError of a line that is no prompt."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON ({error.msg} at column {error.colno})") from None
    if not isinstance(record, dict):
        raise ValueError(f"{where}: a {type(record).__name__}; expected an object with id, domain and messages")
    for complaint in complaints(record):
        raise ValueError(f"{where}: {complaint}")
    messages = tuple({"role": message["role"], "content": message["content"]} for message in record["messages"])
    return Prompt(record["id"], record["domain"], split, messages, tuple(record.get("tools", ())))


def complaints(record: dict[str, object]) -> Iterator[str]:
    """What keeps a JSON object from being a prompt; nothing if it is one."""
    for key in record.keys() - KEYS:
        yield f"key {key!r} is unknown; {_nearest(key, KEYS)}"
    for key in ("id", "domain", "messages"):
        if key not in record:
            yield f"{key} is missing"
            return
    if not isinstance(record["id"], str) or not record["id"]:
        yield f"id is {record['id']!r}; expected a non-empty string"
    if record["domain"] not in DOMAINS:
        yield f"domain is {record['domain']!r}; {_nearest(record['domain'], DOMAINS)}"
    tools = record.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        yield f"tools is {tools!r}; expected a list of JSON schemas"
    messages = record["messages"]
    if not isinstance(messages, list) or not messages:
        yield f"messages is {messages!r}; expected a non-empty list"
        return
    for index, message in enumerate(messages):
        yield from _message_complaints(f"messages[{index}]", message, index)
    last = messages[-1]["role"]
    if last not in ("user", "tool"):
        yield f"the last message is from {last!r}; the assistant answers a 'user' or a 'tool'"


def read_system_prompts(path: str | Path) -> SystemPrompts:
    """`system_prompts.json`: two lists of strings, `train` and `unseen`. ValueError if it is anything else."""
    try:
        lists = json.loads(Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}: not JSON ({error.msg} at column {error.colno})") from None
    if not isinstance(lists, dict) or lists.keys() != {"train", "unseen"}:
        raise ValueError(f"{path}: expected an object with the lists 'train' and 'unseen'")
    for name, texts in lists.items():
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
            raise ValueError(f"{path}: {name} is not a list of non-empty strings")
    return SystemPrompts(tuple(lists["train"]), tuple(lists["unseen"]))


def _message_complaints(name: str, message: object, index: int) -> Iterator[str]:
    if not isinstance(message, dict) or message.keys() != {"role", "content"}:
        yield f"{name} is {message!r}; expected an object with role and content"
        return
    if message["role"] not in ROLES:
        yield f"{name} has the role {message['role']!r}; {_nearest(message['role'], ROLES)}"
    if message["role"] == "system" and index > 0:
        yield f"{name} has the role 'system'; only the first message may"
    if not isinstance(message["content"], str) or not message["content"].strip():
        yield f"{name} has the content {message['content']!r}; expected a non-empty string"


def _nearest(name: object, known: set[str] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(str(name).lower(), sorted(known), n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}known: {', '.join(sorted(known))}"
