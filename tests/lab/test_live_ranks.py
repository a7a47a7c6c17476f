"""Ranks that stay: what they compute, what they say when one does not come, and that none outlives its starter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from labsim.lab.live_ranks import VARIABLE, LiveRanks, neighbour
from labsim.lab.processes import RunProcesses, listening

HERE = psutil.Process()


def test_without_ipyparallel_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipyparallel", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "ipyparallel'):
        LiveRanks(ring=2)


def test_no_ranks() -> None:
    with pytest.raises(ValueError, match="ring is 0"):
        LiveRanks(ring=0)


@pytest.fixture
def ranks() -> Iterator[LiveRanks]:
    pytest.importorskip("ipyparallel")
    with LiveRanks(ring=2, ulysses=2, timeout_seconds=4) as started:
        yield started
    assert not [one for one in HERE.children(recursive=True) if "ipyparallel" in " ".join(one.cmdline())]


def places(mesh):
    import torch

    [came] = mesh.ring.shift([torch.tensor([mesh.world.rank])], "a hop").wait()
    return mesh.world.rank, mesh.ring.rank, mesh.ulysses.rank, came.item()


def all_but_the_first(mesh):
    import torch

    return mesh.world.rank == 0 or mesh.world.all_reduce(torch.ones(1), "sum of all")


def test_they_stay_change_their_mesh_and_name_who_does_not_come(ranks: LiveRanks) -> None:
    assert ranks(places) == [(0, 0, 0, 2), (1, 0, 1, 3), (2, 1, 0, 0), (3, 1, 1, 1)]
    ranks.meet(ring=4, ulysses=1)
    assert ranks(places) == [(0, 0, 0, 3), (1, 1, 0, 0), (2, 2, 0, 1), (3, 3, 0, 2)]
    with pytest.raises(Exception, match=r"sum of all.*rank 0 is alive and has not come"):
        ranks(all_but_the_first)
    ranks.meet(ring=2, ulysses=2)
    assert ranks(places)[1] == (1, 0, 1, 3)
    assert ranks(neighbour)[3] == "rank 3: hears from rank 1 of its ring"
    ranks.meet(ring=1, ulysses=4)
    assert ranks(neighbour)[3] == "rank 3: alone in its ring, one of 4 in its Ulysses group"
    with pytest.raises(ValueError, match="there are 4"):
        ranks.meet(ring=3, ulysses=1)
    open_to = {address for one in HERE.children(recursive=True) for address in listening(one)}
    assert open_to and all(address.startswith("127.0.0.1:") for address in open_to)


def test_none_outlives_a_killed_starter() -> None:
    pytest.importorskip("ipyparallel")
    program = (
        "import time; from labsim.lab.live_ranks import LiveRanks\n"
        "ranks = LiveRanks(ring=2); print(ranks._marker, flush=True); time.sleep(300)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as starter:
        marker = starter.stdout.readline().strip()
        processes = RunProcesses(marker, -1, VARIABLE)
        assert len(processes.alive(thorough=True)) > 2
        os.kill(starter.pid, signal.SIGKILL)
    until = time.monotonic() + 30
    while processes.alive(thorough=True) and time.monotonic() < until:
        time.sleep(0.1)
    assert processes.alive(thorough=True) == []
