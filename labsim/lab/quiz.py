"""The quiz: a few questions near the end of a notebook, each choice answered with its reason.

    quiz("10")        # as the last line of a cell

`quiz.js` draws it from the widget's own state, one question at a time, so that it works in JupyterLab, in an exported
page and in slides alike, with no kernel and no network. Where a kernel listens, answered questions are kept with the
solved exercises (`labsim.lab.progress`), on this machine only.

In Python `quiz.choose(1)` takes an option of the question that is shown, `quiz.at` says which that is, and
`quiz.answered` which are done; all of it may be set and observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from .progress import mark_answered
from .questions import Question, questions
from .style import widget_css

_HERE = Path(__file__).parent


class Quiz(anywidget.AnyWidget):
    """The widget. `chosen` holds, per question, the options taken so far in their order; `at` is what is shown."""

    _esm = _HERE / "quiz.js"
    _css = widget_css("quiz")

    title = traitlets.Unicode().tag(sync=True)
    data = traitlets.List(help="the questions as plain values").tag(sync=True)
    chosen = traitlets.List(traitlets.List(traitlets.Int()), help="options taken, per question").tag(sync=True)
    at = traitlets.Int(0, help="which question is shown").tag(sync=True)
    note = traitlets.Unicode(help="why an answer could not be kept, if so").tag(sync=True)

    def __init__(self, asked: Sequence[Question], title: str = "Check yourself") -> None:
        if not asked:
            raise ValueError("the quiz has no questions; allowed: at least one")
        self._asked = tuple(asked)
        super().__init__(title=title, data=[plain(one) for one in asked], chosen=[[] for _ in asked])

    @property
    def questions(self) -> tuple[Question, ...]:
        """What is asked."""
        return self._asked

    @property
    def answered(self) -> dict[str, int]:
        """How many choices each answered question took, by its id."""
        found = {one.id: one.choices_needed(taken) for one, taken in zip(self._asked, self.chosen, strict=True)}
        return {name: count for name, count in found.items() if count is not None}

    def choose(self, option: int) -> str:
        """Take an option of the question that is shown, as a click does. Returns the reason that is then shown."""
        asked = self._asked[self.at]
        if not 0 <= option < len(asked.options):
            raise ValueError(f"option is {option}; allowed: 0 to {len(asked.options) - 1}")
        if option not in self.chosen[self.at]:
            taken = [list(one) for one in self.chosen]
            taken[self.at].append(option)
            self.chosen = taken
        return asked.options[option].why

    @traitlets.validate("at")
    def _inside(self, proposal: Mapping[str, Any]) -> int:
        wanted = proposal["value"]
        if not 0 <= wanted < len(self._asked):
            raise ValueError(f"at is {wanted}; allowed: 0 to {len(self._asked) - 1}")
        return wanted

    @traitlets.validate("chosen")
    def _known(self, proposal: Mapping[str, Any]) -> list[list[int]]:
        wanted = proposal["value"]
        sizes = [len(one.options) for one in self._asked]
        if len(wanted) != len(sizes) or not all(
            len(set(taken)) == len(taken) and all(0 <= i < size for i in taken)
            for taken, size in zip(wanted, sizes, strict=False)
        ):
            raise ValueError(f"chosen is {wanted}; allowed: per question a list of different options, of {sizes}")
        return wanted

    @traitlets.observe("chosen")
    def _keep(self, change: Mapping[str, Any]) -> None:
        for question_id, count in self.answered.items():
            self.note = mark_answered(question_id, count)


def quiz(notebook: str) -> Quiz:
    """The quiz of a notebook, by its number. ValueError with the nearest match if there is none."""
    return Quiz(questions(notebook), title=f"Check yourself: {notebook}")


def plain(question: Question) -> dict[str, Any]:
    """The question as JSON-ready values: what the page needs to answer every choice by itself."""
    return {
        "title": question.title,
        "text": question.text,
        "code": question.code,
        "options": [{"text": one.text, "why": one.why, "right": one.right} for one in question.options],
    }
