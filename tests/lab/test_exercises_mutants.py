"""Every exercise of the course, proven by wrong and right answers.

A check that accepts a wrong answer, or rejects a right one, is worse than none. So each exercise needs four wrong
answers that it rejects, named where they are a known misconception, and two different right ones that it accepts.
"""

from __future__ import annotations

import pytest

from labsim.lab.exercise import registry
from labsim.lab.verdict import Status
from tests.mutants.harness import all_answers

ANSWERS = all_answers()
IDS = list(registry())
RIGHT = [(one, function) for one, answers in ANSWERS.items() for function in answers.right]
WRONG = [(one, wrong) for one, answers in ANSWERS.items() for wrong in answers.wrong]


def label(value):
    return value if isinstance(value, str) else getattr(value, "function", value).__name__


def test_answers_are_given_for_exactly_the_exercises_that_exist():
    assert set(ANSWERS) == set(IDS)


@pytest.mark.parametrize("exercise_id", IDS)
def test_an_exercise_has_enough_answers_and_three_hints(exercise_id):
    found, answers = registry()[exercise_id], ANSWERS[exercise_id]
    assert len(answers.wrong) >= 4
    assert len(answers.right) >= 2
    assert len(set(found.hints)) == 3
    named = {wrong.names for wrong in answers.wrong if wrong.names}
    assert named <= {m.name for m in found.check.misconceptions}


@pytest.mark.parametrize(("exercise_id", "function"), RIGHT, ids=label)
def test_a_right_answer_is_accepted(exercise_id, function):
    verdict = registry()[exercise_id].judge(function)
    assert verdict.passed, verdict.to_text()


@pytest.mark.parametrize(("exercise_id", "wrong"), WRONG, ids=label)
def test_a_wrong_answer_is_rejected_and_named(exercise_id, wrong):
    verdict = registry()[exercise_id].judge(wrong.function)
    assert verdict.status not in {Status.PASSED, Status.NOT_ATTEMPTED}, verdict.to_text()
    assert verdict.misconception == wrong.names, verdict.to_text()


@pytest.mark.parametrize("exercise_id", IDS)
def test_each_misconception_is_told_apart_from_the_others_and_from_the_right_answer(exercise_id):
    check = registry()[exercise_id].check
    for misconception in check.misconceptions:
        verdict = check.judge(misconception.wrong)
        assert verdict.misconception == misconception.name, verdict.to_text()
