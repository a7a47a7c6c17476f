"""Starting ranks on this machine from a function call.

    run(work, ring=2, ulysses=2)     four processes here, `work(mesh, ...)` in each; the results come back in order

They meet at a store that the caller's process keeps, on the loopback interface only. They end with the caller,
however it ends, and none outlives `run`: a rank that dies, hangs or brings another shape ends the others within the
limit, with an error that names it.
"""

from __future__ import annotations

import ctypes
import io
import math
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from .board import SILENT_SECONDS, note_leaving
from .group import RankError
from .meeting import PREFIX, meet
from .mesh import check_degrees

Result = TypeVar("Result")
LOCAL_TIMEOUT_SECONDS = 15.0
PR_SET_PDEATHSIG = 1
# The second is imported by the first optimizer and by some operations.
PRELOADED = [__name__, "torch._dynamo"]


@dataclass(frozen=True)
class RankFailure:
    """How one rank ended."""

    rank: int
    error: BaseException
    trace: str


class RanksFailed(RuntimeError):
    """Some ranks ended with an error: `failures` in full, `lines` in words; the message adds the cause's trace."""

    def __init__(self, failures: list[RankFailure]) -> None:
        self.failures = failures
        cause = next((one for one in failures if not isinstance(one.error, RankError)), failures[0])
        self.lines = [f"rank {one.rank}: {type(one.error).__name__}: {one.error}" for one in failures]
        super().__init__("\n".join([*self.lines, "", cause.trace.rstrip()]))


def run(
    work: Callable[..., Result],
    *arguments: Any,
    ring: int = 1,
    ulysses: int = 1,
    timeout_seconds: float = LOCAL_TIMEOUT_SECONDS,
    threads: int = 1,
) -> list[Result]:
    """`work(mesh, *arguments)` in ring x ulysses new processes on this machine (gloo); results in order of rank.

    Args:
        work: a function that can be imported (of a package or a script, not of a notebook's cell). What it returns must
            be plain Python, numpy or tensors.
        timeout_seconds: how long a living rank may take to reach an operation that the others are in.
        threads: torch's, in each rank.

    Raises:
        RanksFailed: with every rank's error.
    """
    world = ring * ulysses
    check_degrees(world, ring, ulysses)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        store = dist.TCPStore(
            "127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=os.dup(listener.fileno())
        )
        context = starter()
        ends: dict[int, Connection] = {}
        ranks: dict[int, Any] = {}
        try:
            for rank in range(world):
                ours, theirs = context.Pipe(duplex=False)
                place = Place(rank, ring, ulysses, port, timeout_seconds, threads)
                process = context.Process(target=one_rank, args=(place, theirs, work, packed(arguments)), daemon=True)
                process.start()
                theirs.close()
                ends[rank], ranks[rank] = ours, process
            results, failures = collect(ends, ranks, dist.PrefixStore(PREFIX, store), timeout_seconds)
        finally:
            for process in ranks.values():
                process.kill()
            for process in ranks.values():
                process.join()
            del store  # and its port; an error raised inside `collect` would keep the store alive in its traceback
    if failures:
        raise RanksFailed([failures[rank] for rank in sorted(failures)])
    return [results[rank] for rank in sorted(results)]


