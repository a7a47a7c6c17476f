"""Checks: is the answer right, and if not, which mistake is it?

A check is a description, not a script. It holds the right function, inputs to try, and the *misconceptions*: wrong
functions that people really write, each with a name and an explanation. Judging runs the learner's function on all
inputs and compares twice, with the right function and, where that fails, with each wrong one. Agreement with a wrong
one on every input that tells the two apart names the mistake:

    Check(
        reference=lambda alpha_d, k: 1 + k * alpha_d,
        cases=[(0.7, 5), (0.0, 3)],
        random_cases=lambda rng: (rng.random(), rng.randint(1, 8)),
        misconceptions=[
            Misconception(
                "no bonus token", "You count the drafted tokens only; the target adds one of its own.",
                wrong=lambda alpha_d, k: k * alpha_d,
            ),
        ],
    )

Three further forms:

- an answer that is a value or a choice: `value_check(3.5)`, `choice_check("prefill", choices={...})`;
- an answer that is random or not unique: give `compare`, or `probes` (properties that must hold);
- a learner's exception: a reference that raises ValueError for an input expects ValueError there.

An input is a tuple of positional arguments or a dict of keyword arguments. Judging has no side effects, and every
random input comes from `seed`, so a verdict can be repeated.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .compare import brief, difference
from .guard import Inputs, Outcome, Stopwatch, argument_names, call, is_stub, signature_problem
from .verdict import Status, Verdict


@dataclass(frozen=True)
class Misconception:
    """A wrong function that people write. `name` is a short noun phrase, `explain` the sentence that the learner reads.

    `wrong` takes the same inputs as the reference; where it raises, a learner's same exception agrees with it.
    """

    name: str
    explain: str
    wrong: Callable[..., Any]


@dataclass(frozen=True)
class Probe:
    """A property that a right answer has. `holds(function)` returns None, or the sentence that says what is wrong.

    Probes run after all cases agree, for what cases cannot show: a distribution, a call count, a seed that is used.
    """

    name: str
    holds: Callable[[Callable], str | None]


@dataclass(frozen=True)
class Check:
    """How to judge one exercise; see the module's text. `seconds` is the budget of all calls together."""

    reference: Callable[..., Any]
    cases: Sequence[Inputs] = ()
    random_cases: Callable[[random.Random], Inputs] | None = None
    random_count: int = 40
    misconceptions: Sequence[Misconception] = ()
    probes: Sequence[Probe] = ()
    compare: Callable[[Any, Any], str | None] | None = None
    rel_tol: float = 1e-6
    abs_tol: float = 1e-9
    seconds: float = 10.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.cases:
            raise ValueError("cases is empty; allowed: at least one input, shown to the learner when it fails")
        for i, inputs in enumerate(self.cases):
            if not isinstance(inputs, tuple | Mapping):
                raise ValueError(f"cases[{i}] is {inputs!r}; allowed: a tuple of positional arguments or a dict")
        names = [m.name for m in self.misconceptions]
        if len(set(names)) < len(names):
            raise ValueError(f"misconceptions have the names {names}; allowed: each name once")

    def inputs(self) -> list[Inputs]:
        """All inputs that are tried: the written cases, then the random ones."""
        rng = random.Random(self.seed)
        extra = [self.random_cases(rng) for _ in range(self.random_count)] if self.random_cases else []
        return [*self.cases, *extra]

    def judge(self, function: Callable, measured: Sequence[tuple[Inputs, Any]] = ()) -> Verdict:
        """The verdict on a learner's function. Never raises because of what the function does.

        `measured`: inputs that no rule has made, each with its right answer, tried beside the check's own.
        """
        if not callable(function):
            return Verdict(Status.WRONG, f"A function is wanted here, but this is `{brief(function)}`.")
        own = self.inputs()
        inputs = [*own, *(case for case, _ in measured)]
        problem = signature_problem(function, inputs[0], self._call_text(inputs[0]))
        if problem:
            return Verdict(Status.WRONG, problem)

        watch = Stopwatch(self.seconds)
        outcomes: list[Outcome] = []
        for case in inputs:
            outcomes.append(call(function, case, max(watch.left(), 0.05)))
            if outcomes[-1].slow:
                return self._slow(case, outcomes[-1])
        if all(outcome.blank for outcome in outcomes):
            return self._blank(function, inputs[0], outcomes)

        wanted = [self._outcome(self.reference, case, trusted=True) for case in own]
        wanted += [Outcome(answer) for _, answer in measured]
        problems = [self._differ(got, right) for got, right in zip(outcomes, wanted, strict=True)]
        wrong_at = [i for i, problem in enumerate(problems) if problem]
        if not wrong_at:
            verdict = self._right(function, inputs, outcomes, watch)
            return verdict.with_details(_also(len(measured))) if verdict.passed else verdict
        found = self._misconception(inputs, outcomes, wanted)
        if found:
            misconception, where, complete = found
            rest = "" if complete else "There is a second difference besides this one."
            evidence = self._evidence(inputs[where], outcomes[where], wanted[where])
            return Verdict(
                Status.MISCONCEPTION,
                f"{_sentence(misconception.name)} {misconception.explain}",
                (evidence,),
                misconception.name,
            ).with_details(rest)
        first = wrong_at[0]
        said = self._wrong(inputs[first], outcomes[first], wanted[first], problems[first] or "", len(wrong_at), inputs)
        return said.with_details(_cut_short(outcomes, wanted))

    def _differ(self, got: Outcome, wanted: Outcome) -> str | None:
        """None when the two outcomes agree, else what differs."""
        if wanted.error is not None or got.error is not None:
            if wanted.error is not None and got.error is not None and type(wanted.error) is type(got.error):
                return None
            if wanted.error is not None:
                return f"it should raise {type(wanted.error).__name__}"
            return f"it raised {type(got.error).__name__}: {got.error}"
        try:
            if self.compare is not None:
                return self.compare(got.value, wanted.value)
            return difference(got.value, wanted.value, self.rel_tol, self.abs_tol)
        except Exception as error:
            # Whatever a learner returns (a huge Fraction, a tensor without data), the cell must not fail.
            return f"this value cannot be compared ({type(error).__name__}); expected {brief(wanted.value)}"

    def _outcome(self, function: Callable, case: Inputs, *, trusted: bool = False) -> Outcome:
        outcome = call(function, case, self.seconds)
        if trusted and outcome.error is not None and not isinstance(outcome.error, ValueError):
            raise outcome.error  # the reference itself is broken: an error of the course, not of the learner
        return outcome

    def _misconception(
        self, inputs: Sequence[Inputs], outcomes: Sequence[Outcome], wanted: Sequence[Outcome]
    ) -> tuple[Misconception, int, bool] | None:
        """The best match: (misconception, index of the first telling input, whether it explains every input)."""
        matches = []
        for misconception in self.misconceptions:
            mistaken = [self._outcome(misconception.wrong, case) for case in inputs]
            telling = [i for i, one in enumerate(mistaken) if self._differ(one, wanted[i])]
            # Two people with one misconception trip over different exceptions (or guard against them), so an input on
            # which `wrong` raises says something only when no other input does.
            telling = [i for i in telling if mistaken[i].error is None] or telling
            if not telling or not all(self._same_mistake(outcomes[i], mistaken[i]) for i in telling):
                continue
            others = [i for i in range(len(inputs)) if i not in telling and mistaken[i].error is None]
            complete = not any(self._differ(outcomes[i], mistaken[i]) for i in others)
            if not complete and isinstance(wanted[0].value, str | bool):
                continue  # of a few possible answers, one coincides with a mistake by chance
            matches.append((complete, len(telling), misconception, telling[0]))
        if not matches:
            return None
        complete, _, misconception, where = max(matches, key=lambda match: match[:2])
        return misconception, where, complete

    def _same_mistake(self, got: Outcome, mistaken: Outcome) -> bool:
        if mistaken.error is not None:
            # A name that is not there is a slip of the pen, not an idea.
            return got.error is not None and not isinstance(got.error, NameError | ImportError)
        return not self._differ(got, mistaken)

    def _right(
        self, function: Callable, inputs: Sequence[Inputs], outcomes: Sequence[Outcome], watch: Stopwatch
    ) -> Verdict:
        changed = next((outcome.mutated for outcome in outcomes if outcome.mutated), None)
        if changed:
            return Verdict(
                Status.WRONG,
                f"The answers are right, but your function changes its input `{changed}`. Work on a copy: whoever "
                "called it still needs the original.",
            )
        for probe in self.probes:
            outcome = call(probe.holds, (function,), max(watch.left(), 0.05))
            if outcome.slow:
                return Verdict(Status.TOO_SLOW, f"Stopped after {self.seconds:g} s while testing: {probe.name}.")
            if outcome.error is not None:
                detail = f"{type(outcome.error).__name__}: {outcome.error}"
                return Verdict(Status.ERROR, f"While testing: {probe.name}.", (detail,))
            if outcome.value is not None:
                return Verdict(Status.WRONG, str(outcome.value), (f"Property: {probe.name}",))
        return Verdict(Status.PASSED, f"Right on all {len(inputs)} inputs." if len(inputs) > 1 else "Right.")

    def _blank(self, function: Callable, case: Inputs, outcomes: Sequence[Outcome]) -> Verdict:
        if outcomes[0].error is None and outcomes[0].value is None and not is_stub(function):
            said = " It prints something; printing is not returning." if outcomes[0].printed else ""
            return Verdict(
                Status.WRONG,
                f"`{self._call_text(case)}` returns None. Does the last line say `return`?{said}",
            )
        return Verdict(Status.NOT_ATTEMPTED, "Write your answer and run the cell.")

    def _slow(self, case: Inputs, outcome: Outcome) -> Verdict:
        where = f" It was at {outcome.place}." if outcome.place else ""
        return Verdict(
            Status.TOO_SLOW,
            f"Your function was still running after {self.seconds:g} s, so it was stopped.{where}",
            (f"Input: `{self._call_text(case)}`. Does every loop end?",),
        )

    def _wrong(
        self, case: Inputs, got: Outcome, wanted: Outcome, problem: str, count: int, inputs: Sequence[Inputs]
    ) -> Verdict:
        if got.error is not None and wanted.error is None:
            where = f" at {got.place}" if got.place else ""
            headline = f"`{type(got.error).__name__}: {got.error}`{where}"
            return Verdict(Status.ERROR, headline, (f"Input: `{self._call_text(case)}`", *_printed(got)))
        evidence = self._evidence(case, got, wanted)
        # For a plain value the evidence says it all; for a list or a dict the problem says where to look.
        plain = problem.startswith("the answer is ") and "NaN" not in problem
        headline, lines = (evidence + ".", []) if plain else (_sentence(problem), [evidence])
        if got.error is None and got.value is None:
            lines.append("For this input it returns None: a branch without `return`?")
        if len(inputs) > 1:
            lines.append(f"Wrong on {count} of {len(inputs)} inputs.")
        return Verdict(Status.WRONG, headline, (*lines, *_printed(got)))

    def _evidence(self, case: Inputs, got: Outcome, wanted: Outcome) -> str:
        return f"`{self._call_text(case)}` gave `{_shown(got)}`, expected `{_shown(wanted)}`"

    def _call_text(self, case: Inputs) -> str:
        names = list(case) if isinstance(case, Mapping) else argument_names(self.reference, len(case))
        values = case.values() if isinstance(case, Mapping) else case
        return ", ".join(f"{name}={brief(value)}" for name, value in zip(names, values, strict=True)) or "your answer"


