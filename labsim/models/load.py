"""A target by its name: model, tokenizer and stop tokens, wherever they lie.

`nano` ships with the project, `smollm2` is fetched once, anything else is a local directory or a Hugging Face id. All
three come back as the same `Target`, so whatever runs on the small one runs on the large one.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from .config import first_line, quiet_transformers, read_json
from .fields import Fields, shown
from .llama import LanguageModel, default_device
from .paths import data_directory

NAMED = ("nano", "smollm2")
# The class that takes everything from tokenizer.json, in tokenizer_config.json: before and since transformers 5.
ANY_FAST_TOKENIZER = ("PreTrainedTokenizerFast", "TokenizersBackend")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")


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
        # A template is a stranger's program: it divides by zero and adds words to numbers.
        except Exception as error:
            raise ValueError(
                f"the chat template of {self.name} fails on this conversation: {first_line(error)}"
            ) from error
        return self.encode(text)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text as it stands, with nothing added. ValueError for a text that is no Unicode."""
        check_text(text)
        # Not verbose: whether a text is too long is the caller's to say, who knows where it stands.
        return self.tokenizer.encode(text, add_special_tokens=False, verbose=False)

    def encode_prompt(self, prompt: Sequence[Mapping[str, str]] | str, where: str, *, raw: bool = False) -> list[int]:
        """Token ids of a prompt that is to be answered; `raw` takes a string as it stands.

        ValueError that begins with `where` (a file and line, an option) for one without tokens, or without room for an
        answer behind it.
        """
        try:
            ids = self.encode(prompt) if raw else self.encode_chat(prompt)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        context = self.model.config.max_positions
        if not ids:
            raise ValueError(f"{where}: the prompt is empty; it needs at least one token")
        if len(ids) >= context:
            raise ValueError(
                f"{where}: the prompt has {len(ids)} tokens, and the context of {self.name} holds {context}: "
                "shorten it so that there is room for an answer"
            )
        return ids

    def decode(self, ids: Iterable[int], *, keep_special: bool = False) -> str:
        return self.tokenizer.decode(list(ids), skip_special_tokens=not keep_special)

    @cached_property
    def token_texts(self) -> list[str]:
        """Each token's own text, for showing tokens one by one; spaces and newlines as themselves."""
        return self.tokenizer.batch_decode([[i] for i in range(self.model.config.vocab_size)])


def load_target(
    name: str,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    layers: bool = True,
) -> Target:
    """Load a target: `nano`, `smollm2`, a local directory, or a Hugging Face id; without `layers` only its embedding,
    last norm and head.

    Raises ValueError for a name that is none of these, files that do not fit or a device that is not there,
    `TargetUnavailable` for a named target that is not on this machine and cannot be fetched. No code that lies in the
    directory is run.
    """
    device = choose_device(device)
    directory = locate(name)
    model = LanguageModel.from_directory(directory, device=device, dtype=dtype, layers=layers)
    tokenizer = load_tokenizer(directory)
    return Target(name, directory, model, tokenizer, frozenset(stop_ids(directory, model, tokenizer)))


def choose_device(device: torch.device | str | None) -> torch.device:
    """The device of that name; None is the GPU if there is one. ValueError for one that is not there."""
    if device is None:
        return default_device()
    available = ["cpu"]
    if torch.cuda.is_available():
        available += ["cuda", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if str(device) not in available:
        raise ValueError(f"device {shown(device)} is not available here; right is {' or '.join(available)}")
    return torch.device(device)


def load_tokenizer(directory: Path) -> Any:
    """transformers' tokenizer of a directory. ValueError naming the file that is missing, damaged or brings code."""
    from transformers import PreTrainedTokenizerFast

    if not any((directory / name).is_file() for name in TOKENIZER_FILES):
        raise ValueError(f"{directory} holds no tokenizer; right is a tokenizer.json beside config.json")
    settings = directory / "tokenizer_config.json"
    said = read_json(settings) if settings.exists() else {}
    if code := said.get("auto_map"):
        raise ValueError(
            f"{settings}: auto_map names code of the target's own ({shown(code)}), and no code from a target's "
            "directory is run; right is a target whose tokenizer transformers knows"
        )
    with quiet_transformers():
        try:
            if said.get("tokenizer_class") in ANY_FAST_TOKENIZER:
                return PreTrainedTokenizerFast.from_pretrained(directory)
            # Finds the class for a model's name, and imports every model's configuration for that: two seconds.
            from transformers import AutoTokenizer

            return AutoTokenizer.from_pretrained(directory, trust_remote_code=False)
        # What a library raises on a foreign file has no common base; `tokenizers` raises Exception itself.
        except Exception as error:
            raise tokenizer_error(directory, error) from error


def tokenizer_error(directory: Path, error: Exception) -> ValueError:
    """What transformers stumbled over, with the file's name where it can be told."""
    from tokenizers import Tokenizer

    try:
        for path in sorted([*directory.glob("*token*.json"), *directory.glob("chat_template.json")]):
            read_json(path)
        if (path := directory / "tokenizer.json").exists():
            Tokenizer.from_file(str(path))
    except ValueError as named:
        return named
    except Exception as damaged:
        return ValueError(f"{path} is no tokenizer: {first_line(damaged)}")
    return ValueError(f"{directory}: its tokenizer cannot be read ({first_line(error)})")


def check_text(text: str) -> None:
    """ValueError for half a surrogate pair, which is no character and has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text holds {error.object[error.start]!a} at character {error.start}, half of a character; "
            "right is text in UTF-8"
        ) from None


def locate(name: str) -> Path:
    """The directory that holds a target's files; fetches them where that is possible."""
    if name == "nano":
        return data_directory() / "nano"
    if name == "smollm2":
        from .smollm2 import prepare

        return prepare()
    if not name:
        raise ValueError(f"the target's name is empty; right is {', '.join(NAMED)}, a directory or a Hugging Face id")
    if (directory := directory_called(name)) is not None:
        return directory
    if close := difflib.get_close_matches(name.lower(), NAMED, n=1):
        raise ValueError(f"no target is called {shown(name)}; did you mean {close[0]!r}?")
    if name.count("/") != 1 or name.startswith((".", "/", "~")) or os.path.exists(name):
        raise ValueError(
            f"target {shown(name)} is neither {' nor '.join(NAMED)}, nor a directory with config.json and safetensors, "
            "nor a Hugging Face id such as Qwen/Qwen3-0.6B"
        )
    return fetch_from_hub(name)


def directory_called(name: str) -> Path | None:
    """The directory of that name; None where there is none, and for an empty name, which would be the current one."""
    try:
        path = Path(name).expanduser()
        return path if name and path.is_dir() else None
    except (OSError, RuntimeError):  # a name too long for a file system, another user's home that is not there
        return None


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
            f"Hugging Face model {shown(name)} could not be fetched ({reason}). "
            "Offline, use nano, smollm2 or a directory"
        ) from error


def stop_ids(directory: Path, model: LanguageModel, tokenizer: Any) -> set[int]:
    """Every token that ends an answer, from the generation config, the config and the tokenizer."""
    found = set(model.config.stop_ids)
    path = directory / "generation_config.json"
    if path.exists():
        found |= set(Fields(read_json(path), str(path)).wholes("eos_token_id", single=True))
    return found | ({tokenizer.eos_token_id} if tokenizer.eos_token_id is not None else set())
