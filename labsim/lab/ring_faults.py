"""Ranks of a ring that go wrong: what the others say, and how long it takes.

A module that real ranks can import.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Literal

import psutil
import torch

from ..attention.history import Local
from ..attention.ring import Ring, ring_attention
from ..parallel import launch, logical
from ..parallel.group import RankError
from ..parallel.launch import RanksFailed
from ..parallel.layout import Layout
from ..parallel.mesh import Mesh
from .ring_lab import Text

Fault = Literal["dies", "hangs", "brings another shape"]
FAULTS: tuple[Fault, ...] = ("dies", "hangs", "brings another shape")


@dataclass(frozen=True)
class Met:
    """How a fault ended.

    Attributes:
        seconds: from the start of the processes to the error in this one.
        said: each rank's last words.
        left: processes of the ranks that still live.
    """

    seconds: float
    said: dict[int, str]
    left: int


def go_wrong(mesh: Mesh, layout: Layout, text: Text, how: Fault, culprit: int) -> float:
    """Ring attention twice; before the second time one rank goes wrong."""
    q, k, v, _ = text.cut(layout, mesh.ring.rank)
    ring_attention(q, k, v, mesh.ring, layout)
    if mesh.ring.rank == culprit:
        if how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "hangs":
            time.sleep(600)
        k, v = k[:, :1], v[:, :1]  # another number of key heads
    out, _ = ring_attention(q, k, v, mesh.ring, layout)
    return float(out.sum())


def meet(how: Fault, layout: Layout, text: Text, *, culprit: int = 1, timeout_seconds: float = 8.0) -> Met:
    """Real ranks, one of which goes wrong. RuntimeError when nobody notices."""
    before, begin = rank_processes(), time.monotonic()
    try:
        launch.run(go_wrong, layout, text, how, culprit, ring=layout.ring, timeout_seconds=timeout_seconds)
    except RanksFailed as failed:
        seconds = time.monotonic() - begin
        said = {one.rank: str(one.error) for one in failed.failures}
        return Met(seconds, said, len(rank_processes() - before))
    raise RuntimeError(f"a rank that {how} went unnoticed")


def rank_0_stays_away(layout: Layout, text: Text) -> str:
    """What a logical rank says when rank 0, whose own keys are all that it sees, does not join the ring.

    RuntimeError when nobody notices.
    """

    def work(mesh: Mesh) -> torch.Tensor:
        q, k, v, _ = text.cut(layout, mesh.ring.rank)
        history = Local() if mesh.ring.rank == 0 else Ring(mesh.ring, layout)
        return history.forward(q, k, v, q.shape[-1] ** -0.5)[0]

    try:
        logical.run(work, ring=layout.ring)
    except RankError as error:
        return str(error)
    raise RuntimeError("rank 0 stayed away unnoticed")


def rank_processes() -> set[int]:
    """Ranks below this process: every descendant but multiprocessing's own two helpers, which stay."""
    here, found = psutil.Process(), set()
    for one in here.children(recursive=True):
        try:
            command = " ".join(one.cmdline())
            helper = "resource_tracker" in command or ("forkserver" in command and one.ppid() == here.pid)
            if not helper:
                found.add(one.pid)
        except psutil.NoSuchProcess:
            continue
    return found
