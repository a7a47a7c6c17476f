"""A training's state on disk: one file, written whole, from which the very same training goes on.

It holds the weights, the optimisers' moments, the step, and the best held-out acceptance length so far. Which rows a
step reads follows from the seed and the step, so no reader state is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from ...models.files import write_atomically

# Apart from the draft, whose directory holds its own tensors only.
NAME = "training/checkpoint.safetensors"


MOMENTS = ("exp_avg", "exp_avg_sq", "step", "momentum_buffer")


@dataclass
class Counters:
    """Where a training stands. `best_step` is the step of `best` (acceptance length), `misses` the looks since then."""

    step: int = 0
    rows: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: float = 0.0
    best_step: int = 0
    misses: int = 0


def save_checkpoint(
    path: Path,
    draft: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    counters: Counters,
    identity: dict[str, object],
) -> None:
    """Write the state so that `path` always holds a whole one."""
    tensors = {}
    for name, parameter in draft.named_parameters():
        tensors[f"weight.{name}"] = parameter.detach().cpu()
        for key, value in owner(optimizers, parameter).state[parameter].items():
            tensors[f"{key}.{name}"] = value.cpu()
    metadata = {"identity": json.dumps(identity), "counters": json.dumps(vars(counters))}
    write_atomically(path, save(tensors, metadata=metadata))


def load_checkpoint(
    path: Path, draft: nn.Module, optimizers: Sequence[torch.optim.Optimizer], identity: dict[str, object]
) -> Counters:
    """Put the state back. ValueError when it is damaged or belongs to a training with another identity."""
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            found, counters = json.loads(metadata["identity"]), Counters(**json.loads(metadata["counters"]))
            wanted = json.loads(json.dumps(identity))
            if differing := list(differences(found, wanted)):
                raise ValueError(
                    f"{path} belongs to a training with another {differing[0]}; give another --out, or --fresh to "
                    "start over"
                )
            names = set(file.keys())
            for name, parameter in draft.named_parameters():
                weight = file.get_tensor(f"weight.{name}")
                if weight.shape != parameter.shape:
                    raise TypeError(f"weight.{name} is {tuple(weight.shape)}, not {tuple(parameter.shape)}")
                parameter.data.copy_(weight)
                keys = [key for key in MOMENTS if f"{key}.{name}" in names]
                state = {key: file.get_tensor(f"{key}.{name}") for key in keys}
                # AdamW keeps its step count on the CPU.
                state = {key: value if key == "step" else value.to(parameter.device) for key, value in state.items()}
                owner(optimizers, parameter).state[parameter] = state
    except (SafetensorError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a checkpoint of this training ({error}); start over with --fresh") from error
    return counters


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> Iterator[str]:
    """Each value that is not the wanted one, with both; inside an object the keys that differ."""
    for key, value in wanted.items():
        there = found.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            if inner := list(differences(there, value)):
                yield f"{key}: {', '.join(inner)}"
        elif there != value:
            yield f"{key} ({there}, not {value})"


def owner(optimizers: Sequence[torch.optim.Optimizer], parameter: nn.Parameter) -> torch.optim.Optimizer:
    """The optimiser that a parameter belongs to."""
    return next(
        optimizer
        for optimizer in optimizers
        if any(parameter is one for group in optimizer.param_groups for one in group["params"])
    )
