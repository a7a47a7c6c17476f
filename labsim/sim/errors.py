"""One-line errors that name the input, its value and what would be right."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from math import isfinite


def out_of_range(name: str, value: object, allowed: str) -> ValueError:
    """ValueError saying that `name` has a `value` outside `allowed`."""
    return ValueError(f"{name} is {value}; allowed: {allowed}")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """ValueError for a `name` that is not among `known`, with the nearest match first.

    A name that has all words and numbers of `name` is nearer than one that is only spelled alike.

    >>> unknown_name("model", "llama-70b", ["Llama-2-7B", "Llama-3.3-70B"]).args[0].partition("known:")[0]
    "unknown model 'llama-70b'; did you mean 'Llama-3.3-70B'? "
    """
    names = sorted(known)
    by_lower = {candidate.lower(): candidate for candidate in names}
    words = _words(name)
    holding = [candidate for candidate in by_lower if words and words <= _words(candidate)]
    near = difflib.get_close_matches(name.lower(), holding or list(by_lower), n=1, cutoff=0.4)
    hint = f"did you mean {by_lower[near[0]]!r}? " if near else ""
    return ValueError(f"unknown {kind} {name!r}; {hint}known: {', '.join(names)}")


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+|\d+(?:\.\d+)?", name.lower()))


def check_probability(name: str, value: float) -> float:
    """Return `value` as a float; ValueError unless it lies in 0..1."""
    value = _number(name, value, "a number from 0 to 1")
    if not 0.0 <= value <= 1.0:
        raise out_of_range(name, value, "0 to 1")
    return value


def check_positive(name: str, value: float, *, zero: bool = False) -> float:
    """Return `value` as a finite float above 0 (or at least 0 with `zero`)."""
    allowed = "a number of at least 0" if zero else "a number above 0"
    value = _number(name, value, allowed)
    if value < 0 or (value == 0 and not zero):
        raise out_of_range(name, value, allowed)
    return value


def check_whole(name: str, value: int, lowest: int = 1, highest: int | None = None) -> int:
    """Return `value` as an int in lowest..highest; ValueError otherwise (a bool or 2.5 is not whole)."""
    allowed = (
        f"a whole number of at least {lowest}" if highest is None else f"a whole number from {lowest} to {highest}"
    )
    number = _number(name, value, allowed)
    if number != int(number) or number < lowest or (highest is not None and number > highest):
        raise out_of_range(name, value, allowed)
    return int(number)


def _number(name: str, value: object, allowed: str) -> float:
    if isinstance(value, bool):
        raise out_of_range(name, value, allowed)
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise out_of_range(name, repr(value), allowed) from None
    except OverflowError:
        raise out_of_range(name, "too large to compute with", allowed) from None
    if not isfinite(number):
        raise out_of_range(name, value, allowed)
    return number
