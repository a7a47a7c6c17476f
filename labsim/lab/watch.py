"""The watch over one run: start the child, hear its events, enforce the limits, leave nothing behind.

The child (`labsim.lab._execute`) leads a session of its own, so that Ctrl-C reaches the runner alone, which then ends
the run in order. Deadline and memory cap live here and not in the child: whatever the notebook does to its kernel or
to papermill, this process keeps its clock. Should this process itself be killed, the child sees its pipe close and
ends the run.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .outcome import (
    CellError,
    CellTime,
    DeadlineError,
    ExecutorError,
    Interrupted,
    KernelDiedError,
    KernelStartError,
    MemoryCapError,
    RunError,
    place,
)
from .processes import RunProcesses, describe, listening, still_open

SAMPLE_S = 0.2
ORPHAN_GRACE_S = 2.0
NEW_PEAK = 1.02  # times the highest RSS that PSS was asked at
PSS_S = 2.0  # without a new peak of RSS; pages that ranks share count in RSS for each of them
_TRACEBACK_LINES = 12
_LOG_LINES = 15


@dataclass(frozen=True)
class Failure:
    """Why a run failed: the error to raise, and its text without the notebook's name."""

    error: type[RunError]
    text: str


class _Terminated(KeyboardInterrupt):
    """SIGTERM to the runner."""


