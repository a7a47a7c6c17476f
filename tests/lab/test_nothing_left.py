"""Nothing stays behind: ports of leftovers are named and closed, and tests that leave something are red."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from labsim.lab.outcome import OrphanError
from labsim.lab.processes import describe, listening, still_open
from labsim.lab.runner import run

from .notebook_builder import write

LIMITS = {"deadline_s": 60, "memory_cap_bytes": 2 * 10**9}
SERVER = (
    "import socket, time; s = socket.create_server(('127.0.0.1', 0)); "
    "print(s.getsockname()[1], flush=True); time.sleep(600)"
)


def test_a_server_that_outlives_its_notebook_is_named_with_its_port(tmp_path: Path) -> None:
    source = (
        "import subprocess, sys\n"
        f"p = subprocess.Popen([sys.executable, '-c', {SERVER!r}], stdout=subprocess.PIPE, start_new_session=True)\n"
        "open('port', 'wb').write(p.stdout.readline())"
    )
    with pytest.raises(OrphanError) as caught:
        run(write(tmp_path / "01_t.ipynb", source), tmp_path / "out.ipynb", **LIMITS)
    port = int((tmp_path / "port").read_text())
    assert f"listening on 127.0.0.1:{port}" in str(caught.value)
    assert not still_open({f"127.0.0.1:{port}"}), "ended with the run"


def test_a_port_that_somebody_else_has_inherited_is_still_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = f"127.0.0.1:{server.getsockname()[1]}"
        heir = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[server.fileno()])
        server.close()
        assert list(still_open({port, "127.0.0.1:1"})) == [port]
        assert port in describe(psutil.Process(heir.pid)) and listening(psutil.Process(heir.pid)) == (port,)
        heir.communicate(b"\n")
    assert still_open({port}) == {}


LEAKS = {
    "process": "def test_it():\n    sleep = 'import time; time.sleep(600)'\n"
    "    subprocess.Popen([sys.executable, '-c', sleep], start_new_session=True)",
    "socket": "def test_it():\n    globals()['kept'] = socket.create_server(('127.0.0.1', 0))",
    "nothing": "def test_it():\n    subprocess.run([sys.executable, '-c', '1'])",
}


@pytest.mark.parametrize("what", LEAKS)
def test_a_session_that_leaves_something_is_red(tmp_path: Path, what: str) -> None:
    """A suite of its own under this project's conftest, with one green test that leaks."""
    tests = tmp_path / "tests"
    (tests / "offline").mkdir(parents=True)
    ours = Path(__file__).parents[1]
    for name in ("__init__.py", "conftest.py", "offline/no_network.py", "offline/sitecustomize.py"):
        text = (ours / name).read_text()
        (tests / name).write_text(text.replace("GRACE_S = 10.0", "GRACE_S = 1.0"))
    (tests / "test_leak.py").write_text(textwrap.dedent("import socket, subprocess, sys\n") + LEAKS[what])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tests)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=dict(os.environ))
    assert "1 passed" in done.stdout
    assert done.returncode == (0 if what == "nothing" else 1)
    assert ("left running by a test: pid" in done.stdout) is (what == "process")
    assert ("left a socket that listens" in done.stdout) is (what == "socket")
