"""The same training on one rank and on several: losses, weights, acceptance; and going on with another number."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from labsim.parallel import launch, logical
from labsim.parallel.mesh import Mesh
from labsim.train.ttt.data import PackedRow
from labsim.train.ttt.part import Part
from tests.train.parallel_training import documents, training

SINGLE, DOUBLE = torch.float32, torch.float64


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[torch.dtype, dict]:
    return {
        dtype: training(Mesh.alone(), tmp_path_factory.mktemp("alone"), "zigzag", dtype) for dtype in (SINGLE, DOUBLE)
    }


def same(found: dict, whole: dict, tolerance: float) -> None:
    assert found["counters"] == whole["counters"]
    assert found["losses"] == pytest.approx(whole["losses"], rel=tolerance)
    assert found["norms"] == pytest.approx(whole["norms"], rel=10 * tolerance)
    for name, exact in whole["weights"].items():
        assert float((found["weights"][name] - exact).abs().max()) <= 100 * tolerance * float(exact.abs().max()), name


@pytest.mark.parametrize(
    ("ring", "ulysses", "kind", "dtype"),
    [
        (2, 1, "zigzag", DOUBLE),
        (2, 1, "zigzag", SINGLE),
        (1, 2, "zigzag", DOUBLE),
        (2, 2, "zigzag", DOUBLE),
        (2, 2, "zigzag", SINGLE),
        (4, 1, "contiguous", DOUBLE),
    ],
)
def test_fifty_steps_are_the_same_on_any_mesh(
    alone: dict[torch.dtype, dict], ring: int, ulysses: int, kind: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    whole = alone[dtype]
    assert whole["losses"][-1] < 0.8 * whole["losses"][0], "a training that learns nothing proves nothing"
    ranks = logical.run(training, tmp_path, kind, dtype, ring=ring, ulysses=ulysses)
    for rank in ranks:
        same(rank, whole, 1e-9 if dtype == DOUBLE else 1e-3)
        assert rank["best"] == pytest.approx(whole["best"], abs=1e-9 if dtype == DOUBLE else 0.05)
        for name, weight in ranks[0]["weights"].items():
            assert torch.equal(rank["weights"][name], weight), "ranks drift apart"


def test_real_ranks_train_as_logical_ones_do(tmp_path: Path) -> None:
    real = launch.run(training, tmp_path / "real", "zigzag", torch.float64, "eagle3", 6, ring=2)
    threads = logical.run(training, tmp_path / "threads", "zigzag", torch.float64, "eagle3", 6, ring=2)
    for mine, theirs in zip(real, threads, strict=True):
        same(mine, theirs, 1e-12)
        assert mine["bytes"] == theirs["bytes"]


def test_a_training_goes_on_with_another_number_of_ranks(tmp_path: Path) -> None:
    whole = training(Mesh.alone(), tmp_path / "whole", "zigzag", torch.float64)
    out = tmp_path / "changing"
    # The schedule follows from `steps`, so each stop is a kill: the process ends while the plan stays.
    stopped_after(logical_or_alone(1, 1), out, 12)
    stopped_after(logical_or_alone(2, 2), out, 30)  # before the checkpoint of step 30 is written
    [last] = [training(Mesh.alone(), out, "zigzag", torch.float64)]
    assert last["counters"] == whole["counters"]
    assert last["losses"] == pytest.approx(whole["losses"][24:], rel=1e-9)


class Stopped(Exception):
    """In place of a kill."""


def logical_or_alone(ring: int, ulysses: int):
    return lambda work, *arguments: logical.run(work, *arguments, ring=ring, ulysses=ulysses)


def stopping(mesh: Mesh, out: Path, step: int) -> None:
    def check(count: int) -> None:
        if count == step:
            raise Stopped

    training(mesh, out, "zigzag", torch.float64, checkpoint_every=6, heard=check)


def stopped_after(run, out: Path, step: int) -> None:
    with pytest.raises(Stopped):
        run(stopping, out, step)


def test_a_part_reads_its_own_states_and_its_halo_only() -> None:
    row = PackedRow.of(documents(4, 9))
    length, steps = sum(row.lengths), 3
    taken = []
    for rank in range(4):
        part = logical.run(lambda mesh: Part.of(row, mesh, steps), ring=4)[rank]
        own = part.positions_L[part.positions_L < length]
        taken.append(own)
        runs = 1 + int((own.diff() > 1).sum())
        assert len(part.teacher_positions) <= len(own) + runs * steps
        for step in range(steps):
            guesses = part.guesses(step)
            assert torch.isin(guesses + 1 + step, part.teacher_positions).all()
            expected = [int(row.tokens_1L[0, at + 1 + step]) for at in own.tolist() if at + 1 + step < length]
            assert part.tokens(step)[0, : len(expected)].tolist() == expected
    assert torch.cat(taken).sort().values.tolist() == list(range(length))
