"""Recorded metrics on disk: one file per notebook and scale, written by `labsim run --metrics`.

`data/metrics/ci/01.json` belongs to `notebooks/01_*.ipynb`:

    {"notebook": "01_alpha_and_k.ipynb", "parameters": {"scale": "ci", ...}, "metrics": {
      "speedup_claimed": {"value": 4.09, "unit": "x", "claim": "S1", "cell": "c24-1f0e2d"}}}

A golden says what a number must be, with a tolerance; this file says what it was, and in which cell. `cell` is the
cell's id, which stays when cells are added above it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...models.paths import data_directory
from ..metrics import Metric, collect
from ..notebooks import parameters, read_notebook
from .findings import Value

SCALES = ("ci", "laptop", "gpu")


@dataclass(frozen=True)
class Recorded:
    """One metric as it was recorded. `cell` is the id of its cell."""

    value: Value
    unit: str
    claim: str | None
    cell: str


@dataclass(frozen=True)
class NotebookMetrics:
    """All metrics of one run of a notebook, by name."""

    notebook: str
    parameters: Mapping[str, Value]
    metrics: Mapping[str, Recorded]

    @property
    def number(self) -> str:
        """The notebook's number: `01`."""
        return self.notebook[:2]

    @property
    def scale(self) -> str:
        """The scale that it ran at."""
        return str(self.parameters["scale"])


def metrics_directory() -> Path:
    """The repository's recorded metrics, one folder per scale."""
    return data_directory() / "metrics"


def from_run(
    source: Mapping[str, Any], notebook: str, given: Mapping[str, Value], found: Mapping[str, Metric]
) -> NotebookMetrics:
    """The metrics of a run: `source` is the notebook as it stands, `given` the parameters that were set."""
    values = {name: parameter.default for name, parameter in parameters(source).items()} | dict(given)
    return NotebookMetrics(
        notebook,
        values,
        {name: Recorded(one.value, one.unit, one.claim, one.cell_id) for name, one in found.items()},
    )


def from_executed(path: Path) -> NotebookMetrics:
    """The metrics of an executed notebook (`labsim run --out`), with the parameters that were put into it.

    Raises:
        ValueError: not a notebook that the runner has executed.
    """
    executed = read_notebook(path)
    cells = executed["cells"]
    injected = [cell for cell in cells if "injected-parameters" in cell["metadata"].get("tags", ())]
    if not injected:
        raise ValueError(f"{path} has no cell of injected parameters; right is a notebook that labsim run has executed")
    source = {**executed, "cells": [cell for cell in cells if cell not in injected]}
    given = executed["metadata"].get("papermill", {}).get("parameters", {})
    return from_run(source, path.name, given, collect(executed))


def save(found: NotebookMetrics, directory: Path) -> Path:
    """Write the metrics as `NN.json` in one step; returns the file."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{found.number}.json"
    document = {
        "notebook": found.notebook,
        "parameters": dict(found.parameters),
        "metrics": {name: vars(one) for name, one in found.metrics.items()},
    }
    temporary = path.with_suffix(".json.part")
    temporary.write_text(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)
    return path


def load(path: Path) -> NotebookMetrics:
    """Read one file of metrics.

    Raises:
        ValueError: not such a file.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        metrics = {name: Recorded(**one) for name, one in document["metrics"].items()}
        found = NotebookMetrics(document["notebook"], document["parameters"], metrics)
        if found.scale not in SCALES or not found.number.isdigit():
            raise ValueError(f"scale {found.scale!r} of {found.notebook!r}")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{path} is no file of recorded metrics ({error}); write it with labsim run --metrics"
        ) from error
    return found


def load_directory(directory: Path) -> dict[str, NotebookMetrics]:
    """The files of one folder by notebook number. ValueError for a folder without any."""
    found = [load(path) for path in sorted(directory.glob("[0-9][0-9].json"))]
    if not found:
        raise ValueError(
            f"{directory} holds no recorded metrics (NN.json); write them with labsim run --metrics {directory}"
        )
    return {one.number: one for one in found}


def values(recorded: Mapping[str, NotebookMetrics]) -> dict[str, Value]:
    """Every metric as `notebook.name`, which is how rules name them."""
    return {f"{number}.{name}": one.value for number, run in recorded.items() for name, one in run.metrics.items()}
