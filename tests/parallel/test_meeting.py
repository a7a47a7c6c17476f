"""Where a job's ranks meet: NCCL needs a GPU per rank, and says so before it starts."""

from __future__ import annotations

from contextlib import nullcontext

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
