"""What the forward needs to know about a model, read from its Hugging Face `config.json`.

Llama, Mistral, Qwen2 and Qwen3 are one architecture with three switches: biases on the projections, a norm on
queries and keys, and tied embeddings. The weights themselves say which are on, so only the sizes stand here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUPPORTED = ("llama", "mistral", "qwen2", "qwen3")


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
                f"{name} is of the architecture {kind!r}; labsim decodes {', '.join(SUPPORTED)} models. "
                "Choose one of those, such as Qwen/Qwen3-0.6B or meta-llama/Llama-3.2-1B-Instruct"
            )
        missing = [
            key for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads") if key not in raw
        ]
        if missing:
            raise ValueError(f"{name}/config.json lacks {', '.join(missing)}")
        if raw.get("hidden_act", "silu") != "silu":
            raise ValueError(f"{name} uses the activation {raw['hidden_act']!r}; this forward computes silu (SwiGLU)")
        heads = raw["num_attention_heads"]
        positions = raw.get("max_position_embeddings", 2048)
        # Within its window a sliding-window model attends like any other, so that is as far as this forward goes.
        window = raw.get("sliding_window") if raw.get("use_sliding_window", kind == "mistral") else None
        stop = raw.get("eos_token_id")
        return cls(
            model_type=kind,
            vocab_size=raw["vocab_size"],
            hidden_size=raw["hidden_size"],
            intermediate_size=raw["intermediate_size"],
            num_layers=raw["num_hidden_layers"],
            num_heads=heads,
            num_kv_heads=raw.get("num_key_value_heads") or heads,
            head_dim=raw.get("head_dim") or raw["hidden_size"] // heads,
            max_positions=min(positions, window) if window else positions,
            rms_norm_eps=raw.get("rms_norm_eps", 1e-6),
            tied=bool(raw.get("tie_word_embeddings", False)),
            stop_ids=tuple(stop) if isinstance(stop, list) else (() if stop is None else (stop,)),
        )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file. ValueError, naming the file, when it is missing or is not one."""
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path} holds {type(document).__name__}, not a JSON object")
    return document
