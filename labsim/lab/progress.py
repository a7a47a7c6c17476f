"""Progress: the exercises that this person has solved and the questions answered, in one small JSON file on their disk.

`progress.json` lies in `$LABSIM_HOME`, else in `$XDG_DATA_HOME/labsim`, else in `~/.local/share/labsim`. It never
leaves the machine. Runs of the notebook runner (environment variable `LABSIM_RUN_ID`) neither read nor touch it: what
they make is for everybody.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

Content = tuple[set[str], dict[str, int]]  # solved exercises, and the choices that each answered question took


def progress_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the solved exercises are kept."""
    if environ.get("LABSIM_HOME"):
        return Path(environ["LABSIM_HOME"]) / "progress.json"
    base = environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return Path(base) / "labsim" / "progress.json"


def solved(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Ids of the solved exercises; empty when there is no file. ValueError if the file is not what labsim wrote."""
    return frozenset(_read(environ)[0])


def answered(environ: Mapping[str, str] = os.environ) -> dict[str, int]:
    """How many choices each answered quiz question took, by its id. ValueError as for `solved`."""
    return _read(environ)[1]


def mark_solved(exercise_id: str, environ: Mapping[str, str] = os.environ) -> str:
    """Add an exercise to the file, atomically. Returns "" or a sentence saying why it is not saved.

    A full disk or a damaged file must not take the verdict away from the learner, so trouble comes back as text.
    """
    return _add(environ, lambda exercises, quiz: ({*exercises, exercise_id}, quiz))


def mark_answered(question_id: str, choices: int, environ: Mapping[str, str] = os.environ) -> str:
    """Add an answered question, with the number of choices that it took the first time. As `mark_solved`."""
    return _add(environ, lambda exercises, quiz: (exercises, {question_id: choices, **quiz}))


def _add(
    environ: Mapping[str, str], change: Callable[[set[str], dict[str, int]], tuple[set[str], dict[str, int]]]
) -> str:
    if environ.get("LABSIM_RUN_ID"):
        return ""
    path = progress_file(environ)
    try:
        before = _read(environ)
        exercises, quiz = change(*before)
        if (exercises, quiz) != before:
            _write(path, {"solved": sorted(exercises)} | ({"quiz": dict(sorted(quiz.items()))} if quiz else {}))
    except (OSError, ValueError) as error:
        return f"Your progress is not saved: {error}"
    return ""


def _read(environ: Mapping[str, str]) -> Content:
    path = progress_file(environ)
    if environ.get("LABSIM_RUN_ID") or not path.exists():
        return set(), {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        quiz = {str(name): int(count) for name, count in content.get("quiz", {}).items()}
        if not isinstance(content["solved"], list):  # of a string the next line would keep the letters
            raise TypeError("'solved' is no list")
        return {str(one) for one in content["solved"]}, quiz
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(
            f'{path} is not a progress file ({error}); allowed: {{"solved": ["01.1"], "quiz": {{"01.q1": 1}}}}; '
            "correct or delete it"
        ) from error


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
