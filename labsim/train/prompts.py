"""Prompt sets: what a target is asked, so that its own answers become a draft's training data.

A draft has to guess what *this* target says next, not what a good text says. So its data are the target's answers, and
only the questions are written by hand. A prompt set is a JSONL file, one conversation per line, ending where the target
has to answer:

    {"id": "chat-0001", "domain": "chat", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}

Agent prompts end with a tool's result or with a user, and list the `tools` (JSON schemas) that their system message
shows. The split is the file's name: `train.jsonl`, `held_out.jsonl`, `bench_chat.jsonl`. `data/prompts/README.md` says
which set is for what; `system_prompts.json` holds instructions that training sees (`train`) and never sees (`unseen`).

One user turn may stand as `"prompt": "Why is the sky blue?"` in place of `messages`. For answering alone
(`labsim generate`) id and domain may be missing, a line may be a JSON string, and a file that is not called .jsonl
holds one user turn per line.

Lines end with \n or \r\n and with nothing else: form feeds and Unicode's own line separators are text.
"""

from __future__ import annotations

import codecs
import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..models.config import read_json
from ..models.fields import short

DOMAINS = ("chat", "code", "agent", "document")
ROLES = ("system", "user", "assistant", "tool")
KEYS = {"id", "domain", "messages", "prompt", "tools"}


@dataclass(frozen=True)
class Prompt:
    """A conversation that waits for the assistant's next turn.

    Attributes:
        id: unique within its file; empty where a file for answering alone gives none, and so is the domain.
        domain: one of DOMAINS.
        split: the file's name without its ending.
        messages: `{"role", "content"}` each, as chat templates take them; the last is the user's or a tool's.
        tools: JSON schemas of the tools that the assistant may call; empty outside agent prompts.
        text: the prompt, where it is one user turn given as plain text; None for a conversation.
        line: in its file, counted from 1.
    """

    id: str
    domain: str
    split: str
    messages: tuple[dict[str, str], ...]
    tools: tuple[dict[str, object], ...] = ()
    text: str | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class SystemPrompts:
    """System messages that training uses and others that it never sees."""

    train: tuple[str, ...]
    unseen: tuple[str, ...]


