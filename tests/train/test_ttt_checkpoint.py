"""A checkpoint that is none of this training's is refused in one line, whatever is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from labsim.train.ttt.checkpoint import Counters, load_checkpoint, save_checkpoint

IDENTITY = {"recipe": {"seed": 5}}


def parts() -> tuple[torch.nn.Module, list[torch.optim.Optimizer]]:
    model = torch.nn.Linear(3, 2)
    return model, [torch.optim.AdamW(model.parameters())]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "checkpoint.safetensors", *parts(), Counters(step=7, best=2.5), IDENTITY)
    return tmp_path / "checkpoint.safetensors"


def test_what_was_saved_comes_back(path: Path) -> None:
    assert load_checkpoint(path, *parts(), IDENTITY) == Counters(step=7, best=2.5)


@pytest.mark.parametrize(
    "header",
    [
        None,
        {"identity": "[]", "counters": "{}"},
        {"identity": json.dumps(IDENTITY), "counters": "[7]"},
        {"identity": json.dumps(IDENTITY), "counters": '{"steps": 7}'},
        {"identity": "{", "counters": "{}"},
    ],
)
def test_another_header_is_named(path: Path, header: dict[str, str] | None) -> None:
    save_file(load_file(path), path, metadata=header)
    with pytest.raises(ValueError, match=r"is not a checkpoint of this training.*--fresh"):
        load_checkpoint(path, *parts(), IDENTITY)


def test_a_weight_of_another_shape_is_named(path: Path) -> None:
    tensors = load_file(path) | {"weight.weight": torch.ones(1, 3)}  # would be broadcast
    save_file(tensors, path, metadata={"identity": json.dumps(IDENTITY), "counters": '{"step": 7}'})
    with pytest.raises(ValueError, match=r"weight\.weight is \(1, 3\), not \(2, 3\)"):
        load_checkpoint(path, *parts(), IDENTITY)
