"""Writes what engines print, from steps whose outcome is known: the truth behind the readers' tests and sample logs.

A step drafts d tokens and accepts n of them. Everything an engine prints follows from a list of such pairs; each
function here renders one format of one version. Nothing is copied from a real log.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

Steps = list[tuple[int, int]]

# Which statistics a block prints differs: mean and any of P50, Median, P90, P95, P99.
TIMES = (
    ("---------------Time to First Token----------------", "ttft"),
    ("-----Time per Output Token (excl. 1st token)------", "tpot"),
    ("---------------Inter-token Latency----------------", "itl"),
)
STATISTICS = {
    "ttft": (("Mean", "mean"), ("Median", "p50"), ("P99", "p99")),
    "tpot": (("Mean", "mean"), ("P50", "p50"), ("P99", "p99")),
    "itl": (("Mean", "mean"), ("P99", "p99")),
}

FIRST = datetime(2026, 3, 7, 9, 30, 0)


def draw_steps(seed: int, survival: Sequence[float], count: int, *, variable: bool = False) -> Steps:
    """`count` independent steps with P(n >= i) = survival[i-1]; `variable` drafts 1..K tokens, else always K."""
    rng = random.Random(seed)
    conditional = [now / before if before else 0.0 for before, now in zip((1.0, *survival), survival, strict=False)]
    steps = []
    for _ in range(count):
        drafted = rng.randint(1, len(survival)) if variable else len(survival)
        accepted = 0
        while accepted < drafted and rng.random() < conditional[accepted]:
            accepted += 1
        steps.append((drafted, accepted))
    return steps


def truth(steps: Steps, k: int) -> dict[str, object]:
    """Counted, not modelled: what a right reader finds."""
    drafts, drafted, accepted = len(steps), sum(d for d, _ in steps), sum(n for _, n in steps)
    return {
        "drafts": drafts,
        "drafted": drafted,
        "accepted": accepted,
        "alpha": accepted / drafted,
        "acceptance_length": (drafts + accepted) / drafts,
        "survival": [sum(n >= i for _, n in steps) / drafts for i in range(1, k + 1)],
    }


def windows(steps: Steps, size: int) -> Iterator[Steps]:
    for start in range(0, len(steps), size):
        yield steps[start : start + size]


def stamp(seconds: float) -> str:
    return (FIRST + timedelta(seconds=seconds)).strftime("%m-%d %H:%M:%S")


def vllm_v1_line(steps: Steps, k: int, wording: str = "0.10.2", at: float = 0.0, elapsed: float = 10.0) -> str:
    """`SpecDecoding metrics` as of 0.8, 0.9 or 0.10.2 and later, without the process prefix."""
    seen = truth(steps, k)
    rate = f"{100 * seen['alpha']:.1f}%"
    counts = f"Accepted: {seen['accepted']} tokens, Drafted: {seen['drafted']} tokens"
    rates = "Per-position acceptance rate: " + ", ".join(f"{s:.3f}" for s in seen["survival"])
    mean = f"Mean acceptance length: {seen['acceptance_length']:.2f}"
    if wording == "0.8":
        body = f"Draft acceptance rate: {rate}, {counts}"
    elif wording == "0.9":
        body = f"Draft acceptance rate: {rate}, {mean}, {counts}, {rates}"
    else:
        throughput = (
            f"Accepted throughput: {seen['accepted'] / elapsed:.2f} tokens/s, "
            f"Drafted throughput: {seen['drafted'] / elapsed:.2f} tokens/s"
        )
        body = f"{mean}, {throughput}, {counts}, {rates}, Avg Draft acceptance rate: {rate}"
    return f"INFO {stamp(at)} [metrics.py:96] SpecDecoding metrics: {body}"


def vllm_engine_line(engine: int, at: float) -> str:
    return (
        f"INFO {stamp(at)} [loggers.py:257] Engine {engine:03d}: Avg prompt throughput: 512.0 tokens/s, Avg generation "
        "throughput: 310.5 tokens/s, Running: 6 reqs, Waiting: 0 reqs, GPU KV cache usage: 11.2%, Prefix cache hit "
        "rate: 31.0%"
    )


def vllm_v0_line(steps: Steps, k: int, rate: float, at: float = 0.0) -> str:
    """V0's counters over all steps so far; `rate` is its own figure, which counts tokens after a mismatch too."""
    drafts, emitted = len(steps), sum(n + 1 for _, n in steps)
    drafted = sum(d for d, _ in steps)
    return (
        f"INFO {stamp(at)} metrics.py:330] Speculative metrics: Draft acceptance rate: {rate:.3f}, System efficiency: "
        f"{emitted / (drafts * (k + 1)):.3f}, Number of speculative tokens: {k}, Number of accepted tokens: "
        f"{round(rate * drafted)}, Number of draft tokens: {drafted}, Number of emitted tokens: {emitted}."
    )


