"""Verdicts, findings and the rules that make one of the other.

    reproduced         the claim's figure is found here, within the interval or tolerance that the rule states
    trend only         its sign or its kind holds, in another size or under a condition that the claim does not name
    not reproduced     this target or this page does not show it, or the interval leaves it open
    refuted            a count or a closed form contradicts it
    not yet measured   no recorded metric speaks to it

A rule may read only what it names in `uses`: the page lists exactly these metrics as its evidence, and a rule whose
metrics are not all there says "not yet measured" instead of half a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import log

from .table import Claim

Value = float | int | bool | str


class Verdict(StrEnum):
    """The five things that can be said of a claim."""

    REPRODUCED = "reproduced"
    TREND = "trend only"
    NOT = "not reproduced"
    REFUTED = "refuted"
    NOT_YET = "not yet measured"


@dataclass(frozen=True)
class Finding:
    """What was found: `here` in figures with their intervals, `why` in one sentence."""

    here: str
    verdict: Verdict
    why: str


class Values(Mapping[str, Value]):
    """The values of the metrics that a rule names, as `notebook.metric`; reading any other is a KeyError."""

    def __init__(self, values: Mapping[str, Value], named: Iterable[str]) -> None:
        self._values = {name: values[name] for name in named if name in values}

    def __getitem__(self, name: str) -> Value:
        if name not in self._values:
            raise KeyError(f"{name} is not among the metrics that this rule names: {', '.join(self._values)}")
        return self._values[name]

    def __iter__(self):
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def spread(self, name: str, digits: int = 2) -> str:
        """`0.98 (0.93 to 1.03)`, from the metrics `name`, `name.low` and `name.high`."""
        middle, low, high = (self[name + end] for end in ("", ".low", ".high"))
        return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


Judge = Callable[[Claim, Values], Finding]


@dataclass(frozen=True)
class Rule:
    """How one claim is judged. `basis` says what the figures are: a closed form, a simulation, counted bytes, ...

    `timed` figures differ from run to run: no test holds another run against them.
    """

    claim: str
    basis: str
    uses: tuple[str, ...]
    judge: Judge
    timed: bool = False


RULES: dict[str, Rule] = {}
# (claim, scale): rules for what only that scale measures, such as a real model; they stand beside the claim's verdict.
AT_SCALE: dict[tuple[str, str], Rule] = {}


def rule(claim: str, basis: str, *uses: str, timed: bool = False, scale: str = "") -> Callable[[Judge], Judge]:
    """Register the judge of a claim and the metrics it uses, as `notebook.metric`; with `scale`, for that one alone."""

    def register(judge: Judge) -> Judge:
        if (claim, scale) in AT_SCALE or (claim in RULES and not scale):
            raise ValueError(f"claim {claim} has two rules")
        made = Rule(claim, basis, uses, judge, timed)
        if scale:
            AT_SCALE[claim, scale] = made
        else:
            RULES[claim] = made
        return judge

    return register


def with_interval(*names: str) -> tuple[str, ...]:
    """The names, each with its `.low` and `.high`."""
    return tuple(name + end for name in names for end in ("", ".low", ".high"))


def compared(low: float, high: float, claimed: tuple[float, float]) -> Verdict:
    """What the interval of a ratio says about the claimed range of it, both on the same side of 1.

    An interval that reaches into the range and also holds less than half of the claimed effect (on the scale of
    logarithms) tells the trend and no size.
    """
    below = claimed[1] < 1
    weakest, least_claimed = (high, claimed[1]) if below else (low, claimed[0])
    if weakest >= 1 if below else weakest <= 1:
        return Verdict.NOT
    sized = abs(log(weakest)) >= abs(log(least_claimed)) / 2
    return Verdict.REPRODUCED if sized and low <= claimed[1] and high >= claimed[0] else Verdict.TREND


def near(value: float, claimed: float, relative: float) -> bool:
    """Whether a value is the claimed one, up to a share of it."""
    return abs(value - claimed) <= relative * abs(claimed)
