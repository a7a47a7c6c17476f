"""`scripts/break_it.py`: every planted bug still fits the code, and the program tells red, green and no proof apart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import break_it  # noqa: E402
from planted_bugs import BUGS, Bug  # noqa: E402

LAYERS = {
    *("sim", "telemetry", "rollout", "attention", "ring", "decode", "drafts", "checkpoint", "trainer"),
    *("notebooks", "claims", "widgets", "slides", "runner", "tests"),
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_replaces_what_stands_there_once(bug: Bug) -> None:
    assert (ROOT / bug.file).read_text(encoding="utf-8").count(bug.right) == 1
    assert bug.right != bug.wrong
    for test in bug.tests:
        assert (ROOT / test.partition("::")[0]).exists(), test


def test_every_layer_has_a_bug() -> None:
    assert {bug.layer for bug in BUGS} >= LAYERS
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 10


@pytest.fixture
def little(tmp_path: Path) -> Path:
    """A project of one function and one test."""
    (tmp_path / "little.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "test_little.py").write_text("from little import double\ndef test_it():\n    assert double(3) == 6\n")
    return tmp_path


@pytest.mark.parametrize(
    ("wrong", "caught", "status"),
    [("return 3 * x", True, 1), ("return x + x", False, 0), ("return (", False, 2)],
    ids=["a bug", "no bug at all", "no Python"],
)
def test_only_a_failing_test_is_a_proof(little: Path, wrong: str, caught: bool, status: int) -> None:
    bug = Bug("b", "l", "little.py", "return 2 * x", wrong, ("test_little.py",))
    with break_it.planted(bug, little):
        seen = break_it.Seen(bug.name, bug.layer, *break_it.tests(little, bug.tests))
    assert (seen.caught, seen.status) == (caught, status)
    assert "return 2 * x" in (little / "little.py").read_text(), "the file is put back"
    assert break_it.tests(little, bug.tests)[0] == 0


def test_a_bug_that_no_longer_fits_stops_everything(little: Path) -> None:
    bug = Bug("b", "l", "little.py", "return 4 * x", "return 5 * x", ("test_little.py",))
    with (
        pytest.raises(ValueError, match="holds 'return 4 \\* x' 0 times; allowed: once"),
        break_it.planted(bug, little),
    ):
        raise AssertionError("not reached")


def test_a_real_bug_in_a_real_copy() -> None:
    """The whole way with the cheapest bug: copy, control, bug, exit status."""
    command = [sys.executable, "scripts/break_it.py", "--json", "--only", "bonus forgotten by the closed form"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["ok"] and document["control"] == 0
    assert [one["caught"] for one in document["bugs"]] == [True]
    assert "test_acceptance" in document["bugs"][0]["first_failure"]


def test_an_unknown_bug_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/break_it.py", "--only", "no such bug"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2 and "no bug is called no such bug; known: bonus forgotten" in done.stderr
