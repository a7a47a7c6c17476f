"""The command line as scripts use it: contract keys, exit statuses, one-line errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labsim.cli import COMMANDS, main
from labsim.commands.progress import command


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


BREAKEVEN = ["breakeven", "--gpu", "h100", "--model", "llama-3.1-8b", "--draft", "eagle3", "--k", "3"]
SIMULATE = ["simulate", "--gpu", "h100", "--model", "llama-3.1-8b", "--draft", "eagle3", "--k", "3"]


def test_breakeven_contract_gives_the_published_values() -> None:
    report = document(*BREAKEVEN, "--concurrency", "1,32,128,256", "--context", "400")
    assert [row["concurrency"] for row in report["rows"]] == [1, 32, 128, 256]
    assert [row["alpha_breakeven"] for row in report["rows"]] == pytest.approx([0.10, 0.17, 0.30, 0.39], abs=0.005)
    assert [row["step_ratio"] for row in report["rows"]] == pytest.approx([1.31, 1.52, 1.91, 2.17], abs=0.005)
    assert report["cost_source"].startswith("published calibration")


def test_breakeven_without_a_calibration_says_roofline() -> None:
    report = document("breakeven", "--gpu", "b200", "--model", "llama-3.3-70b", "--k", "3")
    assert report["cost_source"].startswith("roofline")


def test_breakeven_says_where_a_draft_stops_paying() -> None:
    arguments = [*BREAKEVEN, "--concurrency", "1,256,1024", "--context", "400", "--alpha", "0.46"]
    report = document(*arguments)
    ((first, last),) = report["pays_at"]
    assert first == 1
    # R at `last` is still below 1 + 3 * 0.46, one more user and it is not.
    at = {
        row["concurrency"]: row
        for row in document(*arguments[:-6], "--concurrency", f"{last},{last + 1}", "--context", "400")["rows"]
    }
    assert at[last]["step_ratio"] < 2.38 <= at[last + 1]["step_ratio"]
    assert f"stops paying at {last + 1}" in labsim(*arguments).stdout
    assert "loses" in labsim(*arguments).stdout.splitlines()[4]


def test_simulate_contract() -> None:
    arguments = [*SIMULATE, "--survival", ".74,.48,.30", "--concurrency", "1,8,32,128", "--seed", "0"]
    report = document(*arguments)
    names = ("tpot_mean_ms", "tpot_p95_ms", "tpot_p99_ms", "chunk_gap_p99_ms", "token_gap_p99_ms")
    assert [row["concurrency"] for row in report["rows"]] == [1, 8, 32, 128]
    for row in report["rows"]:
        assert row["speedup"] == pytest.approx(row["baseline"]["tpot_mean_ms"] / row["tpot_mean_ms"])
        assert 1 / 2.6 < row["target_forwards_per_token"] <= 1
        assert row["baseline"]["target_forwards_per_token"] == 1
        for name in names:
            assert row[name] > 0 and row["baseline"][name] > 0
        assert row["tpot_mean_ms"] <= row["tpot_p95_ms"] <= row["tpot_p99_ms"]
    speedups = [row["speedup"] for row in report["rows"]]
    assert speedups == sorted(speedups, reverse=True)
    assert document(*arguments) == report, "the same seed must give the same report"


def test_a_draft_below_break_even_loses() -> None:
    """Negative control: accepted/drafted 0.1 at concurrency 128, where break-even is 0.30."""
    report = document(*SIMULATE, "--survival", ".2,.08,.02", "--concurrency", "128", "--no-prefill")
    assert report["rows"][0]["speedup"] < 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*BREAKEVEN[:2], "h10", *BREAKEVEN[3:]], "did you mean 'h100'"),
        ([*BREAKEVEN[:4], "lama-3.1-8b", *BREAKEVEN[5:]], "did you mean 'Llama-3.1-8B'"),
        ([*BREAKEVEN[:6], "eagle4", *BREAKEVEN[7:]], "eagle"),
        ([*BREAKEVEN[:-1], "0"], "k is 0"),
        ([*BREAKEVEN, "--concurrency", "1,0"], "concurrency is 0"),
        ([*BREAKEVEN, "--concurrency", "1;2"], "'1;2'"),
        ([*BREAKEVEN, "--context", "-5"], "context is -5"),
        ([*BREAKEVEN, "--alpha", "1.3"], "alpha is 1.3; allowed: 0 to 1"),
        ([*SIMULATE, "--survival", ".48,.74,.30"], "survival[1] is 0.74"),
        ([*SIMULATE, "--survival", ".74,.48"], "survival has 2 values"),
        ([*SIMULATE, "--survival", ".74,.48,1.3"], "1.3"),
        ([*SIMULATE, "--survival", ".74,.48,.3", "--requests", "3"], "requests is 3"),
        ([*SIMULATE, "--survival", ".74,.48,.3", "--concurrency", "0"], "concurrency is 0"),
        (["speedup", "--alpha", "1.3", "--k", "5"], "alpha is 1.3; allowed: 0 to 1"),
        (["speedup", "--alpha", "nan", "--k", "5"], "alpha is nan"),
        (["speedup", "--alpha", "0.5", "--k", "0"], "k is 0; allowed: a whole number from 1 to 1000"),
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


@pytest.mark.parametrize("what", ["python", "torch", "torch, size"])
def test_too_little_memory_is_one_line(
    what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def greedy(**_: object) -> None:
        if what == "python":
            raise MemoryError
        torch.empty(1 << 50) if what == "torch" else torch.empty(1 << 40, 1 << 40)

    monkeypatch.setattr(command, "callback", greedy)
    with pytest.raises(SystemExit) as end:
        main(["progress", "--json"])
    out, err = capsys.readouterr()
    assert (end.value.code, out, len(err.splitlines())) == (1, "", 1)
    assert err.startswith("labsim: out of memory (") and "right is less at a time" in err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is full")
def test_a_full_disk_behind_stdout_is_one_line() -> None:
    command = [sys.executable, "-m", "labsim", "speedup", "--alpha", "0.7", "--k", "5", "--json"]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (
        1,
        "labsim: standard output cannot be written: No space left on device\n",
    )


def test_a_file_that_fails_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(**_: object) -> None:
        raise PermissionError(13, "Permission denied", "/some/file")

    monkeypatch.setattr(command, "callback", failing)
    with pytest.raises(SystemExit) as end:
        main(["progress"])
    assert (end.value.code, *capsys.readouterr()) == (1, "", "labsim: /some/file: Permission denied\n")


def test_a_bug_of_ours_is_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(command, "callback", broken)
    with pytest.raises(RuntimeError, match="shapes differ"):
        main(["progress"])


def test_a_closed_pipe_is_not_a_traceback() -> None:
    """Of the reader that left nothing is said; the status tells."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "labsim", "speedup", "--alpha", ".5", "--k", "3", "--json"]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.parametrize("arguments", [["--help"], ["speedup", "--help"], ["doctor", "--help"], ["--version"]])
