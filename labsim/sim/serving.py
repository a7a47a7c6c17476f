"""Serving: continuous batching with speculation, event by event.

An engine works in steps. In every step each decoding request of the batch verifies its K drafted tokens and emits n +
1 of them (n accepted, one from the target) in **one** target forward: a rejection costs no second pass, because the
corrected token is drawn from logits that the verify pass already holds (Leviathan et al., arXiv 2211.17192). All
requests of the batch wait for the same step, however many tokens each of them gets. Prompts are processed in chunks
inside the same steps (chunked prefill): decode tokens are scheduled first, prompts share what is left of
`token_budget`, oldest first, and everybody's step becomes longer. A prompt's last chunk yields the first output token.

Between two events (an answer ends, a request arrives) the batch is constant, so a whole run of steps is computed at
once, and a request's accept counts are drawn when it joins. That makes the simulation fast enough for a slider.

    comparison = compare(cost, Workload(), k=3, acceptance=(0.62, 0.38, 0.25), concurrency=32, seed=0)
    comparison.speedup, comparison.speculative.tpot_p99_ms, comparison.baseline.tpot_p99_ms

Limits: no preemption when KV memory runs out, no padding to CUDA-graph sizes, K fixed during a run, every step drafts
K tokens for every request (also for its last tokens).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from .accept_process import AcceptProcess, as_accept_process
from .engine import Engine, EngineConfig
from .errors import check_whole, out_of_range
from .report import Report, Trace, summarise
from .speedup import StepCost
from .workload import Workload, ramp

__all__ = ["Comparison", "EngineConfig", "Report", "Trace", "compare", "compare_traces", "simulate", "trace"]


@dataclass(frozen=True)
class Comparison:
    """The same requests with and without speculation.

    `speedup` is what a user feels: mean TPOT without / mean TPOT with speculation. `throughput_ratio` is what the
    operator sees: tokens per second with / without; in an open loop that keeps up it is 1 by construction.
    `requests_slower` is the share of requests whose own TPOT gets worse.
    """

    concurrency: int | None
    k: int
    speedup: float
    throughput_ratio: float
    requests_slower: float
    speculative: Report
    baseline: Report

    def to_dict(self) -> dict[str, object]:
        """One flat row: the speculative report beside the ratios, the plain one under "baseline"."""
        return {
            **asdict(self.speculative),
            "concurrency": self.concurrency,
            "k": self.k,
            "speedup": self.speedup,
            "throughput_ratio": self.throughput_ratio,
            "requests_slower": self.requests_slower,
            "baseline": asdict(self.baseline),
        }


def simulate(
    cost: StepCost,
    workload: Workload,
    k: int,
    acceptance: Sequence[float] | AcceptProcess | None = None,
    concurrency: int | None = None,
    seed: int = 0,
    config: EngineConfig | None = None,
) -> Report:
    """Report of one run; arguments as in `trace`."""
    return summarise(trace(cost, workload, k, acceptance, concurrency, seed, config))


def compare(
    cost: StepCost,
    workload: Workload,
    k: int,
    acceptance: Sequence[float] | AcceptProcess,
    concurrency: int | None = None,
    seed: int = 0,
    config: EngineConfig | None = None,
) -> Comparison:
    """Run the same requests without and with speculation; arguments as in `trace`, with `k` at least 1."""
    check_whole("k", k)
    plain = trace(cost, workload, 0, None, concurrency, seed, config)
    return compare_traces(plain, trace(cost, workload, k, acceptance, concurrency, seed, config))


def compare_traces(plain: Trace, drafted: Trace) -> Comparison:
    """Comparison of two runs of the same requests (same workload, concurrency and seed); one plain run can serve many
    draft lengths. ValueError when the requests differ.
    """
    if plain.outputs != drafted.outputs or plain.prompts != drafted.prompts or plain.measured != drafted.measured:
        raise ValueError("the two traces hold different requests; allowed: same workload, concurrency and seed")
    baseline, speculative = summarise(plain), summarise(drafted)
    pairs = [
        (before, after) for before, after in zip(plain.tpot_seconds(), drafted.tpot_seconds(), strict=True) if before
    ]
    if not pairs:
        raise out_of_range("output", "1 token in every measured request", "some requests with at least 2 tokens")
    return Comparison(
        concurrency=drafted.concurrency,
        k=drafted.k,
        speedup=baseline.tpot_mean_ms / speculative.tpot_mean_ms,
        throughput_ratio=speculative.throughput_tokens_per_second / baseline.throughput_tokens_per_second,
        requests_slower=sum(after > before for before, after in pairs) / len(pairs),
        speculative=speculative,
        baseline=baseline,
    )


def trace(
    cost: StepCost,
    workload: Workload,
    k: int,
    acceptance: Sequence[float] | AcceptProcess | None = None,
    concurrency: int | None = None,
    seed: int = 0,
    config: EngineConfig | None = None,
) -> Trace:
    """Simulate and return every step and request.

    `cost` prices a step; `k` drafted tokens per step (0: no speculation); `acceptance` a survival vector, `Acceptance`
    or `Replay`; `concurrency` the number of users of a closed loop (None in an open loop, which
    `workload.arrival_rate` makes it). Deterministic for a `seed`. ValueError names what is out of range.
    """
    k = check_whole("k", k, 0)
    if workload.arrival_rate is None:
        if concurrency is None:
            raise out_of_range("concurrency", None, "a number of users, or give the workload an arrival_rate")
        concurrency = check_whole("concurrency", concurrency)
    elif concurrency is not None:
        raise out_of_range("concurrency", concurrency, "None in an open loop (the workload has an arrival_rate)")
    if k and acceptance is None:
        raise out_of_range("acceptance", None, f"a survival vector, Acceptance or Replay for k = {k}")

    process = as_accept_process(acceptance) if k else None
    count = workload.request_count(concurrency)
    prompts, outputs = workload.draw(count, seed)
    if concurrency is None:
        scheduled = workload.poisson_arrivals(count, seed)
    else:
        users = min(concurrency, count)
        answer = _answer_seconds(cost, workload, k, process, users) if workload.steady else 0.0
        scheduled = list(ramp(users, answer))
    sampler = process.sampler(k, seed) if process else None
    engine = Engine(cost.step_seconds, k, config or EngineConfig(), prompts, outputs, sampler)
    engine.play(scheduled, replace_finished=concurrency is not None)
    measured = workload.measured(count, concurrency)
    if not workload.steady:
        end = max(engine.finish)
    elif concurrency is None:
        # Above capacity requests finish long after they came: only their finish times show what the engine does.
        end = max(engine.finish[r] for r in measured)
    else:
        end = engine.arrival[-1]  # beyond the last arrival the load drains
    return engine.to_trace(concurrency, measured, (engine.arrival[measured[0]], end))


def _answer_seconds(cost: StepCost, workload: Workload, k: int, process: AcceptProcess | None, users: int) -> float:
    """Rough time of one answer at full concurrency, over which users join."""
    kv_tokens = round(users * (workload.prompt.mean + workload.output.mean / 2))
    per_step = process.acceptance_length(k) if process else 1.0
    return workload.output.mean / per_step * cost.step_seconds(users, k, kv_tokens)