def starter() -> Any:
    """How processes are started: on Linux forked from a helper that has imported torch, which takes each rank seconds.

    The helper computes nothing, so it has no threads or locks that a fork would break; it ends with this process.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def collect(
    ends: dict[int, Connection], ranks: dict[int, Any], store: dist.Store, timeout_seconds: float
) -> tuple[dict[int, Any], dict[int, RankFailure]]:
    """Every rank's result or failure; after a first failure it waits only as long as the others need to notice."""
    results: dict[int, Any] = {}
    failures: dict[int, RankFailure] = {}
    last_call = None
    while len(results) + len(failures) < len(ranks):
        waiting = {ends[rank]: rank for rank in ranks if rank not in results and rank not in failures}
        limit = None if last_call is None else max(0.0, last_call - time.monotonic())
        ready = wait(list(waiting), limit)
        for end in ready:
            rank = waiting[end]
            try:
                good, value = end.recv()
            except (EOFError, OSError):  # an OSError where it ended in the middle of its message
                ranks[rank].join()
                how = ended(ranks[rank].exitcode)
                good, value = False, RankFailure(rank, RuntimeError(f"the process {how}"), "")
                note_leaving(store, rank, {"ranks": [rank], "why": f"rank {rank} {how}"})
            if good:
                results[rank] = pickle.loads(value)
            else:
                failures[rank] = value
        blamed = {rank for one in failures.values() if isinstance(one.error, RankError) for rank in one.error.ranks}
        left = ranks.keys() - results.keys() - failures.keys()
        if failures and left:
            grace = 1.0 if left <= blamed else timeout_seconds + SILENT_SECONDS
            last_call = min(last_call or math.inf, time.monotonic() + grace)
        if not ready and last_call is not None:
            for rank in waiting.values():
                late = RuntimeError("did not end after the others failed; it was killed")
                failures[rank] = RankFailure(rank, late, "")
    return results, failures


def ended(code: int) -> str:
    """How a process ended, by its exit code."""
    if code < 0:
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"ended with exit status {code}"


@dataclass(frozen=True)
class Place:
    """What a local rank is told about itself."""

    rank: int
    ring: int
    ulysses: int
    port: int
    timeout_seconds: float
    threads: int


def one_rank(place: Place, end: Connection, work: Callable[..., Any], arguments: bytes) -> None:
    """Body of a local rank's process."""
    end_with_caller()
    torch.set_num_threads(place.threads)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback())
    try:
        store = dist.TCPStore("127.0.0.1", place.port, is_master=False, wait_for_workers=False)
        world = place.ring * place.ulysses
        with meet("gloo", "cpu", place.rank, world, place.ring, place.ulysses, place.timeout_seconds, store) as mesh:
            value = work(mesh, *pickle.loads(arguments))
        end.send((True, packed(value)))
    except BaseException as error:
        end.send((False, RankFailure(place.rank, portable(error), traceback.format_exc())))
    finally:
        end.close()


def end_with_caller() -> None:
    """End this process when the one that asked for it is gone, however that ended."""
    if sys.platform == "linux":
        # The helper is our parent: Linux kills us with it, even where we are stopped. It ends with the last holder of
        # this pipe, which is to be the caller and not one of us.
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
        os.close(forkserver._forkserver._forkserver_alive_fd)
        return
    caller = multiprocessing.parent_process().sentinel

    def watch() -> None:
        wait([caller])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class ByValue(pickle.Pickler):
    """Tensors travel between our own processes by value: torch would lend shared memory that ends with the lender."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return NotImplemented
        flat = value.detach().cpu().contiguous().reshape(-1)
        return rebuilt, (value.dtype, tuple(value.shape), flat.view(torch.uint8).numpy().tobytes())


def rebuilt(dtype: torch.dtype, shape: tuple[int, ...], raw: bytes) -> torch.Tensor:
    flat = torch.empty(len(raw), dtype=torch.uint8)
    flat.numpy()[:] = memoryview(raw)
    return flat.view(dtype).reshape(shape)


def packed(value: Any) -> bytes:
    """For a pipe to or from a rank of ours; never for a file."""
    buffer = io.BytesIO()
    ByValue(buffer).dump(value)
    return buffer.getvalue()


def loopback() -> str:
    """Name of the loopback interface."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if name in ("lo", "lo0")), names[0])


def portable(error: BaseException) -> BaseException:
    """The error itself where it can travel between processes, else its text."""
    try:
        multiprocessing.reduction.ForkingPickler.dumps(error)
    except Exception:  # whatever an exception's own pickling raises
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
