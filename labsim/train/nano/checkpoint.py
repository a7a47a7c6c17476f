"""Checkpoints: one safetensors file with weights, optimiser state and the run's counters.

One file, because one `os.replace` is what makes a checkpoint atomic: a run that is killed at any moment finds the old
checkpoint or the new one, never half of each.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save as safetensors_bytes

from ...models.files import write_atomically
from ...models.weights import opened

NAME = "checkpoint.safetensors"


def named_state(model: torch.nn.Module, optimizers: list[torch.optim.Optimizer]) -> dict[str, torch.Tensor]:
    """All tensors of a run under flat names: `model/NAME`, `optimizer/NAME/STATE`."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    tensors = {f"model/{name}": parameter.detach() for name, parameter in model.named_parameters()}
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                tensors[f"optimizer/{names[id(parameter)]}/{key}"] = torch.as_tensor(value)
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def save(
    path: Path, model: torch.nn.Module, optimizers: list[torch.optim.Optimizer], counters: dict[str, object]
) -> None:
    """Write the checkpoint atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(
        path, safetensors_bytes(named_state(model, optimizers), metadata={"counters": json.dumps(counters)})
    )


def load(path: Path, model: torch.nn.Module, optimizers: list[torch.optim.Optimizer]) -> dict[str, object]:
    """Put a checkpoint into a model and its optimisers; returns the counters. ValueError if the shapes do not match."""
    with opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (safe_open is no mapping)
        counters = json.loads((file.metadata() or {}).get("counters", "null"))
    if not isinstance(counters, dict):
        raise ValueError(f"{path} is no checkpoint of a run; start over with --fresh")
    put_weights(path, model, {n.removeprefix("model/"): t for n, t in tensors.items() if n.startswith("model/")})
    parameters = dict(model.named_parameters())
    owner = {id(p): optimizer for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    for name, tensor in tensors.items():
        if name.startswith("optimizer/"):
            _, parameter_name, key = name.split("/")
            parameter = parameters[parameter_name]
            owner[id(parameter)].state[parameter][key] = tensor
    return counters


def put_weights(path: Path, model: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Copy weights by name. ValueError naming the first parameter that does not fit."""
    for name, parameter in model.named_parameters():
        saved = weights.get(name)
        if saved is None or saved.shape != parameter.shape:
            shape = None if saved is None else tuple(saved.shape)
            raise ValueError(
                f"{path}: {name} has shape {shape}, the recipe wants {tuple(parameter.shape)} (use --fresh)"
            )
        with torch.no_grad():
            parameter.copy_(saved)
