"""Where a job's ranks meet: NCCL needs a GPU per rank, and says so before it starts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from labsim.parallel import meeting
from labsim.parallel.meeting import joined


@pytest.fixture
def second_of_two(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """This process as local rank 1 of 2, on a machine with one GPU; what it is about to meet over."""
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: pytest.fail(f"took GPU {index}"))
    met: list[tuple[object, ...]] = []

    def meet(backend: str, device: str, *_: object):
        met.append((backend, device))
        return nullcontext()

    monkeypatch.setattr(meeting, "meet", meet)
    return met


def test_more_ranks_than_gpus(second_of_two: list[tuple[object, ...]]) -> None:
    with pytest.raises(ValueError, match=r"1 GPU:.*--nproc-per-node 1, or --device cpu"), joined(2, 1):
        pass
    assert second_of_two == []


def test_several_ranks_without_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(ValueError, match=r"makes 4 ranks.*torchrun --nproc-per-node 4 -m labsim\.train"), joined(2, 2):
        pass


def test_on_request_gloo_beside_a_gpu(second_of_two: list[tuple[object, ...]]) -> None:
    with joined(2, 1, device="cpu"):
        pass
    assert second_of_two == [("gloo", "cpu")]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("WORLD_SIZE", "two", "WORLD_SIZE is 'two' in the environment"),
        ("RANK", "", "RANK is '' in the environment"),
        ("RANK", "2", "RANK is 2 of WORLD_SIZE 2; right is 0 to 1"),
        ("LOCAL_RANK", "", "LOCAL_RANK is '' in the environment"),
    ],
)
def test_an_environment_that_is_not_torchruns(
    name: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, usual in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(key, usual)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: name == "LOCAL_RANK")
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=says), joined(2, 1):
        pass


def test_a_rank_that_never_starts_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--target", "nano", "--draft", "eagle3.1", "--data", "shipped", "--ring", "2", "--rank-timeout", "1"]
    options += ["--device", "cpu"]
    ended = subprocess.run(
        [sys.executable, "-m", "labsim", "train", *options, "--out", str(tmp_path / "out"), "--json"],
        env={**os.environ, "WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "labsim: the start: the 2 ranks were not all there within 1 s" in ended.stderr
    assert "Traceback" not in ended.stderr and not (tmp_path / "out").exists()
