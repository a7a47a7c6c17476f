"""The command line as scripts use it: contract keys, exit statuses, one-line errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


def labsim(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labsim", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)


def document(*arguments: str) -> dict:
    result = labsim(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_speedup_contract() -> None:
    report = document("speedup", "--alpha", "0.7", "--k", "5", "--overhead", "0.1")
    assert report["tokens_per_step"] == pytest.approx(4.5)
    assert report["speedup"] == pytest.approx(4.5 / 1.1)
    assert report["alpha_breakeven"] == pytest.approx(0.02)
    assert report["alpha_kind"] == "accepted/drafted"


def test_speedup_per_token() -> None:
    report = document("speedup", "--alpha", "0.7", "--k", "5", "--overhead", "0.1", "--per-token")
    assert report["tokens_per_step"] == pytest.approx(2.9412, abs=5e-5)
    assert report["alpha_kind"] == "conditional per token"
    # 1 + a + ... + a^5 = 1.1, solved by hand with one Newton step from 0.0909.
    assert report["alpha_breakeven"] == pytest.approx(0.09091, abs=2e-5)


def test_an_overhead_that_no_alpha_pays_is_said() -> None:
    assert document("speedup", "--alpha", "1", "--k", "2", "--overhead", "3")["alpha_breakeven"] == 1.5
    assert document("speedup", "--alpha", "1", "--k", "2", "--overhead", "3", "--per-token")["alpha_breakeven"] is None
    assert "no alpha breaks even" in labsim("speedup", "--alpha", "1", "--k", "2", "--overhead", "3").stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["speedup", "--alpha", "1.3", "--k", "5"], "alpha is 1.3; allowed: 0 to 1"),
        (["speedup", "--alpha", "nan", "--k", "5"], "alpha is nan"),
        (["speedup", "--alpha", "0.5", "--k", "0"], "k is 0; allowed: a whole number of at least 1"),
        (["speedup", "--alpha", "0.5", "--k", "2", "--overhead", "-1"], "overhead is -1.0"),
        (["speedup", "--alpha", "half", "--k", "2"], "'half'"),
        (["speedup", "--k", "2"], "--alpha"),
        (["sped"], "did you mean 'speedup'"),
        (["speedup", "--alfa", "1"], "--alpha"),
    ],
)
def test_a_wrong_value_exits_2_with_one_line(arguments: list[str], says: str) -> None:
    result = labsim(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("labsim: ")
    assert says in result.stderr


def test_a_closed_pipe_is_not_a_traceback() -> None:
    command = f"{sys.executable} -m labsim speedup --alpha .5 --k 3 --json | true"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["speedup", "--help"], ["doctor", "--help"], ["--version"]])
def test_help_is_there(arguments: list[str]) -> None:
    result = labsim(*arguments)
    assert result.returncode == 0
    assert "labsim" in result.stdout
