"""Create .venv from requirements.lock; do nothing when it is already current.

    python scripts/setup_env.py [--browser]

Runs on a bare Python (standard library only). A stamp inside .venv, written last, holds the digest of everything that
decides the environment, so an interrupted set-up simply starts again and a finished one is recognised in milliseconds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "labsim-setup.json"
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--browser", action="store_true", help="also install Chromium (root only) for the browser tests"
    )
    arguments = parser.parse_args()
    gpu = has_nvidia_gpu()
    wanted = {"digest": digest(gpu), "prefix": str(VENV)}
    if not is_current(wanted):
        install(gpu)
        # Replaced in one step: a half-written stamp must not pass for a finished set-up.
        fresh = STAMP.with_suffix(".new")
        fresh.write_text(json.dumps(wanted))
        fresh.replace(STAMP)
    fetch_smollm2()
    fetch_assets()
    if arguments.browser:
        install_browser()


def digest(gpu: bool) -> str:
    """Digest of the lock, the project file, this script, the interpreter and the kind of torch build."""
    hasher = hashlib.sha256(f"{sys.version} gpu={gpu}".encode())
    for path in (ROOT / "requirements.lock", ROOT / "pyproject.toml", Path(__file__)):
        hasher.update(path.read_bytes())
    return hasher.hexdigest()


def is_current(wanted: dict[str, str]) -> bool:
    """Whether the stamp says that .venv was finished from the same inputs in the same place."""
    if not (STAMP.exists() and (VENV / "bin" / "python").exists()):
        return False
    try:
        return json.loads(STAMP.read_text()) == wanted
    except ValueError:
        return False


def install(gpu: bool) -> None:
    """Make .venv anew, install the lock and labsim itself (editable, so that notebooks show the source they run)."""
    print(f"Setting up {VENV} with Python {sys.version.split()[0]}: a few minutes, once.", flush=True)
    result = subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], capture_output=True, text=True)
    if result.returncode:
        said = (result.stderr or result.stdout).strip()
        help_ = "\nOn Debian or Ubuntu: apt-get install python3-venv" if "ensurepip" in said else ""
        sys.exit(f"Could not create {VENV}: {said.splitlines()[-1]}{help_}")
    lock = ROOT / "requirements.lock"
    pins = [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    torch = next(pin for pin in pins if pin.startswith("torch=="))
    # PyPI's torch for Linux carries several GB of CUDA libraries that are dead weight without a GPU.
    if not gpu and index_answers(PYTORCH_CPU_INDEX):
        pip("install", "--no-deps", "--index-url", PYTORCH_CPU_INDEX, torch)
    pip("install", "-r", str(lock))
    pip("install", "--no-deps", "-e", str(ROOT))
    quiet_jupyter()
    # Imports are slow once, on the first run of everything; better here than in the learner's first cell.
    subprocess.run([str(VENV / "bin" / "python"), "-c", "import matplotlib.pyplot, torch"], check=True)


def pip(*arguments: str) -> None:
    command = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", *arguments]
    if not sys.stdout.isatty():
        command.append("--quiet")
    if subprocess.run(command, cwd=ROOT).returncode:
        sys.exit(
            f"Set-up stopped: `pip {' '.join(arguments)}` failed (its message is above). Run the same command again."
        )


def has_nvidia_gpu() -> bool:
    """Whether the NVIDIA driver answers with at least one GPU."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return False
    try:
        result = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0 and "GPU" in result.stdout


def index_answers(url: str) -> bool:
    """Whether a package index can be reached from here within a few seconds."""
    try:
        with urllib.request.urlopen(f"{url}/torch/", timeout=5) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


def quiet_jupyter() -> None:
    """Keep JupyterLab from asking about news and from calling home for updates."""
    settings = VENV / "share" / "jupyter" / "lab" / "settings"
    settings.mkdir(parents=True, exist_ok=True)
    notification = {"fetchNews": "false", "checkForUpdates": False}
    overrides = {"@jupyterlab/apputils-extension:notification": notification}
    (settings / "overrides.json").write_text(json.dumps(overrides, indent=2))


def fetch_smollm2() -> None:
    """Fetch and convert the SmolLM2 target once. Without it the course runs on its own small target, so never fail."""
    sys.path.insert(0, str(ROOT))
    from labsim.models.smollm2 import prepared

    if prepared() is not None:
        return
    command = [str(VENV / "bin" / "python"), "-m", "labsim", "target", "smollm2"]
    if subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
        print("Going on without SmolLM2 (see above); everything but the cells that need it works.", flush=True)


def fetch_assets() -> None:
    """Fetch what slides and site are made of, 13 MB once. Without it the course runs all the same, so never fail."""
    sys.path.insert(0, str(ROOT))
    from labsim.lab.assets import PACKAGES, AssetUnavailable, fetch

    for name in PACKAGES:
        try:
            fetch(name, say=lambda line: print(line, flush=True))
        except (AssetUnavailable, ValueError) as error:
            print(f"Going on without slides and site: {error}", flush=True)
            return


def install_browser() -> None:
    """Install Debian's Chromium for the browser tests where that is possible; say so where it is not."""
    if any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print("No Chromium here and no right to install it: the browser tests will be skipped.", flush=True)
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = {"env": environment, "stdout": subprocess.DEVNULL}
    install = ["apt-get", "install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
    for command in (["apt-get", "update"], install):
        if subprocess.run(command, **quiet).returncode:
            sys.exit(f"`{' '.join(command)}` failed; install Chromium by hand or run the tests without -m browser.")


if __name__ == "__main__":
    main()
