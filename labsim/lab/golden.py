"""Goldens: the numbers a notebook must keep producing.

`tests/golden/01.json` belongs to the notebook `01_*.ipynb`:

    {"metrics": {
      "speedup_at_32": {"value": 1.41, "rel_tol": 1e-6, "claim": "C07"},
      "best_k":        {"value": 3, "abs_tol": 0},
      "pays_at_256":   {"value": false},
      "measured_ratio": {"value": 0.89, "abs_tol": 50.0, "timed": true}}}

A number carries exactly one tolerance: `abs_tol` (in its own unit) or `rel_tol` (times the golden value, below 1, so
that a changed sign never passes). Bools and strings are compared exactly. A recorded metric without a golden fails,
as does a golden without its metric: a number nobody watches and a watch on nothing are the two ways in which a green
run lies. Goldens hold for scale="ci" and seed=0 only.

A tolerance is for another machine. Beside the metrics that this repository recorded (`data/metrics/ci`, the same scale
and seed) a golden is one of two copies of a number, and `apart` names those that are not: a page and a quiz would state
two figures. What a clock measured is another number in each run; its golden says so with `timed`.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..sim.errors import unknown_name
from .metrics import Metric

DEFAULT_REL_TOL = 1e-6
DEFAULT_ABS_TOL_AT_ZERO = 1e-9
SAME_REL, SAME_ABS = 0.02, 0.002  # two copies of one number: rounding and the order of sums, not another training
_KEYS = ("value", "abs_tol", "rel_tol", "claim", "timed")


@dataclass(frozen=True)
class Golden:
    """What one metric must be: a value and, for numbers, one tolerance. `timed`: a clock's number, new in each run."""

    value: float | int | bool | str
    abs_tol: float | None = None
    rel_tol: float | None = None
    claim: str | None = None
    timed: bool = False

    @property
    def allowed(self) -> float:
        """Largest allowed distance from `value` (0 for bools and strings)."""
        if self.rel_tol is not None:
            return self.rel_tol * abs(float(self.value))
        return self.abs_tol or 0.0


@dataclass(frozen=True)
class Deviation:
    """One metric that does not match: `kind` is value, type, missing, unexpected or claim."""

    name: str
    kind: str
    text: str


def golden_path(notebook: str | Path) -> Path:
    """The golden file of a notebook: `notebooks/01_x.ipynb` -> `tests/golden/01.json`, beside `notebooks`."""
    notebook = Path(notebook).resolve()
    number = re.match(r"(\d\d)_", notebook.name)
    if number is None:
        raise ValueError(f"notebook name is {notebook.name!r}; allowed: two digits and a name, such as 01_alpha.ipynb")
    return notebook.parent.parent / "tests" / "golden" / f"{number[1]}.json"


