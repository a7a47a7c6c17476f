"""The doctor: can the course run on this machine, and if not, what to do about it.

Each check looks at one thing a learner would otherwise trip over in the middle of a notebook, and answers with `ok`, or
with the one action that mends it. Checks marked `optional` report but never fail the doctor.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIB = 1024**3
CACHE_BYTES = 900_000_000  # what fetching SmolLM2 needs for a moment, see labsim.models.smollm2
SET_UP = "run `make lab` in the project folder"


@dataclass(frozen=True)
class Finding:
    """Result of one check. `fix` is what to do, empty when `ok`; an `optional` finding does not fail the doctor."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    optional: bool = False


def examine(told: Callable[[str, int, int], object] = lambda what, done, total: None) -> list[Finding]:
    """Run every check, in the order in which a learner would meet the problem.

    `told` hears before each one what is looked at, how many are done, and of how many: torch alone takes seconds.
    """
    findings = []
    with others_quiet():
        for done, check in enumerate(CHECKS):
            told(check.__name__.removeprefix("check_"), done, len(CHECKS))
            findings.append(check())
    return findings


@contextmanager
def others_quiet() -> Iterator[None]:
    """IPython and Matplotlib speak of a home that cannot be written as they are imported; the findings say it once."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def can_run(findings: list[Finding]) -> bool:
    """Whether the course can run: nothing that is required failed."""
    return all(finding.ok or finding.optional for finding in findings)


def check_python() -> Finding:
    version = platform.python_version()
    ok = (3, 11) <= sys.version_info[:2] <= (3, 13)
    fix = "" if ok else "use Python 3.11, 3.12 or 3.13: PYTHON=/path/to/python3.12 make lab"
    return Finding("Python", ok, f"{version} at {sys.executable}", fix)


def check_packages() -> Finding:
    """Compare what is installed with the lock, so that a half-finished set-up shows before a cell fails."""
    lock = ROOT / "requirements.lock"
    if not lock.exists():
        return Finding("packages", True, "no lock beside this installation; versions not compared", optional=True)
    pins = dict(line.split("==") for line in lock.read_text().splitlines() if "==" in line and line[0] != "#")
    wrong = []
    for name, version in pins.items():
        try:
            found = importlib.metadata.version(name).split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            found = "missing"
        if found != version:
            wrong.append(f"{name} {found}, lock {version}")
    if wrong:
        more = f" and {len(wrong) - 2} more" if len(wrong) > 2 else ""
        return Finding("packages", False, "; ".join(wrong[:2]) + more, "set up anew: make clean lab")
    return Finding("packages", True, f"{len(pins)} as in requirements.lock")


def check_torch() -> Finding:
    # In a process of its own: importing torch takes seconds and memory that the doctor's caller may not want to keep.
    code = "import torch; print(torch.__version__, torch.version.cuda or 'CPU build', torch.get_num_threads(), sep='|')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if result.returncode:
        fix = f"{SET_UP}; without torch only notebooks 00, 01, 02 and 15 run"
        return Finding("torch", False, (result.stderr.strip().splitlines() or ["no answer"])[-1], fix)
    version, build, threads = result.stdout.strip().split("|")
    build = build if build == "CPU build" else f"CUDA {build}"
    return Finding("torch", True, f"{version}, {build}, {threads} threads")


def check_processor() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    tool = shutil.which("nvidia-smi")
    gpus = []
    if tool:
        query = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
        try:
            result = subprocess.run(query, capture_output=True, text=True, timeout=10)
        except subprocess.TimeoutExpired:
            return Finding("CPU/GPU", True, f"{cores} cores; nvidia-smi does not answer", optional=True)
        gpus = result.stdout.strip().splitlines() if result.returncode == 0 else []
    detail = f"{cores} cores, {platform.machine()}; " + ("; ".join(gpus) if gpus else "no NVIDIA GPU (none is needed)")
    return Finding("CPU/GPU", True, detail)


def check_memory() -> Finding:
    available = available_memory_bytes()
    if available is None:
        return Finding("memory", True, "unknown on this system", optional=True)
    ok = available >= 2 * GIB
    fix = "" if ok else "close other programs: the notebooks need 2 GiB free"
    return Finding("memory", ok, f"{available / GIB:.1f} GiB available", fix)


def available_memory_bytes() -> int | None:
    """Memory that a new process may use: the system's figure, or the container's limit when that is lower."""
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return None
    found = re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text())
    if found is None:
        return None
    available = int(found.group(1)) * 1024
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and limit.read_text().strip() != "max":
        available = min(available, int(limit.read_text()) - int(used.read_text()))
    return max(0, available)


def check_port() -> Finding:
    """JupyterLab takes 8888 or the next free one; only a machine without any free loopback port is a fault."""
    for port in range(8888, 8938):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            taken = "" if port == 8888 else " (8888 is taken; JupyterLab moves on by itself)"
            return Finding("free port", True, f"127.0.0.1:{port}{taken}")
    return Finding("free port", False, "none from 8888 to 8937 on 127.0.0.1", "stop an old `jupyter lab`")


def check_kernel() -> Finding:
    """The kernel called python3 must be this environment's Python, or notebooks import another labsim or none."""
    if importlib.util.find_spec("jupyter_client") is None or importlib.util.find_spec("ipykernel") is None:
        return Finding("kernel", False, "ipykernel is not installed here", SET_UP)
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        program = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        return Finding("kernel", False, "no kernel called python3", SET_UP)
    found = shutil.which(program) or program
    # Compared without resolving links: every venv's python links to the same system interpreter.
    # jupyter_client starts a bare "python" or "python3" as the interpreter it runs under.
    same = Path(found).parent == Path(sys.executable).parent or program in ("python", "python3")
    fix = "" if same else "start with `make lab`, or set JUPYTER_PREFER_ENV_PATH=1: another python3 kernel comes first"
    return Finding("kernel", same, found if not same else "python3 is this environment", fix)


