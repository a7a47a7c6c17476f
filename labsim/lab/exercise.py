"""Exercises: the learner writes a function, the cell answers at once.

    from labsim.lab.exercise import answer, exercise, hint, solution

    @exercise("01.2")                    # judged when the cell runs; the function itself comes back unchanged
    def expected_tokens(alpha_d, k):
        ...

    answer("02.4", "prefill")            # an exercise whose answer is a value or a choice
    measured("10.4", cases)              # what this page has measured is tried, too, when the exercise's cell runs
    hint("01.2")                         # the next of three hints; hint("01.2", 2) shows the second
    solution("01.2")                     # on demand, from notebooks/solutions/

Nothing here raises because of what a learner wrote, so an unsolved exercise blocks no later cell. Each verdict is also
emitted under `application/vnd.labsim.exercise+json` as {"id", "status", "misconception"}: the notebook runner reads it
to assert that a solved notebook passes everything.

Exercises are data. `labsim/lab/exercises/ex_NN.py` exports `EXERCISES`, a tuple of `Exercise`, for notebook NN; the
module is imported when one of its exercises is asked for.
"""

from __future__ import annotations

import html
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from ..sim.errors import unknown_name
from . import exercises
from .check import Check
from .guard import Inputs
from .progress import mark_solved
from .verdict import EXERCISE_MIME, Verdict, markup

Function = TypeVar("Function", bound=Callable)
Measured = Sequence[tuple[Inputs, Any]]

DIFFICULTIES = ("warm-up", "easy", "medium", "hard")


@dataclass(frozen=True)
class Exercise:
    """One exercise. `id` is "NN.m" (notebook, number); `minutes` is how long it takes; `hints` are exactly three,
    each giving away more. `takeaway` is the sentence shown with a right answer.
    """

    id: str
    title: str
    minutes: int
    difficulty: str
    prompt: str
    hints: tuple[str, str, str]
    check: Check
    takeaway: str = ""

    def __post_init__(self) -> None:
        notebook, _, number = self.id.partition(".")
        if not (len(notebook) == 2 and notebook.isdigit() and number.isdigit()):
            raise ValueError(f"exercise id is {self.id!r}; allowed: NN.m such as '01.2'")
        if self.difficulty not in DIFFICULTIES:
            raise ValueError(f"difficulty of {self.id} is {self.difficulty!r}; allowed: {', '.join(DIFFICULTIES)}")
        if len(self.hints) != 3 or not all(self.hints):
            raise ValueError(f"hints of {self.id} are {len(self.hints)}; allowed: exactly three, none empty")

    def judge(self, function: Callable, measured: Measured = ()) -> Verdict:
        """The verdict on a learner's function, with the takeaway when it is right. No side effects."""
        verdict = self.check.judge(function, measured)
        return verdict.with_details(self.takeaway) if verdict.passed else verdict


@cache
def registry() -> Mapping[str, Exercise]:
    """All exercises of the course by id, in order."""
    numbers = sorted(m.name[3:] for m in pkgutil.iter_modules(exercises.__path__) if m.name.startswith("ex_"))
    found = [one for number in numbers for one in _module(number)]
    ids = [one.id for one in found]
    if len(set(ids)) < len(ids):
        raise ValueError(f"exercise ids are {ids}; allowed: each id once")
    return MappingProxyType({one.id: one for one in found})


def find_exercise(exercise_id: str) -> Exercise:
    """The exercise with this id. ValueError with the nearest of its notebook if there is none."""
    number = str(exercise_id).partition(".")[0].zfill(2)
    if f"ex_{number}" not in {m.name for m in pkgutil.iter_modules(exercises.__path__)}:
        raise ValueError(f"exercise is {str(exercise_id)!r}; right: a notebook and a number in it, such as '01.2'")
    there = {one.id: one for one in _module(number)}
    if exercise_id not in there:
        raise unknown_name("exercise", str(exercise_id), there)
    return there[exercise_id]


def exercise(exercise_id: str) -> Callable[[Function], Function]:
    """Decorator: judge the function now, show the verdict, give the function back (with `.passed` set on it).

    ValueError for an unknown id.
    """
    found = find_exercise(exercise_id)

    def decorate(function: Function) -> Function:
        verdict = _announce(found, found.judge(function, _measured.get(exercise_id, ())))
        if hasattr(function, "__dict__"):
            function.passed = verdict.passed  # type: ignore[attr-defined]
        return function

    return decorate


def answer(exercise_id: str, value: Any) -> None:
    """Judge a value or a choice and show the verdict. None and `...` mean: not attempted yet."""
    found = find_exercise(exercise_id)
    _announce(found, found.judge(lambda: value))


