"""Bugs of a training shared by ranks: each shows in losses or gradients within two steps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from labsim.parallel import logical
from labsim.parallel.mesh import Mesh
from tests.mutants.sequence_parallel import TRAINING, Mutant, planted
from tests.train.parallel_training import training


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict:
    return training(Mesh.alone(), tmp_path_factory.mktemp("alone"), "zigzag", torch.float64, steps=2)


def difference(alone: dict, out: Path) -> float:
    """Between a shared training and one alone: of losses and gradient norms, relative, the largest.

    Weights would not do: AdamW behind a clipped gradient takes the same steps whatever factor the gradient is off by.
    """
    rank = logical.run(training, out, "zigzag", torch.float64, "eagle3.1", 2, ring=2, ulysses=1)[0]
    return max(abs(a - b) / b for key in ("losses", "norms") for a, b in zip(rank[key], alone[key], strict=True))


def test_without_a_bug_there_is_none(alone: dict, tmp_path: Path) -> None:
    assert difference(alone, tmp_path) < 1e-10


@pytest.mark.parametrize("mutant", TRAINING, ids=str)
def test_the_bug_is_caught(mutant: Mutant, alone: dict, tmp_path: Path) -> None:
    with planted(mutant):
        assert difference(alone, tmp_path) > 1e-6, mutant.trap
