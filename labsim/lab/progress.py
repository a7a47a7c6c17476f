"""Progress: which exercises this person has solved, in one small JSON file on their own disk.

`progress.json` lies in `$LABSIM_HOME`, else in `$XDG_DATA_HOME/labsim`, else in `~/.local/share/labsim`. It never
leaves the machine. Runs of the notebook runner (environment variable `LABSIM_RUN_ID`) do not touch it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def progress_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the solved exercises are kept."""
    if environ.get("LABSIM_HOME"):
        return Path(environ["LABSIM_HOME"]) / "progress.json"
    base = environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return Path(base) / "labsim" / "progress.json"


def solved(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Ids of the solved exercises; empty when there is no file. ValueError if the file is not what labsim wrote."""
    path = progress_file(environ)
    if not path.exists():
        return frozenset()
    try:
        ids = json.loads(path.read_text(encoding="utf-8"))["solved"]
        return frozenset(str(one) for one in ids)
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f'{path} is not a progress file ({error}); allowed: {{"solved": [...]}}') from error


def mark_solved(exercise_id: str, environ: Mapping[str, str] = os.environ) -> str:
    """Add an exercise to the file, atomically. Returns "" or a sentence saying why it is not saved.

    A full disk or a damaged file must not take the verdict away from the learner, so trouble comes back as text.
    """
    if environ.get("LABSIM_RUN_ID"):
        return ""
    path = progress_file(environ)
    try:
        ids = solved(environ)
        if exercise_id not in ids:
            _write(path, {"solved": sorted({*ids, exercise_id})})
    except (OSError, ValueError) as error:
        return f"Your progress is not saved: {error}"
    return ""


def _write(path: Path, content: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".progress-", suffix=".json")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
