"""The child process of one notebook run: `python -P -m labsim.lab._execute`, started by `labsim.lab.runner` only.

It executes one prepared notebook with papermill and tells the runner what happens, cell by cell. The two talk through
pipes:

- stdin: one line of JSON with the job, then the line `go` when the runner has looked for leftover processes and this
  process may exit. End of file means that the runner is gone, even by SIGKILL: then this process ends everything of
  the run, itself last.
- an inherited pipe (`events_fd`): one JSON object per line: `started` and `ended` per cell, then `finished`, with the
  facts of a failure or without, and the processor time of the kernel and what it started.
- SIGTERM: save the notebook as far as it got, exit.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import sys
import threading
import traceback
from dataclasses import dataclass
from typing import Any

from .processes import RunProcesses, adopt_orphans

_PARENT_CHECK_S = 0.5


@dataclass(frozen=True)
class Job:
    """What the runner asks for."""

    run_id: str
    notebook: str
    output: str
    run_directory: str
    parameters: dict[str, Any]
    start_timeout_s: float
    events_fd: int


class Reporter:
    """Sends events to the runner; `cell` holds the facts of the cell that runs now, None before the first."""

    def __init__(self, fd: int) -> None:
        self._pipe = os.fdopen(fd, "w", encoding="utf-8")
        self.cell: dict[str, Any] | None = None

    def send(self, event: str, **facts: object) -> None:
        self._pipe.write(json.dumps({"event": event, **facts}) + "\n")
        self._pipe.flush()


def main() -> None:
    """Read the job, execute it, report, wait for the runner's `go`."""
    runner_pid = os.getppid()
    job = Job(**json.loads(_read_line()))
    go, abandoned = threading.Event(), threading.Event()
    threading.Thread(target=_watch_runner, args=(job, runner_pid, go, abandoned), daemon=True).start()
    adopt_orphans()
    # nbformat's validator imports a grammar for international URLs whenever it is installed: one second per run, for
    # a format that no notebook field has.
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
    from ._engine import execute

    try:
        report = Reporter(job.events_fd)
        failure = execute(job, report)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        report.send("finished", failure=failure, cpu_s=used.ru_utime + used.ru_stime)
        go.wait()
    except BaseException as error:
        traceback.print_exc()
        if abandoned.is_set() or isinstance(error, BrokenPipeError):
            threading.Event().wait()  # the other thread is ending the run, and then this process
        sys.stderr.flush()
        os._exit(1)
    # What still runs is known to the runner; threads of libraries must not hold this process.
    sys.stderr.flush()
    os._exit(0)


def _watch_runner(job: Job, runner_pid: int, go: threading.Event, abandoned: threading.Event) -> None:
    """Set `go` when the runner says so; end the whole run when the runner is gone.

    The pipe tells at once. The parent's pid tells when some other process has inherited the pipe's far end.
    """
    while os.getppid() == runner_pid:
        if select.select([0], [], [], _PARENT_CHECK_S)[0]:
            if _read_line().strip() == "go":
                go.set()
                return
            break
    abandoned.set()
    RunProcesses(job.run_id, os.getpid()).end(spare=os.getpid())
    shutil.rmtree(job.run_directory, ignore_errors=True)
    os._exit(1)


def _read_line() -> str:
    """One line from stdin, unbuffered: `select` must not miss what a buffer holds. Empty at end of file."""
    line = bytearray()
    while byte := os.read(0, 1):
        line += byte
        if byte == b"\n":
            break
    return line.decode()


if __name__ == "__main__":
    main()
