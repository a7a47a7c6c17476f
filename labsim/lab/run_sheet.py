"""The instructor's run sheet as Markdown: `docs/teaching.md`, written by `labsim teaching`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .claims.page import anchor
from .teaching import ExerciseFacts, NotebookFacts

NOT_MEASURED = "not measured"
HEAD = """# Teaching with labsim

Written by `labsim teaching` from the notebooks, exercises, solutions and goldens; do not edit it by hand.

**How to read it.** *Minutes* and *difficulty* (warm-up, easy, medium, hard) are the author's, for somebody who
works alone; nobody has timed a class yet. Beside the difficulty stands what was counted: lines of the shipped
solution, and known mistakes that the check calls by their names. *Check* is the processor time of one check of that
solution, *run* that of the whole notebook as delivered, exercises empty; both were measured on the course's own
machine of two cores. *Slides* counts vertical ones too. *Refers to* lists the earlier notebooks that the text
builds on. *Claims* are those that the notebook's recorded numbers speak to.

**Before the hour.** `make lab` on each machine (or the Codespace, or Binder for 00, 01, 02 and 15), and `labsim
doctor`: every line must say `ok`. Run the notebook once, so that the first run's imports and downloads are over.
Numbers on the projector equal those on the hand-out: everything random follows `seed`.

**In the hour.** Explorers and quizzes answer without a kernel, in the slides too. An unsolved exercise blocks no
later cell, so a class may skip any. `hint("01.1")` gives three hints, one after the other; `solution("01.1")` one
right answer. `labsim progress` shows each learner, and nobody else, what they have solved.
"""


def sheet(notebooks: Sequence[NotebookFacts], checks: Mapping[str, float], runs: Mapping[str, float]) -> str:
    """The page. `checks` and `runs` are measured seconds, by exercise id and by notebook name; gaps are named."""
    total = sum(one.minutes for one in notebooks)
    rows = [_row(one, runs) for one in notebooks]
    parts = [
        HEAD,
        f"## At a glance\n\n{len(notebooks)} notebooks, {sum(len(one.exercises) for one in notebooks)} exercises, "
        f"{sum(one.questions for one in notebooks)} quiz questions, {total // 60} h {total % 60} min.\n",
        _table(
            ("notebook", "minutes", "of these, exercises", "slides", "questions", "run", "refers to", "claims"),
            rows,
        ),
        *(_section(one, checks) for one in notebooks),
    ]
    return "\n".join(parts)


def _row(one: NotebookFacts, runs: Mapping[str, float]) -> tuple[str, ...]:
    return (
        f"[{one.title}](#{anchor(one.title)})",
        str(one.minutes),
        str(one.exercise_minutes),
        str(one.slides),
        str(one.questions),
        _seconds(runs.get(one.path.stem)),
        ", ".join(one.before) or "-",
        ", ".join(one.claims) or "-",
    )


def _section(one: NotebookFacts, checks: Mapping[str, float]) -> str:
    rest = max(0, one.minutes - one.exercise_minutes)
    about = (
        f"[{one.path.name}](../notebooks/{one.path.name}): {one.minutes} minutes, {one.exercise_minutes} of them for "
        f"the exercises, {rest} to read, look and talk. {one.needs}"
    )
    lines = [f"## {one.title}\n", about.rstrip() + "\n"]
    if one.widgets:
        lines.append("Project, and move with the class: " + "; ".join(f"*{name}*" for name in one.widgets) + ".\n")
    hard = [each for each in one.exercises if each.exercise.difficulty == "hard"]
    if hard:
        saved = sum(each.exercise.minutes for each in hard)
        names = ", ".join(each.exercise.id for each in hard)
        lines.append(f"Short of time: leave {names} for home, which saves {saved} minutes.\n")
    lines.append(
        _table(
            ("exercise", "under", "difficulty", "minutes", "solution", "named mistakes", "check"),
            [_exercise_row(each, checks) for each in one.exercises],
        )
    )
    return "\n".join(lines)


def _exercise_row(each: ExerciseFacts, checks: Mapping[str, float]) -> tuple[str, ...]:
    one = each.exercise
    return (
        f"{one.id} {one.title}",
        each.place,
        one.difficulty,
        str(one.minutes),
        f"{each.solution_lines} lines",
        str(each.named_mistakes),
        _seconds(checks.get(one.id)),
    )


def _seconds(value: float | None) -> str:
    if value is None:
        return NOT_MEASURED
    return f"{value:.3f} s" if value < 1 else f"{value:.1f} s"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines) + "\n"
