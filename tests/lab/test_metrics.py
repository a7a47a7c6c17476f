"""The metrics channel: what may be recorded, and that it survives the notebook unseen."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from labsim.lab.metrics import MIME, Metric, MetricError, collect, record
from labsim.lab.outcome import CellError
from labsim.lab.runner import run

from .notebook_builder import RECORD, code, notebook, write


def _display(name: str, value: object, **more: object) -> dict:
    return {
        "output_type": "display_data",
        "data": {MIME: {"name": name, "value": value, "unit": "", "claim": None} | more},
    }


def _cell(*outputs: dict, tags: tuple[str, ...] = ()) -> dict:
    return {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": "", "outputs": list(outputs)}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan"), torch.tensor(math.inf)])
def test_numbers_that_are_not_finite_are_refused(value: object) -> None:
    with pytest.raises(MetricError, match=r"metric x: value is (nan|inf|-inf); allowed: a finite number"):
        record("x", value)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.zeros(3), r"array of shape \(3,\)"),
        (torch.zeros(1), r"array of shape \(1,\)"),
        (np.array(["a", "b"]), r"array of shape \(2,\)"),
        (np.array(None), "value is None"),
        ([1, 2], r"value is \[1, 2\], a list"),
        (None, "value is None, a NoneType"),
        (1 + 2j, "a complex"),
    ],
)
def test_anything_but_one_plain_value_is_refused(value: object, says: str) -> None:
    with pytest.raises(MetricError, match=says):
        record("x", value)


@pytest.mark.parametrize("name", ["", "1x", "a b", "x-y", "é", 3, None])
def test_bad_names_are_refused(name: object) -> None:
    with pytest.raises(MetricError, match="metric name is"):
        record(name, 1)


@pytest.mark.parametrize(("more", "says"), [({"unit": 3}, "unit is 3"), ({"claim": ""}, "claim is ''")])
def test_bad_unit_or_claim_is_refused(more: dict, says: str) -> None:
    with pytest.raises(MetricError, match=says):
        record("x", 1, **more)


def test_outside_a_kernel_nothing_happens() -> None:
    """Not even an import of IPython."""
    program = (
        "import sys\nfrom labsim.lab.metrics import record\n"
        "assert record('x', 1.5, unit='ms', claim='C1') is None\nassert 'IPython' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_collect_keeps_order_and_source_positions() -> None:
    notebook = {
        "cells": [
            _cell(),
            _cell(tags=("injected-parameters",)),
            _cell(_display("b", 2), {"output_type": "stream", "text": "x"}, _display("a", True, unit="s", claim="C2")),
        ]
    }
    assert list(collect(notebook).items()) == [("b", Metric("b", 2, cell=2)), ("a", Metric("a", True, "s", "C2", 2))]


def test_collect_refuses_one_name_twice() -> None:
    with pytest.raises(MetricError, match=r"'a' is recorded twice, in cell 1 \(1\) and in cell 2 \(1\)"):
        collect({"cells": [_cell(_display("a", 1)), _cell(_display("a", 1))]})


@pytest.mark.parametrize("bundle", [{"name": "a"}, [], {"name": "a", "value": math.nan, "unit": "", "claim": None}])
def test_collect_refuses_a_bundle_that_record_did_not_make(bundle: object) -> None:
    with pytest.raises(MetricError):
        collect({"cells": [_cell({"output_type": "display_data", "data": {MIME: bundle}})]})


@pytest.mark.filterwarnings("ignore:Your element with mimetype")  # nbconvert, leaving out what it does not know
def test_through_a_kernel_and_back_unseen(tmp_path) -> None:
    """Scalars of numpy and torch arrive as plain values; the exported page shows none of it."""
    from nbconvert import HTMLExporter

    path = write(
        tmp_path / "01_t.ipynb",
        code(
            RECORD + "import numpy as np\nrecord('f32', np.float32(0.1)); record('i', np.int64(3))\n"
            "record('zero_dim', np.array(2.5)); record('np_bool', np.bool_(True)); record('text', 'secret-word')\n"
            "for i in range(2): record(f'loop{i}', i)\nrecord('last_line', 1.0e300)",
            tags=["hide-input"],
        ),
    )
    result = run(path, tmp_path / "out.ipynb", deadline_s=60, memory_cap_bytes=2 * 10**9)
    values = {name: metric.value for name, metric in result.metrics.items()}
    assert values == {
        "f32": float(np.float32(0.1)),
        "i": 3,
        "zero_dim": 2.5,
        "np_bool": True,
        "text": "secret-word",
        "loop0": 0,
        "loop1": 1,
        "last_line": 1.0e300,
    }
    assert type(values["np_bool"]) is bool and type(values["i"]) is int
    page, _ = HTMLExporter(exclude_input=True).from_filename(str(result.output))
    assert "secret-word" not in page and "1e+300" not in page and "vnd.labsim" not in page


def test_a_bad_value_fails_the_cell_that_records_it(tmp_path) -> None:
    path = write(tmp_path / "01_t.ipynb", RECORD + "record('x', float('nan'))")
    with pytest.raises(CellError, match="metric x: value is nan"):
        run(path, tmp_path / "out.ipynb", deadline_s=60, memory_cap_bytes=2 * 10**9)


def test_builder_makes_valid_notebooks() -> None:
    """With every kind of cell that it knows. (`nbformat.validate` would mend a missing id without failing.)"""
    from nbformat.validator import iter_validate

    made = notebook(RECORD, code("1", exercise="01.1"), code("2", tags=["hide-input"]), parameters="seed: int = 0")
    assert [error.message for error in iter_validate(made, version=4, version_minor=5)] == []
    assert [cell.metadata.get("tags") for cell in made.cells] == [
        None, ["parameters"], None, ["exercise"], ["hide-input"],
    ]  # fmt: skip
    assert made.cells[3].metadata.labsim.exercise == "01.1"
    assert len({cell.id for cell in made.cells}) == 5
