"""Questions of a quiz: data, and what counts as answered.

    Question(
        id="01.q1", title="A promise",
        text="`alpha` is 0.7 and K is 5. ...",
        options=(Option("4.5", "That is 1 + K·alpha: ...", right=True), Option("2.9", "...")),
        numbers={"4.5": "tokens_if_accepted_over_drafted"},
    )

A choice is answered with its reason at once, right or wrong, so every option has one. A question is answered when all
of its right options have been chosen; how many choices that took is kept. `labsim/lab/quizzes/quiz_NN.py` exports
`QUESTIONS` for notebook NN; a quiz imports no more than that file, and that file nothing but this one.

`numbers` binds what an explanation says to what the notebook computes: each number as it stands in the text, and the
expression that gives it, over the notebook's recorded metrics and the simulator's functions. Tests evaluate it.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ..sim.errors import unknown_name
from . import quizzes

_ID = re.compile(r"\d\d\.q[1-9]")
MIN_OPTIONS, MAX_OPTIONS = 2, 5
MIN_QUESTIONS, MAX_QUESTIONS = 3, 5


@dataclass(frozen=True)
class Option:
    """One choice. `why` is shown when it is taken: why it is right, or which thought leads to it and where it fails."""

    text: str
    why: str
    right: bool = False


@dataclass(frozen=True)
class Question:
    """One question. `code` is a log or a few lines of code, shown as they stand; texts may hold `code` and *stress*."""

    id: str
    title: str
    text: str
    options: tuple[Option, ...]
    code: str = ""
    numbers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"question id is {self.id!r}; allowed: NN.qm such as '01.q2'")
        if not MIN_OPTIONS <= len(self.options) <= MAX_OPTIONS:
            raise ValueError(f"{self.id} has {len(self.options)} options; allowed: {MIN_OPTIONS} to {MAX_OPTIONS}")
        if not self.right or len(self.right) == len(self.options):
            raise ValueError(f"{self.id} has {len(self.right)} right options; allowed: some, but not all")
        texts = [self.title, self.text, *(part for one in self.options for part in (one.text, one.why))]
        if not all(text.strip() for text in texts):
            raise ValueError(f"{self.id} has an empty text; allowed: a title, a text, and a reason for every option")
        if len({one.text for one in self.options}) < len(self.options):
            raise ValueError(f"{self.id} has an option twice; allowed: each once")
        object.__setattr__(self, "numbers", MappingProxyType(dict(self.numbers)))

    @property
    def right(self) -> frozenset[int]:
        """Positions of the right options."""
        return frozenset(i for i, one in enumerate(self.options) if one.right)

    def choices_needed(self, chosen: Sequence[int]) -> int | None:
        """How many of the choices, in order, it took to find all right options; None while one is missing.

        Choices after that are reading, and do not count.
        """
        for count in range(len(self.right), len(chosen) + 1):
            if self.right <= set(chosen[:count]):
                return count
        return None


def questions(notebook: str) -> tuple[Question, ...]:
    """The questions of a notebook, by its number such as "10". ValueError with the numbers there are."""
    if notebook not in numbers_of_quizzes():
        raise unknown_name("quiz", str(notebook), numbers_of_quizzes())
    found: tuple[Question, ...] = importlib.import_module(f"{quizzes.__name__}.quiz_{notebook}").QUESTIONS
    wanted = [f"{notebook}.q{i}" for i in range(1, len(found) + 1)]
    if [one.id for one in found] != wanted or not MIN_QUESTIONS <= len(found) <= MAX_QUESTIONS:
        raise ValueError(
            f"questions of quiz {notebook} are {[one.id for one in found]}; allowed: {notebook}.q1, {notebook}.q2 and "
            f"so on, {MIN_QUESTIONS} to {MAX_QUESTIONS} of them"
        )
    return found


def numbers_of_quizzes() -> tuple[str, ...]:
    """Numbers of the notebooks that have a quiz, in order."""
    return tuple(sorted(m.name[5:] for m in pkgutil.iter_modules(quizzes.__path__) if m.name.startswith("quiz_")))
