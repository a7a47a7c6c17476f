"""The real models of a notebook: the target, its drafters, and questions to ask it.

`nano` comes with the course; SmolLM2 has to be on the machine (or its wheel within reach). A notebook that asks for
SmolLM2 and cannot have it goes on with nano and says so.
"""

from __future__ import annotations

from ..drafts.ngram import NgramDrafter
from ..drafts.protocol import Drafter
from ..drafts.small import SmallModelDrafter
from ..models.load import Target, load_target
from ..models.paths import data_directory
from ..models.smollm2 import TargetUnavailable
from ..train.nano.corpus import held_out_prompts
from ..train.prompts import read_prompts

SHIPPED = "nano"
# How a domain of nano's own held-out questions is called among the hand-written prompt files.
FILES = {"chat": "bench_chat", "code": "bench_code_edit", "document": "bench_summarise_quotes"}


def open_target(name: str) -> Target:
    """The target of that name. Where it cannot be had, nano, and a sentence that says why."""
    try:
        target = load_target(name)
    except TargetUnavailable as error:
        print(f"{name} is not on this machine: {error}")
        print(f"This run goes on with {SHIPPED}, which comes with the course. What it shows is the same, smaller.")
        target = load_target(SHIPPED)
    model = target.model
    threads = f", fp32 weights of {model.weight_bytes / 1e6:.0f} MB" if model.device.type == "cpu" else ""
    print(f"target {target.name}: {model.config.num_layers} layers, vocabulary {model.config.vocab_size}{threads}")
    return target


def open_drafters(target: Target) -> dict[str, Drafter]:
    """The drafters that this target has, by name: `n-gram` always, `small` where one was trained for it."""
    drafters: dict[str, Drafter] = {"n-gram": NgramDrafter()}
    directory = data_directory() / "drafts" / f"{target.name}-small"
    if directory.is_dir():
        drafters["small"] = SmallModelDrafter.from_directory(directory, target)
    else:
        print(f"No small draft has been trained for {target.name}; the n-gram draft works with every target.")
    return drafters


def sample_prompts(target: Target, domain: str, count: int, seed: int = 0, *, longest: int = 400) -> list[list[int]]:
    """Token ids of `count` questions of a domain (chat, code, document) that no draft was trained on.

    Questions longer than `longest` tokens are left out. ValueError when there are not enough.
    """
    if target.name == SHIPPED:
        conversations = held_out_prompts(domain, 4 * count, seed)
    else:
        conversations = [
            list(one.messages) for one in read_prompts(data_directory() / "prompts" / f"{FILES[domain]}.jsonl")
        ]
    encoded = [target.encode_chat(one) for one in conversations]
    fitting = [ids for ids in encoded if len(ids) <= longest]
    if len(fitting) < count:
        raise ValueError(f"{len(fitting)} {domain} questions have at most {longest} tokens; {count} are wanted")
    return fitting[:count]
