"""Plant one bug per layer in a copy of the repository, and see the suite turn red for each.

    python scripts/break_it.py [--only NAME ...] [--json]

A green suite proves something only if it can be red. Each bug (`scripts/planted_bugs.py`) is one exact replacement in
one file of a temporary copy, and names the few tests that must see it. First the same tests run there without any bug
and must pass; then each bug is planted, its tests must *fail*, and the file is put back. Tests that cannot be
collected, or none at all, are no proof. Exit status 1 when a bug survives or the control is red.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from planted_bugs import BUGS, Bug

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 900
PASSED, FAILED = 0, 1  # pytest's exit statuses; all others are no proof


@dataclass(frozen=True)
class Seen:
    """What the tests said of one bug."""

    name: str
    layer: str
    status: int
    seconds: float
    first_failure: str

    @property
    def caught(self) -> bool:
        """Whether tests ran, and failed."""
        return self.status == FAILED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these bugs alone")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    arguments = parser.parse_args()
    known = [bug.name for bug in BUGS]
    if unknown := sorted(set(arguments.only or ()) - set(known)):
        parser.error(f"no bug is called {', '.join(unknown)}; known: {', '.join(known)}")
    # As Ctrl-C does, so that the copy goes and the tests that run in it end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    chosen = [bug for bug in BUGS if not arguments.only or bug.name in arguments.only]
    say = (
        (lambda line: print(line, file=sys.stderr, flush=True))
        if arguments.json
        else (lambda line: print(line, flush=True))
    )

    with copied() as copy:
        control = tests(copy, dict.fromkeys(test for bug in chosen for test in bug.tests))
        say(f"control, no bug: {'green' if control[0] == PASSED else 'RED'}, {control[1]:.0f} s {control[2]}")
        seen = []
        if control[0] == PASSED:
            for bug in chosen:
                with planted(bug, copy):
                    seen.append(Seen(bug.name, bug.layer, *tests(copy, bug.tests)))
                say(line(seen[-1]))
    survived = [one.name for one in seen if not one.caught]
    ok = control[0] == PASSED and not survived
    if arguments.json:
        print(
            json.dumps(
                {"ok": ok, "control": control[0], "bugs": [asdict(one) | {"caught": one.caught} for one in seen]}
            )
        )
    elif seen:
        say(
            f"{len(seen) - len(survived)} of {len(seen)} bugs caught"
            + (f"; survived: {', '.join(survived)}" if survived else "")
        )
    sys.exit(0 if ok else 1)


def line(one: Seen) -> str:
    verdict = "red" if one.caught else f"SURVIVED (pytest's status {one.status})"
    return f"{one.name} ({one.layer}): {verdict}, {one.seconds:.0f} s {one.first_failure}"


@contextmanager
def copied() -> Iterator[Path]:
    """The working tree in a temporary folder: what git tracks or would track, as it is now."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    with tempfile.TemporaryDirectory(prefix="labsim-break-") as folder:
        for name in filter(None, names):
            source, target = ROOT / name, Path(folder, name)
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        yield Path(folder)


@contextmanager
def planted(bug: Bug, copy: Path) -> Iterator[None]:
    """The bug in the copy, for as long as the block lasts.

    Raises:
        ValueError: the text to replace is not in the file exactly once; the bug must be written again.
    """
    path = copy / bug.file
    before = path.read_text(encoding="utf-8")
    if before.count(bug.right) != 1:
        raise ValueError(f"{bug.name}: {bug.file} holds {bug.right!r} {before.count(bug.right)} times; allowed: once")
    path.write_text(before.replace(bug.right, bug.wrong), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


def tests(copy: Path, chosen: Iterable[str]) -> tuple[int, float, str]:
    """Run tests in the copy: pytest's exit status, seconds, and the first failure in a line."""
    # The copy stands before the installed package on the path of every child, too.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", "-rfE", *chosen]
    started = time.monotonic()
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
        status, said = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        status, said = -1, ""
    failures = [one for one in said.splitlines() if one.startswith(("FAILED ", "ERROR "))]
    return status, time.monotonic() - started, failures[0][:160] if failures else ""


if __name__ == "__main__":
    main()
