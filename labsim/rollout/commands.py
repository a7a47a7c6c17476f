"""Command lines of the engines: exactly what to run, valid for the engine, the same for both arms but for speculation.

Written against vLLM 0.20 to 0.28 (`--speculative-config` takes the JSON of `SpeculativeConfig`, whose unknown keys are
refused) and the SGLang documentation of 2026 (`--speculative-*`). For a chain, SGLang's
`--speculative-num-draft-tokens` counts the verified tokens: K + 1.

Forced acceptance: vLLM from 0.20 (PR #40662) accepts drafts with given probabilities,
`synthetic_acceptance_rates` = the survival vector. SGLang's `SGLANG_SIMULATE_ACC_LEN` takes a mean only.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..sim.acceptance import acceptance_length
from ..sim.hardware import check_dtype
from ..sim.targets import split_model_name
from .inputs import PlanInput

PORT = {"vllm": 8000, "sglang": 30000}
PROMPTS = "prompts.jsonl"
CONVERSATIONS = "conversations.jsonl"
RESULTS = "results"
SGLANG_ALGORITHM = {
    "eagle3": "EAGLE3",
    "eagle": "EAGLE",
    "mtp": "NEXTN",
    "draft_model": "STANDALONE",
    "ngram": "NGRAM",
}
NGRAM_LOOKUP_MAX = 4  # vLLM documentation, features/speculative_decoding/n_gram
# Ten requests above the 99th percentile, so that one odd request does not decide it; and ten rounds of the batch.
REQUESTS_FOR_P99 = 1000
# A warm-up and three runs whose spread is the noise.
RUNS = 4


@dataclass(frozen=True)
class Command:
    """One command line: environment and arguments. `str()` is one line that a shell takes as it is."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] | None = None

    def __str__(self) -> str:
        return " ".join([*self._assignments(), shlex.join(self.argv)])

    def wrapped(self) -> str:
        """The same over several lines, one option a line."""
        lines, current = [], [*self._assignments(), *_program(self.argv)]
        for word in self.argv[len(_program(self.argv)) :]:
            if word.startswith("--"):
                lines.append(current)
                current = []
            current.append(word if isinstance(word, Variable) else shlex.quote(word))
        lines.append(current)
        return " \\\n  ".join(" ".join(line) for line in lines)

    def _assignments(self) -> list[str]:
        return [f"{name}={shlex.quote(value)}" for name, value in (self.environment or {}).items()]


def _program(argv: Sequence[str]) -> list[str]:
    end = next((i for i, word in enumerate(argv) if word.startswith("--")), len(argv))
    return [shlex.quote(word) for word in argv[:end]]


