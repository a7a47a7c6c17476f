"""Quizzes: their shape, their numbers against the notebooks' recorded metrics, and the widget's own bookkeeping."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import traitlets

from labsim.attention.bytes_sent import AttentionShape
from labsim.lab import progress
from labsim.lab.claims.store import load_directory, metrics_directory
from labsim.lab.notebooks import read_notebook
from labsim.lab.questions import Option, Question, numbers_of_quizzes, questions
from labsim.lab.quiz import Quiz, plain, quiz
from labsim.parallel.layout import Layout
from labsim.sim.acceptance import convert_draft_acceptance_rate
from labsim.sim.speedup import speedup

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = {path.name[:2]: path for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))}
ALL = [one for number in numbers_of_quizzes() for one in questions(number)]
RECORDED = load_directory(metrics_directory() / "ci")
FUNCTIONS = {
    "convert_draft_acceptance_rate": convert_draft_acceptance_rate,
    "speedup": speedup,
    "AttentionShape": AttentionShape,
    "Layout": Layout,
}
DECIMAL = re.compile(r"\d+\.\d+|\d+(?= %)")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LABSIM_HOME", str(tmp_path))
    monkeypatch.delenv("LABSIM_RUN_ID", raising=False)
    return tmp_path


def test_every_notebook_has_a_quiz() -> None:
    assert set(NOTEBOOKS) <= set(numbers_of_quizzes())


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_the_notebook_asks_its_own_quiz_near_the_end(number: str) -> None:
    cells = read_notebook(NOTEBOOKS[number])["cells"]
    (at,) = (i for i, cell in enumerate(cells) if cell["cell_type"] == "code" and "quiz(" in cell["source"])
    assert f'quiz("{number}")' in cells[at]["source"]
    assert cells[at - 1]["source"].startswith("## Check yourself"), "a quiz stands under its own heading"
    last_exercise = max(i for i, cell in enumerate(cells) if "exercise" in cell["metadata"].get("tags", ()))
    assert last_exercise < at


@pytest.mark.parametrize("number", numbers_of_quizzes())
def test_a_quiz_has_unique_ids_and_right_answers_in_changing_places(number: str) -> None:
    asked = questions(number)
    assert 3 <= len(asked) <= 5
    assert len({one.id for one in asked}) == len(asked)
    assert len({min(one.right) for one in asked}) > 1, "somebody who always takes the same place must not pass"


def test_no_place_is_right_in_half_of_all_questions_nor_of_the_first_ones() -> None:
    for asked in (ALL, [one for one in ALL if one.id.endswith("q1")]):
        places = Counter(min(one.right) for one in asked)
        assert max(places.values()) < 0.5 * len(asked), places


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.id)
def test_every_option_has_a_reason_of_its_own(one: Question) -> None:
    reasons = [option.why for option in one.options]
    assert len(set(reasons)) == len(reasons)
    assert all(len(reason.split()) >= 8 for reason in reasons), "a reason, not a verdict"
    longest = max(one.options, key=lambda option: len(option.text))
    assert not longest.right or len(longest.text) < 2.5 * min(len(option.text) for option in one.options) + 40


def metrics(number: str) -> dict[str, object]:
    """What the notebook recorded: the numbers that the claims page and the notebooks' text rest on, too."""
    return {name: one.value for name, one in RECORDED[number].metrics.items()} if number in RECORDED else {}


def agrees(shown: str, value: float) -> bool:
    """Whether a number as printed is `value`, rounded to the printed digits."""
    digits = shown.removesuffix(" %")
    value = abs(100 * value if shown.endswith(" %") else value)
    places = len(digits.partition(".")[2])
    return abs(float(digits) - value) <= 0.5 * 10**-places * (1 + 1e-9)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.id)
def test_its_numbers_are_those_that_the_notebook_computes(one: Question) -> None:
    texts = " ".join((one.text, one.code, *(part for o in one.options for part in (o.text, o.why))))
    for shown, expression in one.numbers.items():
        known = metrics(one.id[:2])
        # The expressions are the course's own text; a metric's name need not be a name of Python's.
        value = known[expression] if expression in known else eval(expression, {"min": min}, {**FUNCTIONS, **known})
        assert agrees(shown, value), f"{one.id} says {shown}, and {expression} is {value}"
        assert shown in texts, f"{one.id} never says {shown}"


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.id)
def test_no_number_of_an_explanation_stands_unchecked(one: Question) -> None:
    given = {n for text in (one.text, one.code, *(o.text for o in one.options)) for n in DECIMAL.findall(text)}
    checked = {shown.removesuffix(" %") for shown in one.numbers}
    said = {number for option in one.options for number in DECIMAL.findall(option.why)}
    assert said - given - checked == set()


