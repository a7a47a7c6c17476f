"""Comparing a learner's answer with the expected one, and saying what differs.

The comparison is about meaning, not about types that happen to carry it: 3, 3.0, a numpy scalar and a one-element
tensor are the same number; a list, a tuple and a one-dimensional array are the same sequence. What is not forgiven is
a wrong kind of thing (a list where a number is due), a wrong length or shape, NaN, and a bool posing as a number.

A number in float32 is held against a tolerance that float32 can meet: torch computes in it unless told otherwise, and
a right formula must not fail on its last digits. Where a whole number is due, nothing is widened.

`difference` returns None when the two agree and otherwise one sentence for the learner.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from numbers import Integral, Number
from reprlib import Repr
from typing import Any

FLOAT32_REL_TOL = 1e-5  # some hundred roundings of float32


def difference(got: object, expected: object, rel_tol: float = 1e-6, abs_tol: float = 1e-9) -> str | None:
    """None if `got` means the same as `expected`, else a sentence such as "element 2 is 0.3, expected 0.5".

    Numbers agree when |got - expected| <= max(rel_tol * |expected|, abs_tol). An infinity agrees with itself only.
    For an answer in float32 the tolerance is at least FLOAT32_REL_TOL, in an array of its largest number: where like
    numbers are subtracted, small elements keep only the digits of the large ones.
    """
    return _difference(got, expected, rel_tol, abs_tol, "the answer")


def in_any_order(got: object, expected: object) -> str | None:
    """`difference` of collections whose order carries nothing: a set will do, and a list in any order."""
    return difference(_ascending(got), _ascending(expected))


def _ascending(value: object) -> object:
    if not isinstance(value, Set | list | tuple | range):
        return value
    try:
        return sorted(value)
    except (TypeError, ValueError):  # a mixture, which has no order and differs however it stands
        return list(value)


def kind(value: object) -> str:
    """What `value` is, in a learner's words: "a number", "a list of 3", "a dict with 2 keys"."""
    if isinstance(value, bool) or _is_numpy_bool(value):
        return "True or False"
    if _has_shape(value):
        shape = _shape(value)
        return f"an array of shape {shape}" if shape else "a number"
    if isinstance(value, Number):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, Mapping):
        return f"a dict with {len(value)} key{'s' * (len(value) != 1)}"
    if isinstance(value, list | tuple | range):
        return f"a {type(value).__name__} of {len(value)}"
    if value is None:
        return "None (no value)"
    if isinstance(value, Set):
        return f"a set of {len(value)} (sorted(...) makes it a list)"
    if hasattr(value, "__next__"):
        return f"a {type(value).__name__} (wrap it in list(...))"
    if callable(value):
        return "a function (call it?)"
    return f"a {type(value).__name__}"


def brief(value: object) -> str:
    """A short, exact-enough repr: floats to 6 digits, long sequences cut with their length."""
    if isinstance(value, bool) or _is_numpy_bool(value):
        return repr(bool(value))
    if _has_shape(value) and _shape(value):
        shape = _shape(value)
        body = _BRIEF.repr(_plain(value)) if math.prod(shape) <= 12 else "..."
        return f"array{shape} {body}"
    if _has_shape(value):
        value = _plain(value)
    return _BRIEF.repr(value)


