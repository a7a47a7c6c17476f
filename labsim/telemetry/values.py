"""Numbers as logs print them, read without trust.

A log may be cut inside a number, hold `nan` for 0/0, `1e999`, or ten thousand digits. Every reader goes through these
functions, so that a value is either finite and of a sane size or None.
"""

from __future__ import annotations

from math import isfinite

# Beyond this no counter of tokens is credible, and float arithmetic on counts stops being exact.
LARGEST = 10**15
LARGEST_K = 1024


def number(text: object) -> float | None:
    """A finite float of at most 1e15 in size from a string or a JSON value, else None (bool is not a number)."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        return None
    if isinstance(text, str) and len(text) > 40:
        return None
    try:
        value = float(text)
    except (ValueError, OverflowError):
        return None
    return value if isfinite(value) and abs(value) <= LARGEST else None


def count(text: object) -> int | None:
    """A whole number from 0 to 1e15, else None; `3600.0` and `1.2e3` are whole, 2.5 is not."""
    value = number(text)
    if value is None or value < 0 or value != int(value):
        return None
    return int(value)


def draft_length(text: object) -> int | None:
    """A number of draft tokens per step, 1 to 1024, else None."""
    value = count(text)
    return value if value is not None and 1 <= value <= LARGEST_K else None


def fraction(text: object) -> float | None:
    """A number from 0 to 1, else None."""
    value = number(text)
    return value if value is not None and 0 <= value <= 1 else None


def length(text: object) -> float | None:
    """An acceptance length: at least 1 (the target's own token), at most 1025, else None."""
    value = number(text)
    return value if value is not None and 1 <= value <= LARGEST_K + 1 else None


def survival(values: list[float | None]) -> tuple[float, ...] | None:
    """Rates per position as a survival vector: each in 0..1 and never increasing, else None.

    Rounding keeps order, so a rise means that the rates are conditional, or that the line is damaged.
    """
    if not values or len(values) > LARGEST_K:
        return None
    clean: list[float] = []
    for value in values:
        if value is None or not 0 <= value <= 1:
            return None
        if clean and value > clean[-1] + 1e-9:
            return None
        clean.append(value)
    return tuple(clean)
