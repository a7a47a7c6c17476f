"""A target by its name: model, tokenizer and stop tokens, wherever they lie.

`nano` ships with the project, `smollm2` is fetched once, anything else is a local directory or a Hugging Face id. All
three come back as the same `Target`, so whatever runs on the small one runs on the large one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from .config import read_json
from .llama import LanguageModel
from .paths import data_directory

NAMED = ("nano", "smollm2")


@dataclass(frozen=True)
class Target:
    """A model that answers.

    Attributes:
        name: `nano`, `smollm2`, or the id or directory it was loaded from.
        directory: where its files lie.
        tokenizer: transformers' tokenizer.
        stop_ids: tokens that end an answer.
    """

    name: str
    directory: Path
    model: LanguageModel
    tokenizer: Any
    stop_ids: frozenset[int]

    def encode_chat(self, messages: Sequence[Mapping[str, str]] | str, *, template: str | None = None) -> list[int]:
        """Token ids of a conversation, up to the point where the answer begins.

        A string is one user turn. `template` is the name of one of the tokenizer's templates or a Jinja text; None
        is its own. ValueError when the tokenizer has no template or the template refuses the roles.
        """
        import jinja2

        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        if template is None and not self.tokenizer.chat_template:
            raise ValueError(f"{self.name} has no chat template: give the text as it is (--raw), or a template")
        try:
            text = self.tokenizer.apply_chat_template(
                list(messages), chat_template=template, add_generation_prompt=True, tokenize=False
            )
        except jinja2.TemplateError as error:
            raise ValueError(f"the chat template of {self.name} refuses this conversation: {error}") from error
        return self.encode(text)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text as it stands, with nothing added."""
        return self.tokenizer.encode(text, add_special_tokens=False)

    def decode(self, ids: Iterable[int], *, keep_special: bool = False) -> str:
        return self.tokenizer.decode(list(ids), skip_special_tokens=not keep_special)

    @cached_property
    def token_texts(self) -> list[str]:
        """Each token's own text, for showing tokens one by one; spaces and newlines as themselves."""
        return self.tokenizer.batch_decode([[i] for i in range(self.model.config.vocab_size)])


def load_target(name: str, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Target:
    """Load a target: `nano`, `smollm2`, a local directory, or a Hugging Face id.

    Raises ValueError for a name that is none of these or files that do not fit, `TargetUnavailable` for a named
    target that is not on this machine and cannot be fetched.
    """
    from transformers import AutoTokenizer

    directory = locate(name)
    model = LanguageModel.from_directory(directory, device=device, dtype=dtype)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    return Target(name, directory, model, tokenizer, frozenset(stop_ids(directory, model, tokenizer)))


def locate(name: str) -> Path:
    """The directory that holds a target's files; fetches them where that is possible."""
    if name == "nano":
        return data_directory() / "nano"
    if name == "smollm2":
        from .smollm2 import prepare

        return prepare()
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if close := difflib.get_close_matches(name.lower(), NAMED, n=1):
        raise ValueError(f"no target is called {name!r}; did you mean {close[0]!r}?")
    if name.count("/") != 1 or name.startswith((".", "/", "~")) or path.exists():
        raise ValueError(
            f"target {name!r} is neither {' nor '.join(NAMED)}, nor a directory with config.json and safetensors, "
            "nor a Hugging Face id such as Qwen/Qwen3-0.6B"
        )
    return fetch_from_hub(name)


def fetch_from_hub(name: str) -> Path:
    """Snapshot of a Hugging Face repository: configuration, tokenizer and safetensors only, no pickles and no code."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "*.jinja", "tokenizer.model", "*.txt"])
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"Hugging Face model {name!r} could not be fetched ({reason}). Offline, use nano, smollm2 or a directory"
        ) from error


def stop_ids(directory: Path, model: LanguageModel, tokenizer: Any) -> set[int]:
    """Every token that ends an answer, from the generation config, the config and the tokenizer."""
    found = set(model.config.stop_ids)
    if (directory / "generation_config.json").is_file():
        stop = read_json(directory / "generation_config.json").get("eos_token_id")
        found |= set(stop) if isinstance(stop, list) else ({stop} if stop is not None else set())
    return found | ({tokenizer.eos_token_id} if tokenizer.eos_token_id is not None else set())
