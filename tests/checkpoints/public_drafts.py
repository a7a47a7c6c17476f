"""Directories as public trainers write them, by hand, and the target that they were made for: its config.json alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from labsim.checkpoints.check import Check
from labsim.checkpoints.doctor import Diagnosis, examine
from tests.drafts.eagle_cases import SIZE, TARGET_SIZE, VOCAB
from tests.drafts.test_eagle_checkpoint import MODELOPT, SPECIFORGE, SPECULATORS, renamed, tensors_of

Config, Tensors = dict[str, Any], dict[str, torch.Tensor]
LAYERS = 8
FLAGS = {
    "eagle3": (),
    "eagle3.1": ("fc_norm", "norm_output"),
    "eagle3 gpt-oss": ("norm_before_fc", "norm_before_residual"),
}
NEMO = SPECIFORGE | {"architectures": ["LlamaEagle3DraftModel"]}
SPECULATOR = SPECULATORS | {"architectures": ["Eagle3Speculator"]}
DIALECTS = {
    "specforge": SPECIFORGE, "nemo": NEMO, "speculators": SPECULATORS, "Eagle3Speculator": SPECULATOR,
    "modelopt": MODELOPT,
}  # fmt: skip
TARGET = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCAB,
    "hidden_size": TARGET_SIZE,
    "intermediate_size": 36,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
assert SIZE != TARGET_SIZE  # a draft that is not as wide as its target


def target_directory(directory: Path, **changes: Any) -> str:
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(TARGET | changes))
    return str(directory)


def write(directory: Path, config: Config, tensors: Tensors) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    save_file(tensors, directory / "model.safetensors")
    return directory


def public(variant: str = "eagle3.1", dialect: str = "specforge") -> tuple[Config, Tensors]:
    """A healthy draft in half precision, as they are published; its layers named where the dialect names them."""
    tensors = {
        name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors_of(variant).items()
    }
    if "peculator" in dialect:
        tensors = renamed(tensors, "midlayer.", "layers.0.")
    elif dialect == "nemo":
        tensors = renamed(tensors, "midlayer.", "layers.0.", under="model.")
    elif dialect == "modelopt":
        tensors = renamed(tensors, "midlayer.", "layers.0.")
        del tensors["t2d"]
    config = json.loads(json.dumps(DIALECTS[dialect])) | dict.fromkeys(FLAGS[variant], True)
    return config | {"torch_dtype": "float16"}, tensors


def diagnosed(
    tmp_path: Path, change: Callable[[Config, Tensors], object] = lambda raw, tensors: None, *,
    variant: str = "eagle3.1", dialect: str = "specforge", **target: Any,
) -> Diagnosis:  # fmt: skip
    """The static diagnosis of a healthy draft after a change."""
    config, tensors = public(variant, dialect)
    change(config, tensors)
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    draft = write(tmp_path / "draft", config, tensors)
    return examine(draft, target_directory(tmp_path / "target", **target), run=False)


def names(checks: tuple[Check, ...], status: str) -> list[str]:
    return [check.name for check in checks if check.status == status]
