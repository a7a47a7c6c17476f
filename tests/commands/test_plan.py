"""`labsim plan` on files as engines write them, up to exit statuses and the written document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLAN = ["--target", "meta-llama/Llama-3.3-70B-Instruct", "--draft-checkpoint", "org/head", "--gpu", "h100", "--k", "3"]
POINTS = ["--concurrency", "1,32,128"]


def labsim(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "labsim", "plan", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd, env=environment)


def report(*arguments: str, cwd: Path) -> dict:
    result = labsim(*arguments, "--json", cwd=cwd)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


def vllm_log(survival: tuple[float, ...], windows: int = 20, drafts: int = 500) -> str:
    """A vLLM V1 log with the given survival vector in every window."""
    lines = []
    for i in range(windows):
        accepted = round(drafts * sum(survival))
        rates = ", ".join(f"{s:.3f}" for s in survival)
        lines.append(
            f"INFO 03-02 10:{i:02d}:00 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: "
            f"{1 + accepted / drafts:.2f}, Accepted throughput: 10.00 tokens/s, Drafted throughput: 20.00 tokens/s, "
            f"Accepted: {accepted} tokens, Drafted: {drafts * len(survival)} tokens, Per-position acceptance rate: "
            f"{rates}, Avg Draft acceptance rate: {100 * accepted / drafts / len(survival):.1f}%"
        )
    return "\n".join(lines) + "\n"


def vllm_bench(concurrency: int, tpot_p99: float, speculate: bool, itl_p99: float = 40.0) -> str:
    """The block that `vllm bench serve` prints: 20 ms a step without, 24 ms a step of 2.4 tokens with speculation."""
    tpot, itl = (10.0, 24.0) if speculate else (20.0, 20.0)
    text = f"""============ Serving Benchmark Result ============
Successful requests:                     1000
Failed requests:                         0
Maximum request concurrency:             {concurrency}
Benchmark duration (s):                  100.00
Output token throughput (tok/s):         2000.00
---------------Time to First Token----------------
Mean TTFT (ms):                          100.00
Median TTFT (ms):                        95.00
P99 TTFT (ms):                           300.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          {tpot:.2f}
Median TPOT (ms):                        {tpot:.2f}
P99 TPOT (ms):                           {tpot_p99:.2f}
---------------Inter-token Latency----------------
Mean ITL (ms):                           {itl:.2f}
Median ITL (ms):                         {itl:.2f}
P99 ITL (ms):                            {itl_p99:.2f}
"""
    if speculate:
        text += """---------------Speculative Decoding---------------
Acceptance rate (%):                     46.67
Acceptance length:                       2.40
Drafts:                                  10000
Draft tokens:                            30000
Accepted tokens:                         14000
Per-position acceptance (%):
  Position 0:                            68.00
  Position 1:                            45.00
  Position 2:                            27.00