def sglang_line(steps: Steps, k: int, rate: str | None = "outside", at: float = 0.0, rank: str = "TP0") -> str:
    """`Decode batch`; rate "inside" counts the target's own token, "outside" does not, None prints no rate."""
    seen = truth(steps, k)
    length = seen["acceptance_length"]
    shown = {"inside": f"accept rate: {length / (k + 1):.2f}, ", "outside": f"accept rate: {(length - 1) / k:.2f}, "}
    when = (FIRST + timedelta(seconds=at)).strftime("%Y-%m-%d %H:%M:%S")
    return (
        f"[{when} {rank}] Decode batch, #running-req: 8, #token: 5120, token usage: 0.07, accept len: {length:.2f}, "
        f"{shown.get(rate or '', '')}cuda graph: True, gen throughput (token/s): 411.20, #queue-req: 0"
    )


def llamacpp_lines(steps: Steps, k: int, version: str = "long", task: int = 0, at: float = 0.0) -> list[str]:
    """Timings of one request: "plain" (tokens only), "short" (mean len), "trace" (+ acc per pos), "long" (one line)."""
    seen = truth(steps, k)
    drafted, accepted = seen["drafted"], seen["accepted"]
    clock = f"{int(at // 60)}.{int(at % 60):02d}.{int(at * 1000) % 1000:03d}.015 I "
    clock += f"slot print_timing: id  0 | task {task} | "
    rates = "(" + ", ".join(f"{s:.3f}" for s in seen["survival"]) + ")"
    eval_line = f"{clock}       eval time =    2296.72 ms /   {len(steps) + accepted} tokens"
    counts = f"{accepted / drafted:.5f} ({accepted:5d} accepted / {drafted:5d} generated)"
    mean = seen["acceptance_length"]
    if version == "plain":
        return [eval_line, f"draft acceptance rate = {counts}"]
    if version == "short":
        return [eval_line, f"{clock}draft acceptance = {counts}, mean len = {mean:5.2f}"]
    if version == "trace":
        return [
            eval_line,
            f"{clock}draft acceptance = {counts}, mean len = {mean:5.2f}",
            f"{clock}     acc per pos = {rates}",
        ]
    return [
        eval_line,
        f"{clock}draft acceptance = {counts}, mean acceptance length = {mean:5.2f}, "
        f"acceptance rate per position = {rates}",
        f"{clock.split('slot')[0]}statistics draft-eagle3: #calls(b,g,a) = 1 {len(steps)} {len(steps)}, "
        f"#gen drafts = {len(steps)}, #acc drafts = 1, #gen tokens = {drafted}, #acc tokens = {accepted}, "
        f"#mean acc len = {mean:.2f}, #acc rate/pos = {rates}, dur(b,g,a) = 0.005, 325.555, 0.114 ms",
    ]