class Watch:
    """One run. After `run`, `cells`, `cpu_s`, `peak_memory_bytes` and `orphans` say what is known of it."""

    def __init__(
        self,
        run_id: str,
        notebook: Path,
        *,
        deadline_s: float,
        memory_cap_bytes: int,
        on_event: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.run_id = run_id
        self.notebook = notebook
        self.deadline_s = deadline_s
        self.memory_cap_bytes = memory_cap_bytes
        self.on_event = on_event
        self.cells: list[CellTime] = []
        self.peak_memory_bytes = 0
        self._resident_bytes = 0
        self._asked_at = 0.0
        self.cpu_s: float | None = None
        self.orphans: tuple[str, ...] = ()
        self._cell: dict[str, Any] | None = None
        self._pending = b""

    def run(self, job: Mapping[str, object], environment: Mapping[str, str], log: Path) -> Failure | None:
        """Execute `job` in a child process; None when every cell ran to its end. No process is left on return."""
        receiving, sending = os.pipe()
        child: subprocess.Popen[bytes] | None = None
        processes: RunProcesses | None = None
        try:
            with _sigterm_interrupts(), log.open("wb") as log_file:
                child = subprocess.Popen(
                    [sys.executable, "-P", "-m", "labsim.lab._execute"],
                    stdin=subprocess.PIPE,
                    stdout=log_file,
                    stderr=log_file,
                    cwd=self.notebook.parent,
                    env=dict(environment),
                    pass_fds=(sending,),
                    start_new_session=True,
                )
                processes = RunProcesses(self.run_id, child.pid)
                child.stdin.write(json.dumps({**job, "events_fd": sending}).encode() + b"\n")
                child.stdin.flush()
                os.close(sending)
                sending = -1
                return self._watch(child, processes, receiving, log)
        except KeyboardInterrupt as interrupt:
            how = "SIGTERM" if isinstance(interrupt, _Terminated) else "Ctrl-C"
            return Failure(Interrupted, f"stopped by {how} in {place(self._cell)}; nothing of it is left running.")
        finally:
            with _uninterrupted():
                if sending >= 0:
                    os.close(sending)
                os.close(receiving)
                if child is not None and processes is not None:
                    _end(child, processes)

    def _watch(self, child: subprocess.Popen[bytes], processes: RunProcesses, events: int, log: Path) -> Failure | None:
        until = time.monotonic() + self.deadline_s
        next_sample = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(events, selectors.EVENT_READ)
            while True:
                now = time.monotonic()
                if now >= until:
                    return Failure(
                        DeadlineError,
                        f"the deadline of {self.deadline_s:g} s passed in {place(self._cell)}. Make the notebook "
                        "faster at this scale, or raise the deadline (--deadline).",
                    )
                if now >= next_sample:
                    if over := self._sample(processes):
                        return over
                    next_sample = time.monotonic() + SAMPLE_S
                if not selector.select(max(0.0, min(until, next_sample) - time.monotonic())):
                    continue
                chunk = os.read(events, 1 << 16)
                if not chunk:
                    return self._child_ended(child, log)
                for event in self._parse(chunk):
                    if event["event"] == "finished":
                        self.cpu_s = event["cpu_s"]
                        return self._finish(child, processes, event["failure"], log)
                    self._take(event)

    def _parse(self, chunk: bytes) -> list[dict[str, Any]]:
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "started":
            self._cell = event["cell"]
        else:
            self.cells.append(CellTime(self._cell["number"], event["seconds"], self._cell["first_line"]))
        if self.on_event is not None:
            self.on_event(event)

    def _sample(self, processes: RunProcesses) -> Failure | None:
        # For PSS the system walks over every page, during which the process waits: five times a second that takes a
        # tenth of its time. So it is asked at once only when RSS is higher than ever, else now and then.
        resident, now = processes.resident_bytes(), time.monotonic()
        higher = resident > min(NEW_PEAK * self._resident_bytes, self.memory_cap_bytes)
        if not higher and (resident <= self.peak_memory_bytes or now < self._asked_at + PSS_S):
            return None
        self._resident_bytes, self._asked_at = max(self._resident_bytes, resident), now
        used = processes.memory_bytes()
        self.peak_memory_bytes = max(self.peak_memory_bytes, used)
        if used <= self.memory_cap_bytes:
            return None
        # No grace: at some GB/s, a second decides about the machine.
        processes.kill_others()
        return Failure(
            MemoryCapError,
            f"used {_gigabytes(used)} of memory in {place(self._cell)}, above the cap of "
            f"{_gigabytes(self.memory_cap_bytes)}. Use less at this scale, or raise the cap (--memory).",
        )

    def _finish(
        self, child: subprocess.Popen[bytes], processes: RunProcesses, failure: dict[str, Any] | None, log: Path
    ) -> Failure | None:
        """Find and end leftovers while the child still lives and holds its descendants, then let it go."""
        leftovers = processes.others(grace_s=ORPHAN_GRACE_S)
        ports = {port for process in leftovers for port in listening(process)}
        self.orphans = tuple(describe(process) for process in leftovers)
        processes.end(spare=child.pid)
        self.orphans += tuple(f"port {port} is still open, held by {who}" for port, who in still_open(ports).items())
        child.stdin.write(b"go\n")
        child.stdin.flush()
        if failure is None:
            return None
        left = f" It left {len(self.orphans)} process(es), ended now." if self.orphans else ""
        if failure["kind"] == "start":
            return Failure(
                KernelStartError,
                f"its kernel did not start: {failure['detail']}. Run `labsim doctor`; a loaded machine may need a "
                f"longer start timeout.{left}{_tail(log)}",
            )
        where = place(failure["cell"])
        if failure["kind"] == "kernel":
            return Failure(
                KernelDiedError,
                f"the kernel died {failure['detail']} in {where}. SIGKILL (9) mostly means that the system ran out of "
                f"memory, SIGSEGV (11) a fault in native code.{left}{_tail(log)}",
            )
        advice = (
            "It is an exercise: an unsolved one must not raise, and its solution must pass."
            if failure["cell"]["exercise"]
            else "Run the notebook up to this cell in JupyterLab to look around."
        )
        lines = "".join(f"\n  {line}" for line in failure["traceback"][-_TRACEBACK_LINES:])
        return Failure(CellError, f"{where} raised {_one_line(failure['detail'])}. {advice}{left}{lines}")

    def _child_ended(self, child: subprocess.Popen[bytes], log: Path) -> Failure:
        status = child.wait()
        return Failure(
            ExecutorError,
            f"the process that executes the notebook ended with status {status} in {place(self._cell)}.{_tail(log)}",
        )


def _end(child: subprocess.Popen[bytes], processes: RunProcesses) -> None:
    """End what is left of the run and reap the child, which waits for `go` or has been ended."""
    try:
        processes.end()
    finally:
        child.wait()
        child.stdin.close()


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """SIGTERM takes the way of Ctrl-C (in the main thread; elsewhere Python has no say over signals)."""

    def terminate(*_: object) -> None:
        raise _Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """A second Ctrl-C must not stop the clearing up that the first one asked for."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
    return "".join(f"\n  {line}" for line in lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB"