"""
    return text + "==================================================\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "engine.log").write_text(vllm_log((0.8, 0.64, 0.5)))
    (tmp_path / "weak.log").write_text(vllm_log((0.5, 0.3, 0.1)))
    (tmp_path / "base.txt").write_text(vllm_bench(32, 24.0, speculate=False))
    (tmp_path / "spec.txt").write_text(vllm_bench(32, 20.0, speculate=True))
    (tmp_path / "worse.txt").write_text(vllm_bench(32, 24.5, speculate=True))
    (tmp_path / "eight.txt").write_text(vllm_bench(8, 20.0, speculate=True))
    (tmp_path / "notes.txt").write_text("Buy milk.\n")
    return tmp_path


FULL = [
    *PLAN,
    "--concurrency",
    "32",
    "--alpha-from",
    "engine.log",
    "--baseline-bench",
    "base.txt",
    "--candidate-bench",
    "spec.txt",
]


def test_the_contract(folder: Path) -> None:
    made = report(*FULL, "--engine", "vllm", "--out", "plan.md", cwd=folder)
    assert made["verdict"] == "go" and made["rule"] == "both"
    assert made["alpha"] == pytest.approx(1.94 / 3, abs=1e-3) and 0.6 < made["alpha_lower"] < made["alpha"]
    assert list(made["breakeven"]) == ["32"] and made["verdict_at"] == {"32": "go"}
    assert [gate["name"] for gate in made["gates"]] == ["alpha", "tpot_p99", "stall", "ttft_p99"]
    assert {"baseline", "candidate", "bench"} <= made["commands"].keys()
    text = (folder / "plan.md").read_text()
    assert text.startswith("# Rollout of speculative decoding: meta-llama/Llama-3.3-70B-Instruct\n")
    assert all(file in text for file in ("engine.log", "base.txt", "spec.txt"))
    assert made["files"] == ["engine.log", "base.txt", "spec.txt"]


def test_only_the_bench_files_change_the_verdict(folder: Path) -> None:
    worse = report(*FULL[:-1], "worse.txt", cwd=folder)
    assert worse["verdict"] == "no-go"
    assert [gate["name"] for gate in worse["gates"] if gate["passed"] is False] == ["tpot_p99"]
    first = report(*FULL[:-2], cwd=folder)
    assert first["verdict"] == "measure-first"


def test_nothing_measured(folder: Path) -> None:
    made = report(*PLAN, *POINTS, cwd=folder)
    assert made["verdict"] == "measure-first" and made["alpha"] is None and made["alpha_lower"] is None
    assert all(gate["passed"] is None and gate["reason"] for gate in made["gates"])


def test_the_mix_comes_from_numbers_or_files(folder: Path) -> None:
    mixed = ["--traffic", "chat=.7,code=.3", "--traffic-shares", "drafts"]
    numbers = report(*FULL, *mixed, "--alpha-by", "chat=.7,code=.4", cwd=folder)
    assert numbers["alpha"] == pytest.approx(0.61)
    files = report(*PLAN, *POINTS, *mixed, "--alpha-by", "chat=engine.log,code=weak.log", cwd=folder)
    assert files["alpha"] == pytest.approx(0.7 * 1.94 / 3 + 0.3 * 0.3, abs=2e-3)
    assert files["files"] == ["engine.log", "weak.log"]
    assert files["verdict"] == "no-go"


def test_several_files_after_one_option(folder: Path) -> None:
    (folder / "more.log").write_text(vllm_log((0.8, 0.64, 0.5), windows=5))
    one = report(*PLAN, *POINTS, "--alpha-from", "engine.log", cwd=folder)
    two = report(*PLAN, *POINTS, "--alpha-from", "engine.log", "more.log", "--rule", "policy", cwd=folder)
    assert two["files"] == ["engine.log", "more.log"] and two["rule"] == "policy"
    assert two["alpha_lower"] >= one["alpha_lower"]
    (folder / "base8.txt").write_text(vllm_bench(8, 24.0, speculate=False))
    pairs = report(
        *PLAN,
        *POINTS,
        "--baseline-bench",
        "base.txt",
        "base8.txt",
        "--candidate-bench",
        "eight.txt",
        "spec.txt",
        cwd=folder,
    )
    assert [gate["name"] for gate in pairs["gates"]][1] == "tpot_p99 at concurrency 8"


def test_text_goes_to_stdout_or_to_the_file(folder: Path) -> None:
    printed = labsim(*FULL, cwd=folder)
    assert printed.returncode == 0 and printed.stdout.startswith("# Rollout of speculative decoding")
    written = labsim(*FULL, "--out", "plan.md", cwd=folder)
    assert written.stdout == "plan.md: go\n"
    assert (folder / "plan.md").read_text() == printed.stdout
    failed = labsim(*FULL[:-1], "worse.txt", "--out", "plan.md", cwd=folder)
    assert failed.returncode == 0 and failed.stdout == "plan.md: no-go (tpot_p99 failed)\n"
    assert "no-go" in (folder / "plan.md").read_text(), "an older plan is replaced"
    assert sorted(p.name for p in folder.iterdir() if p.name.startswith(".")) == []


def test_the_line_names_what_the_verdict_rests_on(folder: Path) -> None:
    """A point without a benchmark, a shift of alpha, the policy alone."""
    line = labsim(*FULL, *POINTS, "--out", "plan.md", cwd=folder).stdout
    assert line == "plan.md: measure-first (go at 32; 1, 128: measure first)\n"
    early = vllm_log((0.8, 0.64, 0.5), windows=15).replace("03-02", "03-01")
    (folder / "drift.log").write_text(early + vllm_log((0.5, 0.3, 0.1), windows=15))
    log = FULL.index("engine.log")
    shifted = labsim(*FULL[:log], "drift.log", *FULL[log + 1 :], "--rule", "breakeven", "--out", "plan.md", cwd=folder)
    assert "alpha shifts from 0.647 to 0.300 at 03-02 10:00:00: what comes after counts" in shifted.stdout
    (folder / "short.log").write_text(early + vllm_log((0.5, 0.3, 0.1), windows=4))
    short = labsim(*FULL[:log], "short.log", *FULL[log + 1 :], "--out", "plan.md", cwd=folder)
    assert short.stdout.startswith("plan.md: measure-first (no data for alpha; alpha shifts from 0.647 to 0.300 at ")
    assert "the 4 window(s) since then are too few to judge (at least 8)" in short.stdout
    weak = labsim(*FULL[:log], "weak.log", *FULL[log + 1 :], "--out", "plan.md", cwd=folder)
    assert weak.stdout == (
        "plan.md: no-go (alpha failed, alpha by the policy of 0.55 alone: break-even plus margin passes, "
        "--rule breakeven)\n"
    )


def test_out_never_replaces_something_else(folder: Path) -> None:
    result = labsim(*FULL, "--out", "engine.log", cwd=folder)
    assert result.returncode == 2 and "engine.log" in result.stderr and "--force" in result.stderr
    assert (folder / "engine.log").read_text() == vllm_log((0.8, 0.64, 0.5))
    assert labsim(*FULL, "--out", "notes.txt", "--force", cwd=folder).returncode == 0
    assert (folder / "notes.txt").read_text().startswith("# Rollout")


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        ([*FULL, "--gpu", "h10"], 2, "did you mean 'h100'"),
        ([*FULL, "--engine", "vlm"], 2, "did you mean 'vllm'"),
        ([*FULL, "--k", "0"], 2, "k is 0"),
        ([*FULL, "--concurrency", "1;2"], 2, "'1;2'"),
        ([*FULL, "--policy", "55"], 2, "policy is 55.0; allowed: 0 to 1"),
        ([*FULL, "--traffic", "chat"], 2, "'chat' is not NAME=VALUE"),
        ([*FULL, "--traffic", "chat=1"], 2, "alpha_by is missing"),
        ([*FULL, "--traffic", "chat=x", "--alpha-by", "chat=.5"], 2, "'x'"),
        ([*FULL, "--step-times", "32:1,2"], 2, "such as 32=13.9,24.7"),
        ([*FULL, "--out", "nowhere/plan.md"], 2, "a file in a folder that exists"),
        (PLAN, 2, "--concurrency"),
        ([*FULL[:-1], "eight.txt"], 2, "differ in concurrency: 32 in base.txt, 8 in eight.txt"),
        ([*FULL[:-1], "base.txt"], 2, "candidate benchmark base.txt ran without speculation"),
        ([*PLAN, *POINTS, "--baseline-bench", "spec.txt"], 2, "baseline benchmark spec.txt ran with speculation"),
        ([*PLAN, *POINTS, "--alpha-from", "notes.txt"], 3, "notes.txt"),
        ([*PLAN, *POINTS, "--alpha-from", "absent.log"], 3, "absent.log"),
        ([*PLAN, *POINTS, "--alpha-from"], 2, "--alpha-from"),
        ([*FULL[:-1], "notes.txt"], 3, "notes.txt"),
        ([*FULL[:-1], "engine.log"], 3, "engine.log"),
        ([*PLAN, *POINTS, "--traffic", "a=1", "--alpha-by", "a=notes.txt"], 3, "notes.txt"),
    ],
)
def test_errors_are_one_line(folder: Path, arguments: list[str], status: int, says: str) -> None:
    result = labsim(*arguments, "--json", cwd=folder)
    assert (result.returncode, result.stdout) == (status, ""), result.stderr
    assert result.stderr.startswith("labsim: ") and result.stderr.count("\n") == 1 and says in result.stderr


def test_an_unknown_target_is_no_error(folder: Path) -> None:
    made = report(*FULL, "--target", "org/Brand-New-9B", cwd=folder)
    assert made["verdict"] == "go" and made["breakeven"] == {"32": pytest.approx(0.2 / 3)}
    made = report(*FULL, *POINTS, "--target", "org/Brand-New-9B", cwd=folder)
    assert made["verdict"] == "measure-first"
    assert made["breakeven"] == {"1": None, "32": pytest.approx(0.2 / 3), "128": None}
    times = [word for c in (1, 32, 128) for word in ("--step-times", f"{c}=10,12")]
    gates = report(*FULL, *POINTS, "--target", "org/Brand-New-9B", *times, cwd=folder)["gates"]
    assert gates[0]["name"] == "alpha" and gates[0]["passed"] is True


def test_help_shows_an_example(folder: Path) -> None:
    result = labsim("--help", cwd=folder)
    assert result.returncode == 0 and "labsim plan --target" in result.stdout and "--stall-limit-ms" in result.stdout


def test_the_same_plan_from_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from labsim import rollout, telemetry

    monkeypatch.chdir(folder)
    made = rollout.plan(
        rollout.PlanInput(
            target="meta-llama/Llama-3.3-70B-Instruct",
            draft_checkpoint="org/head",
            gpu="h100",
            k=3,
            concurrency=(32,),
            acceptance=telemetry.read("engine.log"),
            baseline=rollout.benchmark("base.txt"),
            candidate=rollout.benchmark("spec.txt"),
        )
    )
    assert json.loads(json.dumps(made.to_dict())) == report(*FULL, cwd=folder)
