"""Metrics: the numbers a notebook's sentences rest on.

A notebook says `record("speedup_at_32", 1.41, unit="x", claim="C07")`. In a kernel that displays one raw bundle whose
only MIME type is `application/vnd.labsim.metrics+json`; no front end knows the type, so nothing appears on the page, in
the slides or in the exported HTML. The bundle stays in the executed notebook, where `collect` finds it, and from there
the runner compares it with the notebook's golden file (`labsim.lab.golden`).

A metric is one plain value: a finite number, a bool or a string. A notebook that wants to pin a curve records the
points that its text speaks about.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MIME = "application/vnd.labsim.metrics+json"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]*")
_VALUE_RULE = "a finite number, a bool or a string"
_NAME_RULE = "a letter followed by letters, digits, '_' or '.'"


class MetricError(ValueError):
    """A metric that cannot be recorded, or a notebook that records one name twice."""


@dataclass(frozen=True)
class Metric:
    """One recorded value. `cell` is the 1-based position of its cell in the source notebook, `cell_id` the id."""

    name: str
    value: float | int | bool | str
    unit: str = ""
    claim: str | None = None
    cell: int = 0
    cell_id: str = ""


def record(name: str, value: float | int | bool | str, *, unit: str = "", claim: str | None = None) -> None:
    """Record one number under `name`.

    It returns nothing, so that it shows nothing as the last line of a cell either. Outside a kernel (a script, a test)
    the arguments are checked, and nothing is displayed or kept.

    Args:
        name: unique within the notebook.
        value: a finite number, a bool, a string, or a zero-dimensional array or tensor of one.
        unit: as a reader would write it: "x", "ms", "tokens".
        claim: the id of the claim that this number speaks to.

    Raises:
        MetricError: a bad name, NaN, infinity, or an array with more than one number.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise MetricError(f"metric name is {name!r}; allowed: {_NAME_RULE}")
    if not isinstance(unit, str):
        raise MetricError(f"metric {name}: unit is {unit!r}; allowed: a string")
    if claim is not None and (not isinstance(claim, str) or not claim):
        raise MetricError(f"metric {name}: claim is {claim!r}; allowed: the id of a claim, or None")
    plain = _plain_value(name, value)
    if _in_kernel():
        from IPython.display import display

        display({MIME: {"name": name, "value": plain, "unit": unit, "claim": claim}}, raw=True)


def record_interval(
    name: str, value: float, low: float, high: float, *, unit: str = "", claim: str | None = None
) -> None:
    """Record a number with its interval, as `name`, `name.low` and `name.high`.

    Raises:
        MetricError: as `record`, or ends in the wrong order.
    """
    if low > high:
        raise MetricError(f"metric {name}: interval is {low!r} to {high!r}; allowed: the lower end first")
    for end, one in (("", value), (".low", low), (".high", high)):
        record(name + end, one, unit=unit, claim=claim)


def collect(notebook: Mapping[str, Any]) -> dict[str, Metric]:
    """All metrics of an executed notebook, by name, in the order of recording.

    `notebook` is a NotebookNode or the parsed JSON of an .ipynb file.

    Raises:
        MetricError: one name recorded twice (the message names both cells), or a malformed bundle.
    """
    metrics: dict[str, Metric] = {}
    position = 0
    for cell in notebook["cells"]:
        # The cell that papermill injects is not in the source notebook.
        position += "injected-parameters" not in cell["metadata"].get("tags", ())
        for output in cell.get("outputs", ()):
            bundle = output.get("data", {}).get(MIME)
            if bundle is None:
                continue
            metric = _from_bundle(bundle, position, cell.get("id", ""))
            earlier = metrics.get(metric.name)
            if earlier is not None:
                raise MetricError(
                    f"metric {metric.name!r} is recorded twice, in cell {earlier.cell} ({earlier.value!r}) and in cell "
                    f"{position} ({metric.value!r}); give each its own name"
                )
            metrics[metric.name] = metric
    return metrics


def _from_bundle(bundle: Mapping[str, Any], position: int, cell_id: str) -> Metric:
    try:
        name = bundle["name"]
        return Metric(name, _plain_value(name, bundle["value"]), bundle["unit"], bundle["claim"], position, cell_id)
    except (KeyError, TypeError) as error:
        raise MetricError(
            f"cell {position} displays a malformed metric bundle {bundle!r}; use labsim.lab.metrics.record"
        ) from error


def _plain_value(name: str, value: Any) -> float | int | bool | str:
    """A JSON-safe scalar; numpy and torch scalars are unwrapped."""
    if not isinstance(value, (str, bool, int, float)) or hasattr(value, "item"):
        shape = getattr(value, "shape", None)
        if shape is None or not hasattr(value, "item"):
            raise MetricError(
                f"metric {name}: value is {value!r:.60}, a {type(value).__name__}; allowed: {_VALUE_RULE}"
            )
        if tuple(shape) != ():
            raise MetricError(
                f"metric {name}: value is an array of shape {tuple(shape)}; allowed: one number per metric"
            )
        value = value.item()
        if not isinstance(value, (str, bool, int, float)):
            raise MetricError(f"metric {name}: value is {value!r:.60}; allowed: {_VALUE_RULE}")
    if isinstance(value, float) and not math.isfinite(value):
        raise MetricError(f"metric {name}: value is {value}; allowed: a finite number")
    return value


def _in_kernel() -> bool:
    """Whether an IPython shell is running; never imports IPython to find out."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None
