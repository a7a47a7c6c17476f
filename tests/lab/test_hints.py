"""A hint is a pointer: no hint's code, put into the exercise's form, passes its check."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labsim.lab.exercise import registry
from labsim.lab.teaching import shipped_answers

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def forms(hint: str) -> Iterator[list[str]]:
    """Bodies that a learner would try first: each piece of code alone, all results together, and piece after piece."""
    pieces = [piece.strip() for piece in re.findall(r"`([^`]+)`", hint)]
    pieces = [part for piece in pieces for part in piece.split("; ")]
    steps = [piece for piece in pieces if is_assignment(piece)]
    results = [piece for piece in pieces if not is_assignment(piece)]
    yield from ([*steps, f"return {one.removeprefix('return ')}"] for one in results)
    yield [*steps, f"return {', '.join(results)}"]
    for last in steps:
        yield [*steps, f"return {last.partition('=')[0]}"]


def is_assignment(piece: str) -> bool:
    try:
        return isinstance(ast.parse(piece).body[0], ast.Assign)
    except (SyntaxError, IndexError):
        return False


def attempt(body: list[str], like: Callable) -> Callable | None:
    """A function of the solution's parameters with this body; None where it is no Python."""
    source = f"def attempt{inspect.signature(like)}:\n" + "\n".join(f"    {line}" for line in body)
    space: dict[str, object] = {**vars(math), "math": math}
    try:
        exec(source, space)
    except SyntaxError:
        return None
    return space["attempt"]


def given_away(hints: tuple[str, ...], like: Callable, judge: Callable) -> list[str]:
    tried = [(hint, attempt(body, like)) for hint in hints for body in forms(hint)]
    return [hint for hint, function in tried if function is not None and judge(function).passed]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_hint_is_the_answer(notebook: Path) -> None:
    for exercise_id, like in shipped_answers(notebook).items():
        found = registry()[exercise_id]
        assert given_away(found.hints, like, found.judge) == [], exercise_id


@pytest.mark.parametrize(
    "hint", ["`sum(accepted) / len(accepted) + 1`", "`n = len(accepted)`, then `sum(accepted) / n + 1`"]
)
def test_a_hint_that_is_the_answer_is_found(hint: str) -> None:
    found = registry()["00.1"]
    assert given_away((hint,), lambda accepted: ..., found.judge)
    assert not given_away(("Add 1 to `sum(accepted) / len(accepted)`.",), lambda accepted: ..., found.judge)
