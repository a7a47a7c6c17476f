"""What is shipped: fp16 weights and tokenizer in Hugging Face layout; a reader never meets half a file."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from . import checkpoint
from .model import build_model, build_optimizers
from .recipe import Recipe
from .templates import BOS, PAD
from .tokenizer import save_tokenizer, stop_ids

LEFT_OUT = (
    "_name_or_path",
    "transformers_version",
    "_attn_implementation",
    "output_attentions",
    "chunk_size_feed_forward",
)


def export(model: LlamaForCausalLM, tokenizer: Tokenizer, directory: Path) -> None:
    """Write config.json, generation_config.json, model.safetensors (fp16, tied head left out) and the tokenizer.

    Each file is replaced atomically, the weights last.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "templates").mkdir(exist_ok=True)
    ids = {
        "bos_token_id": tokenizer.token_to_id(BOS),
        "eos_token_id": stop_ids(tokenizer),
        "pad_token_id": tokenizer.token_to_id(PAD),
    }
    config = (
        model.config.to_dict()
        | ids
        | {
            "architectures": ["LlamaForCausalLM"],
            "dtype": "float16",
            "rope_theta": model.config.rope_parameters["rope_theta"],
            "use_cache": True,
        }
    )
    config = {key: value for key, value in config.items() if key not in LEFT_OUT and value is not None}
    weights = {name: p.detach().to(torch.float16).contiguous() for name, p in model.named_parameters()}
    weights.pop("lm_head.weight", None)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".export-") as scratch:
        new = Path(scratch)
        save_file(weights, str(new / "model.safetensors"), metadata={"format": "pt"})
        (new / "model.safetensors").chmod(0o644)
        write_json(new / "config.json", config)
        write_json(new / "generation_config.json", ids)
        save_tokenizer(tokenizer, new, model.config.max_position_embeddings)
        files = sorted((p for p in new.rglob("*") if p.is_file()), key=lambda path: path.suffix == ".safetensors")
        for path in files:
            os.replace(path, directory / path.relative_to(new))


def export_run(run: Path, recipe: Recipe, directory: Path) -> dict[str, object]:
    """Export the checkpoint of a run, finished or not; returns the run's counters."""
    model = build_model(recipe, seed=0)
    counters = checkpoint.load(run / checkpoint.NAME, model, build_optimizers(model, recipe))
    export(model, Tokenizer.from_file(str(run / "tokenizer.json")), directory)
    return counters


def write_json(path: Path, document: object) -> None:
    """Write JSON atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(document, indent=2) + "\n")
    os.replace(temporary, path)