def measured(exercise_id: str, cases: Measured) -> None:
    """Have an exercise try what the page has measured, too: (inputs, right answer) each.

    They take the place of those of an earlier run of the cell. ValueError for an unknown exercise.
    """
    _measured[find_exercise(exercise_id).id] = tuple(cases)


def hint(exercise_id: str, number: int | None = None) -> None:
    """Show the next hint of an exercise, or the given one (1 to 3)."""
    found = find_exercise(exercise_id)
    if number is None:
        number = _turns.next(exercise_id)
    if number not in (1, 2, 3):
        raise ValueError(f"number is {number!r}; allowed: 1, 2 or 3")
    after = f'`hint("{exercise_id}")` shows the next one.' if number < 3 else f'Then: `solution("{exercise_id}")`.'
    text = f"{exercise_id}, hint {number} of 3: {found.hints[number - 1]}"
    _show(
        f"<p><strong>{exercise_id}, hint {number} of 3.</strong> {markup(found.hints[number - 1])}"
        f'<br><span style="opacity:.75">{markup(after)}</span></p>',
        f"{text}\n{after}",
    )


def solution(exercise_id: str, notebooks: Path | None = None) -> None:
    """Show one right answer of an exercise, from `notebooks/solutions/`; where there are none, say who has them."""
    found = find_exercise(exercise_id)
    try:
        source = solution_source(exercise_id, notebooks)
    except FileNotFoundError:
        text = f'This is a hand-out, without solutions: your instructor has them. `hint("{exercise_id}")` gives a hint.'
        _show(f"<p><strong>{found.id} {html.escape(found.title)}.</strong> {markup(text)}</p>", text)
        return
    head = f"{found.id} {found.title}: one right answer"
    _show("", f"{head}\n\n{source.strip()}", {"text/markdown": f"**{head}**\n\n```python\n{source.strip()}\n```"})


def solution_source(exercise_id: str, notebooks: Path | None = None) -> str:
    """The source text of the solution to an exercise.

    FileNotFoundError when there is none around: solutions are no part of the package, nor of a hand-out.
    """
    from .solutions import load_solutions

    folder = notebooks or find_notebooks(Path.cwd())
    number = exercise_id.partition(".")[0]
    for notebook in sorted((folder / "solutions").glob(f"{number}_*.py")):
        by_id = load_solutions(folder / f"{notebook.stem}.ipynb")
        if exercise_id in by_id:
            return by_id[exercise_id]
    raise FileNotFoundError(f"no solution to {exercise_id} in {folder / 'solutions'}")


def find_notebooks(start: Path) -> Path:
    """The folder that holds the notebooks and `solutions/`: at or above `start`, else beside the package."""
    places = [start, *start.parents, Path(__file__).resolve().parents[2]]
    for place in places:
        for folder in (place, place / "notebooks"):
            if (folder / "solutions").is_dir() and any((folder / "solutions").glob("[0-9][0-9]_*.py")):
                return folder
    raise FileNotFoundError(f"no notebooks/solutions folder at or above {start}, nor beside the labsim package")


def task(exercise_id: str) -> None:
    """Show the exercise's title, time, difficulty and prompt."""
    found = find_exercise(exercise_id)
    head = f"{found.id} {found.title} ({found.minutes} min, {found.difficulty})"
    _show(f"<h4>{markup(head)}</h4><p>{markup(found.prompt)}</p>", f"{head}\n{found.prompt}")


def _announce(found: Exercise, verdict: Verdict) -> Verdict:
    if verdict.passed:
        verdict = verdict.with_details(mark_solved(found.id))
    else:
        verdict = verdict.with_details(f'Stuck? `hint("{found.id}")`')
    label = f"{found.id} {found.title}"
    _show(verdict.to_html(label), verdict.to_text(label), {EXERCISE_MIME: verdict.to_json(found.id)})
    return verdict


def _show(as_html: str, as_text: str, extra: Mapping[str, Any] = MappingProxyType({})) -> None:
    if InteractiveShell.initialized():
        page = {"text/html": as_html} if as_html else {}
        display({**page, "text/plain": as_text, **extra}, raw=True)
    else:
        print(as_text)


@cache
def _module(number: str) -> tuple[Exercise, ...]:
    return importlib.import_module(f"{exercises.__name__}.ex_{number}").EXERCISES


class _Turns:
    """Which hint comes next. Lives as long as the kernel, so that a restarted notebook shows the same hints again."""

    def __init__(self) -> None:
        self._shown: dict[str, int] = {}

    def next(self, exercise_id: str) -> int:
        self._shown[exercise_id] = min(self._shown.get(exercise_id, 0) + 1, 3)
        return self._shown[exercise_id]


_turns = _Turns()
_measured: dict[str, Measured] = {}  # by exercise; as long as the kernel lives