def test_help_is_there(arguments: list[str]) -> None:
    result = labsim(*arguments)
    assert result.returncode == 0
    assert "labsim" in result.stdout


def test_a_busy_engine_never_gains_more_than_its_acceptance_length() -> None:
    """Verified tokens must not push users out of the batch: then fewer decode, each of them faster."""
    report = document(*SIMULATE, "--survival", ".74,.48,.30", "--concurrency", "384,1024")
    for row in report["rows"]:
        assert row["speedup"] < row["acceptance_length"]
        assert row["mean_batch"] > 0.8 * row["baseline"]["mean_batch"]
    assert report["rows"][1]["throughput_ratio"] < 1
    assert any("loses" in warning for warning in report["rows"][1]["warnings"])


def test_saturation_by_prompts_is_said() -> None:
    report = document(*SIMULATE, "--survival", ".74,.48,.30", "--concurrency", "128", "--prompt-tokens", "8000")
    assert "judge by tokens/s" in report["rows"][0]["warnings"][0]


def test_long_answers_keep_their_mean() -> None:
    arguments = ["--survival", ".74,.48,.30", "--concurrency", "1", "--output-tokens", "20000", "--requests", "40"]
    row = document(*SIMULATE, *arguments, "--length-sigma", "0.2")["rows"][0]
    drawn = row["baseline"]["throughput_tokens_per_second"] / row["baseline"]["requests_per_second"]
    assert 17_000 < drawn < 23_000


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["speedup", "--alpha", ".7", "--k", "1000000000"], "1 to 1000"),
        (["speedup", "--alpha", ".7", "--k", "9" * 400], "k is too large to compute with"),
        ([*SIMULATE, "--survival", ".7,.4,.3", "--concurrency", "100000"], "1 to 4096"),
        ([*SIMULATE, "--survival", ".7,.4,.3", "--requests", "1000000"], "1 to 50000"),
        ([*SIMULATE, "--survival", ".7,.4,.3", "--length-sigma", "1e200"], "length_sigma is 1e+200; allowed: 0 to 3"),
        ([*SIMULATE, "--survival", ".7,.4,.3", "--output-tokens", "0"], "output_tokens is 0"),
    ],
)
def test_limits_end_at_once_with_the_allowed_range(arguments: list[str], says: str) -> None:
    result = labsim(*arguments)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert says in result.stderr