def vllm_config(
    inputs: PlanInput,
    *,
    k: int | None = None,
    method: str | None = None,
    rates: Sequence[float] | None = None,
    per_batch: Sequence[Sequence[int]] | None = None,
) -> dict[str, object]:
    """vLLM's `speculative_config`: `rates` forces acceptance, `per_batch` lists (first, last, K) by batch size."""
    method = method or inputs.method
    config: dict[str, object] = {"method": method}
    if method == inputs.method and method != "ngram" and inputs.draft_checkpoint is not None:
        config["model"] = inputs.draft_checkpoint
    config["num_speculative_tokens"] = k or inputs.k
    if method == "ngram":
        config["prompt_lookup_max"] = NGRAM_LOOKUP_MAX
    if rates is not None:
        config |= {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": rounded_rates(rates)}
    if per_batch is not None:
        config["num_speculative_tokens_per_batch_size"] = [list(run) for run in per_batch]
    return config


def rounded_rates(survival: Sequence[float]) -> list[float]:
    """The vector to four decimals, still never increasing."""
    return [round(s, 4) for s in survival]


def serve(
    inputs: PlanInput,
    tensor_parallel: int | None,
    *,
    speculate: bool,
    k: int | None = None,
    method: str | None = None,
    rates: Sequence[float] | None = None,
    per_batch: Sequence[Sequence[int]] | None = None,
) -> Command:
    """The server of one arm. `tensor_parallel` None leaves the engine's default."""
    if inputs.engine == "vllm":
        argv = ["vllm", "serve", inputs.target, *_weights(inputs, tensor_parallel, "--tensor-parallel-size")]
        argv += ["--port", str(PORT["vllm"])]
        if speculate:
            config = vllm_config(inputs, k=k, method=method, rates=rates, per_batch=per_batch)
            argv += ["--speculative-config", json.dumps(config)]
        return Command(tuple(argv))
    argv = ["python", "-m", "sglang.launch_server", "--model-path", inputs.target]
    argv += [*_weights(inputs, tensor_parallel, "--tp-size"), "--port", str(PORT["sglang"]), "--enable-metrics"]
    environment = None
    if speculate:
        argv += _sglang_flags(inputs, k or inputs.k, method or inputs.method)
        if rates is not None:
            environment = {
                "SGLANG_SIMULATE_ACC_LEN": f"{acceptance_length(rates):.4g}",
                "SGLANG_SIMULATE_ACC_METHOD": "match-expected",
            }
    return Command(tuple(argv), environment)


def _weights(inputs: PlanInput, tensor_parallel: int | None, flag: str) -> list[str]:
    words = [] if tensor_parallel is None else [flag, str(tensor_parallel)]
    if inputs.dtype is not None:
        stored, named = check_dtype(inputs.dtype), split_model_name(inputs.target)[1]
        if stored in ("bf16", "fp16", "fp32"):
            words += ["--dtype", {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[stored]]
        elif stored == "fp8" and named != "fp8":
            words += ["--quantization", "fp8"]
    return words


def _sglang_flags(inputs: PlanInput, k: int, method: str) -> list[str]:
    words = ["--speculative-algorithm", SGLANG_ALGORITHM[method]]
    if method == "ngram":
        # Breadth 1 makes the n-gram tree a chain, which is what K means everywhere else in the plan.
        return [*words, "--speculative-num-draft-tokens", str(k + 1), "--speculative-ngram-max-bfs-breadth", "1"]
    if method == inputs.method and inputs.draft_checkpoint is not None:
        words += ["--speculative-draft-model-path", inputs.draft_checkpoint]
    words += ["--speculative-num-steps", str(k), "--speculative-eagle-topk", "1"]
    return [*words, "--speculative-num-draft-tokens", str(k + 1)]


def requests_for(concurrency: int) -> int:
    """Requests of a benchmark whose P99 is to be trusted."""
    return max(REQUESTS_FOR_P99, 10 * concurrency)


class Variable(str):
    """A word of a command line that the shell of a script is to expand: it is not quoted."""


def bench(inputs: PlanInput, arm: str, concurrency: int) -> tuple[Command, ...]:
    """The client runs of one arm at one concurrency.

    vLLM's client also drives an SGLang server: it alone prints the gap between chunks, SGLang's divides it. It applies
    the chat template itself, so the completions endpoint is right; output length -1 takes each line's `output_tokens`.
    """
    return _bench(inputs, str(requests_for(concurrency)), str(concurrency), f"{arm}-c{concurrency}")


def _bench(inputs: PlanInput, requests: str, concurrency: str, name: str) -> tuple[Command, ...]:
    """The same with any words for the numbers; `name` is that of the result file, without its ending."""
    same = type(name)
    url = f"http://127.0.0.1:{PORT[inputs.engine]}"
    load = ["--num-prompts", requests, "--max-concurrency", concurrency]
    vllm = ["vllm", "bench", "serve", "--backend", "openai", "--base-url", url, "--endpoint", "/v1/completions"]
    vllm += ["--model", inputs.target, "--dataset-name", "custom", "--dataset-path", PROMPTS]
    vllm += ["--custom-output-len", "-1", *load]
    vllm += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,95,99"]
    vllm += ["--save-result", "--result-dir", RESULTS, "--result-filename", same(f"{name}.json")]
    if inputs.engine == "vllm":
        return (Command(tuple(vllm)),)
    sglang = ["python", "-m", "sglang.bench_serving", "--backend", "sglang-oai-chat", "--base-url", url]
    sglang += ["--model", inputs.target, "--dataset-name", "custom", "--dataset-path", CONVERSATIONS, *load]
    sglang += ["--disable-ignore-eos", "--output-file", same(f"{RESULTS}/{name}.sglang.jsonl")]
    return (Command(tuple(sglang)), Command(tuple(vllm)))


def script(inputs: PlanInput, arm: str, server: Command) -> str:
    """A bash script that measures one arm by itself: server up, every point `RUNS` times, server down.

    Every run has files of its own; where one benchmark fails the script stops, and the server with it.
    """
    name = Variable(f"{arm}-c$c-r$run")
    answers = f"curl --silent --fail --output /dev/null http://127.0.0.1:{PORT[inputs.engine]}/health"
    clients = _bench(inputs, Variable('"$requests"'), Variable('"$c"'), name)
    least, points = REQUESTS_FOR_P99, " ".join(map(str, inputs.concurrency))
    runs = " ".join(str(run) for run in range(RUNS))
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            "set -euo pipefail",
            f"mkdir -p {RESULTS}",
            f"""if {answers}; then echo "stop the server on port {PORT[inputs.engine]} first" >&2; exit 1; fi""",
            f"{server.wrapped()} > {RESULTS}/{arm}-server.log 2>&1 &",
            "server=$!",
            """trap 'kill "$server" 2>/dev/null || true; wait "$server" || true' EXIT""",
            f"until {answers}; do",
            """  kill -0 "$server" || { echo "the server ended: see its log" >&2; exit 1; }""",
            "  sleep 5",
            "done",
            f"for run in {runs}; do",
            f"  for c in {points}; do",
            f"    requests=$(( 10 * c > {least} ? 10 * c : {least} ))",
            *("    " + command.wrapped().replace("\n", "\n    ") for command in clients),
            "  done",
            "done",
            "",
        ]
    )


