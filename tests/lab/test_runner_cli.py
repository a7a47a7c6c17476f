"""`labsim run` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from labsim.commands.run import command
from labsim.lab import budget
from labsim.lab.claims.store import load

from .notebook_builder import RECORD, write


@pytest.fixture(autouse=True)
def temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the command keeps failed notebooks."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def _labsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "labsim", "run", *map(str, arguments)], capture_output=True, text=True, timeout=100
    )


@pytest.fixture
def course(tmp_path: Path) -> Path:
    write(tmp_path / "notebooks" / "01_good.ipynb", RECORD + "record('x', 1.0 + seed + rate)")
    write(tmp_path / "notebooks" / "02_bad.ipynb", RECORD + "record('y', 2)", "1 / 0")
    return tmp_path


def test_goldens_are_written_checked_and_updated(course: Path) -> None:
    notebook, golden = course / "notebooks" / "01_good.ipynb", course / "tests" / "golden" / "01.json"
    missing = _labsim(notebook)
    assert missing.returncode == 1 and "no golden file" in missing.stderr and "--update-golden" in missing.stderr
    written = _labsim(notebook, "--update-golden")
    assert written.returncode == 0 and "+ x: 1.5 (rel_tol 1e-06 by default" in written.stdout
    golden.write_text(golden.read_text().replace("1e-06", "0.01").replace("1.5", "1.4"))
    differs = _labsim(notebook, "--out", course / "out")
    assert differs.returncode == 1
    assert "x (value): 1.4 -> 1.5" in differs.stderr and "FAIL  01_good.ipynb" in differs.stdout
    assert (course / "out" / "01_good.ipynb").exists()
    updated = _labsim(notebook, "--update-golden")
    assert "~ x: 1.4 -> 1.5 (+0.0714 relative)" in updated.stdout
    assert json.loads(golden.read_text()) == {"metrics": {"x": {"value": 1.5, "rel_tol": 0.01}}}
    checked = _labsim(notebook)
    assert checked.returncode == 0 and "1 goldens checked" in checked.stdout


def test_json_is_one_document_and_the_other_notebooks_still_run(course: Path) -> None:
    notebooks = [course / "notebooks" / name for name in ("02_bad.ipynb", "01_good.ipynb")]
    done = _labsim(*notebooks, "--json", "--no-golden", "-p", "rate", "0.25", "--seed", "3")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["ok"] is False
    bad, good = document["notebooks"]
    assert (bad["status"], good["status"]) == ("cell-error", "passed")
    assert "ZeroDivisionError" in bad["error"] and bad["error"] in done.stderr
    assert good["metrics"]["x"]["value"] == 4.25
    assert good["wall_s"] > 0 and good["peak_memory_bytes"] > 0 and len(good["cells"]) == 2


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["-p", "raet", "1"], 1, "unknown parameter 'raet'; did you mean 'rate'? known: rate, scale, seed, solve"),
        (["--seed", "1.5"], 1, "parameter seed is '1.5'; allowed: a value of type int"),
        (["--seed", "1", "-p", "seed", "2"], 2, "parameter seed is given twice"),
        (["--memory", "4 apples"], 2, "'4 apples' is not a size above 0 such as 4GB"),
        (["--deadline", "0"], 2, "0"),
        (["--update-golden", "--seed", "1"], 2, "--update-golden holds for seed=0 only; seed is 1"),
        (["--update-golden", "--no-golden"], 2, "exclude each other"),
    ],
)
def test_wrong_values_name_themselves(course: Path, arguments: list[str], status: int, says: str) -> None:
    done = _labsim(course / "notebooks" / "01_good.ipynb", *arguments)
    assert done.returncode == status
    assert says in done.stderr


def test_limits_reach_the_run(course: Path) -> None:
    path = write(course / "notebooks" / "03_long.ipynb", "import time\ntime.sleep(600)")
    late = _labsim(path, "--deadline", "2", "--no-golden")
    assert late.returncode == 1 and "deadline of 2 s" in late.stderr
    fat = _labsim(path, "--memory", "20MB", "--no-golden")
    assert fat.returncode == 1 and "above the cap of 0.02 GB" in fat.stderr


def test_ctrl_c_stops_all_notebooks(course: Path) -> None:
    path = write(course / "notebooks" / "03_long.ipynb", "open('begun', 'w').write('x')\nimport time\ntime.sleep(600)")
    process = subprocess.Popen(
        [sys.executable, "-m", "labsim", "run", str(path), str(path), "--no-golden"], stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 30
    while not (path.parent / "begun").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 1
    assert said.count("stopped by Ctrl-C in cell 3 of 3") == 1


def test_help_needs_neither_papermill_nor_psutil() -> None:
    program = (
        "import sys\nfrom labsim.commands.run import command\n"
        "command(['--help'], standalone_mode=False)\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "Execute notebooks" in done.stdout and "--update-golden" in done.stdout
    imported = set(done.stderr.split())
    assert "click" in imported and not {"papermill", "psutil", "nbformat", "IPython", "zmq"} & imported


@pytest.mark.parametrize("case", ["uncreatable", "own folder", "same names"])
def test_an_output_folder_that_would_lose_something_is_refused(tmp_path: Path, case: str) -> None:
    paths = [write(tmp_path / folder / "01_t.ipynb", "1 + 1") for folder in ("a", "b")]
    chosen = {"uncreatable": paths[:1], "own folder": paths[:1], "same names": paths}[case]
    out = {"uncreatable": Path("/dev/null/x"), "own folder": tmp_path / "a", "same names": tmp_path / "out"}[case]
    command = [sys.executable, "-m", "labsim", "run", *map(str, chosen), "--no-golden", "--out", str(out)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert str(out) in result.stderr


@pytest.mark.parametrize("content", ["", "[[[", "[" * 100_000, '{"nbformat": 4, "cells": [{}]}'])
def test_what_is_no_notebook_is_said_in_one_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "01_t.ipynb"
    path.write_text(content)
    command = [sys.executable, "-m", "labsim", "run", str(path), "--no-golden", "--json"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert json.loads(result.stdout)["notebooks"][0]["status"] == "notebook"
    assert "Traceback" not in result.stderr


def test_metrics_are_written_and_a_slow_run_is_reported_and_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "budgets_file", lambda: tmp_path / "budgets.json")
    burn = "import time\nuntil = time.process_time() + 2.0\nwhile time.process_time() < until: pass\nrecord('x', 1)"
    path = write(tmp_path / "01_t.ipynb", RECORD + burn)
    first = CliRunner().invoke(
        command, [str(path), "--no-golden", "--update-budget", "--metrics", str(tmp_path / "kept")]
    )
    assert first.exit_code == 0 and "s of processor" in first.stdout
    assert load(tmp_path / "kept" / "01.json").metrics["x"].value == 1
    recorded = budget.load_budgets()["01_t"]["as delivered"]
    assert recorded > 2.0
    budget.update_budget(path, recorded / 2, False)
    slow = CliRunner().invoke(command, [str(path), "--no-golden", "--json"])
    assert slow.exit_code == 0, "a time never fails a run"
    assert "slower: 01_t.ipynb" in slow.stderr and "times its budget" in slow.stderr
    found = json.loads(slow.stdout)["notebooks"][0]
    assert found["budget"]["over"] is True and found["cpu_s"] > 2.0
    other_seed = CliRunner().invoke(command, [str(path), "--no-golden", "--json", "--seed", "1"])
    assert json.loads(other_seed.stdout)["notebooks"][0]["budget"] is None
