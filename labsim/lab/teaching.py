"""What an instructor needs to know of each notebook, read from the notebooks, exercises, solutions and goldens.

Nothing here is typed: minutes and difficulty are the author's, from the exercise's definition and the notebook's second
cell; everything else is counted. The time that a check takes is measured, by judging the shipped solution. What a
learner needs is not measured, and the sheet says so.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .exercise import Exercise, find_exercise
from .golden import golden_path, load_goldens
from .notebooks import read_notebook
from .questions import numbers_of_quizzes, questions
from .solutions import exercise_cells, load_solutions, solutions_path

_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_TIME = re.compile(r"\bTime: (?:about )?(\d+) minutes\.(?: (.+))?$", re.MULTILINE)
_REFERENCE = re.compile(r"\((\d\d)_\w+\.ipynb\)|\b[Nn]otebooks? (\d\d)\b")
PAGES = ("slide", "subslide")


@dataclass(frozen=True)
class ExerciseFacts:
    """One exercise: the author's judgement, and what was counted. `solution_lines` leaves out blanks and comments."""

    exercise: Exercise
    place: str
    solution_lines: int
    named_mistakes: int


@dataclass(frozen=True)
class NotebookFacts:
    """One notebook. `widgets` are the headings under which something can be moved, `before` the notebooks that its text
    refers back to, `needs` what its own words say beside the time.
    """

    path: Path
    title: str
    minutes: int
    needs: str
    slides: int
    widgets: tuple[str, ...]
    before: tuple[str, ...]
    claims: tuple[str, ...]
    questions: int
    exercises: tuple[ExerciseFacts, ...]

    @property
    def exercise_minutes(self) -> int:
        """What the author reckons for all exercises together."""
        return sum(one.exercise.minutes for one in self.exercises)


def facts(notebook: Path) -> NotebookFacts:
    """Read one notebook with all that belongs to it.

    Raises:
        ValueError: no heading, or no "Time: N minutes." in its text.
    """
    content = read_notebook(notebook)
    cells = content["cells"]
    number = notebook.name[:2]
    text = "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    told = _TIME.search(text)
    if not told or not _HEADING.search(text):
        raise ValueError(f"{notebook} has no heading, or no 'Time: 45 minutes.' in its text; both are needed")
    mentioned = {one or other for one, other in _REFERENCE.findall(text)}
    path = golden_path(notebook)
    goldens = load_goldens(path) if path.exists() else {}
    sources = load_solutions(notebook)
    return NotebookFacts(
        path=notebook,
        title=_HEADING.findall(text)[0],
        minutes=int(told[1]),
        needs=_without_links(told[2] or ""),
        slides=sum(cell["metadata"]["slideshow"]["slide_type"] in PAGES for cell in cells),
        widgets=tuple(dict.fromkeys(place_of(cells, i) for i, cell in enumerate(cells) if _shows_a_widget(cell))),
        before=tuple(sorted(one for one in mentioned if one < number)),
        claims=tuple(sorted({one.claim for one in goldens.values() if one.claim}, key=_natural)),
        questions=len(questions(number)) if number in numbers_of_quizzes() else 0,
        exercises=tuple(
            _exercise(find_exercise(name), place_of(cells, at), sources[name])
            for name, at in exercise_cells(content).items()
        ),
    )


def check_seconds(notebook: Path) -> dict[str, float]:
    """Processor seconds that each exercise's check takes for the shipped solution, measured now.

    Raises:
        ValueError: a shipped solution that does not pass.
    """
    found = {}
    for name, answer in shipped_answers(notebook).items():
        exercise = find_exercise(name)
        exercise.judge(answer)  # the first call may import and load what the check compares with
        begun = time.process_time()
        verdict = exercise.judge(answer)
        found[name] = time.process_time() - begun
        if not verdict.passed:
            raise ValueError(f"the solution to {name} in {solutions_path(notebook)} does not pass: {verdict.headline}")
    return found


def shipped_answers(notebook: Path) -> dict[str, Callable]:
    """The solutions as functions, by exercise id."""
    text = solutions_path(notebook).read_text(encoding="utf-8")
    found: dict[str, Callable] = {}

    def exercise(name: str) -> Callable[[Callable], Callable]:
        return lambda function: found.setdefault(name, function)

    def answer(name: str, value: Any) -> None:
        found[name] = lambda: value

    space: dict[str, Any] = {}
    exec(text.partition("# %%")[0], space)  # the file's own imports
    space |= {"exercise": exercise, "answer": answer}
    for source in load_solutions(notebook).values():
        exec(source, space)
    return found


def place_of(cells: list[Mapping[str, Any]], index: int) -> str:
    """The nearest heading above a cell."""
    above = [_HEADING.findall(cell["source"]) for cell in cells[:index] if cell["cell_type"] == "markdown"]
    return next((found[-1] for found in reversed(above) if found), "")


def _exercise(exercise: Exercise, place: str, source: str) -> ExerciseFacts:
    lines = [line for line in source.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return ExerciseFacts(exercise, place, len(lines), len(exercise.check.misconceptions))


def _shows_a_widget(cell: Mapping[str, Any]) -> bool:
    """A bare name as a cell's last line shows a widget: tables and figures come from calls."""
    if cell["cell_type"] != "code":
        return False
    body = ast.parse(cell["source"]).body
    return bool(body) and isinstance(body[-1], ast.Expr) and isinstance(body[-1].value, ast.Name)


def _without_links(text: str) -> str:
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)


def _natural(claim: str) -> tuple[str, int]:
    letters = claim.rstrip("0123456789")
    return letters, int(claim[len(letters) :] or 0)
