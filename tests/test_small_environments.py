"""Binder's environment and the dev container: what they name is the lock's, and it runs what it promises."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from packaging.specifiers import SpecifierSet

from .test_environment import PINS, PROJECT
from .thin_environment import closure, thin_venv

ROOT = Path(__file__).resolve().parent.parent
BINDER = ROOT / ".binder"
NOTEBOOKS = ("00", "01", "02", "15")
DIRECT = (
    *("click", "prometheus-client", "rich"),
    *("anywidget", "ipykernel", "ipywidgets", "jupyterlab", "matplotlib", "notebook", "numpy"),
)
MEMORY = 2 * 10**9


def pins() -> dict[str, str]:
    lines = (BINDER / "requirements.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_binder_pins_what_the_four_notebooks_need_as_the_lock_does() -> None:
    assert pins() == closure(DIRECT)
    assert pins().items() <= PINS.items()
    assert not {"torch", "transformers"} & pins().keys()


def test_binder_and_dev_container_use_a_python_that_the_project_allows() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    binder = (BINDER / "runtime.txt").read_text().strip().removeprefix("python-")
    image = container["image"].rpartition(":")[2]
    for version in (binder, image):
        assert SpecifierSet(PROJECT["requires-python"]).contains(f"{version}.0")
    *_, with_python, set_up = container["postCreateCommand"].split()
    assert (ROOT / with_python).exists() and (ROOT / set_up).exists()
    interpreter = container["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert interpreter.endswith("/.venv/bin/python")


def test_binder_installs_labsim_itself() -> None:
    script = BINDER / "postBuild"
    assert os.access(script, os.X_OK), "repo2docker runs it"
    assert re.search(r"^python -m pip install .*--no-deps .*--editable \.$", script.read_text(), re.MULTILINE)


RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": sys.argv[2]}}).execute()
print(sum(cell.cell_type == "code" for cell in notebook.cells), "cells")
"""


@pytest.mark.full
@pytest.mark.notebook
@pytest.mark.timeout(3000)
def test_the_four_notebooks_run_without_torch_within_two_gigabytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = thin_venv(tmp_path / "venv", pins(), ROOT)
    environment = {
        **os.environ,
        "LABSIM_HOME": str(tmp_path / "home"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
    }
    assert subprocess.run([python, "-c", "import torch"], env=environment, capture_output=True).returncode, "no torch"
    peaks = {}
    for number in NOTEBOOKS:
        (notebook,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
        command = [str(python), "-c", RUN, str(notebook), str(notebook.parent)]
        with (tmp_path / f"{number}.log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            peaks[number] = peak_memory(process)
        said = (tmp_path / f"{number}.log").read_text()
        assert process.returncode == 0 and said.strip().endswith(" cells"), said[-3000:]
    with capsys.disabled():
        print(f"\npeak memory in MB: { {n: round(peak / 1e6) for n, peak in peaks.items()} } ", end="")
    assert sum(peaks.values()) < MEMORY, "all four open at once, each with its kernel"


def peak_memory(process: subprocess.Popen) -> int:
    """Largest sum of the proportional set sizes of a process and its descendants until it ends."""
    peak = 0
    while process.poll() is None:
        total = 0
        for one in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
            try:
                total += one.memory_full_info().pss
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue  # it has just ended
        peak = max(peak, total)
        time.sleep(0.2)
    return peak