def load_goldens(path: str | Path) -> dict[str, Golden]:
    """Read a golden file.

    Raises:
        FileNotFoundError: there is none.
        ValueError: not a golden file, an unknown key, a number without exactly one tolerance, a tolerance that lets
            everything pass.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or set(document) != {"metrics"} or not isinstance(document["metrics"], dict):
        raise ValueError(f'{path} is not a golden file; allowed: {{"metrics": {{name: {{"value": ...}}}}}}')
    return {name: _golden(f"{path}: {name}", entry) for name, entry in document["metrics"].items()}


def check(metrics: Mapping[str, Metric], goldens: Mapping[str, Golden]) -> list[Deviation]:
    """Every way in which recorded metrics differ from the goldens; empty when they agree."""
    deviations = []
    for name, golden in goldens.items():
        if name not in metrics:
            deviations.append(
                Deviation(name, "missing", f"golden {_show(golden.value)}, but the notebook does not record it")
            )
            continue
        deviations.extend(_compare(metrics[name], golden))
    for name, metric in metrics.items():
        if name not in goldens:
            text = f"recorded {_show(metric.value)} in cell {metric.cell}, but it has no golden"
            deviations.append(Deviation(name, "unexpected", text))
    return deviations


def apart(values: Mapping[str, object], goldens: Mapping[str, Golden]) -> list[str]:
    """One line per golden that is no copy of the recorded value of its name, what a clock measured left out.

    Two numbers are copies when they differ by at most 2 % or 0.002. `values` without a golden's name are passed over:
    `check` names those.
    """
    found = []
    for name, golden in goldens.items():
        if golden.timed or name not in values:
            continue
        value, expected = values[name], golden.value
        if _is_number(value) and _is_number(expected):
            same = abs(float(value) - float(expected)) <= max(SAME_REL * abs(float(expected)), SAME_ABS)
        else:
            same = value == expected
        if not same:
            found.append(f"{name}: golden {_show(expected)}, recorded {_show(value)}")
    return found


def updated(metrics: Mapping[str, Metric], goldens: Mapping[str, Golden]) -> dict[str, Golden]:
    """Goldens with the recorded values: tolerances kept, new metrics with a tight default, stale ones dropped."""
    result = {}
    for name, metric in metrics.items():
        old = goldens.get(name)
        numeric = _is_number(metric.value)
        if old is None or numeric != _is_number(old.value):
            tolerance = _default_tolerance(metric.value)
        elif old.rel_tol is not None and metric.value == 0:
            tolerance = {"abs_tol": DEFAULT_ABS_TOL_AT_ZERO}
        else:
            tolerance = {"abs_tol": old.abs_tol, "rel_tol": old.rel_tol}
        timed = old is not None and old.timed and numeric
        result[name] = Golden(metric.value, claim=metric.claim, timed=timed, **tolerance)
    return result


def describe_update(old: Mapping[str, Golden], new: Mapping[str, Golden]) -> list[str]:
    """One line per changed golden, `old -> new`; empty when nothing changes."""
    lines = []
    for name in [*new, *(name for name in old if name not in new)]:
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if before is None:
            hint = " by default: set what the claim needs" if _is_number(after.value) else ""
            lines.append(f"+ {name}: {_show(after.value)} ({_show_tolerance(after)}{hint})")
        elif after is None:
            lines.append(f"- {name}: {_show(before.value)} (no longer recorded)")
        else:
            parts = []
            if before.value != after.value or type(before.value) is not type(after.value):
                parts.append(f"{_show(before.value)} -> {_show(after.value)}{_relative(before.value, after.value)}")
            if _show_tolerance(before) != _show_tolerance(after):
                parts.append(f"tolerance {_show_tolerance(before)} -> {_show_tolerance(after)}")
            if before.claim != after.claim:
                parts.append(f"claim {before.claim} -> {after.claim}")
            lines.append(f"~ {name}: {', '.join(parts)}")
    return lines


def save_goldens(path: str | Path, goldens: Mapping[str, Golden]) -> None:
    """Write a golden file in one step: a reader sees the old file or the new one."""
    path = Path(path)
    entries = {
        name: {key: given for key in _KEYS if _is_said(key, given := getattr(golden, key))}
        for name, golden in goldens.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".json.tmp")
    temporary.write_text(json.dumps({"metrics": entries}, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def _is_said(key: str, given: object) -> bool:
    """Whether an entry of the file has this key: what is left out is None, or `timed: false`."""
    return key == "value" or (given is not None and given is not False)


def _compare(metric: Metric, golden: Golden) -> list[Deviation]:
    deviations = []
    value, expected = metric.value, golden.value
    if _kind(value) != _kind(expected):
        text = f"{_show(expected)} ({_kind(expected)}) -> {_show(value)} ({_kind(value)}), in cell {metric.cell}"
        deviations.append(Deviation(metric.name, "type", text))
    elif _is_number(value):
        distance = abs(float(value) - float(expected))
        if distance > golden.allowed:
            text = (
                f"{_show(expected)} -> {_show(value)}{_relative(expected, value)}: off by {distance:.3g}, "
                f"allowed {golden.allowed:.3g} ({_show_tolerance(golden)}), in cell {metric.cell}"
            )
            deviations.append(Deviation(metric.name, "value", text))
    elif value != expected:
        text = f"{_show(expected)} -> {_show(value)}, in cell {metric.cell}"
        deviations.append(Deviation(metric.name, "value", text))
    if metric.claim != golden.claim:
        text = f"speaks to claim {metric.claim}, its golden to {golden.claim}, in cell {metric.cell}"
        deviations.append(Deviation(metric.name, "claim", text))
    return deviations


def _golden(where: str, entry: Any) -> Golden:
    if not isinstance(entry, dict) or "value" not in entry:
        raise ValueError(f"{where} is {entry!r}; allowed: an object with a value")
    for key in entry:
        if key not in _KEYS:
            raise ValueError(f"{where}: {unknown_name('key', key, _KEYS)}")
    golden = Golden(**entry)
    if _kind(golden.value) == "other" or (isinstance(golden.value, float) and not math.isfinite(golden.value)):
        raise ValueError(f"{where}: value is {golden.value!r}; allowed: a finite number, a bool or a string")
    if not isinstance(golden.timed, bool):
        raise ValueError(f"{where}: timed is {golden.timed!r}; allowed: true or false")
    if golden.timed and not _is_number(golden.value):
        raise ValueError(f"{where}: timed on {golden.value!r}; what a clock measures is a number")
    tolerances = [key for key in ("abs_tol", "rel_tol") if entry.get(key) is not None]
    if not _is_number(golden.value):
        if tolerances:
            raise ValueError(f"{where}: {tolerances[0]} on {golden.value!r}; bools and strings are compared exactly")
        return golden
    if len(tolerances) != 1:
        raise ValueError(f"{where}: has {' and '.join(tolerances) or 'no tolerance'}; allowed: one of abs_tol, rel_tol")
    (key,) = tolerances
    tolerance = entry[key]
    if not _is_number(tolerance) or not math.isfinite(tolerance) or tolerance < 0:
        raise ValueError(f"{where}: {key} is {tolerance!r}; allowed: a finite number of at least 0")
    if key == "rel_tol" and tolerance >= 1:
        raise ValueError(f"{where}: rel_tol is {tolerance}; allowed: 0 to below 1, or every sign would pass")
    if key == "rel_tol" and golden.value == 0:
        raise ValueError(f"{where}: rel_tol on the value 0 allows nothing; allowed: abs_tol")
    return golden


def _default_tolerance(value: object) -> dict[str, float]:
    if not _is_number(value):
        return {}
    if isinstance(value, int):
        return {"abs_tol": 0}
    return {"rel_tol": DEFAULT_REL_TOL} if value else {"abs_tol": DEFAULT_ABS_TOL_AT_ZERO}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    return "number" if _is_number(value) else "other"


def _show(value: object) -> str:
    return f"{value:.8g}" if isinstance(value, float) else repr(value)


def _show_tolerance(golden: Golden) -> str:
    if golden.rel_tol is not None:
        return f"rel_tol {golden.rel_tol:g}"
    return f"abs_tol {golden.abs_tol:g}" if golden.abs_tol is not None else "exact"


def _relative(before: object, after: object) -> str:
    if _is_number(before) and _is_number(after) and before != 0:
        return f" ({(after - before) / abs(before):+.3g} relative)"
    return ""