def check_fonts() -> Finding:
    if importlib.util.find_spec("matplotlib") is None:
        return Finding("fonts", False, "matplotlib is not installed here", SET_UP)
    from matplotlib import font_manager

    try:
        path = font_manager.findfont("DejaVu Sans", fallback_to_default=False)
    except ValueError:
        fix = "reinstall matplotlib, which brings the font: .venv/bin/pip install --force-reinstall matplotlib"
        return Finding("fonts", False, "DejaVu Sans not found", fix)
    return Finding("fonts", True, f"DejaVu Sans ({Path(path).name})")


def check_targets() -> Finding:
    """Target models: nano is shipped; SmolLM2 is fetched once, and the parts that need it say so without it."""
    from .models.smollm2 import prepared, target_directory

    nano = ROOT / "data" / "nano" / "model.safetensors"
    if not nano.exists():
        return Finding("target weights", False, f"{nano} is missing", "git checkout data/nano", optional=True)
    try:
        fetched = f"smollm2 in {target_directory()}" if prepared() else "smollm2 not fetched yet: labsim target smollm2"
    except ValueError as error:
        return Finding("target weights", False, str(error), "unset LABSIM_CACHE", optional=True)
    return Finding("target weights", True, f"nano; {fetched}", optional=True)


def check_cache() -> Finding:
    """Fetched models and the assets of slides and site go there; the course's own model does not."""
    from .models.paths import cache_directory
    from .models.smollm2 import prepared

    try:
        path = cache_directory()
        needed = 0 if prepared() else CACHE_BYTES
    except ValueError as error:
        return Finding("cache", False, str(error), "set LABSIM_CACHE to a folder that can be written", optional=True)
    place, writable = writable_place(path)
    if not writable:
        fix = "set LABSIM_CACHE to a folder that can be written; without it SmolLM2, slides and site are missing"
        return Finding("cache", False, f"{path} cannot be written", fix, optional=True)
    free = shutil.disk_usage(place).free
    if free < needed:
        found = f"{path}: {free / 1e9:.1f} GB free; SmolLM2 needs {needed / 1e9:.1f}"
        fix = "free some space, or set LABSIM_CACHE to a folder on another disk"
        return Finding("cache", False, found, fix, optional=True)
    return Finding("cache", True, f"{path} can be written, {free / 1e9:.0f} GB free", optional=True)


def check_progress() -> Finding:
    """Solved exercises are kept in one file; where it cannot be written, checks answer and nothing is kept."""
    from .lab.progress import progress_file

    path = progress_file()
    _, writable = writable_place(path.parent)
    if writable and (not path.exists() or os.access(path, os.R_OK | os.W_OK)):
        return Finding("progress", True, f"{path} can be written", optional=True)
    fix = "set LABSIM_HOME to a folder that can be written; without it solved exercises are not remembered"
    return Finding("progress", False, f"{path} cannot be written", fix, optional=True)


def writable_place(folder: Path) -> tuple[Path, bool]:
    """The folder, or the nearest one above it that exists, and whether files can be made there.

    Tried, not asked: permissions say yes on a file system that is mounted read-only, or virtual.
    """
    try:
        place = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
        with tempfile.TemporaryFile(dir=place):
            return place, True
    except OSError:
        return folder, False


CHECKS: tuple[Callable[[], Finding], ...] = (
    check_python,
    check_packages,
    check_torch,
    check_processor,
    check_memory,
    check_port,
    check_kernel,
    check_fonts,
    check_targets,
    check_cache,
    check_progress,
)
