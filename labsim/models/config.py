"""What the forward needs to know about a model, read from its Hugging Face `config.json`.

Llama, Mistral, Qwen2 and Qwen3 are one architecture with three switches: biases on the projections, a norm on
queries and keys, and tied embeddings. The weights themselves say which are on, so only the sizes stand here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .fields import Fields, short

SUPPORTED = ("llama", "mistral", "qwen2", "qwen3")
ROPE_TYPES = ("default", "linear", "dynamic", "yarn", "longrope", "llama3")
# Sizes above these are slips: a table of rotary angles for 2 million positions already takes gigabytes.
LONGEST_CONTEXT = 1 << 21
LARGEST_SIZE = 10_000_000
MOST_LAYERS = 10_000
MOST_HEADS = 10_000
WIDEST_HEAD = 4096


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of a Llama-family decoder. `max_positions` is the longest context, in tokens."""

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_positions: int
    rms_norm_eps: float
    tied: bool
    stop_ids: tuple[int, ...] = ()

    @classmethod
    def from_dict(cls, raw: dict[str, Any], name: str) -> ModelConfig:
        """From a parsed config.json. ValueError, naming the model, for an architecture not computed here."""
        kind = raw.get("model_type")
        if kind not in SUPPORTED:
            raise ValueError(
                f"{name} is of the architecture {short(kind)}; labsim decodes {', '.join(SUPPORTED)} models. "
                "Choose one of those, such as Qwen/Qwen3-0.6B or meta-llama/Llama-3.2-1B-Instruct"
            )
        fields = Fields(raw, f"{name}/config.json")
        fields.require("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
        if raw.get("hidden_act", "silu") != "silu":
            raise ValueError(
                f"{name} uses the activation {short(raw['hidden_act'])}; this forward computes silu (SwiGLU)"
            )
        check_rope(fields)
        positions = fields.whole("max_position_embeddings", 1, LONGEST_CONTEXT, 2048)
        # Within its window a sliding-window model attends like any other, so that is as far as this forward goes.
        slides = fields.flag("use_sliding_window", kind == "mistral")
        window = fields.whole("sliding_window", 1, LONGEST_CONTEXT, None) if slides else None
        heads, kv_heads, head_dim = read_heads(fields)
        return cls(
            model_type=kind,
            vocab_size=fields.whole("vocab_size", 1, LARGEST_SIZE),
            hidden_size=fields.whole("hidden_size", 1, LARGEST_SIZE),
            intermediate_size=fields.whole("intermediate_size", 1, LARGEST_SIZE),
            num_layers=fields.whole("num_hidden_layers", 1, MOST_LAYERS),
            num_heads=heads,
            num_kv_heads=kv_heads,
            head_dim=head_dim,
            max_positions=min(positions, window) if window else positions,
            rms_norm_eps=fields.number("rms_norm_eps", 0, 1, 1e-6),
            tied=fields.flag("tie_word_embeddings", False),
            stop_ids=fields.wholes("eos_token_id", single=True),
        )


def read_heads(fields: Fields) -> tuple[int, int, int]:
    """Query heads, key/value heads and their width. ValueError when they do not go into each other."""
    heads = fields.whole("num_attention_heads", 1, MOST_HEADS)
    kv_heads = fields.whole("num_key_value_heads", 1, heads, None) or heads
    if heads % kv_heads:
        raise fields.wrong("num_key_value_heads", f"a divisor of num_attention_heads ({heads})")
    head_dim = fields.whole("head_dim", 2, WIDEST_HEAD, None)
    if head_dim is None:
        head_dim, rest = divmod(fields.whole("hidden_size", 1, LARGEST_SIZE), heads)
        if rest or not head_dim:
            raise fields.wrong(
                "hidden_size", f"a multiple of num_attention_heads ({heads}) where head_dim is not given"
            )
    if head_dim % 2:
        raise ValueError(f"{fields.file}: heads are {head_dim} wide; rotary positions need an even number")
    return heads, kv_heads, head_dim


def check_rope(fields: Fields) -> None:
    """ValueError unless `rope_theta`, `rope_scaling` and `rope_parameters` are such as rotary positions can have."""
    for part in (fields, fields.inner("rope_parameters"), fields.inner("rope_scaling")):
        part.number("rope_theta", 1, 1e15, None)
        if part is fields:
            continue
        for key in ("rope_type", "type"):
            if part.raw.get(key) is not None and part.raw[key] not in ROPE_TYPES:
                raise part.wrong(key, f"one of {', '.join(ROPE_TYPES)}")
        part.number("factor", 1, 1e6, None)
        if kinds := [key for key, value in part.raw.items() if isinstance(value, dict)]:
            raise part.wrong(kinds[0], "a number or a name: one set of values for all layers is computed here")


def transformers_config(directory: Path) -> Any:
    """What transformers makes of a directory's config.json. Runs no code that lies there.

    ValueError naming the file for values that transformers refuses.
    """
    from transformers import AutoConfig

    with quiet_transformers():
        try:
            return AutoConfig.from_pretrained(directory, trust_remote_code=False)
        # What a library raises on a foreign file has no common base: KeyError, TypeError, its own validation errors.
        except Exception as error:
            raise ValueError(f"{directory}/config.json does not fit its architecture: {first_line(error)}") from error


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No warnings on stderr: what is wrong with a file is said in an error of our own."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)


def first_line(error: BaseException) -> str:
    """The beginning of a foreign error's message, for one line of ours."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{f': {lines[0]}' if lines else ''}"


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file. ValueError, naming the file, when it is missing or is not one."""
    if path.is_fifo():
        raise ValueError(f"{path} is a pipe, which would be waited for; right is a file")
    try:
        document = json.loads(path.read_bytes().decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{path} does not exist") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except RecursionError:
        raise ValueError(f"{path} is not JSON that can be read: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path} holds {type(document).__name__}, not a JSON object")
    return document
