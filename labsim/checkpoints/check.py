"""One finding of the doctor: what was looked at, what was found, what it does, what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..models.fields import abridged, printable

Status = Literal["ok", "fault", "warning", "not checked"]


@dataclass(frozen=True)
class Check:
    """A named check.

    Attributes:
        name: what was looked at, such as `d2t`; a fault is named `check: fault`, such as `d2t: zeros`.
        status: `fault` spoils the draft in at least one public engine; `warning` may be meant.
        finding: what was found, with the values.
        symptom: what a user of the draft sees; empty where nothing is wrong.
        remedy: what to do; empty where nothing is wrong.
    """

    name: str
    status: Status
    finding: str
    symptom: str = ""
    remedy: str = ""


LONGEST_FINDING = 600

# What is being done, how many parts of it are finished, and of how many.
Told = Callable[[str, int, int], object]


def untold(what: str, done: int, total: int) -> None:
    """For whoever does not want to hear."""


def ok(name: str, finding: str) -> Check:
    return Check(name, "ok", plain(finding))


def fault(name: str, finding: str, symptom: str, remedy: str) -> Check:
    return Check(name, "fault", plain(finding), symptom, remedy)


def warning(name: str, finding: str, symptom: str, remedy: str) -> Check:
    return Check(name, "warning", plain(finding), symptom, remedy)


def unchecked(name: str, why: str) -> Check:
    return Check(name, "not checked", plain(why))


def plain(finding: str) -> str:
    """One line of printable characters, not endless: names and values in it come from a stranger's file."""
    return abridged(printable(finding), LONGEST_FINDING)


def listed(names: object, most: int = 4) -> str:
    """Some of the names, sorted, for one line."""
    ordered = sorted(names)  # type: ignore[call-overload]
    return ", ".join(ordered[:most]) + (f" and {len(ordered) - most} more" if len(ordered) > most else "")
