"""Before and after: two client benchmarks that may be compared, or the reason why not.

A benchmark of a server prints two latencies that look alike. TPOT is (latency - TTFT) / (output tokens - 1), one value
per request: what a user waits per token. ITL, as `vllm bench serve` measures it, is the gap between stream chunks; with
speculation a chunk is a whole step of several tokens, so mean ITL / mean TPOT is the acceptance length, and the ratio
of P99 ITL with and without speculation says nothing. SGLang's client divides each gap by the tokens in it (its native
backend always, its OpenAI backends since sglang#12064): that is no chunk gap, and no stall limit can be read off it.

Refused outright (ValueError): two benchmarks at different concurrency, from two different clients, a baseline that
speculates, a candidate that does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from ..telemetry.record import AcceptanceRecord, Bench
from .inputs import source_of

# Without speculation mean ITL / mean TPOT is 1 up to the difference between a mean over chunks and one over requests.
PLAIN_RATIO = 1.10


@dataclass(frozen=True)
class BenchPair:
    """Two comparable benchmarks at one concurrency (None where neither says)."""

    concurrency: int | None
    baseline: Bench
    candidate: Bench
    baseline_file: str
    candidate_file: str
    k: int | None
    speculates: bool | None
    baseline_plain: bool
    chunk_gap_unknown: str | None
    notes: tuple[str, ...] = ()

    @property
    def both(self) -> str:
        return f"{self.baseline_file} and {self.candidate_file}"

    @property
    def step_ratio(self) -> float | None:
        """R = mean step time with over without speculation: the ratio of the two *mean* chunk gaps, which are steps."""
        before, after = number(self.baseline.itl_mean_ms), number(self.candidate.itl_mean_ms)
        if before is None or after is None or self.chunk_gap_unknown is not None or not self.speculates:
            return None
        return after / before

    @property
    def speedup(self) -> float | None:
        """Mean TPOT without over with speculation."""
        before, after = number(self.baseline.tpot_mean_ms), number(self.candidate.tpot_mean_ms)
        return None if before is None or after is None else before / after


def number(value: float | None) -> float | None:
    """`value` if it is a latency (finite and above 0), else None."""
    return float(value) if value is not None and isfinite(value) and value > 0 else None


def gap_over_tpot(bench: Bench) -> float | None:
    """Mean ITL / mean TPOT, the acceptance length if ITL is the gap between chunks; None if either is missing."""
    gap, tpot = number(bench.itl_mean_ms), number(bench.tpot_mean_ms)
    return None if gap is None or tpot is None else gap / tpot


def counts_speculation(record: AcceptanceRecord) -> bool:
    """Whether the record holds anything that only a speculating engine prints."""
    values = (record.k, record.drafts, record.drafted, record.accepted, record.alpha, record.acceptance_length)
    return any(value is not None for value in values) or bool(record.survival)


def speculates(record: AcceptanceRecord) -> bool | None:
    """True or False where the benchmark shows it, None where it prints too little to tell."""
    if counts_speculation(record):
        return True
    ratio = gap_over_tpot(record.bench)
    return None if ratio is None else ratio >= PLAIN_RATIO


def no_chunk_gap(record: AcceptanceRecord) -> str | None:
    """Why the ITL of a speculating benchmark is not the gap between chunks, or None if it is (or K is idle anyway)."""
    ratio, length = gap_over_tpot(record.bench), record.acceptance_length
    if length is None and record.alpha is not None and record.k:
        length = 1 + record.k * record.alpha
    if ratio is None or length is None:
        if record.engine == "sglang":
            return "SGLang's client divides ITL by the tokens per chunk, and this benchmark prints too little to check"
        return None
    if length < PLAIN_RATIO or abs(ratio - length) <= abs(ratio - 1):
        return None
    return (
        f"mean ITL / mean TPOT is {ratio:.2f} at an acceptance length of {length:.2f}: this ITL is divided by the "
        "tokens per chunk (SGLang's client, sglang#12064; AIPerf), so it is no gap between chunks"
    )


def pair_up(baselines: Sequence[AcceptanceRecord], candidates: Sequence[AcceptanceRecord]) -> tuple[BenchPair, ...]:
    """Pair the benchmarks by concurrency. ValueError for pairs that must not be compared; see the module."""
    for record in (*baselines, *candidates):
        if record.bench is None:
            raise ValueError(
                f"{source_of(record)} holds no client benchmark; allowed: the output or --save-result file of `vllm "
                "bench serve` or `sglang.bench_serving`"
            )
    for record in baselines:
        if counts_speculation(record):
            raise ValueError(
                f"baseline benchmark {source_of(record)} ran with speculation (it prints draft counts); allowed: a "
                "benchmark of the same server without speculation"
            )
    for record in candidates:
        if speculates(record) is False:
            raise ValueError(
                f"candidate benchmark {source_of(record)} ran without speculation (no draft counts, mean ITL / mean "
                f"TPOT is {gap_over_tpot(record.bench):.2f}); allowed: a benchmark with speculation switched on"
            )
    if not baselines or not candidates:
        return ()
    if len(baselines) == len(candidates) == 1:
        return (_pair(baselines[0], candidates[0]),)
    by_point = {}
    for record in baselines:
        point = record.bench.concurrency
        if point is None or point in by_point:
            raise ValueError(
                f"baseline benchmark {source_of(record)} has concurrency {point or 'unstated'}; allowed with several "
                "benchmarks: one per concurrency, each stating it"
            )
        by_point[point] = record
    pairs = []
    for record in candidates:
        if record.bench.concurrency not in by_point or any(p.concurrency == record.bench.concurrency for p in pairs):
            known = ", ".join(map(str, sorted(by_point)))
            raise ValueError(
                f"candidate benchmark {source_of(record)} has concurrency {record.bench.concurrency or 'unstated'}; "
                f"allowed: one per concurrency of the baselines: {known}"
            )
        pairs.append(_pair(by_point[record.bench.concurrency], record))
    return tuple(sorted(pairs, key=lambda p: p.concurrency))


def _pair(baseline: AcceptanceRecord, candidate: AcceptanceRecord) -> BenchPair:
    before, after = baseline.bench, candidate.bench
    files = source_of(baseline), source_of(candidate)
    if before.concurrency and after.concurrency and before.concurrency != after.concurrency:
        raise ValueError(
            f"the benchmarks differ in concurrency: {before.concurrency} in {files[0]}, {after.concurrency} in "
            f"{files[1]}; allowed: the same in both"
        )
    clients = {baseline.engine, candidate.engine}
    if clients == {"vllm", "sglang"}:
        raise ValueError(
            f"the benchmarks come from two clients: {baseline.engine} in {files[0]}, {candidate.engine} in "
            f"{files[1]}, whose ITL differ in meaning; allowed: the same client for both"
        )
    notes = []
    if not (before.concurrency and after.concurrency):
        unstated = [name for name, bench in zip(files, (before, after), strict=True) if not bench.concurrency]
        notes.append(f"{' and '.join(unstated)} does not state its concurrency: make sure that both runs had the same.")
    ratio = gap_over_tpot(before)
    plain = ratio is None or ratio < 1.25
    return BenchPair(
        before.concurrency or after.concurrency,
        before,
        after,
        *files,
        candidate.k,
        speculates(candidate),
        plain,
        no_chunk_gap(candidate),
        tuple(notes),
    )