def test_what_was_not_measured_is_null_not_nan() -> None:
    arguments = ["--concurrency", "4", "--output-tokens", "1.2", "--length-sigma", "0.3", "--requests", "16"]
    result = labsim(*SIMULATE, "--survival", ".74,.48,.30", *arguments, "--json")
    assert result.returncode in (0, 2)
    assert "Traceback" not in result.stderr
    if result.returncode == 0:
        json.loads(result.stdout, parse_constant=lambda name: pytest.fail(name))


def test_heads_are_a_draft() -> None:
    report = document("breakeven", "--gpu", "h100", "--model", "llama-3.1-8b", "--draft", "heads", "--k", "3")
    assert report["rows"][0]["step_ratio"] > 1


def test_bare_labsim_prints_its_help() -> None:
    result = labsim()
    assert result.returncode == 0
    assert "Commands:" in result.stdout


def test_the_end_is_given_as_a_range_and_searched_where_requests_fit() -> None:
    report = document(*BREAKEVEN, "--context", "400", "--alpha", "0.46")
    low, high = report["stops_paying_with_5_percent"]
    assert low < report["pays_at"][0][1] < high
    large = document(
        "breakeven", "--gpu", "h200", "--model", "llama-3.3-70b", "--k", "3", "--context", "4000", "--alpha", ".46"
    )
    assert large["pays_at"] == [[1, large["requests_that_fit"]]]
    assert large["stops_paying_with_5_percent"] == [None, None]


def test_one_tensor_parallel_degree_for_price_and_memory() -> None:
    """The measured 70B pair ran on 4 GPUs: without the flag both figures are those of 4."""
    arguments = ["breakeven", "--gpu", "h200", "--model", "llama-3.3-70b", "--k", "3", "--context", "4000"]
    default, four = document(*arguments), document(*arguments, "--tensor-parallel", "4")
    assert default["rows"] == four["rows"]
    assert default["requests_that_fit"] == four["requests_that_fit"]


def test_help_names_every_command_in_one_line() -> None:
    said = labsim("--help", COLUMNS="80").stdout.partition("Commands:")[2].strip().splitlines()
    assert [line.split()[0] for line in said] == list(COMMANDS)
    assert all(len(line) <= 80 and not line.endswith(("...", ".")) for line in said)


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("prometheus_client", "no module 'prometheus_client': the course's packages are not installed for "),
        ("click", "has no click; right: "),
    ],
)
def test_a_python_without_the_packages_says_so_in_one_line(missing: str, says: str, tmp_path: Path) -> None:
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError(name={missing!r})")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    result = labsim("alpha", "x.log", PYTHONPATH=paths)
    assert result.returncode == 1 and says in result.stderr and ".venv/bin/activate" in result.stderr
    assert len(result.stderr.splitlines()) == 1
