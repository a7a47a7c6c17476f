"""Report: from steps and requests to the figures that people argue about.

Three different tails go under the name "P99 ITL":

- **chunk gap**: time between two stream chunks of a request. A chunk is a step, so with speculation the gap is longer
  and brings several tokens. Benchmark clients print this one as ITL, pooled over all chunks.
- **token gap**: chunk gap / tokens in the chunk that ends it, pooled over chunks.
- **TPOT** of a request: (latency - TTFT) / (output tokens - 1). One number per request; percentiles are over requests.

By definition mean chunk gap / mean TPOT is about the acceptance length (exactly, when both average over the same
tokens). Percentiles interpolate linearly between ranks (`labsim.sim.percentiles`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from math import nan
from operator import mul, truediv

from .percentiles import percentile, sorted_percentile, weighted_percentiles


@dataclass(frozen=True)
class Trace:
    """Everything that happened; times in seconds, requests numbered in order of arrival.

    Step i ends at `step_end[i]`, lasts `step_seconds[i]`, holds `batch[i]` decoding requests that emit `tokens[i]`
    tokens together, and processes `prefill_tokens[i]` prompt tokens. Request r gets its first token at
    `first_token[r]` and then emits `emitted[r][j]` tokens in step `first_step[r] + j` (empty without speculation: one
    in each step). `overrun[r]` accepted tokens of its last step lie beyond its end: counted as accepted, as engines
    do, and not emitted. `measured` is the range of requests that the report counts and `window` its step times.
    """

    k: int
    concurrency: int | None
    measured: range
    window: tuple[float, float]
    step_seconds: Sequence[float]
    step_end: Sequence[float]
    batch: Sequence[int]
    prefill_tokens: Sequence[int]
    tokens: Sequence[int]
    prompts: Sequence[int]
    outputs: Sequence[int]
    arrival: Sequence[float]
    first_token: Sequence[float]
    finish: Sequence[float]
    first_step: Sequence[int]
    emitted: Sequence[Sequence[int]]
    overrun: Sequence[int]

    def decode_steps(self, request: int) -> int:
        """Target forwards that the request took part in after its prompt."""
        return len(self.emitted[request]) if self.k else self.outputs[request] - 1

    def tpot_seconds(self) -> list[float]:
        """TPOT of every measured request, in order of arrival; 0 for an output of one token, which has none."""
        return [(self.finish[r] - self.first_token[r]) / max(1, self.outputs[r] - 1) for r in self.measured]


@dataclass(frozen=True)
class Report:
    """Figures of the measured window; times in milliseconds, nan where nothing was measured.

    `requests` is how many requests the latencies rest on, `steps` how many steps the step statistics rest on.
    `acceptance_length` = 1 + accepted / drafts, summed over the measured requests (so long answers weigh more, as in
    an engine's counters); 1 without speculation. `target_forwards_per_token` counts, per request, the forwards after
    its prompt over the tokens they emitted: 1 without speculation, about 1 / acceptance length with it.
    `prefill_step_share` is the share of steps that carry prompt tokens, `prefill_gap_share` the share of chunk gaps
    that contain such a step: smaller with few users, because a request whose prompt is read makes no gap in that step.
    `mean_batch` is the mean decode batch over steps.
    """

    k: int
    concurrency: int | None
    requests: int
    steps: int
    throughput_tokens_per_second: float
    requests_per_second: float
    latency_mean_ms: float
    ttft_mean_ms: float
    ttft_p50_ms: float
    ttft_p95_ms: float
    ttft_p99_ms: float
    tpot_mean_ms: float
    tpot_p50_ms: float
    tpot_p95_ms: float
    tpot_p99_ms: float
    chunk_gap_mean_ms: float
    chunk_gap_p50_ms: float
    chunk_gap_p99_ms: float
    token_gap_p99_ms: float
    prefill_step_share: float
    prefill_gap_share: float
    target_forwards_per_token: float
    acceptance_length: float
    drafts: int
    accepted: int
    mean_batch: float


def summarise(trace: Trace) -> Report:
    """Reduce a trace to its report."""
    measured, (start, end) = trace.measured, trace.window
    lo, hi = bisect_right(trace.step_end, start), bisect_right(trace.step_end, end)
    seconds, batch = trace.step_seconds[lo:hi], trace.batch[lo:hi]
    steps, chunks = hi - lo, sum(batch)

    ttft = sorted(1e3 * (trace.first_token[r] - trace.arrival[r]) for r in measured)
    tpot = sorted(1e3 * value for value, r in zip(trace.tpot_seconds(), measured, strict=True) if trace.outputs[r] > 1)
    latency = [trace.finish[r] - trace.arrival[r] for r in measured]
    gap_p50, gap_p99 = weighted_percentiles(seconds, batch, (50, 99))

    forwards = sum(map(trace.decode_steps, measured))
    decoded = sum(trace.outputs[r] - 1 for r in measured)
    accepted = decoded + sum(trace.overrun[r] for r in measured) - forwards
    first_tokens = sum(start <= t <= end for t in trace.first_token)
    span = end - start
    return Report(
        k=trace.k,
        concurrency=trace.concurrency,
        requests=len(measured),
        steps=steps,
        throughput_tokens_per_second=(sum(trace.tokens[lo:hi]) + first_tokens) / span if span else nan,
        requests_per_second=sum(start <= t <= end for t in trace.finish) / span if span else nan,
        latency_mean_ms=1e3 * _mean(latency),
        ttft_mean_ms=_mean(ttft),
        ttft_p50_ms=sorted_percentile(ttft, 50),
        ttft_p95_ms=sorted_percentile(ttft, 95),
        ttft_p99_ms=sorted_percentile(ttft, 99),
        tpot_mean_ms=_mean(tpot),
        tpot_p50_ms=sorted_percentile(tpot, 50),
        tpot_p95_ms=sorted_percentile(tpot, 95),
        tpot_p99_ms=sorted_percentile(tpot, 99),
        chunk_gap_mean_ms=1e3 * sum(map(mul, seconds, batch)) / chunks if chunks else nan,
        chunk_gap_p50_ms=1e3 * gap_p50,
        chunk_gap_p99_ms=1e3 * gap_p99,
        token_gap_p99_ms=1e3 * (percentile(_token_gaps(trace, lo, hi), 99) if trace.k else gap_p99),
        prefill_step_share=1 - trace.prefill_tokens[lo:hi].count(0) / steps if steps else nan,
        prefill_gap_share=sum(compress(batch, trace.prefill_tokens[lo:hi])) / chunks if chunks else nan,
        target_forwards_per_token=forwards / decoded if decoded else nan,
        acceptance_length=1 + accepted / forwards if forwards else nan,
        drafts=forwards if trace.k else 0,
        accepted=accepted,
        mean_batch=chunks / steps if steps else nan,
    )


def _token_gaps(trace: Trace, lo: int, hi: int) -> list[float]:
    """Chunk gap over tokens in the chunk, for every chunk of steps lo..hi-1."""
    gaps: list[float] = []
    for first, emitted in zip(trace.first_step, trace.emitted, strict=True):
        begin, stop = max(first, lo), min(first + len(emitted), hi)
        if begin < stop:
            gaps += map(truediv, trace.step_seconds[begin:stop], emitted[begin - first : stop - first])
    return gaps


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else nan
