"""What `make lab` sets in JupyterLab, as JupyterLab itself reads it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from jupyterlab.commands import get_app_dir
from jupyterlab_server.settings_utils import get_settings

ROOT = Path(__file__).parents[2]
NOTEBOOK = "@jupyterlab/notebook-extension:tracker"


def code_cells(tmp_path: Path) -> dict[str, bool]:
    """JupyterLab's default for the editor of a code cell."""
    app = Path(get_app_dir())
    settings, _ = get_settings(str(tmp_path), str(app / "schemas"), str(tmp_path), NOTEBOOK)
    return settings["schema"]["properties"]["codeCellConfig"]["default"]


def test_long_lines_of_code_wrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    assert code_cells(tmp_path)["lineWrap"] is False, "JupyterLab does so by itself"
    command = subprocess.run(["make", "-n", "lab"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    own = re.search(r'JUPYTER_CONFIG_PATH="([^"$]+)', command)[1]
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", own)
    assert code_cells(tmp_path) == {"lineNumbers": False, "lineWrap": True}
