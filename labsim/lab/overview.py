"""How far this person has come: exercises solved and questions answered, notebook by notebook.

    progress()          # in a notebook: a table, and where to go on
    overview()          # the same as data, for `labsim progress`

Which exercises there are is read from the notebooks' own metadata, so that nothing has to be imported to count them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .notebooks import course_notebooks, read_notebook
from .progress import answered, solved
from .questions import numbers_of_quizzes, questions
from .solutions import exercise_cells

_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class NotebookProgress:
    """One notebook. `places` is, per exercise, the heading that it stands under."""

    path: Path
    title: str
    exercises: tuple[str, ...]
    places: tuple[str, ...]
    solved: frozenset[str]
    questions: int
    answered: int

    @property
    def next(self) -> tuple[str, str] | None:
        """The first exercise that is not solved yet, and its place."""
        open_ones = (
            (one, place) for one, place in zip(self.exercises, self.places, strict=True) if one not in self.solved
        )
        return next(open_ones, None)


def overview(folder: Path | None = None, environ: Mapping[str, str] = os.environ) -> tuple[NotebookProgress, ...]:
    """Progress in all notebooks of `folder` (default: the course's own, see `course_folder`).

    Raises:
        FileNotFoundError: no course around.
        ValueError: no notebooks in `folder`; a notebook or the progress file that cannot be read.
    """
    folder = folder or course_folder(Path.cwd())
    paths = course_notebooks(folder)
    if not paths:
        raise ValueError(f"no notebook such as 01_name.ipynb in {folder}")
    done, replies = solved(environ), answered(environ)
    return tuple(_of(path, done, replies) for path in paths)


def next_step(progress: Sequence[NotebookProgress]) -> str:
    """Where to go on, as a sentence."""
    for one in progress:
        if one.next:
            return f'Next: {one.next[0]} in {one.path.name}, under "{one.next[1]}".'
    return "All exercises are solved."


def progress() -> None:
    """Show the table in a notebook. A progress file that cannot be read is said, and raises nothing."""
    from .tables import table

    try:
        found = overview()
    except (OSError, ValueError) as error:
        print(f"Your progress cannot be shown: {error}")
        return
    table(
        [
            {"notebook": one.title, "exercises solved": _share(one)[0], "questions answered": _share(one)[1]}
            for one in found
        ]
    )
    print(next_step(found))


def course_folder(start: Path) -> Path:
    """The folder with the course's notebooks: at or above `start`, else beside the package."""
    for place in (start, *start.parents, Path(__file__).resolve().parents[2]):
        for folder in (place, place / "notebooks"):
            if any(folder.glob("[0-9][0-9]_*.ipynb")):
                return folder
    raise FileNotFoundError(f"no notebooks at or above {start}, nor beside the labsim package")


def _of(path: Path, done: frozenset[str], replies: Mapping[str, int]) -> NotebookProgress:
    notebook = read_notebook(path)
    headings = [
        _HEADING.findall(cell["source"]) if cell["cell_type"] == "markdown" else [] for cell in notebook["cells"]
    ]
    cells = exercise_cells(notebook)
    places = tuple(next((h[-1] for h in reversed(headings[:index]) if h), path.stem) for index in cells.values())
    number = path.name[:2]
    asked = [one.id for one in questions(number)] if number in numbers_of_quizzes() else []
    return NotebookProgress(
        path,
        next((h[0] for h in headings if h), path.stem),
        tuple(cells),
        places,
        done & cells.keys(),
        len(asked),
        sum(one in replies for one in asked),
    )


def _share(one: NotebookProgress) -> tuple[str, str]:
    return f"{len(one.solved)} of {len(one.exercises)}", f"{one.answered} of {one.questions}"
