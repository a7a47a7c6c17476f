"""Records for the tests of the plan, written by hand; every figure can be checked with pencil and paper."""

from __future__ import annotations

from dataclasses import replace

from labsim.rollout import PlanInput
from labsim.telemetry.record import AcceptanceRecord, Bench

POINTS = (1, 32, 128)
SURVIVAL = (0.8, 0.6, 0.4)  # alpha 0.6, acceptance length 2.8


def acceptance(**changes: object) -> AcceptanceRecord:
    """A log at K = 3 with alpha 0.6, bounds 0.58 and 0.62."""
    record = AcceptanceRecord(
        engine="vllm",
        format="vllm-log",
        k=3,
        drafts=2000,
        drafted=6000,
        accepted=3600,
        alpha=0.6,
        alpha_interval=(0.58, 0.62),
        acceptance_length=2.8,
        survival=SURVIVAL,
        files=("engine.log",),
    )
    return replace(record, **changes)


def bare_bench(name: str = "base.txt", **changes: object) -> AcceptanceRecord:
    """A run without speculation: 10 ms a step."""
    bench = Bench(
        concurrency=32,
        tpot_mean_ms=10.0,
        tpot_p99_ms=12.0,
        itl_mean_ms=10.0,
        itl_p99_ms=20.0,
        ttft_mean_ms=50.0,
        ttft_p99_ms=200.0,
    )
    return AcceptanceRecord("unknown", "bench", bench=replace(bench, **changes), files=(name,))


def spec_bench(name: str = "spec.txt", record: dict[str, object] | None = None, **changes: object) -> AcceptanceRecord:
    """A run with speculation: 14 ms a step of 2.8 tokens, 5 ms a token."""
    bench = Bench(
        concurrency=32,
        tpot_mean_ms=5.0,
        tpot_p99_ms=11.0,
        itl_mean_ms=14.0,
        itl_p99_ms=60.0,
        ttft_mean_ms=50.0,
        ttft_p99_ms=210.0,
    )
    made = replace(acceptance(), format="vllm-bench", bench=replace(bench, **changes), files=(name,))
    return replace(made, **(record or {}))


def inputs(**changes: object) -> PlanInput:
    """A complete set of inputs, which passes every gate."""
    values: dict[str, object] = {
        "target": "meta-llama/Llama-3.1-8B-Instruct",
        "draft_checkpoint": "org/head",
        "k": 3,
        "concurrency": (32,),
        "gpu": "h100",
        "context": 400,
        "acceptance": acceptance(),
        "baseline": bare_bench(),
        "candidate": spec_bench(),
    }
    return PlanInput(**{**values, **changes})
