"""Simulated before/after pairs for the exercise on tails: real reports, several per cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache

from ...sim.accept_process import Acceptance
from ...sim.cost import cost_model
from ...sim.serving import EngineConfig, compare
from ...sim.workload import LogNormal, Workload

CAUSES = ("longer steps", "prefill crosses 1 %", "prefill stalls")
KEYS = (
    "chunk_gap_p50_ms",
    "chunk_gap_p99_ms",
    "prefill_gap_share",
    "prefill_step_share",
    "tpot_mean_ms",
    "tpot_p99_ms",
)
# (users, mean prompt, mean answer, token budget)
LOADS: tuple[tuple[int, int, int, int], ...] = (
    (1, 300, 400, 2048),
    (4, 2000, 500, 2048),
    (56, 300, 400, 512),
    (8, 300, 1000, 2048),
    (32, 2000, 400, 2048),
    (4, 300, 800, 2048),
    (8, 300, 500, 2048),
)

Report = Mapping[str, float]


def cause_of_the_tail(before: Report, after: Report) -> str:
    """Why the P99 chunk gap rose: what the slowest 1 % of the gaps are, before and after."""
    if after["prefill_gap_share"] < 0.01:
        return "longer steps"
    return "prefill crosses 1 %" if before["prefill_gap_share"] < 0.01 else "prefill stalls"


@cache
def tail_cases() -> tuple[tuple[dict[str, float], dict[str, float]], ...]:
    """(before, after) of seven loads on Llama-3.1-8B and one H100, chat acceptance, K = 3."""
    cost = cost_model("h100", "llama-3.1-8b", "eagle3")
    chat = Acceptance((0.622, 0.381, 0.252), request_std=0.3, autocorrelation=0.265)
    pairs = []
    for users, prompt, answer, budget in LOADS:
        load = Workload(prompt=LogNormal(prompt, 0.5), output=LogNormal(answer, 0.6))
        run = compare(cost, load, 3, chat, users, seed=0, config=EngineConfig(token_budget=budget))
        pairs.append(tuple({key: asdict(report)[key] for key in KEYS} for report in (run.baseline, run.speculative)))
    return tuple(pairs)
