"""Checks: every kind of answer gets its own sentence, and nothing a learner writes gets out of hand."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from labsim.lab.check import Check, Misconception, Probe, choice_check, value_check
from labsim.lab.compare import difference, in_any_order
from labsim.lab.guard import TimeLimit, within
from labsim.lab.verdict import Status, Verdict


def tokens(alpha_c, k):
    return (1 - alpha_c ** (k + 1)) / (1 - alpha_c)


CHECK = Check(
    reference=tokens,
    cases=[(0.7, 5), (0.0, 3)],
    random_cases=lambda rng: (rng.uniform(0.05, 0.95), rng.randint(1, 8)),
    misconceptions=[
        Misconception(
            "used 1 + K*alpha", "That is right for accepted/drafted only.", wrong=lambda alpha_c, k: 1 + k * alpha_c
        ),
        Misconception("the bonus token is missing", "Start the sum at 0.", wrong=lambda a, k: tokens(a, k) - 1),
        Misconception("always divides by zero", "Never valued.", wrong=lambda a, k: 1 / 0),
    ],
    seconds=1.0,
)


def test_a_right_answer_passes_whatever_number_type_it_returns():
    for convert in (float, np.float64, np.float32, torch.tensor, np.array):
        verdict = Check(tokens, CHECK.cases, rel_tol=1e-5).judge(lambda a, k, convert=convert: convert(tokens(a, k)))
        assert verdict.status is Status.PASSED, (convert, verdict)


@pytest.mark.parametrize("convert", [np.float32, lambda x: np.array(x, np.float32), torch.tensor])
def test_a_right_formula_in_float32_passes_and_a_wrong_one_does_not(convert):
    third = 0.1234567891
    for nested in (third, [third, 2 * third], [[third], [3 * third]]):
        expected = nested if isinstance(nested, list) else float(nested)
        got = convert(nested)
        assert difference(got * np.float32(1 + 3e-6), expected) is None, nested
        assert difference(got * np.float32(1 + 3e-5), expected) is not None, nested
        assert difference(got * np.float32(1 + 3e-6), np.array(expected)) is None, nested
    assert difference(third * (1 + 3e-6), third) is not None, "a Python float has no excuse"
    assert difference(np.float64(third * (1 + 3e-6)), third) is not None


def test_float32_buys_nothing_where_a_whole_number_is_due():
    assert difference(np.float32(200_001), 200_000) is not None
    assert difference(torch.tensor([1.0, 200_001.0]), [1, 200_000]) is not None
    assert difference(torch.tensor([1.0, 200_001.0]), np.array([1, 200_000])) is not None


@pytest.mark.parametrize("k", [2, 2.0, np.int64(2), np.int32(2), torch.tensor(2)])
def test_whole_numbers_of_any_type_agree(k):
    assert difference(k, 2) is None
    assert difference(2, k) is None


def not_implemented(alpha_c, k):
    raise NotImplementedError


def ellipsis_body(alpha_c, k): ...


def passes(alpha_c, k):
    """What this returns."""
    pass


def returns_ellipsis(alpha_c, k):
    prepared = k + 1  # scaffolding that the exercise gives
    return ... if prepared else None


def returns_a_form(alpha_c, k):
    return {"A": ..., "B": (..., ...)}


@pytest.mark.parametrize("stub", [not_implemented, ellipsis_body, passes, returns_ellipsis, returns_a_form])
def test_a_stub_is_not_attempted(stub):
    assert CHECK.judge(stub).status is Status.NOT_ATTEMPTED


@pytest.mark.parametrize("value", [{"A": ..., "B": 2.0}, {}, [], (None, None)])
def test_a_form_that_is_begun_or_empty_is_an_answer(value):
    assert CHECK.judge(lambda alpha_c, k: value).status is Status.WRONG


def prints_only(alpha_c, k):
    print(tokens(alpha_c, k))


def test_printing_instead_of_returning_is_said(capsys):
    verdict = CHECK.judge(prints_only)
    assert verdict.status is Status.WRONG
    assert "returns None" in verdict.headline and "printing is not returning" in verdict.headline
    assert capsys.readouterr().out == ""


def test_the_misconception_is_named_with_a_concrete_input():
    verdict = CHECK.judge(lambda alpha_c, k: 1 + alpha_c * k)
    assert verdict.misconception == "used 1 + K*alpha"
    # 1 + 5*0.7 = 4.5 and (1 - 0.7^6)/0.3 = 2.94117, both computed by hand
    assert "`alpha_c=0.7, k=5` gave `4.5`, expected `2.94117`" in verdict.details[0]


def test_a_misconception_with_a_second_mistake_says_that_there_are_two():
    check = Check(
        reference=lambda x: abs(x),
        cases=[(3,), (-3,), (0,)],
        misconceptions=[Misconception("sign kept", "abs drops the sign", wrong=lambda x: x)],
    )
    verdict = check.judge(lambda x: x if x else 7)
    assert verdict.misconception == "sign kept"
    assert "second difference" in verdict.details[-1]


def test_the_misconception_that_explains_everything_wins_over_an_earlier_partial_one():
    check = Check(
        reference=lambda x: abs(x),
        cases=[(3,), (-3,), (0,)],
        misconceptions=[
            Misconception("partial", "", wrong=lambda x: x),
            Misconception("complete", "", wrong=lambda x: x if x else 7),
        ],
    )
    assert check.judge(lambda x: x if x else 7).misconception == "complete"


def test_a_misconception_that_fails_on_some_inputs_is_named_for_those_who_guard_against_it():
    check = Check(
        reference=lambda values: sum(values) / max(len(values), 1),
        cases=[([1, 2],), ([0],), ([0, 4],)],
        misconceptions=[Misconception("zeros left out", "", wrong=lambda v: sum(v) / sum(1 for x in v if x))],
    )
    assert check.judge(lambda v: sum(v) / sum(1 for x in v if x)).misconception == "zeros left out"
    assert check.judge(lambda v: sum(v) / (sum(1 for x in v if x) or 1)).misconception == "zeros left out"


def test_a_name_that_is_not_there_is_no_misconception():
    def overflows(x):
        return math.exp(x)

    check = Check(
        reference=lambda x: min(x, 1.0),
        cases=[(1000.0,), (2000.0,)],
        misconceptions=[Misconception("exponentials overflow", "Subtract the largest first.", wrong=overflows)],
    )
    assert check.judge(lambda x: math.exp(x)).status is Status.MISCONCEPTION
    assert check.judge(lambda x: maths.exp(x)).status is Status.ERROR  # noqa: F821


def test_a_misconception_that_never_differs_is_never_named():
    check = Check(lambda x: x, cases=[(1,)], misconceptions=[Misconception("same", "", wrong=lambda x: x)])
    assert check.judge(lambda x: x + 1).misconception is None


def test_a_wrong_value_shows_input_got_and_expected():
    verdict = CHECK.judge(lambda alpha_c, k: 9.0)
    assert verdict.status is Status.WRONG
    assert verdict.headline == "`alpha_c=0.7, k=5` gave `9`, expected `2.94117`."
    assert verdict.details == ("Wrong on 42 of 42 inputs.",)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda a, b: a // b, "without their fraction: `//`"),
        (lambda a, b: int(a / b), "without their fraction: `//`"),
        (lambda a, b: round(a / b, 2), "rounded to 2 digits"),
        (lambda a, b: round(a / b), "rounded to 0 digits"),
        (lambda a, b: round(a / b, 2) + 0.01, ""),
        (lambda a, b: 1, ""),
        (lambda a, b: f"{a / b:.2f}", ""),
        (lambda a, b: [a // b], ""),
        (lambda a, b: a // b if b != 7 else float("nan"), ""),
    ],
)
def test_right_numbers_with_digits_left_out_are_said_to_be(function, says):
    check = Check(reference=lambda a, b: a / b, cases=[(7, 3), (20, 7), (19, 4), (6, 3)])
    verdict = check.judge(function)
    assert verdict.status == Status.WRONG
    said = [line for line in verdict.details if line.startswith("These are the right numbers")]
    assert len(said) == bool(says) and all(says in line for line in said)


def test_nearly_equal_numbers_are_shown_with_the_digits_that_differ():
    assert difference(1.00001, 1.0) == "the answer is 1.00001, expected 1"
    assert difference(1.0000012, 1.0) == "the answer is 1.000001, expected 1"


def divides(alpha_c, k):
    rate = k - 5
    return 1 / rate


def test_an_exception_is_shown_with_the_learners_own_line_and_no_traceback():
    verdict = CHECK.judge(divides)
    line = divides.__code__.co_firstlineno + 2
    assert verdict.status is Status.MISCONCEPTION or verdict.status is Status.ERROR
    verdict = Check(tokens, cases=[(0.7, 5)]).judge(divides)
    assert verdict.status is Status.ERROR
    assert f"line {line} of your cell: `return 1 / rate`" in verdict.headline
    assert "ZeroDivisionError" in verdict.headline
    assert "Traceback" not in verdict.to_text()


def leaves(alpha_c, k):
    raise SystemExit(3)


def too_deep(alpha_c, k):
    return too_deep(alpha_c, k)


@pytest.mark.parametrize("function", [leaves, too_deep])
def test_nothing_a_learner_raises_gets_out(function):
    assert Check(tokens, cases=[(0.7, 5)]).judge(function).status is Status.ERROR


def test_pressing_stop_gets_out():
    def stopped(alpha_c, k):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CHECK.judge(stopped)


def forever(alpha_c, k):
    n = 0
    while True:
        n += 1


def forever_in_spite_of_everything(alpha_c, k):
    while True:
        try:
            for _ in range(30):
                k += 1
        except:  # noqa: E722, the point of this function
            pass


def gives_up_late(alpha_c, k):
    try:
        while True:
            k += 1
    except:  # noqa: E722
        return tokens(alpha_c, 5)


def sleeps(alpha_c, k):
    time.sleep(60)


@pytest.mark.parametrize("function", [forever, forever_in_spite_of_everything, sleeps])
def test_a_loop_without_end_is_ended_and_said(function):
    start = time.monotonic()
    verdict = CHECK.judge(function)
    assert time.monotonic() - start < 10
    assert verdict.status is Status.TOO_SLOW
    assert "still running after 1 s" in verdict.headline
    assert "of your cell" in verdict.headline


def test_an_answer_that_comes_after_the_time_is_too_slow():
    assert CHECK.judge(gives_up_late).status is Status.TOO_SLOW


def test_a_loop_without_end_is_ended_outside_the_main_thread_too():
    verdicts = []
    thread = threading.Thread(target=lambda: verdicts.append(CHECK.judge(forever)), daemon=True)
    thread.start()
    thread.join(20)
    assert [verdict.status for verdict in verdicts] == [Status.TOO_SLOW]


def test_the_time_limit_leaves_no_alarm_behind():
    import signal

    before, timer = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    with pytest.raises(TimeLimit):
        within(0.01, lambda: forever(0.5, 3))
    assert signal.getsignal(signal.SIGALRM) is before
    # pytest-timeout has an alarm of its own: it goes on where it was.
    assert signal.getitimer(signal.ITIMER_REAL) == pytest.approx(timer, abs=1.0)


def test_an_outer_time_limit_goes_on_after_an_inner_one():
    def nested():
        within(5, lambda: None)
        time.sleep(10)

    with pytest.raises(TimeLimit):
        within(0.1, nested)


@pytest.mark.parametrize("threads", [0, 1, 6])
def test_a_limit_that_is_reached_at_the_very_end_interrupts_nothing_later(threads):
    """The function ends about when the alarm rings. It may be late or in time; what comes behind it is left alone."""
    ends = []

    def spin(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    def many():
        for i in range(200):
            with contextlib.suppress(TimeLimit):
                within(0.002, lambda i=i: spin(0.0018 + 0.000002 * i))
            spin(0.0005)
        ends.append("whole")

    if threads:
        running = [threading.Thread(target=many, daemon=True) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join(60)
    else:
        many()
    assert ends == ["whole"] * max(threads, 1)


@pytest.mark.parametrize(
    ("got", "expected", "part"),
    [
        ([1, 2], 3.0, "it should be a number, but is a list of 2"),
        ("3", 3.0, "it should be a number, but is a text"),
        (True, 1, "it should be a number, but is True or False"),
        (float("nan"), 1.0, "NaN"),
        (1, True, "it should be True or False, but is a number"),
        (3, "prefill", "it should be a text"),
        ([1, 2], [1, 2, 3], "has 2 elements, expected 3"),
        ((x for x in [1]), [1], "wrap it in list(...)"),
        ([1, [2, 5]], [1, [2, 3]], "element 1[1] is 5, expected 3"),
        ("ab", ["a", "b"], "it should be a list of 2, but is a text"),
        ({"a": 1}, {"a": 1, "b": 2}, "lacks the key 'b'"),
        ({"a": 1, "c": 1}, {"a": 1}, "a key too many: 'c'"),
        ({"a": 1}, {"a": 2}, "key 'a' is 1, expected 2"),
        (np.zeros((2, 3)), np.zeros((3, 2)), "has shape (2, 3), expected (3, 2)"),
        (np.array([[0.0, 1.0]]), np.array([[0.0, 2.0]]), "[0, 1] is 1, expected 2 (1 of 2 differ)"),
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 2.0]), "NaN"),
        (5, np.zeros(3), "it should be an array of shape (3,), but is a number"),
        (max, 3.0, "call it?"),
        (np.zeros(3), 3.0, "it should be a number, but is an array of shape (3,)"),
        ({1}, {1, 2}, "expected {1, 2}"),
        ({1, 2}, [1, 2], "it should be a list of 2, but is a set of 2 (sorted(...) makes it a list)"),
    ],
)
def test_a_difference_is_said_in_words(got, expected, part):
    assert part in difference(got, expected)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ((1, 2), [1, 2]),
        (np.array([1, 2]), (1, 2)),
        (torch.tensor([0.5, 0.25]), [0.5, 0.25]),
        ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
        ({"a": np.float64(1)}, {"a": 1}),
        (np.bool_(True), True),
        (float("nan"), float("nan")),
        (float("inf"), float("inf")),
        (range(3), [0, 1, 2]),
    ],
)
def test_the_same_meaning_in_another_type_agrees(got, expected):
    assert difference(got, expected) is None


def test_where_order_carries_nothing_a_set_will_do_and_what_is_missing_is_seen():
    for right in ({8, 3}, [8, 3], (3, 8), frozenset({3, 8})):
        assert in_any_order(right, [3, 8]) is None
    assert "has 1 elements, expected 2" in in_any_order({3}, [3, 8])
    assert "has 3 elements, expected 2" in in_any_order([3, 3, 8], [3, 8])
    assert "element 1 is 9, expected 8" in in_any_order({9, 3}, [3, 8])
    assert "should be a list" in in_any_order(3, [3, 8])
    assert in_any_order({3, "a"}, [3, 8]) and in_any_order([None, 3], [3, 8])


def test_what_was_measured_is_tried_beside_the_rule():
    rule = Check(reference=lambda x: x > 0, cases=[(1,), (-1,)])
    assert rule.judge(lambda x: x > 0, [((0.5,), True)]).to_text().endswith("Inputs measured on this page: 1.")
    verdict = rule.judge(lambda x: x >= 1, [((0.5,), True)])
    assert verdict.status is Status.WRONG and "x=0.5" in verdict.to_text()
    assert rule.judge(lambda x: x > 0, [((0.5,), False)]).status is Status.WRONG, "not the rule is right"


def test_a_changed_input_is_rejected_by_name():
    def pops(values):
        return sum(values.pop() for _ in range(len(values)))

    verdict = Check(reference=sum, cases=[([1, 2],)]).judge(pops)
    assert verdict.status is Status.WRONG and "changes its input `values`" in verdict.headline


def test_one_call_cannot_spoil_the_next_ones_input():
    case = ([1, 2],)
    Check(reference=sum, cases=[case]).judge(lambda values: values.clear())
    assert case == ([1, 2],)


def test_the_wrong_parameters_are_said_before_anything_runs():
    verdict = CHECK.judge(lambda alpha_c: 1.0)
    assert verdict.status is Status.WRONG
    assert "`(alpha_c)`" in verdict.headline and "alpha_c=0.7, k=5" in verdict.headline


def test_a_value_where_a_function_is_due_is_said():
    assert "A function is wanted" in CHECK.judge(2.94).headline


def test_a_reference_that_raises_value_error_expects_one():
    def checked(x):
        if x < 0:
            raise ValueError("x is negative")
        return x

    def careless(x):
        return x

    check = Check(reference=checked, cases=[(1,), (-1,)])
    assert check.judge(checked).passed
    assert check.judge(careless).headline == "It should raise ValueError."


def test_a_broken_reference_is_the_courses_error_and_not_hidden():
    with pytest.raises(ZeroDivisionError):
        Check(reference=lambda x: x / 0, cases=[(1,)]).judge(lambda x: x)


def test_probes_judge_what_cases_cannot():
    def is_random(draw):
        return "It always draws the same." if len({draw(seed) for seed in range(20)}) == 1 else None

    check = Check(
        reference=lambda seed: 0.5,
        cases=[(1,), (2,)],
        compare=lambda got, wanted: None if 0 <= got <= 1 else "outside 0..1",
        probes=[Probe("draws differ", is_random)],
    )
    assert check.judge(lambda seed: (seed * 0.37) % 1).passed
    assert check.judge(lambda seed: 0.25).headline == "It always draws the same."
    assert check.judge(lambda seed: 3).headline == "Outside 0..1."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cases": []}, "cases is empty"),
        ({"cases": [[1, 2]]}, "cases[0] is [1, 2]; allowed: a tuple"),
        ({"cases": [(1,)], "misconceptions": [Misconception("a", "", abs), Misconception("a", "", abs)]}, "once"),
    ],
)
def test_a_badly_described_check_is_refused(options, message):
    with pytest.raises(ValueError, match="allowed") as caught:
        Check(reference=abs, **options)
    assert message in str(caught.value)


CHOICE = choice_check("prefill", {"prefill": "", "decode": "Decode is memory-bound here.", "queue": "No one waits."})


def test_a_choice_gets_its_own_reply():
    assert CHOICE.judge(lambda: " Prefill ").passed
    assert "memory-bound" in CHOICE.judge(lambda: "Decode").headline
    assert "'prefill', 'decode', 'queue'" in CHOICE.judge(lambda: "decoding").headline
    assert "should be one of" in CHOICE.judge(lambda: 3).headline
    assert CHOICE.judge(lambda: ...).status is Status.NOT_ATTEMPTED
    assert CHOICE.judge(lambda: None).status is Status.NOT_ATTEMPTED


def test_a_value_names_its_misconception():
    check = value_check(2.9412, wrong={"used 1 + K*alpha": (4.5, "Not here.")}, rel_tol=1e-3)
    assert check.judge(lambda: 2.941).passed
    assert check.judge(lambda: 4.5).misconception == "used 1 + K*alpha"
    assert check.judge(lambda: 3).status is Status.WRONG


def test_html_of_a_verdict_escapes_what_the_learner_wrote():
    verdict = Verdict(Status.WRONG, "got `<script>alert(1)</script>`", ("a < b",))
    assert "<script>" not in verdict.to_html("<b>x</b>")
    assert "a &lt; b" in verdict.to_html()


def test_a_title_that_asks_keeps_its_question_mark_alone():
    verdict = Verdict(Status.PASSED, "Right.")
    assert "✓ 03.1 Keep it? Passed.</strong>" in verdict.to_html("03.1 Keep it?")
    assert "✓ 03.2 A draw: passed.</strong>" in verdict.to_html("03.2 A draw")


INF = float("inf")


@pytest.mark.parametrize("got", [0.0, 7.5, -1e30, INF, float("nan")])
def test_an_infinity_agrees_with_itself_only(got):
    assert difference(got, -INF)
    assert difference([1.0, got], [1.0, -INF])
    assert difference(np.array([1.0, got]), np.array([1.0, -INF]))
    assert difference(torch.tensor(got), torch.tensor(-INF))
    assert difference(-INF, -INF) is difference(np.array([-INF]), np.array([-INF])) is None


class Unprintable:
    def __eq__(self, other):
        raise RuntimeError("no comparison")

    __hash__ = None


@pytest.mark.parametrize("value", [10**400, Fraction(10**400), Decimal("sNaN"), complex(1, 2), Unprintable()])
def test_no_value_makes_judging_fail(value):
    verdict = value_check(3.5).judge(lambda: value)
    assert not verdict.passed
    assert verdict.headline