@dataclass(frozen=True)
class Commands:
    """Every command line of a plan."""

    baseline: Command
    candidate: Command
    bench_baseline: tuple[Command, ...]
    bench_candidate: tuple[Command, ...]
    ngram: Command
    smaller_k: Command | None = None
    forced_acceptance: Command | None = None
    dynamic_k: Command | None = None

    def to_dict(self) -> dict[str, str | None]:
        """One line per command; `bench` has one command per line, all of the baseline first."""
        one = {name: getattr(self, name) for name in ("baseline", "candidate", "forced_acceptance", "dynamic_k")}
        lines = {name: None if command is None else str(command) for name, command in one.items()}
        lines["bench"] = "\n".join(str(c) for c in (*self.bench_baseline, *self.bench_candidate))
        lines["bench_baseline"] = "\n".join(map(str, self.bench_baseline))
        lines["bench_candidate"] = "\n".join(map(str, self.bench_candidate))
        lines["smaller_k"] = None if self.smaller_k is None else str(self.smaller_k)
        lines["ngram"] = str(self.ngram)
        return lines


def all_commands(
    inputs: PlanInput,
    tensor_parallel: int | None,
    survival: Sequence[float] | None,
    runs: Sequence[tuple[int, int, int]],
) -> Commands:
    """The command lines of the plan; `runs` is the batch -> K map, empty where it is unknown."""
    per_batch = runs if inputs.engine == "vllm" and any(k > 0 for _, _, k in runs) else None
    return Commands(
        baseline=serve(inputs, tensor_parallel, speculate=False),
        candidate=serve(inputs, tensor_parallel, speculate=True),
        bench_baseline=tuple(c for point in inputs.concurrency for c in bench(inputs, "baseline", point)),
        bench_candidate=tuple(c for point in inputs.concurrency for c in bench(inputs, "candidate", point)),
        ngram=serve(inputs, tensor_parallel, speculate=True, method="ngram"),
        smaller_k=serve(inputs, tensor_parallel, speculate=True, k=inputs.k - 1) if inputs.k > 1 else None,
        forced_acceptance=serve(inputs, tensor_parallel, speculate=True, rates=survival) if survival else None,
        dynamic_k=serve(inputs, tensor_parallel, speculate=True, per_batch=per_batch) if per_batch else None,
    )