def test_agreement_is_to_the_last_printed_digit() -> None:
    assert agrees("0.47", 0.4684) and agrees("15 %", 0.1459) and agrees("0.03", -0.0321) and agrees("2.255", 2.255)
    assert not agrees("0.47", 0.4784) and not agrees("15 %", 0.1559)


QUESTION = Question(
    id="01.q1",
    title="a title",
    text="a text",
    options=(Option("one", "because"), Option("two", "because", right=True), Option("three", "because", right=True)),
)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "1.q1"},
        {"text": " "},
        {"title": ""},
        {"options": QUESTION.options[:1]},
        {"options": tuple(replace(one, right=False) for one in QUESTION.options)},
        {"options": tuple(replace(one, right=True) for one in QUESTION.options)},
        {"options": (*QUESTION.options, QUESTION.options[0])},
        {"options": (replace(QUESTION.options[0], why=" "), *QUESTION.options[1:])},
    ],
    ids=str,
)
def test_a_badly_made_question_is_refused(change: dict) -> None:
    with pytest.raises(ValueError, match=r"allowed|twice"):
        replace(QUESTION, **change)


def test_an_unknown_quiz_is_refused_with_the_nearest_match() -> None:
    with pytest.raises(ValueError, match="unknown quiz '99'"):
        quiz("99")


@pytest.mark.parametrize(
    ("chosen", "needed"),
    [([], None), ([1], None), ([1, 2], 2), ([2, 0, 1], 3), ([0], None), ([1, 2, 0], 2), ([0, 1, 2], 3)],
)
def test_a_question_is_answered_when_all_right_options_are_found(chosen: list[int], needed: int | None) -> None:
    assert QUESTION.choices_needed(chosen) == needed


def test_choosing_in_python_answers_and_keeps_the_first_count(home: Path) -> None:
    one = quiz("00")
    right = [next(iter(asked.right)) for asked in one.questions]
    wrong = next(i for i in range(len(one.questions[0].options)) if i != right[0])
    assert one.choose(wrong) == one.questions[0].options[wrong].why
    assert one.answered == {} and not (home / "progress.json").exists()
    one.choose(right[0])
    one.choose(right[0])  # again: reading, not a choice
    one.at = 1
    one.choose(right[1])
    assert one.answered == {"00.q1": 2, "00.q2": 1} == progress.answered()
    other = quiz("00")
    other.choose(right[0])
    assert progress.answered()["00.q1"] == 2, "the first time counts"
    assert one.note == ""


def test_a_run_of_the_runner_leaves_no_answers(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABSIM_RUN_ID", "abc")
    one = quiz("00")
    one.choose(next(iter(one.questions[0].right)))
    assert list(home.iterdir()) == []


def test_a_damaged_progress_file_is_said_in_the_widget_and_left_alone(home: Path) -> None:
    (home / "progress.json").write_text('{"solved": [], "quiz": 3}')
    one = quiz("00")
    one.choose(next(iter(one.questions[0].right)))
    assert "not saved" in one.note and "correct or delete it" in one.note
    assert (home / "progress.json").read_text() == '{"solved": [], "quiz": 3}'


@pytest.mark.parametrize("chosen", [[[0]], [[0, 0], [], []], [[9], [], []]])
def test_choices_that_cannot_be_are_refused(chosen: list[list[int]]) -> None:
    with pytest.raises((traitlets.TraitError, ValueError), match="allowed"):
        quiz("00").chosen = chosen


def test_the_state_of_the_widget_is_all_that_the_page_needs() -> None:
    one = Quiz([QUESTION])
    state = one.get_state()
    assert state["data"] == [plain(QUESTION)] == json.loads(json.dumps(state["data"]))
    assert all(part in state["_css"] for part in (".labsim-quiz", "--labsim-ink:"))
    assert "function render(" in state["_esm"]
