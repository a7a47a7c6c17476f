"""What real ranks do in the tests; a module, because they import it."""

from __future__ import annotations

import os
import signal
import time

import torch

from labsim.parallel.layout import Layout
from labsim.parallel.meeting import reshaped
from labsim.parallel.mesh import Mesh
from tests.attention.ranks import ttt_on_a_rank


def every_layout(mesh: Mesh, cases: list[tuple[Layout, int]], given: dict, dout: torch.Tensor) -> list:
    """[(output, gradients, log-sum-exp, bytes sent)] of each case, in one set of processes."""
    found = []
    for layout, steps in cases:
        own = reshaped(mesh, layout.ring, layout.ulysses)
        found.append((*ttt_on_a_rank(own, layout, given[steps], dout, "cpu_flash"), own.bytes_sent))
    return found


def collectives(mesh: Mesh) -> dict:
    rank, world = mesh.world.rank, mesh.world
    mine = torch.full((2,), float(rank), dtype=torch.float64)
    parts = torch.stack([torch.tensor([10 * rank + to]) for to in range(world.size)])
    uneven = torch.arange(6.0).reshape(2, 3).t()  # not contiguous
    return {
        "sum": world.all_reduce(mine, "sum").tolist(),
        "all": world.all_gather(mine, "all").tolist(),
        "parts": world.all_to_all(parts, "parts").flatten().tolist(),
        "before": [tensor.tolist() for tensor in world.shift([mine, uneven + rank], "hop").wait()],
        "bytes": mesh.bytes_sent,
    }


def misbehave(mesh: Mesh, how: str, culprit: int) -> float:
    """One rank does something wrong before a hop of the ring."""
    x = torch.ones(3)
    for _ in range(3):
        mesh.world.all_reduce(x, "warm-up")
    if mesh.world.rank == culprit:
        if how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        if how == "hangs":
            time.sleep(600)
        if how == "fails":
            raise ValueError("no such page")
        if how == "leaves":
            return 0.0
        if how == "brings another shape":
            x = torch.ones(4)
        if how == "brings another type":
            x = x.double()
        if how == "skips an operation":
            return float(mesh.ring.shift([x], "the hop after").wait()[0].sum())
    total = float(mesh.ring.shift([x], "the hop").wait()[0].sum())
    return total + float(mesh.ring.shift([x], "the hop after").wait()[0].sum())
