"""Reading a checkpoint: every tensor of a directory's safetensors files, by name, and whether they are a model's.

Nothing is ever unpickled. A tensor that is missing, unknown, of another shape, not floating point or not a number is
an error that names it: most of these would load in silence and answer a little worse.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from .config import ModelConfig

NAMED_IN_ERRORS = 6
# As options and settings files call them.
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
# Narrower ones are quantised: their numbers mean nothing without the scales beside them.
WEIGHT_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def read_weights(
    directory: Path, device: torch.device | str = "cpu", *, only: Collection[str] | None = None
) -> dict[str, torch.Tensor]:
    """All tensors of `directory/*.safetensors`, or those of these names; the others are not read from disk.

    ValueError when there are no files, twice a tensor, or a file is damaged.
    """
    tensors: dict[str, torch.Tensor] = {}
    for path in weight_files(directory):
        if only is None:
            with errors_named(path):
                more = load_file(path, device=str(device))
        else:
            with opened(path) as file:
                more = {name: file.get_tensor(name).to(device) for name in set(file.keys()) & set(only)}
        if twice := tensors.keys() & more.keys():
            raise ValueError(f"{path} holds {min(twice)}, which another .safetensors file beside it holds too")
        tensors |= more
    return tensors


def tensor_names(directory: Path) -> set[str]:
    """The names alone, from the files' headers. ValueError as `read_weights`."""
    names: set[str] = set()
    for path in weight_files(directory):
        with opened(path) as file:
            names |= set(file.keys())
    return names


def weight_files(directory: Path) -> list[Path]:
    """ValueError naming the directory where there are none."""
    files = sorted(directory.glob("*.safetensors"))
    if not files:
        pickled = sorted(path.name for path in [*directory.glob("*.bin"), *directory.glob("*.pt")])
        hint = f"; {pickled[0]} is a pickle, which can run code when opened, so it is not read" if pickled else ""
        raise ValueError(f"{directory} holds no .safetensors file{hint}")
    return files


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A safetensors file for reading tensor by tensor. ValueError naming it where it is none."""
    with errors_named(path), safe_open(path, "pt") as file:
        yield file


@contextmanager
def errors_named(path: Path) -> Iterator[None]:
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ValueError(f"{path} is no regular file; right is a safetensors file")
    try:
        yield
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is not a whole safetensors file ({error}); fetch it again") from error


def tensor_bytes(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> bytes:
    """A safetensors file. The same bytes for the same content, which the library's own order of metadata is not."""
    data = save(tensors, metadata=metadata)
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size]) | {"__metadata__": dict(sorted(metadata.items()))}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def check_model(
    weights: Mapping[str, torch.Tensor],
    config: ModelConfig,
    name: str,
    *,
    borrows_embedding: bool = False,
    head_rows: int | None = None,
    layers: bool = True,
) -> None:
    """ValueError, naming the tensor, unless the weights are those of the model that config.json describes.

    Args:
        name: of the directory, for errors.
        borrows_embedding: the model reads another one's embedding and stores none (a draft).
        head_rows: outputs of the head, None for the vocabulary. A draft, whose head may be reduced, must hold nothing
            else; a target may have tensors outside `model.` too, as repositories with a second copy in another layout.
        layers: False where only embedding, last norm and head were read.
    """
    rows = config.vocab_size if head_rows is None else head_rows
    needed, allowed = layer_shapes(config) if layers else ({}, {})
    if not borrows_embedding:
        needed["model.embed_tokens.weight"] = (config.vocab_size, config.hidden_size)
    needed["model.norm.weight"] = (config.hidden_size,)
    may_lack_head = config.tied and rows == config.vocab_size
    (allowed if may_lack_head else needed)["lm_head.weight"] = (rows, config.hidden_size)
    named(f"{name} lacks", needed.keys() - weights.keys())
    surplus = weights.keys() - needed.keys() - allowed.keys()
    surplus = {key for key in surplus if not key.endswith("rotary_emb.inv_freq")}  # derived from the config
    if head_rows is None:
        surplus = {key for key in surplus if key.startswith("model.")}
    named(f"{name} holds unknown", surplus)
    for key, shape in (needed | allowed).items():
        if key in weights:
            check_tensor(weights[key], shape, key, name)


def layer_shapes(config: ModelConfig) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Shapes of the layers' tensors: those that all have, and those (biases, query and key norms) that some have."""
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    hidden, wide = config.hidden_size, config.intermediate_size
    projections = {
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "mlp.gate_proj": (wide, hidden),
        "mlp.up_proj": (wide, hidden),
        "mlp.down_proj": (hidden, wide),
    }
    needed: dict[str, tuple[int, ...]] = {}
    allowed: dict[str, tuple[int, ...]] = {}
    for prefix in (f"model.layers.{index}" for index in range(config.num_layers)):
        for projection, shape in projections.items():
            needed[f"{prefix}.{projection}.weight"] = shape
            allowed[f"{prefix}.{projection}.bias"] = shape[:1]
        for norm in ("input_layernorm", "post_attention_layernorm"):
            needed[f"{prefix}.{norm}.weight"] = (hidden,)
        for norm in ("q_norm", "k_norm"):
            allowed[f"{prefix}.self_attn.{norm}.weight"] = (config.head_dim,)
    return needed, allowed


def named(what: str, names: set[str]) -> None:
    """ValueError listing some of these tensors; nothing where there are none."""
    if names:
        listed = sorted(names)[:NAMED_IN_ERRORS]
        more = f" and {len(names) - len(listed)} more" if len(names) > len(listed) else ""
        raise ValueError(f"{what} tensors: {', '.join(listed)}{more}")


def check_tensor(tensor: torch.Tensor, shape: tuple[int, ...], key: str, name: str) -> None:
    """ValueError unless the tensor has this shape, is floating point and holds numbers."""
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"{name}: {key} is {tuple(tensor.shape)}, and config.json makes it {tuple(shape)}")
    if tensor.dtype not in WEIGHT_TYPES:
        raise ValueError(f"{name}: {key} is {tensor.dtype}; right is float16, bfloat16, float32 or float64")
    # One infinity or NaN makes the sum one. The other way round a sum may overflow, so then each value is looked at.
    if not bool(torch.isfinite(tensor.sum(dtype=torch.float32))) and not bool(torch.isfinite(tensor).all()):
        raise ValueError(f"{name}: {key} holds values that are not numbers; it was never trained or filled in")