def read_prompts(path: str | Path, *, named: bool = True) -> list[Prompt]:
    """The prompts of a file, in its order: a prompt set, or with `named` False anything that can be answered.

    ValueError naming file and line for a line that is no prompt, or whose id an earlier line has (in a prompt set also:
    whose conversation); FileNotFoundError if there is no such file.
    """
    path = Path(path)
    is_json = named or path.suffix == ".jsonl"
    prompts: list[Prompt] = []
    first_line: dict[str, int] = {}
    for number, line in lines_of(path):
        where = f"{path}:{number}"
        prompt = parse_prompt(line, path.stem, where, named=named) if is_json else plain(line, path.stem)
        for key in (prompt.id, json.dumps(prompt.messages) if named else ""):
            if key and key in first_line:
                what = f"id {prompt.id!r}" if key == prompt.id else f"conversation of {prompt.id!r}"
                raise ValueError(f"{where}: {what} is already on line {first_line[key]}; each may occur once")
            first_line[key] = number
        prompts.append(replace(prompt, line=number))
    if not prompts:
        raise ValueError(f"{path}: no prompts; expected one {'JSON object ' if is_json else ''}per line")
    return prompts


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers. ValueError naming file and line for what is not UTF-8."""
    for number, data in enumerate(path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        try:
            line = data.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}:{number}: not UTF-8 text (byte {error.object[error.start]:#04x} at {error.start}); "
                "right is a file saved as UTF-8"
            ) from None
        if line.strip():
            yield number, line


def plain(text: str, split: str, id: str = "", domain: str = "") -> Prompt:
    """One user turn."""
    return Prompt(id, domain, split, ({"role": "user", "content": text},), text=text)


def parse_prompt(line: str, split: str, where: str, *, named: bool = True) -> Prompt:
    """One line of a prompt file. `where` (file:line) begins the ValueError of a line that is no prompt."""
    try:
        record = json.loads(line)
        # Half a surrogate pair can be written in JSON, and is no character: no tokenizer takes it.
        json.dumps(record, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON ({error.msg} at column {error.colno})") from None
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"{where}: holds {half!a}, half of a character; right is text in UTF-8") from None
    except RecursionError:
        raise ValueError(f"{where}: nested too deeply to be read; a prompt is an object of strings") from None
    except ValueError as error:  # a number of thousands of digits
        raise ValueError(f"{where}: not JSON ({error})") from None
    if isinstance(record, str) and record.strip() and not named:
        return plain(record, split)
    if not isinstance(record, dict):
        raise ValueError(f"{where}: a {type(record).__name__}; expected an object with id, domain and messages")
    for complaint in complaints(record, named=named):
        raise ValueError(f"{where}: {complaint}")
    names = record.get("id") or "", record.get("domain") or ""
    if record.get("messages") is None:
        return replace(plain(record["prompt"], split, *names), tools=tuple(record.get("tools", ())))
    messages = tuple({"role": message["role"], "content": message["content"]} for message in record["messages"])
    return Prompt(names[0], names[1], split, messages, tuple(record.get("tools", ())))


def complaints(record: dict[str, object], *, named: bool = True) -> Iterator[str]:
    """What keeps a JSON object from being a prompt; nothing if it is one. `named`: id and domain must be there."""
    for key in record.keys() - KEYS:
        yield f"key {short(key)} is unknown; {_nearest(key, KEYS)}"
    says = [key for key in ("messages", "prompt") if record.get(key) is not None]
    for key in ("id", "domain") if named else ():
        if key not in record:
            yield f"{key} is missing"
            return
    if not says:
        yield "messages is null; expected a non-empty list" if "messages" in record else "messages is missing"
        return
    if len(says) > 1:
        yield "messages and prompt both say what is asked; expected one of them"
    for key in ("id", "domain"):
        if record.get(key) is None and not named:
            continue
        if not isinstance(record[key], str) or not record[key]:
            yield f"{key} is {short(record[key])}; expected a non-empty string"
        elif key == "domain" and record[key] not in DOMAINS:
            yield f"domain is {short(record[key])}; {_nearest(record[key], DOMAINS)}"
    tools = record.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        yield f"tools is {short(tools)}; expected a list of JSON schemas"
    if says == ["prompt"]:
        if not isinstance(record["prompt"], str) or not record["prompt"].strip():
            yield f"prompt is {short(record['prompt'])}; expected a non-empty string"
        return
    messages = record["messages"]
    if not isinstance(messages, list) or not messages:
        yield f"messages is {short(messages)}; expected a non-empty list"
        return
    for index, message in enumerate(messages):
        yield from _message_complaints(f"messages[{index}]", message, index)
    last = messages[-1]["role"]
    if last not in ("user", "tool"):
        yield f"the last message is from {short(last)}; the assistant answers a 'user' or a 'tool'"


def read_system_prompts(path: str | Path) -> SystemPrompts:
    """`system_prompts.json`: two lists of strings, `train` and `unseen`. ValueError if it is anything else."""
    lists = read_json(Path(path))
    if lists.keys() != {"train", "unseen"}:
        raise ValueError(f"{path}: expected an object with the lists 'train' and 'unseen'")
    for name, texts in lists.items():
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
            raise ValueError(f"{path}: {name} is not a list of non-empty strings")
    return SystemPrompts(tuple(lists["train"]), tuple(lists["unseen"]))


def _message_complaints(name: str, message: object, index: int) -> Iterator[str]:
    if not isinstance(message, dict) or message.keys() != {"role", "content"}:
        yield f"{name} is {short(message)}; expected an object with role and content"
        return
    if message["role"] not in ROLES:
        yield f"{name} has the role {short(message['role'])}; {_nearest(message['role'], ROLES)}"
    if message["role"] == "system" and index > 0:
        yield f"{name} has the role 'system'; only the first message may"
    if not isinstance(message["content"], str) or not message["content"].strip():
        yield f"{name} has the content {short(message['content'])}; expected a non-empty string"


def _nearest(name: object, known: set[str] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(short(name).strip("'").lower(), sorted(known), n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}known: {', '.join(sorted(known))}"