def vllm_metrics(engines: dict[str, Steps], k: int, created: float = 1.7e9, suffix: str = "_total") -> str:
    """A metrics page with counters per engine, their `_created` stamps and lines that say nothing of speculation."""
    seen = {engine: truth(steps, k) for engine, steps in engines.items()}
    lines = ["# HELP vllm:num_requests_running Requests running.", "# TYPE vllm:num_requests_running gauge"]
    lines += [f'vllm:num_requests_running{{engine="{engine}",model_name="m"}} 3.0' for engine in engines]
    for name, key in (("num_drafts", "drafts"), ("num_draft_tokens", "drafted"), ("num_accepted_tokens", "accepted")):
        lines.append(f"# TYPE vllm:spec_decode_{name}{suffix} counter")
        for engine, values in seen.items():
            lines.append(f'vllm:spec_decode_{name}{suffix}{{engine="{engine}",model_name="m"}} {float(values[key])}')
        lines += [
            f'vllm:spec_decode_{name}_created{{engine="{engine}",model_name="m"}} {created}' for engine in engines
        ]
    for engine, values in seen.items():
        for i, share in enumerate(values["survival"]):
            count = round(share * values["drafts"])
            lines.append(
                f'vllm:spec_decode_num_accepted_tokens_per_pos{suffix}{{engine="{engine}",model_name="m",'
                f'position="{i}"}} {float(count)}'
            )
    return "\n".join(lines) + "\n"


def sglang_metrics(
    length: float, rate: float, ranks: Sequence[str] = ('tp_rank="0"',), steps: int | None = None
) -> str:
    lines = []
    for name, value in (("spec_accept_rate", rate), ("spec_accept_length", length)):
        lines.append(f"# TYPE sglang:{name} gauge")
        lines += [f'sglang:{name}{{model_name="m",{rank}}} {value!r}' for rank in ranks]
    if steps is not None:
        lines.append(f'sglang:spec_num_steps{{model_name="m"}} {float(steps)}')
    lines.append('sglang:num_running_reqs{model_name="m",tp_rank="0"} 4.0')
    return "\n".join(lines) + "\n"


LATENCY = {"ttft": (95.85, 326.32), "tpot": (5.0, 8.0)}


def latencies(length: float = 1.0) -> dict[str, float]:
    """Round figures in milliseconds for tests; with speculation the gap between chunks is a step of `length` tokens."""
    return {
        "duration": 48.4,
        "throughput": 1492.61,
        "mean_ttft": 95.85,
        "p50_ttft": 90.1,
        "p99_ttft": 326.32,
        "mean_tpot": 5.0,
        "p50_tpot": 4.9,
        "p99_tpot": 8.0,
        "mean_itl": 5.0 * length,
        "p99_itl": 14.58,
    }


def bench_block(
    steps: Steps | None,
    k: int,
    concurrency: int = 16,
    engine: str = "vllm",
    measured: Mapping[str, float] | None = None,
) -> str:
    """The closing block of `vllm bench serve` or `sglang.bench_serving`; steps None is a baseline.

    `measured` are the latencies (keys as in `latencies`).
    """
    seen = truth(steps, k) if steps else None
    length = float(seen["acceptance_length"]) if seen else 1.0
    ms = measured or latencies(length)
    limit = "Maximum request concurrency" if engine == "vllm" else "Max request concurrency"

    def row(name: str, value: object) -> str:
        return f"{name + ':':<40} {value:<10}"

    lines = ["============ Serving Benchmark Result ============"]
    if engine == "sglang":
        lines += [row("Backend", "sglang"), row("Traffic request rate", "inf")]
    lines += [
        row(limit, concurrency),
        row("Successful requests", 200),
        row("Benchmark duration (s)", f"{ms['duration']:.2f}"),
        row("Output token throughput (tok/s)", f"{ms['throughput']:.2f}"),
        row("Total Token throughput (tok/s)", f"{2 * ms['throughput']:.2f}"),
    ]
    if engine == "sglang":
        lines += [row("Concurrency", "15.20")]
        if seen:
            lines += [row("Accept length", f"{length:.2f}")]
    for title, what in TIMES:
        lines += [title]
        lines += [row(f"{word} {what.upper()} (ms)", f"{ms[f'{key}_{what}']:.2f}") for word, key in STATISTICS[what]]
    if seen and engine == "vllm":
        lines += ["---------------Speculative Decoding---------------"]
        lines += [
            row("Acceptance rate (%)", f"{100 * float(seen['alpha']):.2f}"),
            row("Acceptance length", f"{length:.2f}"),
            row("Drafts", seen["drafts"]),
            row("Draft tokens", seen["drafted"]),
            row("Accepted tokens", seen["accepted"]),
            "Per-position acceptance (%):",
        ]
        lines += [row(f"  Position {i}", f"{100 * s:.2f}") for i, s in enumerate(seen["survival"])]
    lines += ["=================================================="]
    return "\n".join(lines) + "\n"


