"""Ranks that stay alive between cells: ipyparallel's engines as the ranks of a mesh, for exploring.

    ranks = LiveRanks(ring=2, ulysses=2)      four processes of this machine; %%px cells run on all of them
    %%px                                      each has its `mesh`, `torch`, and what earlier cells left there
    ranks(work, ...)                          `work(mesh, ...)` on each, results in order of rank
    ranks.close()

Results of the course never come from here: what such a rank holds depends on the cells that were run. Everything
listens on the loopback interface, messages are signed with a key of this cluster, and no process outlives the one that
started it: a keeper ends them all, also when a kernel is killed.

Needs ipyparallel: `pip install "ipyparallel>=9.2"`.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ..parallel.launch import LOCAL_TIMEOUT_SECONDS, loopback
from ..parallel.meeting import meet
from ..parallel.mesh import Mesh, check_degrees
from .processes import RunProcesses

Result = TypeVar("Result")
VARIABLE = "LABSIM_LIVE_ID"
START_SECONDS = 60
# What this process holds as a rank: its groups end with the stack.
_held = ExitStack()
_mesh: Mesh | None = None


class LiveRanks:
    """ring x ulysses processes with a mesh over gloo. Also a context manager.

    Raises:
        ModuleNotFoundError: ipyparallel is not installed.
        ValueError: degrees below one.
        TimeoutError: the engines do not come within a minute.
    """

    def __init__(self, ring: int = 1, ulysses: int = 1, *, timeout_seconds: float = LOCAL_TIMEOUT_SECONDS) -> None:
        check_degrees(ring * ulysses, ring, ulysses)
        try:
            import ipyparallel
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError('live ranks need ipyparallel: pip install "ipyparallel>=9.2"') from error
        self.timeout_seconds = timeout_seconds
        self._marker = uuid.uuid4().hex
        self._open = ExitStack()
        try:
            os.environ[VARIABLE] = self._marker  # what is started now inherits it
            try:
                self._keep()
                cluster = ipyparallel.Cluster(
                    n=ring * ulysses, controller_ip="127.0.0.1", log_level=logging.WARNING, shutdown_atexit=False
                )
                self._open.callback(cluster.stop_cluster_sync)
                cluster.start_cluster_sync()
                self._client = cluster.connect_client_sync()
                self._open.callback(self._client.close)
                self._client.wait_for_engines(ring * ulysses, timeout=START_SECONDS, interactive=False)
            finally:
                del os.environ[VARIABLE]
            self.view = self._client[:]
            self.view.block = True
            self.view.activate()
            self.meet(ring, ulysses)
        except BaseException:
            self.close()
            raise

    def meet(self, ring: int, ulysses: int) -> None:
        """A new mesh of the same processes: other degrees, or after an error. What they hold stays.

        ValueError for degrees that do not multiply to the number of processes.
        """
        check_degrees(len(self.view), ring, ulysses)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            store = dist.TCPStore(
                "127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=os.dup(listener.fileno())
            )
        places = [(rank, ring, ulysses, port, self.timeout_seconds) for rank in range(len(self.view))]
        waiting = [self._client[rank].apply_async(take_place, *place) for rank, place in enumerate(places)]
        for one in waiting:
            one.get(START_SECONDS)
        self._store = store  # the ranks' board lives in it

    def __call__(self, work: Callable[..., Result], *arguments: Any) -> list[Result]:
        """`work(mesh, *arguments)` on every rank; results in order of rank. `work` may be a function of a cell."""
        return list(self.view.apply_sync(on_this_rank, work, *arguments))

    def close(self) -> None:
        """End all processes. Harmless when they have ended."""
        self._open.close()

    def __enter__(self) -> LiveRanks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep(self) -> None:
        """A process that ends the cluster's when this one is gone, or closes: its stdin then ends."""
        keeper = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, self._marker], stdin=subprocess.PIPE, start_new_session=True
        )

        def dismiss() -> None:
            keeper.stdin.close()  # type: ignore[union-attr]
            keeper.wait()

        self._open.callback(dismiss)


def take_place(rank: int, ring: int, ulysses: int, port: int, timeout_seconds: float) -> None:
    """In an engine: leave the mesh it was in, join the new one, and put it where cells see it."""
    global _mesh
    from IPython import get_ipython

    _held.close()
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback())
    store = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
    _mesh = _held.enter_context(meet("gloo", "cpu", rank, ring * ulysses, ring, ulysses, timeout_seconds, store))
    get_ipython().push({"mesh": _mesh, "torch": torch})


def on_this_rank(work: Callable[..., Result], *arguments: Any) -> Result:
    return work(_mesh, *arguments)


def neighbour(mesh: Mesh) -> str:
    """A first thing to try: who sends to me around my ring?"""
    if mesh.ring.size == 1:
        return f"rank {mesh.world.rank}: alone in its ring, one of {mesh.ulysses.size} in its Ulysses group"
    [came] = mesh.ring.shift([torch.tensor([mesh.world.rank])], "a hop").wait()
    return f"rank {mesh.world.rank}: hears from rank {came.item()} of its ring"


def main() -> None:
    """The keeper: wait for the end of stdin, then end everything with the marker but itself."""
    sys.stdin.read()
    RunProcesses(sys.argv[1], os.getpid(), VARIABLE).end(spare=os.getpid())


if __name__ == "__main__":
    main()
