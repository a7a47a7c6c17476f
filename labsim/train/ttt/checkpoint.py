"""A training's state on disk: one file, written whole, from which the very same training goes on.

It holds the weights, both AdamW moments, the step, and the best held-out acceptance length so far. Which rows a step
reads follows from the seed and the step, so no reader state is needed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from ...models.files import write_atomically

# Apart from the draft, whose directory holds its own tensors only.
NAME = "training/checkpoint.safetensors"
MOMENTS = ("exp_avg", "exp_avg_sq", "step")


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
    path: Path, draft: nn.Module, optimizer: torch.optim.Optimizer, counters: Counters, identity: dict[str, object]
) -> None:
    """Write the state so that `path` always holds a whole one."""
    tensors = {}
    for name, parameter in draft.named_parameters():
        tensors[f"weight.{name}"] = parameter.detach().cpu()
        for key in MOMENTS:
            tensors[f"{key}.{name}"] = optimizer.state[parameter][key].cpu()
    metadata = {"identity": json.dumps(identity), "counters": json.dumps(vars(counters))}
    write_atomically(path, save(tensors, metadata=metadata))


def load_checkpoint(
    path: Path, draft: nn.Module, optimizer: torch.optim.Optimizer, identity: dict[str, object]
) -> Counters:
    """Put the state back. ValueError when it is damaged or belongs to a training with another identity."""
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
            found = json.loads(metadata["identity"])
            wanted = json.loads(json.dumps(identity))
            if differing := [key for key in wanted if found.get(key) != wanted[key]]:
                raise ValueError(
                    f"{path} belongs to a training with another {differing[0]} ({found.get(differing[0])}, "
                    f"not {wanted[differing[0]]}); give another --out, or --fresh to start over"
                )
            for name, parameter in draft.named_parameters():
                parameter.data.copy_(file.get_tensor(f"weight.{name}"))
                optimizer.state[parameter] = {key: file.get_tensor(f"{key}.{name}") for key in MOMENTS}
                for key in MOMENTS[:2]:
                    optimizer.state[parameter][key] = optimizer.state[parameter][key].to(parameter.device)
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{path} is not a checkpoint of this training ({error}); start over with --fresh") from error
    return Counters(**json.loads(metadata["counters"]))
