"""Command lines as a shell and the engine see them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from labsim.rollout import plan
from tests.rollout.samples import POINTS, acceptance, inputs

# Keys of vllm.config.SpeculativeConfig (0.28) that a plan may use; the engine refuses unknown ones.
VLLM_KEYS = {
    "method",
    "model",
    "num_speculative_tokens",
    "prompt_lookup_max",
    "rejection_sample_method",
    "synthetic_acceptance_rates",
    "num_speculative_tokens_per_batch_size",
}
CHECKPOINT = {"eagle3": "org/head", "eagle": "org/head", "draft_model": "org/head", "mtp": None, "ngram": None}


def options(line: str) -> dict[str, str | None]:
    """The --options of a command line, as a shell splits it."""
    words = shlex.split(line)
    flags = [i for i, word in enumerate(words) if word.startswith("--")]
    values = {}
    for i in flags:
        after = words[i + 1] if i + 1 < len(words) and not words[i + 1].startswith("--") else None
        assert words[i] not in values, f"{words[i]} twice"
        values[words[i]] = after
    return values


def made(**changes: object) -> dict[str, str | None]:
    return plan(inputs(**changes)).to_dict()["commands"]


@pytest.mark.parametrize("method", CHECKPOINT)
@pytest.mark.parametrize("k", [1, 3, 5])
def test_vllm_configuration_is_valid_json_with_known_keys(method: str, k: int) -> None:
    commands = made(method=method, draft_checkpoint=CHECKPOINT[method], k=k, candidate=())
    assert shlex.split(commands["candidate"])[:3] == ["vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct"]
    config = json.loads(options(commands["candidate"])["--speculative-config"])
    assert set(config) <= VLLM_KEYS
    assert config["method"] == method and config["num_speculative_tokens"] == k
    assert config.get("model") == CHECKPOINT[method]
    assert ("prompt_lookup_max" in config) == (method == "ngram")


@pytest.mark.parametrize(
    ("method", "algorithm"),
    [("eagle3", "EAGLE3"), ("eagle", "EAGLE"), ("draft_model", "STANDALONE"), ("mtp", "NEXTN"), ("ngram", "NGRAM")],
)
@pytest.mark.parametrize("k", [1, 4])
def test_sglang_flags(method: str, algorithm: str, k: int) -> None:
    line = made(engine="sglang", method=method, draft_checkpoint=CHECKPOINT[method], k=k, candidate=())["candidate"]
    assert shlex.split(line)[:3] == ["python", "-m", "sglang.launch_server"]
    flags = options(line)
    assert flags["--model-path"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert flags["--speculative-algorithm"] == algorithm
    assert flags["--speculative-num-draft-tokens"] == str(k + 1), "SGLang counts the verified tokens"
    if method == "ngram":
        assert "--speculative-num-steps" not in flags
    else:
        assert flags["--speculative-num-steps"] == str(k) and flags["--speculative-eagle-topk"] == "1"
    assert flags.get("--speculative-draft-model-path") == CHECKPOINT[method]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_arms_differ_in_speculation_only(engine: str) -> None:
    commands = made(engine=engine, tensor_parallel=2, dtype="bf16")
    baseline, candidate = options(commands["baseline"]), options(commands["candidate"])
    assert baseline.items() < candidate.items()
    assert all("speculative" in flag for flag in candidate.keys() - baseline.keys())
    assert "speculative" not in commands["baseline"]
    assert baseline["--tensor-parallel-size" if engine == "vllm" else "--tp-size"] == "2"
    assert baseline["--dtype"] == "bfloat16"


def test_weights() -> None:
    assert options(made(dtype="fp8")["baseline"])["--quantization"] == "fp8"
    assert "--quantization" not in made(dtype="fp8", target="org/Llama-3.1-8B-FP8")["baseline"]
    assert "--dtype" not in made()["baseline"]
    big = made(target="meta-llama/Llama-3.3-70B-Instruct")
    assert options(big["baseline"])["--tensor-parallel-size"] == "4", "141 GB of weights need 3 x 80 GB"
    assert "--tensor-parallel-size" not in made(target="org/unknown", gpu=None)["baseline"]


def test_forced_acceptance_is_the_measured_survival_vector() -> None:
    config = json.loads(options(made()["forced_acceptance"])["--speculative-config"])
    assert config["rejection_sample_method"] == "synthetic"
    assert config["synthetic_acceptance_rates"] == [0.8, 0.6, 0.4]
    assert "synthetic_acceptance_length" not in config


@pytest.mark.parametrize("k", [1, 2, 3, 5, 7])
def test_forced_rates_are_what_vllm_accepts(k: int) -> None:
    record = acceptance(survival=(0.71234567, 0.71234561, 0.3333333), alpha=0.586)
    config = json.loads(options(made(k=k, acceptance=record)["forced_acceptance"])["--speculative-config"])
    rates = config["synthetic_acceptance_rates"]
    assert len(rates) == k == config["num_speculative_tokens"]
    assert all(0 <= b <= a <= 1 for a, b in pairwise(rates))


def test_sglang_forces_a_mean() -> None:
    words = shlex.split(made(engine="sglang")["forced_acceptance"])
    assert words[0] == "SGLANG_SIMULATE_ACC_LEN=2.8" and words[1].startswith("SGLANG_SIMULATE_ACC_METHOD=")
    assert "far too smooth" in plan(inputs(engine="sglang")).to_markdown()


def test_nothing_is_forced_without_a_measurement() -> None:
    commands = made(acceptance=None, candidate=())
    assert commands["forced_acceptance"] is None and commands["dynamic_k"] is None


def test_the_batch_map_is_vllms() -> None:
    report = plan(inputs(concurrency=(256,))).to_dict()
    config = json.loads(options(report["commands"]["dynamic_k"])["--speculative-config"])
    runs = config["num_speculative_tokens_per_batch_size"]
    assert runs == report["batch_to_k"] and runs[0][0] == 1
    assert all(0 <= k <= config["num_speculative_tokens"] for _, _, k in runs)
    assert made(engine="sglang", concurrency=(256,))["dynamic_k"] is None


def test_benchmarks_cover_both_arms_at_every_point() -> None:
    lines = made(concurrency=POINTS)["bench"].split("\n")
    flags = [options(line) for line in lines]
    assert [f["--max-concurrency"] for f in flags] == ["1", "32", "128"] * 2
    assert [f["--result-filename"].split("-")[0] for f in flags] == ["baseline"] * 3 + ["candidate"] * 3
    for line, f in zip(lines, flags, strict=True):
        assert shlex.split(line)[:3] == ["vllm", "bench", "serve"]
        assert f["--percentile-metrics"] == "ttft,tpot,itl,e2el" and "99" in f["--metric-percentiles"].split(",")
        assert "--save-result" in f and int(f["--num-prompts"]) >= max(1000, 10 * int(f["--max-concurrency"]))
        assert f["--dataset-name"] == "custom", "random tokens accept at another rate"


def test_sglang_is_driven_by_both_clients() -> None:
    lines = made(engine="sglang", concurrency=(32,))["bench"].split("\n")
    assert [shlex.split(line)[:3] for line in lines[:2]] == [
        ["python", "-m", "sglang.bench_serving"],
        ["vllm", "bench", "serve"],
    ]
    assert all(options(line)["--base-url"].endswith(":30000") for line in lines)


@pytest.mark.parametrize("name", ["/models/it's here", "org/na me", 'a"b', "$HOME/x", "ключ/модель"])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_odd_names_survive_the_shell(name: str, engine: str) -> None:
    commands = made(target=name, draft_checkpoint=name, engine=engine)
    assert name in shlex.split(commands["baseline"])
    if engine == "vllm":
        assert json.loads(options(commands["candidate"])["--speculative-config"])["model"] == name
    else:
        assert options(commands["candidate"])["--speculative-draft-model-path"] == name


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_document_prints_the_same_commands(engine: str) -> None:
    made_plan = plan(inputs(engine=engine, concurrency=(256,)))
    blocks = [block for block in made_plan.to_markdown().split("```")[1::2] if "#!" not in block]
    printed = [
        shlex.split(part.replace("\\\n", " ")) for block in blocks for part in block.removeprefix("bash").split("\n\n")
    ]
    lines = [line for text in made_plan.to_dict()["commands"].values() if text for line in text.split("\n")]
    assert {tuple(words) for words in printed} == {tuple(shlex.split(line)) for line in lines}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("arm", ["baseline", "candidate"])
def test_a_script_measures_its_arm_from_start_to_end(tmp_path: Path, engine: str, arm: str) -> None:
    """Run with stand-ins for server, client and curl that write down how they were called."""
    made_plan = plan(inputs(engine=engine, concurrency=POINTS, target="org/na me"))
    text = made_plan.to_dict()["scripts"][arm]
    assert text in made_plan.to_markdown()
    stand_in = """#!/bin/bash
