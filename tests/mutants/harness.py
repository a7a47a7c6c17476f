"""Answers to the exercises, right and wrong, that prove the checks.

`tests/mutants/NN.py` exports `ANSWERS`, a dict from exercise id to `Answers`. A wrong answer says which misconception
its verdict must name, or None where it only has to be rejected. At least two right answers are *different* programs,
and at least one of the wrong ones is something that the check's author did not list as a misconception.
For exercises that are answered with a value, write `lambda: value`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Wrong:
    """A wrong answer and the misconception that must be named (None: it must merely be rejected)."""

    function: Callable
    names: str | None = None


@dataclass(frozen=True)
class Answers:
    """The answers to one exercise."""

    right: tuple[Callable, ...]
    wrong: tuple[Wrong, ...]


def all_answers(folder: Path = FOLDER) -> dict[str, Answers]:
    """Answers by exercise id, from all files of the folder."""
    found: dict[str, Answers] = {}
    for path in sorted(folder.glob("[0-9][0-9].py")):
        spec = importlib.util.spec_from_file_location(f"mutants_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for exercise_id, answers in module.ANSWERS.items():
            assert exercise_id not in found, f"{exercise_id} has answers twice"
            found[exercise_id] = answers
    return found
