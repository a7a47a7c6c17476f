"""Which processes belong to a run, how much memory they use, and how they end.

A notebook may start processes that outlive its kernel, in sessions of their own: killing a process group misses them.
So each run puts a unique marker, `LABSIM_RUN_ID=<uuid>`, into the environment of its first process. Children inherit it
whatever their parent, group or session becomes, and the kernel shows it (on Linux in `/proc/<pid>/environ`). A child
started with an emptied environment has no marker; it is found as a descendant, and on Linux the run's first process
also adopts orphaned descendants (`adopt_orphans`), so that a daemon cannot leave the tree while that process lives.

A listening socket belongs to its processes and ends with the last of them: leftovers are named with their ports, and
after the sweep the ports are looked at once more.

Memory is the sum of PSS over these processes where the system counts it (Linux: shared pages are divided among those
who share them, so that a sum over ranks is honest), else of RSS.

POSIX only: Linux and macOS.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Iterable

import psutil

RUN_ID_VARIABLE = "LABSIM_RUN_ID"
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.02
_LOADING_S = 5.0


class RunProcesses:
    """The processes of one run: everything with the marker in `variable`, and every descendant of `root_pid`."""

    def __init__(self, run_id: str, root_pid: int, variable: str = RUN_ID_VARIABLE) -> None:
        self.run_id, self.variable = run_id, variable
        self.root_pid = root_pid
        self._ours: dict[int, psutil.Process] = {}
        self._foreign: set[int] = set()

    def alive(self, *, thorough: bool = False) -> list[psutil.Process]:
        """Living processes of the run, the root among them. Zombies have ended and do not count.

        A pid once seen to be foreign is not looked at again unless `thorough`: that keeps the scan that runs several
        times a second cheap on a machine with a thousand processes, and the last word goes to a thorough one.
        """
        if thorough:
            self._foreign.clear()
        living: dict[int, psutil.Process] = {}
        undecided: dict[int, psutil.Process] = {}
        for pid in psutil.pids():
            if pid in self._foreign:
                continue
            try:
                process = self._ours.get(pid)
                if process is None or not process.is_running():
                    process = psutil.Process(pid)
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if pid in self._ours or pid == self.root_pid or self._is_marked(process):
                    living[pid] = process
                else:
                    undecided[pid] = process
            except psutil.NoSuchProcess:
                continue
            except psutil.AccessDenied:
                # Another user's process: its environment is not ours to read, so it did not come from us.
                self._foreign.add(pid)
        self._add_descendants(living, undecided)
        self._ours = living
        return list(living.values())

    def memory_bytes(self) -> int:
        """Memory of the whole run now: the sum of PSS on Linux, of RSS elsewhere."""
        return sum(_memory_bytes(process) for process in self.alive())

    def resident_bytes(self) -> int:
        """The sum of RSS: never less than `memory_bytes`, and read in no time."""
        return sum(_resident_bytes(process) for process in self.alive())

    def others(self, *, grace_s: float) -> list[psutil.Process]:
        """What still lives beside the root after `grace_s`: returns at once when nothing does.

        The grace is for helpers that end by themselves when their parent does (multiprocessing's resource tracker).
        """
        until = time.monotonic() + grace_s
        while True:
            left = [process for process in self.alive(thorough=True) if process.pid != self.root_pid]
            if not left or time.monotonic() >= until:
                return left
            time.sleep(_POLL_S)

    def end(self, *, grace_s: float = 2.0, limit_s: float = 20.0, spare: int | None = None) -> None:
        """End every process of the run except `spare`: SIGTERM, after `grace_s` SIGKILL, until none is left.

        Raises:
            RuntimeError: a process survives SIGKILL for `limit_s` (stuck inside the operating system).
        """
        begin = time.monotonic()
        asked: set[int] = set()
        while left := [process for process in self.alive(thorough=True) if process.pid != spare]:
            elapsed = time.monotonic() - begin
            if elapsed > limit_s:
                raise RuntimeError(
                    f"processes that cannot be ended: {', '.join(describe(process) for process in left)}"
                )
            for process in left:
                try:
                    if elapsed > grace_s:
                        process.kill()
                    elif process.pid not in asked:
                        asked.add(process.pid)
                        process.terminate()
                except psutil.NoSuchProcess:
                    continue
            time.sleep(_POLL_S)

    def kill_others(self) -> None:
        """SIGKILL everything but the root, at once: for a run that is eating the machine's memory."""
        for process in self.alive(thorough=True):
            if process.pid != self.root_pid:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue

    def _is_marked(self, process: psutil.Process) -> bool:
        environment = process.environ()
        marked = environment.get(self.variable) == self.run_id
        # While a process loads a new program its environment reads as empty: no verdict on a young one.
        if not marked and (environment or time.time() - process.create_time() > _LOADING_S):
            self._foreign.add(process.pid)
        return marked

    def _add_descendants(self, living: dict[int, psutil.Process], undecided: dict[int, psutil.Process]) -> None:
        """Move processes with an ancestor in `living` from `undecided` to `living`."""
        grew = True
        while grew and undecided:
            grew = False
            for pid, process in list(undecided.items()):
                try:
                    parent = process.ppid()
                except psutil.NoSuchProcess:
                    del undecided[pid]
                    continue
                if parent in living:
                    living[pid] = undecided.pop(pid)
                    self._foreign.discard(pid)
                    grew = True


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans (Linux; elsewhere nothing happens)."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def describe(process: psutil.Process) -> str:
    """`pid 4711: python -c ..., listening on 127.0.0.1:8000`, shortened; works for one that has just ended, too."""
    try:
        command = " ".join(process.cmdline()) or process.name()
    except psutil.Error:
        command = "(ended)"
    ports = "".join(f", listening on {port}" for port in listening(process))
    return f"pid {process.pid}: {command[:120]}{ports}"


def listening(process: psutil.Process) -> tuple[str, ...]:
    """Addresses at which a process waits for connections, as `127.0.0.1:8000`; none for one that has ended."""
    try:
        found = process.net_connections(kind="tcp")
    except psutil.Error:
        return ()
    return tuple(sorted({_address(one) for one in found if one.status == psutil.CONN_LISTEN}))


def still_open(ports: Iterable[str]) -> dict[str, str]:
    """Those of the addresses at which some process of this machine still listens, and which one.

    A process that was ended leaves its port open where another one has inherited the socket.
    """
    wanted = set(ports)
    if not wanted:
        return {}
    found = {}
    for one in psutil.net_connections(kind="tcp"):
        if one.status == psutil.CONN_LISTEN and _address(one) in wanted:
            found[_address(one)] = f"pid {one.pid}" if one.pid else "a process of another user"
    return found


def _address(connection: object) -> str:
    host, port = connection.laddr
    return f"{host}:{port}"


def _memory_bytes(process: psutil.Process) -> int:
    try:
        if sys.platform == "linux":
            try:
                return process.memory_full_info().pss
            except psutil.AccessDenied:  # a hardened system may show RSS only
                pass
        return _resident_bytes(process)
    except psutil.NoSuchProcess:
        return 0


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0