class _Brief(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxdict = 10
        self.maxstring = self.maxother = 80

    def repr_float(self, value: float, level: int) -> str:
        return f"{value:.6g}" if math.isfinite(value) else repr(value)

    def repr_float64(self, value: Any, level: int) -> str:
        return self.repr_float(float(value), level)

    repr_float32 = repr_float64

    def repr_int64(self, value: Any, level: int) -> str:
        return repr(int(value))


_BRIEF = _Brief()


def _difference(got: object, expected: object, rel_tol: float, abs_tol: float, name: str) -> str | None:
    if isinstance(expected, bool) or _is_numpy_bool(expected):
        return _bool_difference(got, expected, name)
    if _has_shape(expected) and _shape(expected):
        return _array_difference(got, expected, rel_tol, abs_tol, name)
    if isinstance(expected, Number) or _has_shape(expected):
        return _number_difference(got, expected, rel_tol, abs_tol, name)
    if isinstance(expected, str):
        if not isinstance(got, str):
            return _wrong_kind(got, expected, name)
        return None if got == expected else f"{name} is {brief(got)}, expected {brief(expected)}"
    if isinstance(expected, Mapping):
        return _mapping_difference(got, expected, rel_tol, abs_tol, name)
    if isinstance(expected, Set):
        if not isinstance(got, Set):
            return _wrong_kind(got, expected, name)
        return None if set(got) == set(expected) else f"{name} is {brief(got)}, expected {brief(expected)}"
    if isinstance(expected, Sequence):
        return _sequence_difference(got, expected, rel_tol, abs_tol, name)
    return None if got == expected else f"{name} is {brief(got)}, expected {brief(expected)}"


def _bool_difference(got: object, expected: object, name: str) -> str | None:
    plain = _plain(got) if _has_shape(got) and not _shape(got) else got
    if not isinstance(plain, bool):
        return _wrong_kind(got, expected, name)
    return None if plain == bool(expected) else f"{name} is {plain}, expected {bool(expected)}"


def _number_difference(got: object, expected: object, rel_tol: float, abs_tol: float, name: str) -> str | None:
    number = _as_number(got)
    if number is None:
        return _wrong_kind(got, expected, name)
    wanted = _as_number(expected)
    assert wanted is not None
    if _is_float32(got) and not _is_whole(expected):
        rel_tol = max(rel_tol, FLOAT32_REL_TOL)
    if math.isnan(wanted) and math.isnan(number):
        return None
    if math.isnan(number):
        return f"{name} is NaN (not a number), expected {brief(wanted)}: look for 0/0 or inf - inf"
    if number == wanted or (math.isfinite(wanted) and abs(number - wanted) <= max(rel_tol * abs(wanted), abs_tol)):
        return None
    return f"{name} is {_apart(number, wanted)}"


def _apart(number: float, wanted: float) -> str:
    """Both numbers with as many digits as it takes to see that they differ."""
    digits = next((d for d in range(6, 17) if f"{number:.{d}g}" != f"{wanted:.{d}g}"), 17)
    return f"{number:.{digits}g}, expected {wanted:.{digits}g}"


def _sequence_difference(got: Any, expected: Sequence, rel_tol: float, abs_tol: float, name: str) -> str | None:
    if _has_shape(got) and _shape(got):
        got = list(got) if _is_float32(got) else _plain(got)  # its elements know that they are float32
    if isinstance(got, str | bytes) or not isinstance(got, Sequence):
        return _wrong_kind(got, expected, name)
    if len(got) != len(expected):
        return f"{name} has {len(got)} elements, expected {len(expected)}"
    if all(map(_is_float32, got)) and all(isinstance(one, float) for one in expected):
        abs_tol = max(abs_tol, FLOAT32_REL_TOL * max(filter(math.isfinite, map(abs, expected)), default=0.0))
    for i, (one, other) in enumerate(zip(got, expected, strict=True)):
        found = _difference(one, other, rel_tol, abs_tol, f"element {i}" if name == "the answer" else f"{name}[{i}]")
        if found:
            return found
    return None


def _mapping_difference(got: object, expected: Mapping, rel_tol: float, abs_tol: float, name: str) -> str | None:
    if not isinstance(got, Mapping):
        return _wrong_kind(got, expected, name)
    missing = [key for key in expected if key not in got]
    if missing:
        return f"{name} lacks the key {brief(missing[0])}"
    extra = [key for key in got if key not in expected]
    if extra:
        return f"{name} has a key too many: {brief(extra[0])}"
    for key, other in expected.items():
        label = f"key {brief(key)}" if name == "the answer" else f"{name}[{brief(key)}]"
        found = _difference(got[key], other, rel_tol, abs_tol, label)
        if found:
            return found
    return None


def _array_difference(got: object, expected: object, rel_tol: float, abs_tol: float, name: str) -> str | None:
    import numpy as np

    wanted = _as_array(expected)
    if not _has_shape(got) and not isinstance(got, list | tuple):
        return _wrong_kind(got, expected, name)
    try:
        array = _as_array(got)
    except (TypeError, ValueError):
        return _wrong_kind(got, expected, name)
    if array.shape != wanted.shape:
        return f"{name} has shape {array.shape}, expected {wanted.shape}"
    if np.isnan(array).any() and not np.isnan(wanted).any():
        where = tuple(int(i) for i in np.argwhere(np.isnan(array))[0])
        return f"{name}{list(where)} is NaN (not a number), expected {wanted[where]:.6g}"
    if _is_float32(got) and not _is_whole(expected):
        abs_tol = max(abs_tol, FLOAT32_REL_TOL * np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        close = np.isfinite(wanted) & (np.abs(array - wanted) <= np.maximum(rel_tol * np.abs(wanted), abs_tol))
    close |= (array == wanted) | (np.isnan(array) & np.isnan(wanted))
    if close.all():
        return None
    where = tuple(int(i) for i in np.argwhere(~close)[0])
    return f"{name}{list(where)} is {_apart(array[where], wanted[where])} ({(~close).sum()} of {close.size} differ)"


def _wrong_kind(got: object, expected: object, name: str) -> str:
    subject = "it" if name == "the answer" else name
    return f"{subject} should be {kind(expected)}, but is {kind(got)}: {brief(got)}"


def _is_numpy_bool(value: object) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ in {"bool", "bool_"}


def _is_float32(value: object) -> bool:
    """True for arrays, tensors and scalars of numpy's or torch's float32."""
    return str(getattr(value, "dtype", "")).rpartition(".")[2] == "float32"


def _is_whole(value: object) -> bool:
    """True for an integer, and for an array of integers."""
    return isinstance(value, Integral) or "int" in str(getattr(value, "dtype", ""))


def _has_shape(value: object) -> bool:
    """True for numpy arrays and scalars and torch tensors, without importing either."""
    return hasattr(value, "shape") and hasattr(value, "tolist")


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in value.shape)


def _plain(value: Any) -> Any:
    return value.tolist()


def _as_array(value: Any) -> Any:
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu().double()
    return np.asarray(value, dtype=np.float64)


def _as_number(value: Any) -> float | None:
    if _has_shape(value):
        if math.prod(_shape(value)) != 1 or len(_shape(value)) > 0:
            return None
        value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, Number) or isinstance(value, complex):
        return None
    return float(value)  # type: ignore[arg-type]