def bench_json(
    steps: Steps | None, k: int, concurrency: int = 16, measured: Mapping[str, float] | None = None
) -> dict[str, object]:
    """`vllm bench serve --save-result`: the rate per cent, positions as fractions; `measured` as in `bench_block`."""
    length = float(truth(steps, k)["acceptance_length"]) if steps else 1.0
    ms = measured or latencies(length)
    document: dict[str, object] = {
        "backend": "vllm",
        "max_concurrency": concurrency,
        "output_throughput": ms["throughput"],
        **{
            f"{name}_ms": ms[name] for name in ("mean_ttft", "p99_ttft", "mean_tpot", "p99_tpot", "mean_itl", "p99_itl")
        },
    }
    if steps:
        seen = truth(steps, k)
        document |= {
            "spec_decode_acceptance_rate": 100 * float(seen["alpha"]),
            "spec_decode_acceptance_length": seen["acceptance_length"],
            "spec_decode_num_drafts": seen["drafts"],
            "spec_decode_draft_tokens": seen["drafted"],
            "spec_decode_accepted_tokens": seen["accepted"],
            "spec_decode_per_position_acceptance_rates": seen["survival"],
        }
    return document


def histogram(steps: Steps, size: int) -> list[int]:
    return [sum(n == i for _, n in steps) for i in range(size)]


def vllm_request(steps: Steps, k: int, detailed: bool = False) -> dict[str, object]:
    seen = truth(steps, k)
    figures: dict[str, object] = {
        "mean_acceptance_length": seen["acceptance_length"],
        "draft_acceptance_rate": seen["alpha"],
        "acceptance_histogram": histogram(steps, k + 1),
        "num_spec_steps": seen["drafts"],
        "num_accepted_draft_tokens": seen["accepted"],
        "num_draft_tokens": seen["drafted"],
        "num_spec_tokens": k,
    }
    if detailed:
        figures |= {"per_step_accepted": [n for _, n in steps], "per_step_drafted": [d for d, _ in steps]}
    return {"id": "cmpl-1", "choices": [], "usage": {}, "metrics": {"speculative_decoding": figures}}


def sglang_request(steps: Steps, k: int, names: str = "0.5.11") -> dict[str, object]:
    """meta_info of three generations; "bonus" counts the target's own token among accepted and drafted."""
    seen = truth(steps, k)
    drafts, drafted, accepted = (int(seen[name]) for name in ("drafts", "drafted", "accepted"))
    longest = max(n for _, n in steps) + 1
    meta: dict[str, object] = {"completion_tokens": drafts + accepted, "spec_verify_ct": drafts}
    if names == "0.5.11":
        meta |= {"spec_num_correct_drafts": accepted, "spec_num_proposed_drafts": drafted}
        meta |= {"spec_correct_drafts_histogram": histogram(steps, longest)}
    elif names == "0.5.9":
        meta |= {"spec_accept_token_num": accepted, "spec_draft_token_num": drafted}
        meta |= {"spec_accept_histogram": histogram(steps, longest)}
    else:
        meta |= {"spec_accepted_tokens": accepted + drafts, "spec_draft_token_num": drafted + drafts}
    meta |= {"spec_accept_rate": accepted / drafted, "spec_accept_length": 1 + accepted / drafts}
    return {"text": "...", "meta_info": meta}


def offline_summary(steps: Steps, k: int) -> str:
    """The end of vLLM's `spec_decode.py`."""
    seen = truth(steps, k)
    lines = ["-" * 50, f"total_num_output_tokens: {seen['drafts'] + seen['accepted']}", f"num_drafts: {seen['drafts']}"]
    lines += [f"num_draft_tokens: {seen['drafted']}", f"num_accepted_tokens: {seen['accepted']}"]
    lines += [f"mean acceptance length: {seen['acceptance_length']:.2f}", "-" * 50]
    lines += [f"acceptance at token {i}: {s:.2f}" for i, s in enumerate(seen["survival"])]
    return "\n".join(lines) + "\n"


def json_lines(documents: Sequence[object]) -> str:
    return "".join(json.dumps(document) + "\n" for document in documents)
