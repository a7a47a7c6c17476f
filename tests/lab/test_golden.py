"""Goldens: what agrees, what deviates, what may be written, and how an update reads."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labsim.lab.golden import (
    Golden,
    apart,
    check,
    describe_update,
    golden_path,
    load_goldens,
    save_goldens,
    updated,
)
from labsim.lab.metrics import Metric


def _metrics(**values: object) -> dict[str, Metric]:
    return {name: Metric(name, value, cell=4) for name, value in values.items()}


def _kinds(metrics: dict[str, Metric], goldens: dict[str, Golden]) -> list[tuple[str, str]]:
    return [(deviation.name, deviation.kind) for deviation in check(metrics, goldens)]


@pytest.mark.parametrize(
    ("value", "golden", "kinds"),
    [
        (1.0, Golden(1.0, abs_tol=0), []),
        (1.0, Golden(1, abs_tol=0), []),
        (1.1, Golden(1.0, abs_tol=0.11), []),
        (1.1, Golden(1.0, abs_tol=0.09), ["value"]),
        (0.9, Golden(1.0, abs_tol=0.09), ["value"]),
        (-105, Golden(-100, rel_tol=0.051), []),
        (-105, Golden(-100, rel_tol=0.049), ["value"]),
        (0.0, Golden(1.0, rel_tol=0.99), ["value"]),
        (True, Golden(True), []),
        (False, Golden(True), ["value"]),
        (1, Golden(True), ["type"]),
        (True, Golden(1, abs_tol=0), ["type"]),
        ("1", Golden(1, abs_tol=0), ["type"]),
        ("moe", Golden("dense"), ["value"]),
    ],
)
def test_one_metric_against_one_golden(value: object, golden: Golden, kinds: list[str]) -> None:
    assert [kind for _, kind in _kinds(_metrics(x=value), {"x": golden})] == kinds


def test_missing_unexpected_and_claim() -> None:
    metrics = {"a": Metric("a", 1, claim="C1", cell=1), "b": Metric("b", 2, cell=2)}
    goldens = {"a": Golden(1, abs_tol=0, claim="C2"), "c": Golden(True)}
    assert _kinds(metrics, goldens) == [("a", "claim"), ("c", "missing"), ("b", "unexpected")]


@given(
    value=st.floats(-1e6, 1e6),
    expected=st.floats(-1e6, 1e6).filter(bool),
    tolerance=st.floats(0, 0.999),
    relative=st.booleans(),
)
def test_tolerances_agree_with_math_isclose(value: float, expected: float, tolerance: float, relative: bool) -> None:
    """math.isclose scales by the larger of the two; pinned to the golden's own size it is the same rule."""
    bound = tolerance * abs(expected) if relative else tolerance
    golden = Golden(expected, **{"rel_tol" if relative else "abs_tol": tolerance})
    agrees = math.isclose(value, expected, rel_tol=0, abs_tol=bound)
    assert (check(_metrics(x=value), {"x": golden}) == []) is agrees


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({}, "allowed: an object with a value"),
        (3, "allowed: an object with a value"),
        ({"value": 1.0}, "has no tolerance; allowed: one of abs_tol, rel_tol"),
        ({"value": 1.0, "abs_tol": 1, "rel_tol": 0.1}, "has abs_tol and rel_tol"),
        ({"value": 1.0, "abs_tol": 1, "timed": 1}, "timed is 1; allowed: true or false"),
        ({"value": True, "timed": True}, "what a clock measures is a number"),
        ({"value": 1.0, "reltol": 0.1}, "unknown key 'reltol'; did you mean 'rel_tol'"),
        ({"value": 1.0, "rel_tol": 1.0}, "or every sign would pass"),
        ({"value": 0.0, "rel_tol": 0.1}, "allowed: abs_tol"),
        ({"value": 1.0, "abs_tol": -1}, "abs_tol is -1"),
        ({"value": 1.0, "abs_tol": math.inf}, "abs_tol is inf"),
        ({"value": 1.0, "abs_tol": "1"}, "abs_tol is '1'"),
        ({"value": math.nan, "abs_tol": 1}, "value is nan"),
        ({"value": None}, "value is None"),
        ({"value": True, "abs_tol": 1}, "abs_tol on True"),
    ],
)
def test_a_golden_that_cannot_fail_or_makes_no_sense_is_refused(tmp_path: Path, entry: object, says: str) -> None:
    path = tmp_path / "01.json"
    path.write_text(json.dumps({"metrics": {"x": entry}}))
    with pytest.raises(ValueError, match=r"01\.json: x") as caught:
        load_goldens(path)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("recorded", "golden", "copies"),
    [
        (1.019, Golden(1.0, rel_tol=0.5), True),
        (1.021, Golden(1.0, rel_tol=0.5), False),
        (-0.067, Golden(0.028, abs_tol=0.4), False),
        (0.0019, Golden(0.0, abs_tol=1), True),
        (0.0021, Golden(0.0, abs_tol=1), False),
        (9.0, Golden(1.0, abs_tol=50, timed=True), True),
        (False, Golden(True), False),
        ("moe", Golden("moe"), True),
        (1.0, Golden("moe"), False),
    ],
)
def test_a_golden_is_a_copy_of_the_recorded_number_whatever_its_tolerance(
    recorded: object, golden: Golden, copies: bool
) -> None:
    assert (apart({"x": recorded, "other": 1}, {"x": golden, "unrecorded": golden}) == []) is copies


