"""Values of a JSON object that somebody else wrote, each checked where it is read.

`"hidden_size": "576"` or a null in its place is no error for a JSON reader. Read unchecked it fails far away, in a
product of matrices, or not at all. So every value is asked for by its kind and range, and what is wrong is named by
file, key and value.

A key with a default may be absent. Where the default is None, null counts as absent too.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import Any

REQUIRED: Any = object()
LARGEST_ID = 10**9


@dataclass(frozen=True)
class Fields:
    """A parsed object, the file it stands in, and where in the file (`prefix`, such as `eagle_config.`)."""

    raw: dict[str, Any]
    file: str
    prefix: str = ""

    def require(self, *keys: str) -> None:
        """ValueError unless all these keys are there."""
        if missing := [self.prefix + key for key in keys if key not in self.raw]:
            raise ValueError(f"{self.file} lacks {', '.join(missing)}")

    def whole(self, key: str, low: int, high: int, default: Any = REQUIRED) -> int:
        """A whole number from `low` to `high`."""
        value = self._value(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(key, f"a whole number from {low} to {high}")
        return value

    def number(self, key: str, low: float, high: float, default: Any = REQUIRED) -> float:
        """A finite number from `low` to `high`."""
        value = self._value(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.wrong(key, f"a number from {low:g} to {high:g}")
        return value

    def flag(self, key: str, default: Any = REQUIRED) -> bool:
        """true or false."""
        value = self._value(key, default)
        if value is not default and not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def text(self, key: str, default: Any = REQUIRED) -> str:
        """A string that is not empty."""
        value = self._value(key, default)
        if value is not default and (not isinstance(value, str) or not value):
            raise self.wrong(key, "a string")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; empty where absent or null."""
        value = self._value(key, None)
        if value is not None and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            raise self.wrong(key, "a list of strings")
        return tuple(value or ())

    def wholes(self, key: str, *, single: bool = False) -> tuple[int, ...]:
        """A list of whole numbers from 0 on; empty where absent or null. With `single` one number may stand alone."""
        value = self._value(key, None)
        numbers = [value] if single and isinstance(value, int) else value
        if numbers is not None and not (
            isinstance(numbers, list)
            and all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= LARGEST_ID for one in numbers)
        ):
            raise self.wrong(key, "a whole number or a list of them" if single else "a list of whole numbers")
        return tuple(numbers or ())

    def inner(self, key: str) -> Fields:
        """The object under `key`; an empty one where it is absent or null."""
        value = self._value(key, None)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(key, "an object")
        return Fields(value or {}, self.file, f"{self.prefix}{key}.")

    def wrong(self, key: str, right: str) -> ValueError:
        """ValueError that names the value under `key` and what would be right."""
        value = self.raw.get(key)
        shown = "null" if value is None else short(value)
        return ValueError(f"{self.file}: {self.prefix}{key} is {shown}; right is {right}")

    def _value(self, key: str, default: Any) -> Any:
        if key not in self.raw and default is REQUIRED:
            raise ValueError(f"{self.file} lacks {self.prefix}{key}")
        return self.raw.get(key, default)


def short(value: object) -> str:
    """`repr`, cut where it is long or deep, for one line of an error."""
    return reprlib.repr(value)


def shown(name: object) -> str:
    """A name in quotes, its middle left out where it is long."""
    return repr(abridged(str(name), 100))


def abridged(text: str, most: int) -> str:
    """The text, its middle left out where it has more than `most` characters."""
    return text if len(text) <= most else f"{text[: most * 3 // 5]}...{text[-most // 5 :]}"


def printable(text: str) -> str:
    """Line ends, escape sequences and other control characters as `repr` writes them: a terminal obeys none of them."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
