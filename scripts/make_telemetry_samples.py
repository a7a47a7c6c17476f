"""Writes data/telemetry/*: synthetic engine logs for the course, with the truth beside them.

python scripts/make_telemetry_samples.py            same bytes on every run
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]
import engine_output as out  # noqa: E402

from labsim.sim.accept_process import Acceptance  # noqa: E402
from labsim.sim.cost import cost_model  # noqa: E402
from labsim.sim.report import summarise  # noqa: E402
from labsim.sim.serving import trace  # noqa: E402
from labsim.sim.workload import LogNormal, Workload  # noqa: E402

HERE = Path(__file__).resolve().parent.parent / "data" / "telemetry"
STEADY, BETTER, WORSE = (0.68, 0.44, 0.28), (0.74, 0.52, 0.37), (0.55, 0.28, 0.13)


def samples() -> dict[str, tuple[str, dict[str, object]]]:
    """File name -> (content, truth)."""
    found: dict[str, tuple[str, dict[str, object]]] = {}
    steady = out.draw_steps(1, STEADY, 12_000)
    lines = []
    for i, window in enumerate(out.windows(steady, 500)):
        lines.append("(APIServer pid=1) " + out.vllm_engine_line(0, 10.0 * i))
        lines.append("(APIServer pid=1) " + out.vllm_v1_line(window, 3, at=10.0 * i))
    found["vllm_steady.log"] = ("\n".join(lines) + "\n", out.truth(steady, 3))

    before, after = out.draw_steps(2, BETTER, 9_000), out.draw_steps(3, WORSE, 9_000)
    lines = [
        "(APIServer pid=1) " + out.vllm_v1_line(window, 3, at=10.0 * i)
        for i, window in enumerate(out.windows(before + after, 600))
    ]
    found["vllm_drift.log"] = ("\n".join(lines) + "\n", out.truth(before + after, 3))

    for name, rate in (("sglang_bonus_outside.log", "outside"), ("sglang_bonus_inside.log", "inside")):
        steps = out.draw_steps(4, STEADY, 6_000)
        text = "\n".join(out.sglang_line(w, 3, rate, at=5.0 * i) for i, w in enumerate(out.windows(steps, 320))) + "\n"
        found[name] = (text, {key: out.truth(steps, 3)[key] for key in ("alpha", "acceptance_length")})

    first = {"0": out.draw_steps(5, STEADY, 4_000), "1": out.draw_steps(6, STEADY, 3_000)}
    more = {engine: out.draw_steps(7 + int(engine), WORSE, 2_500) for engine in first}
    later = {engine: steps + more[engine] for engine, steps in first.items()}
    found["vllm_before.prom"] = (out.vllm_metrics(first, 3), out.truth([*first["0"], *first["1"]], 3))
    found["vllm_after.prom"] = (out.vllm_metrics(later, 3), out.truth([*more["0"], *more["1"]], 3))

    _, plain = benchmark(0)
    steps, speculative = benchmark(3)
    found["bench_baseline.txt"] = (out.bench_block(None, 3, measured=plain), {})
    found["bench_candidate.txt"] = (out.bench_block(steps, 3, measured=speculative), out.truth(steps, 3))
    found["bench_candidate.json"] = (
        json.dumps(out.bench_json(steps, 3, measured=speculative)) + "\n",
        out.truth(steps, 3),
    )

    lines = []
    everything: out.Steps = []
    for task in range(6):
        steps = out.draw_steps(20 + task, STEADY, 120, variable=True)
        everything += steps
        lines += out.llamacpp_lines(steps, 3, task=task, at=3.0 * task)
    found["llamacpp.log"] = ("\n".join(lines) + "\n", out.truth(everything, 3))
    return found


def benchmark(k: int) -> tuple[out.Steps, dict[str, float]]:
    """Steps and latencies of a simulated load test: Llama-3.1-8B on one H100, 16 users, 200 requests."""
    cost = cost_model("h100", "llama-3.1-8b", "eagle3")
    load = Workload(prompt=LogNormal(300, 0.5), output=LogNormal(250, 0.5), requests=200, steady=False)
    run = trace(cost, load, k, Acceptance(STEADY, request_std=0.15, autocorrelation=0.1) if k else None, 16, seed=9)
    report = summarise(run)
    steps: out.Steps = []
    for emitted, overrun in zip(run.emitted, run.overrun, strict=True):
        accepted = [n - 1 for n in emitted]
        if accepted:
            # Tokens beyond the answer's end are accepted, and counted by engines, but not emitted.
            accepted[-1] += overrun
        steps += [(k, n) for n in accepted]
    names = {"ttft": "ttft", "tpot": "tpot", "itl": "chunk_gap"}
    measured = {
        f"{key}_{what}": getattr(report, f"{field}_{key}_ms")
        for what, field in names.items()
        for key in ("mean", "p50", "p99")
    }
    return steps, {**measured, "throughput": report.throughput_tokens_per_second, "duration": max(run.finish)}


def main() -> None:
    HERE.mkdir(parents=True, exist_ok=True)
    truths = {}
    for name, (content, truth) in samples().items():
        (HERE / name).write_text(content, encoding="utf-8")
        truths[name] = truth
    (HERE / "truth.json").write_text(json.dumps(truths, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