def test_what_is_timed_stays_so_in_the_file_and_in_an_update(tmp_path: Path) -> None:
    goldens = {"t": Golden(1.5, abs_tol=0, timed=True), "n": Golden(3, abs_tol=0), "f": Golden(False)}
    save_goldens(tmp_path / "01.json", goldens)
    assert load_goldens(tmp_path / "01.json") == goldens
    assert updated(_metrics(t=2.5, n=3, f=False), goldens)["t"] == Golden(2.5, abs_tol=0, timed=True)
    assert not updated(_metrics(t=True), goldens)["t"].timed


@pytest.mark.parametrize("text", ["[]", "{}", '{"metrics": [], "x": 1}', "{"])
def test_a_file_that_is_no_golden_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "01.json").write_text(text)
    with pytest.raises(ValueError, match=r"01\.json is not"):
        load_goldens(tmp_path / "01.json")


def test_update_keeps_tolerances_and_says_what_changed(tmp_path: Path) -> None:
    old = {"kept": Golden(1.0, rel_tol=0.02, claim="C1"), "moved": Golden(10, abs_tol=2), "gone": Golden("x")}
    metrics = _metrics(moved=12, new=0.25, count=3, flag=True, zero=0.0) | {"kept": Metric("kept", 1.0, claim="C1")}
    new = updated(metrics, old)
    assert new["kept"] == old["kept"]
    assert new["moved"] == Golden(12, abs_tol=2)
    assert "gone" not in new
    assert check(metrics, new) == []
    lines = describe_update(old, new)
    assert lines == [
        "~ moved: 10 -> 12 (+0.2 relative)",
        "+ new: 0.25 (rel_tol 1e-06 by default: set what the claim needs)",
        "+ count: 3 (abs_tol 0 by default: set what the claim needs)",
        "+ flag: True (exact)",
        "+ zero: 0 (abs_tol 1e-09 by default: set what the claim needs)",
        "- gone: 'x' (no longer recorded)",
    ]
    save_goldens(tmp_path / "golden" / "01.json", new)
    assert load_goldens(tmp_path / "golden" / "01.json") == new
    assert describe_update(new, load_goldens(tmp_path / "golden" / "01.json")) == []


def test_update_to_zero_or_to_another_type_gets_a_tolerance_that_works() -> None:
    metrics = _metrics(zero=0.0, text="a")
    new = updated(metrics, {"zero": Golden(1.0, rel_tol=0.1), "text": Golden(2, abs_tol=0)})
    assert check(metrics, new) == []
    assert new == {"zero": Golden(0.0, abs_tol=1e-9), "text": Golden("a")}


def test_golden_path_is_beside_the_notebooks(tmp_path: Path) -> None:
    assert golden_path(tmp_path / "notebooks" / "07_x.ipynb") == tmp_path / "tests" / "golden" / "07.json"
    with pytest.raises(ValueError, match=r"notebook name is 'x\.ipynb'"):
        golden_path("notebooks/x.ipynb")