def value_check(expected: Any, wrong: Mapping[str, tuple[Any, str]] | None = None, **options: Any) -> Check:
    """Check of a value. `wrong` maps a misconception's name to (the wrong value, the explanation)."""
    mistakes = [Misconception(name, explain, _constant(value)) for name, (value, explain) in (wrong or {}).items()]
    return Check(reference=_constant(expected), cases=[()], misconceptions=mistakes, **options)


def choice_check(expected: str, choices: Mapping[str, str]) -> Check:
    """Check of a choice. `choices` maps every choice, the right one included, to the reply that it gets.

    Case and surrounding blanks do not matter; a text that is no choice gets the list of choices.
    """
    if expected not in choices:
        raise ValueError(f"expected is {expected!r}; allowed: one of the choices {', '.join(choices)}")

    def same(got: Any, wanted: Any) -> str | None:
        if not isinstance(got, str):
            return f"the answer should be one of {', '.join(map(repr, choices))}, but is {brief(got)}"
        if got.strip().casefold() == str(wanted).casefold():
            return None
        if got.strip().casefold() not in {choice.casefold() for choice in choices}:
            return f"{got!r} is not one of the choices: {', '.join(map(repr, choices))}"
        return f"not {got!r}"

    mistakes = [
        Misconception(f"not {choice!r}", reply, _constant(choice))
        for choice, reply in choices.items()
        if choice != expected
    ]
    return Check(reference=_constant(expected), cases=[()], misconceptions=mistakes, compare=same)


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _also(measured: int) -> str:
    return f"Inputs measured on this page: {measured}." if measured else ""


