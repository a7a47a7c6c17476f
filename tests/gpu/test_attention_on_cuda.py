"""Attention kernels and USP over NCCL on GPUs, against float64 on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from labsim.attention import kernels
from tests.attention.sequence_reference import draws, expected

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU")
NAMES = ["cuda_flash", "reference", *kernels.THEIRS]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("size", [20, 64, 128])
def test_kernel_forward_and_backward(name: str, causal: bool, size: int) -> None:
    if name in kernels.THEIRS and not kernels.THEIRS[name].installed():
        pytest.skip(f"{name} is not installed")
    given = draws([(2, 8, 96, size), (2, 2, 96, size), (2, 2, 96, size)])
    [dout] = draws([given[0].shape], seed=8)
    out, lse, gradients = expected(given, dout, causal=causal)
    q, k, v = (x.cuda().bfloat16() for x in given)
    mine, own = kernels.forward(q, k, v, causal=causal, kernel=name)
    found = kernels.backward(dout.cuda().bfloat16(), q, k, v, mine, own, causal=causal, kernel=name)
    assert own.dtype == torch.float32 and own.is_contiguous()
    for ours, exact in zip([mine, own, *found], [out, lse, *gradients], strict=True):
        assert float((ours.double().cpu() - exact).abs().max() / exact.abs().max()) < 3e-2


def test_float32_at_length_is_refused_not_written_down() -> None:
    q = torch.empty(1, 32, 65_536, 128, device="cuda")
    with pytest.raises(ValueError, match=r"score matrix of 550 GB.*--bf16"):
        kernels.forward(q, q[:, :8], q[:, :8], causal=True)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU only")
@pytest.mark.parametrize("degrees", [("2", "1"), ("1", "2")])
def test_two_gpus_train_as_one_does(degrees: tuple[str, str], tmp_path: Path) -> None:
    losses = []
    for ring, ulysses in (("1", "1"), degrees):
        world, out = int(ring) * int(ulysses), tmp_path / f"draft-{ring}-{ulysses}"
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(world), "-m", "labsim.train"]
        command += ["--ring", ring, "--ulysses", ulysses, "--target", "nano", "--draft", "eagle3.1", "--ttt", "3"]
        command += ["--data", "shipped", "--steps", "8", "--seq", "256", "--out", str(out), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=500)
        assert done.returncode == 0, done.stderr[-2000:]
        losses.append([float(line.split(",")[2]) for line in (out / "loss.csv").read_text().splitlines()[1:]])
    assert losses[1] == pytest.approx(losses[0], rel=5e-3)  # bf16 products, in another order