printf '%s\\n' "$(basename "$0") $*" >> calls
case "$*" in *serve*org*--port*|*launch_server*)
    trap 'echo stopped >> calls; exit 0' TERM
    touch up
    while :; do sleep 0.05; done;;
esac
"""
    for name in ("vllm", "python"):
        (tmp_path / name).write_text(stand_in)
    (tmp_path / "curl").write_text("#!/bin/bash\n[ -e up ]\n")
    (tmp_path / "sleep").write_text("#!/bin/bash\nexec /bin/sleep 0.05\n")
    for name in ("vllm", "python", "curl", "sleep"):
        (tmp_path / name).chmod(0o755)
    (tmp_path / "arm.sh").write_text(text)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "arm.sh"], cwd=tmp_path, env=path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert "org/na me" in calls[0] and ("speculative" in calls[0]) == (arm == "candidate") and calls[-1] == "stopped"
    files = [call.split("--result-filename ")[1] for call in calls if "--result-filename" in call]
    assert files == [f"{arm}-c{c}-r{run}.json" for run in range(4) for c in POINTS]
    loads = {re.search(r"--num-prompts (\d+) --max-concurrency (\d+)", call).groups() for call in calls[1:-1]}
    assert loads == {("1000", "1"), ("1000", "32"), ("1280", "128")}
    # A server that answers already is another one.
    again = subprocess.run(["bash", "arm.sh"], cwd=tmp_path, env=path, capture_output=True, text=True, timeout=60)
    assert again.returncode == 1 and "stop the server" in again.stderr
