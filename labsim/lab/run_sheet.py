"""The instructor's run sheet as Markdown: `docs/teaching.md`, written by `labsim teaching`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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

**Before the day.** `make setup` on each machine, while it has a network: a few minutes, some 2 GB for `.venv`, and
SmolLM2 in the cache. (Or the Codespace, or Binder for 00, 01, 02 and 15; both need a network all day.) Then take the
network away and run `.venv/bin/labsim doctor`: every line must say `ok`, `cache` and `target weights` too. Run the
notebook once, so that the first run's imports are over. From then on the course asks nothing of the network.

**Many machines that never have one.** Set up one machine that has a network and the same Linux, the same Python
(version and place) and the same user's home as the others. Put the course, or the unpacked hand-out, where it will lie
on all of them: an environment works only where it was made.

```
cd /opt/labsim-course && make setup                      # with a network, once
tar cf /media/stick/labsim.tar /opt/labsim-course ~/.cache/labsim
tar xf /media/stick/labsim.tar -C /                      # on each machine, without one
cd /opt/labsim-course && make setup && .venv/bin/labsim doctor
```

There `make setup` has nothing to do and says nothing. If it says `Setting up`, the folder, the Python or the GPU is not
the first machine's; `PYTHON=/path/to/python3.12` names the right one. Machines with nothing but a browser get the pages
of `make site STUDENT=1`: sliders and quizzes answer, exercises are not checked.

**In the hour.** Explorers and quizzes answer without a kernel, in the slides too. An unsolved exercise blocks no
later cell, so a class may skip any. `hint("01.1")` gives three hints, one after the other; `solution("01.1")` one
right answer. `labsim progress` shows each learner, and nobody else, what they have solved. In the teacher's deck a
solution comes with the next key; S opens the notes: the mistakes to expect, hints, what to move in an explorer.

**What is the same everywhere.** Counts, closed forms, the cost model, simulations and everything drawn from `seed`:
those numbers on the projector equal the ones in the room. What differs: whatever a clock has measured (milliseconds,
tokens a second, a measured speedup, what `doctor` says of the machine) and, between kinds of processor, the last digits
of what torch computes, which may move a trained draft by a token here and there. At `scale="laptop"` and `"gpu"` other
models are run, and their numbers are others.

**What a hand-out holds back.** `make handout` leaves out solutions and tests, `STUDENT=1` the answers on pages and
slides. Hints stay, and so does the package, whose functions some exercises rebuild: who looks for an answer finds one.
The course is for learning; do not give marks for it.
"""


@dataclass(frozen=True)
class Part:
    """A notebook in a plan. `hard` False leaves its hard exercises for home."""

    notebook: str
    hard: bool = True


@dataclass(frozen=True)
class Plan:
    """A day or a part of one: notebooks, and pauses as minutes."""

    title: str
    about: str
    parts: tuple[Part | int, ...]


PLANS = (
    Plan(
        "Half a day: does it pay?",
        "For those who run engines or pay for them. No model and no torch: Binder will do.",
        (Part("00"), Part("01"), 15, Part("02"), 10, Part("15")),
    ),
    Plan(
        "One day: serving",
        "For the same people: with the proof on a real model, and draft trees.",
        (Part("00"), Part("01"), 15, Part("02"), Part("03"), 60, Part("04", hard=False), 15, Part("15")),
    ),
    Plan(
        "Half a day: how drafts learn",
        "For those who train drafts or choose among trained ones.",
        (Part("05"), 15, Part("06"), 15, Part("07", hard=False)),
    ),
    Plan(
        "One day: long rows",
        "For those who train at 64K and beyond.",
        (
            *(Part("08"), Part("09", hard=False), 15, Part("10", hard=False), 60, Part("11", hard=False), 15),
            Part("12", hard=False),
        ),
    ),
)


def sheet(notebooks: Sequence[NotebookFacts], checks: Mapping[str, float], runs: Mapping[str, float]) -> str:
    """The page. `checks` and `runs` are measured seconds, by exercise id and by notebook name; gaps are named."""
    total = sum(one.minutes for one in notebooks)
    rows = [_row(one, runs) for one in notebooks]
    parts = [
        HEAD,
        f"## At a glance\n\n{len(notebooks)} notebooks, {sum(len(one.exercises) for one in notebooks)} exercises, "
        f"{sum(one.questions for one in notebooks)} quiz questions, {_hours(total)}.\n",
        _table(
            ("notebook", "minutes", "of these, exercises", "slides", "questions", "run", "refers to", "claims"),
            rows,
        ),
        _plans(notebooks),
        *(_section(one, checks) for one in notebooks),
    ]
    return "\n".join(parts)


def _plans(notebooks: Sequence[NotebookFacts]) -> str:
    """Every plan whose notebooks are all there."""
    by_number = {one.path.name[:2]: one for one in notebooks}
    found = [
        plan_section(plan, by_number)
        for plan in PLANS
        if all(part.notebook in by_number for part in plan.parts if isinstance(part, Part))
    ]
    if not found:
        return ""
    head = (
        "## Plans\n\nThey add the author's minutes up, quiz included. A class that talks needs more: then the quiz and "
        "the last exercise go home.\n"
    )
    return "\n".join([head, *found])


def plan_section(plan: Plan, notebooks: Mapping[str, NotebookFacts]) -> str:
    """One plan as Markdown; `notebooks` by number. Times count from the beginning of the day."""
    rows, now, pauses = [], 0, 0
    for part in plan.parts:
        if isinstance(part, int):
            rows.append((_clock(now), _clock(now + part), "lunch" if part >= 45 else "pause", str(part), ""))
            now, pauses = now + part, pauses + part
            continue
        one = notebooks[part.notebook]
        home = [] if part.hard else hard_exercises(one)
        minutes = one.minutes - sum(each.exercise.minutes for each in home)
        title = f"[{one.title}](#{anchor(one.title)})"
        rows.append((_clock(now), _clock(now + minutes), title, str(minutes), _ids(home)))
        now += minutes
    taught = [part.notebook for part in plan.parts if isinstance(part, Part)]
    before = sorted({name for number in taught for name in notebooks[number].before} - set(taught))
    needs = f" It builds on {', '.join(before)}." if before else ""
    return "\n".join(
        [
            f"### {plan.title}\n",
            f"{plan.about}{needs} {_hours(now - pauses)} of course, {_hours(pauses)} of pauses: {_hours(now)}.\n",
            _table(("from", "to", "what", "minutes", "for home"), rows),
        ]
    )


def hard_exercises(one: NotebookFacts) -> list[ExerciseFacts]:
    """What a class that is short of time leaves for home."""
    return [each for each in one.exercises if each.exercise.difficulty == "hard"]


def _ids(exercises: Sequence[ExerciseFacts]) -> str:
    return ", ".join(each.exercise.id for each in exercises)


def _clock(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}"


def _hours(minutes: int) -> str:
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


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
    if hard := hard_exercises(one):
        saved = sum(each.exercise.minutes for each in hard)
        lines.append(f"Short of time: leave {_ids(hard)} for home, which saves {saved} minutes.\n")
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
