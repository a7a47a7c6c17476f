"""A real JupyterLab, a real Notebook 7 and a real Chromium for the tests in this folder.

The server listens on 127.0.0.1 with its token on, over a copy of the notebooks, with its own settings, kernels and
data folders. Every process it starts inherits an environment marker; afterwards no process with that marker may live.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from labsim.lab.browser import OFFLINE, find_chromium

expect.set_options(timeout=30_000)  # the machine may be busy

REPOSITORY = Path(__file__).resolve().parents[2]
MARKER = "LABSIM_BROWSER_TEST"
SETTINGS = {
    # Without windowing every cell is in the page, so that a test can look at all outputs.
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}


# anywidget 0.11 stops waiting for a widget after 2 s. On a busy machine the widget comes later and works all the same:
# test_learner_path walks through a notebook on a slow page.
OF_ANYWIDGET = "[anywidget] Failed to initialize model."


@dataclass(frozen=True)
class LabServer:
    """A running JupyterLab or Notebook 7: its address, its token, the folder it serves and where a notebook opens."""

    url: str
    token: str
    root: Path
    place: str

    def open(self, notebook: str) -> str:
        """Address that opens a notebook of the folder."""
        return f"{self.url}/{self.place}/{notebook}?token={self.token}&reset"

    def close_kernels(self) -> None:
        """Shut down what runs, so that the next test opens its notebook with a fresh kernel."""
        for session in json.loads(self.request("GET", "/api/sessions")):
            self.request("DELETE", f"/api/sessions/{session['id']}")

    def request(self, method: str, path: str) -> bytes:
        """Body of the server's answer; OSError when it does not answer or refuses."""
        call = urllib.request.Request(self.url + path, method=method, headers={"Authorization": f"token {self.token}"})
        with urllib.request.urlopen(call, timeout=10) as reply:
            return reply.read()


@pytest.fixture(scope="session")
def chromium_path() -> str:
    path = find_chromium()
    if path:
        return path
    said = "no chromium on PATH: apt-get install -y chromium fonts-dejavu-core"
    if os.environ.get("CI") or os.geteuid() == 0:
        pytest.fail(said)
    pytest.skip(f"{said} (needs root)")


@pytest.fixture(scope="package")
def browser(chromium_path: str) -> Iterator[Browser]:
    options = [*OFFLINE, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium_path, args=options)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """Where the pictures go, for a person to look at."""
    folder = REPOSITORY / "build" / "browser"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="package")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    options = ["--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    options.append("--LabApp.expose_app_in_browser=True")
    with serving("jupyterlab", "lab/tree", options, tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="package")
def notebook_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    options = ["--JupyterNotebookApp.expose_app_in_browser=True"]
    with serving("notebook", "notebooks", options, tmp_path_factory.mktemp("notebook")) as server:
        yield server


@contextmanager
def serving(module: str, place: str, options: list[str], home: Path) -> Iterator[LabServer]:
    """A server of a copy of the course's notebooks; `home` is all that it may write to."""
    root = home / "notebooks"
    shutil.copytree(REPOSITORY / "notebooks", root, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    for name, content in SETTINGS.items():
        path = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    marker, token, port = secrets.token_hex(8), secrets.token_hex(24), free_port()
    environment = {
        **os.environ,
        MARKER: marker,
        "JUPYTER_TOKEN": token,  # not on the command line, where every user of the machine can read it
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "LABSIM_HOME": str(home / "labsim"),
    }
    command = [
        *(sys.executable, "-m", module, "--no-browser"),
        *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
        f"--ServerApp.root_dir={root}",
        *options,
        *(["--allow-root"] if os.geteuid() == 0 else []),
    ]
    log = home / "server.log"
    with log.open("wb") as stream:
        server = subprocess.Popen(command, env=environment, stdout=stream, stderr=stream, start_new_session=True)
    try:
        lab = LabServer(f"http://127.0.0.1:{port}", token, root, place)
        wait_until_up(lab, server, log)
        yield lab
    finally:
        stop(server, marker)


@pytest.fixture
def page(browser: Browser, lab_server: LabServer) -> Iterator[Page]:
    with page_of(browser, lab_server) as opened:
        yield opened


@contextmanager
def page_of(browser: Browser, server: LabServer, *known: str) -> Iterator[Page]:
    """A page of its own; afterwards the server runs no kernel. `known` are errors of the application itself."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(30_000)
    opened = context.new_page()
    opened.console_errors = []
    opened.on(
        "pageerror", lambda error: str(error) not in (OF_ANYWIDGET, *known) and opened.console_errors.append(str(error))
    )
    yield opened
    context.close()
    server.close_kernels()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_up(lab: LabServer, server: subprocess.Popen, log: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        try:
            lab.request("GET", "/api/status")
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the server does not answer:\n{log.read_text()[-3000:]}")


def stop(server: subprocess.Popen, marker: str) -> None:
    """End the server; then every process that carries the marker (kernels have sessions of their own)."""
    if server.poll() is None:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(10)
    left = marked(marker)
    for process in left:
        process.kill()
    psutil.wait_procs(left, timeout=10)
    assert not marked(marker), "processes of the browser test are still alive"


def marked(marker: str) -> list[psutil.Process]:
    """Living processes whose environment holds the marker."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == marker and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # gone, or another user's: not one of ours
    return found