def _shown(outcome: Outcome) -> str:
    return brief(outcome.value) if outcome.error is None else f"{type(outcome.error).__name__}: {outcome.error}"


def _cut_short(outcomes: Sequence[Outcome], wanted: Sequence[Outcome]) -> str:
    """What to say of numbers that are right but for digits left out on every input; else nothing."""
    pairs = [(got.value, right.value) for got, right in zip(outcomes, wanted, strict=True)]
    # Plain numbers only: a learner's own kind of number may do anything when it is compared.
    if not all(type(one) in (int, float) and abs(one) < 1e15 for pair in pairs for one in pair):
        return ""
    if len({got for got, _ in pairs}) < 2:
        return ""  # a constant says nothing of how it came about
    if all(got == math.floor(right) for got, right in pairs):
        return "These are the right numbers without their fraction: `//` leaves it out, `/` does not."
    for digits in range(6):
        if all(abs(got - right) <= 0.5 * 10**-digits * (1 + 1e-9) for got, right in pairs) and all(
            abs(got - round(got, digits)) < 1e-12 for got, _ in pairs
        ):
            return f"These are the right numbers, rounded to {digits} digits: return them as they are."
    return ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


def _printed(outcome: Outcome) -> tuple[str, ...]:
    text = outcome.printed.strip()
    return (f"Your function printed: `{text[:400]}`",) if text else ()
