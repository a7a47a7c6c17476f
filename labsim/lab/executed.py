"""Executed notebooks that pages and slides are made of: run once, used until something that they show has changed.

An executed notebook is *current* while the digest in its metadata equals the digest of what it was made from: the
notebook, its solutions, the package and the data. So a page that is made twice runs its notebook once, and one whose
numbers could have moved is never shown.

    folder = executed_folder(Path("build"), solve=True)
    paths = bring_up_to_date(sorted(Path("notebooks").glob("*.ipynb")), folder, solve=True)

Data files count by name, size and time of change, everything else by content. What only presents or commands
(`PRESENTATION`) does not count: it cannot move a number.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .golden import golden_path
from .notebooks import read_notebook
from .solutions import solutions_path

PACKAGE = Path(__file__).resolve().parents[1]
PRESENTATION = (
    "cli.py",
    "commands",
    "lab/assets.py",
    "lab/browser.py",
    "lab/claims",
    "lab/executed.py",
    "lab/export.py",
    "lab/golden.py",
    "lab/site",
    "lab/slides",
    "lab/standalone.js",
)
DEADLINE_S = 600


class ExecutionFailed(RuntimeError):
    """A notebook's run failed. The message is what `labsim run` said."""


def executed_folder(build: Path, *, solve: bool) -> Path:
    """Where executed notebooks lie: those with solutions and those as delivered apart."""
    return build / "executed" / ("solved" if solve else "delivered")


def is_current(notebook: Path, executed: Path, *, solve: bool) -> bool:
    """Whether `executed` is `notebook` run as it is now, with what it reads as that is now."""
    try:
        made_from = read_notebook(executed)["metadata"].get("labsim", {}).get("made_from")
    except (FileNotFoundError, ValueError):
        return False
    return made_from == inputs_digest(notebook, solve=solve)


def bring_up_to_date(
    notebooks: Sequence[Path],
    folder: Path,
    *,
    solve: bool,
    jobs: int = 1,
    deadline_s: float = DEADLINE_S,
    say: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Execute what is not current, `jobs` at a time, into `folder`; the executed notebooks in the order given.

    Raises:
        ExecutionFailed: the first run that failed; the others have ended.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stale = [one for one in notebooks if not is_current(one, folder / one.name, solve=solve)]
    for one in stale:
        say(f"to execute: {one.name}")
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        for one in pool.map(lambda one: _execute(one, folder, solve=solve, deadline_s=deadline_s), stale):
            say(f"executed {one}")
    return [folder / one.name for one in notebooks]


def inputs_digest(notebook: Path, *, solve: bool) -> str:
    """Digest of everything that decides what an executed notebook shows."""
    hasher = hashlib.sha256(f"{sys.version} solve={solve}".encode())
    own = [notebook, *([solutions_path(notebook)] if solve and solutions_path(notebook).exists() else [])]
    for path in [*own, *_package_files()]:
        hasher.update(os.path.relpath(path, PACKAGE).encode() + b"\0" + path.read_bytes())
    data = PACKAGE.parent / "data"
    for path in sorted(data.rglob("*")):
        facts = path.stat()
        if path.is_file():
            hasher.update(f"{path.relative_to(data)} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return hasher.hexdigest()


def _package_files() -> list[Path]:
    without = [PACKAGE / name for name in PRESENTATION]
    return [
        path
        for path in sorted(PACKAGE.rglob("*"))
        if path.suffix in (".py", ".js", ".css", ".json") and not any(path.is_relative_to(one) for one in without)
    ]


def _execute(notebook: Path, folder: Path, *, solve: bool, deadline_s: float) -> Path:
    """Run one notebook in a process of its own (a run handles signals, which only a main thread can), then mark it."""
    digest = inputs_digest(notebook, solve=solve)  # before the run: what changes during it makes the result stale
    command = [sys.executable, "-m", "labsim", "run", str(notebook), "--out", str(folder)]
    command += ["--deadline", str(deadline_s), *(["--solve"] if solve else [])]
    command += [] if golden_path(notebook).exists() else ["--no-golden"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise ExecutionFailed(run.stderr.strip() or run.stdout.strip())
    executed = folder / notebook.name
    document = json.loads(executed.read_text(encoding="utf-8"))
    document["metadata"].setdefault("labsim", {})["made_from"] = digest
    fresh = executed.with_suffix(f".{os.getpid()}.new")
    fresh.write_text(json.dumps(document), encoding="utf-8")
    fresh.replace(executed)
    return executed
