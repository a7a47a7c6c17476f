"""For all tests: no network, and nothing left behind.

The network is refused twice in this process, by pytest-socket and by `offline.no_network`, and in every Python started
from here by the latter. Whatever a test starts inherits a marker of the session; when the session ends, a process with
the marker that still lives, or a socket of a test process that still listens, makes the session red.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import psutil
import pytest

from labsim.lab.processes import describe, listening

from .offline.no_network import install

OFFLINE = Path(__file__).parent / "offline"
MARKER = "LABSIM_TEST_SESSION"
GRACE_S = 10.0  # helpers that end by themselves when their parent has


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts the tests in the background ignores Ctrl-C for them, and children would inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.option.allow_hosts = "127.0.0.1,::1,localhost"
    config.option.allow_unix_socket = True
    install()
    earlier = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(OFFLINE), *filter(None, earlier)]))
    os.environ["HF_HUB_OFFLINE"] = "1"
    if not hasattr(config, "workerinput"):  # the workers of pytest-xdist inherit the controller's
        os.environ[MARKER] = uuid.uuid4().hex


@pytest.fixture(scope="session", autouse=True)
def no_socket_left() -> Iterator[None]:
    """The first fixture of a process, and so the last one to end."""
    yield
    assert listening(psutil.Process()) == (), "a test of this process left a socket that listens"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Find and end what the tests have left running; a session that left something is red."""
    if hasattr(session.config, "workerinput"):
        return
    left = left_over(os.environ[MARKER])
    if not left:
        return
    for process in left:
        line = f"left running by a test: {describe(process)}"
        session.config.get_terminal_writer().line(f"\n{line}", red=True)
    for process in left:
        process.kill()
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


def left_over(marker: str, grace_s: float = GRACE_S) -> list[psutil.Process]:
    """Living processes that carry the marker and do not end within the grace, this one and its helpers aside."""
    # multiprocessing's helpers live as long as the interpreter
    helpers = {resource_tracker._resource_tracker._pid, forkserver._forkserver._forkserver_pid}
    return psutil.wait_procs([one for one in marked(marker) if one.pid not in helpers], timeout=grace_s)[1]


def marked(marker: str) -> list[psutil.Process]:
    """Living processes, this one aside, whose environment holds the session's marker."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if process.environ().get(MARKER) == marker:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # gone, or another user's: not one of ours
    return found
