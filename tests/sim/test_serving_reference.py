"""The engine against a slow one written the obvious way: every step, every request, one at a time."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labsim.sim.accept_process import Acceptance
from labsim.sim.report import summarise
from labsim.sim.serving import EngineConfig, trace
from labsim.sim.workload import Empirical, LogNormal, Workload


class Roofline:
    """Straight in every argument."""

    def step_seconds(self, batch, k, kv_tokens, prefill_tokens=0):
        rows = batch * (k + 1) + prefill_tokens
        return 7e-3 + 2.1e-5 * rows + 4e-8 * kv_tokens + (2e-3 + 1e-6 * rows if k else 0)


class Kinked:
    """max() of two terms: convex, with a kink in the KV length."""

    def step_seconds(self, batch, k, kv_tokens, prefill_tokens=0):
        rows = batch * (k + 1) + prefill_tokens
        return 1e-3 * k + max(5e-3 + 2e-5 * rows, 1e-5 * kv_tokens)


@dataclass
class Slow:
    """One request of the slow engine."""

    index: int
    prompt: int
    output: int
    arrival: float
    steps: list
    left: int = 0
    first: float = 0.0
    finish: float | None = None
    out: int = 0
    chunks: list = field(default_factory=list)


def slow_engine(cost, k, config, prompts, outputs, emissions, scheduled, closed):
    """Requests in order of arrival, and the durations and prompt tokens of all steps."""
    now, steps, everyone = 0.0, [], []
    coming, waiting, prefilling, decoding = deque(scheduled), deque(), [], []

    def arrive(time):
        i = len(everyone)
        everyone.append(Slow(i, prompts[i], outputs[i], time, list(emissions(i, outputs[i] - 1)), left=prompts[i]))
        waiting.append(everyone[-1])

    def leave(request):
        request.finish = now
        if closed and len(everyone) + len(coming) < len(prompts):
            arrive(now)

    while len(everyone) < len(prompts) or any(r.finish is None for r in everyone):
        while coming and coming[0] <= now:
            arrive(coming.popleft())
        if not (waiting or prefilling or decoding):
            now = coming[0]
            continue
        chunk, ready = 0, []
        if config.prefill:
            budget = config.token_budget - len(decoding) * (k + 1)
            while budget > 0:
                if not prefilling:
                    if not waiting or len(decoding) + len(ready) >= config.max_batch:
                        break
                    prefilling.append(waiting.popleft())
                request = prefilling[0]
                part = min(budget, request.left)
                request.left -= part
                budget -= part
                chunk += part
                if request.left == 0:
                    ready.append(prefilling.pop(0))
        else:
            while waiting and len(decoding) < config.max_batch:
                request = waiting.popleft()
                request.first, request.out, request.left = now, 1, 0
                decoding.append(request)
            complete = [r for r in decoding if r.out == r.output]
            for request in complete:
                decoding.remove(request)
                leave(request)
            if complete:
                continue
        in_cache = sum(r.prompt + r.out for r in decoding)
        in_cache += sum(r.prompt - r.left for r in prefilling + ready)
        in_cache -= chunk
        seconds = cost.step_seconds(len(decoding), k, in_cache, chunk)
        now += seconds
        steps.append((seconds, len(decoding), chunk))
        leaving = []
        for request in decoding:
            emitted = min(request.steps.pop(0) if k else 1, request.output - request.out)
            request.out += emitted
            request.chunks.append((seconds, emitted, chunk))
            if request.out == request.output:
                leaving.append(request)
        for request in ready:
            request.first, request.out = now, 1
            decoding.append(request)
            if request.output == 1:
                leaving.append(request)
        for request in sorted(leaving, key=lambda r: r.index):
            decoding.remove(request)
            leave(request)
    return everyone, steps


CASES = st.fixed_dictionaries(
    {
        "k": st.integers(0, 4),
        "users": st.integers(1, 9),
        "rate": st.sampled_from([None, 3.0, 30.0, 300.0]),
        "max_batch": st.integers(1, 12),
        "token_budget": st.sampled_from([1, 7, 40, 200, 2048]),
        "prefill": st.booleans(),
        "lengths": st.lists(st.tuples(st.integers(1, 120), st.integers(1, 60)), min_size=1, max_size=6),
        "requests": st.integers(9, 40),
        "acceptance": st.sampled_from([Acceptance((0.6, 0.3, 0.2, 0.1)), Acceptance((0.7, 0.6, 0.5, 0.5), 0.6, 0.5)]),
        "cost": st.sampled_from([Roofline(), Kinked()]),
        "seed": st.integers(0, 5),
    }
)


@given(CASES)
@settings(max_examples=150, deadline=None)
def test_every_request_and_step_equals_the_slow_engine(case):
    prompts, outputs = zip(*case["lengths"], strict=True)
    work = Workload(
        Empirical(prompts), Empirical(outputs), requests=case["requests"], arrival_rate=case["rate"], steady=False
    )
    config = EngineConfig(case["max_batch"], case["token_budget"], case["prefill"])
    k, seed, users = case["k"], case["seed"], None if case["rate"] else case["users"]
    got = trace(case["cost"], work, k, case["acceptance"], users, seed, config)

    drawn_prompts, drawn_outputs = work.draw(case["requests"], seed)
    scheduled = [0.0] * users if users else work.poisson_arrivals(case["requests"], seed)
    sampler = case["acceptance"].sampler(k, seed) if k else None
    requests, steps = slow_engine(
        case["cost"],
        k,
        config,
        drawn_prompts,
        drawn_outputs,
        lambda i, tokens: sampler.steps(i, tokens) if k and tokens else [],
        scheduled,
        closed=users is not None,
    )
    assert list(got.step_seconds) == pytest.approx([s for s, _, _ in steps], rel=1e-7)
    assert list(got.batch) == [b for _, b, _ in steps]
    assert list(got.prefill_tokens) == [p for _, _, p in steps]
    assert list(got.arrival) == pytest.approx([r.arrival for r in requests], rel=1e-7)
    assert list(got.first_token) == pytest.approx([r.first for r in requests], rel=1e-7)
    assert list(got.finish) == pytest.approx([r.finish for r in requests], rel=1e-7)
    check_report(summarise(got), requests, steps)


def check_report(report, requests, steps):
    """The report's figures recomputed with numpy from the slow engine's requests."""
    ttft = [1e3 * (r.first - r.arrival) for r in requests]
    assert report.ttft_mean_ms == pytest.approx(np.mean(ttft), rel=1e-6, abs=1e-9)
    assert [report.ttft_p50_ms, report.ttft_p95_ms, report.ttft_p99_ms] == pytest.approx(
        np.percentile(ttft, (50, 95, 99)), rel=1e-6, abs=1e-9
    )
    if steps:
        assert report.prefill_step_share == pytest.approx(np.mean([p > 0 for _, _, p in steps]))
    span = max(r.finish for r in requests) - requests[0].arrival
    if span == 0:
        assert np.isnan(report.throughput_tokens_per_second)
        return
    assert report.throughput_tokens_per_second == pytest.approx(sum(r.output for r in requests) / span, rel=1e-6)
    assert report.requests_per_second == pytest.approx(len(requests) / span, rel=1e-6)
    chunks = np.array([chunk for r in requests for chunk in r.chunks])
    if not len(chunks):
        assert np.isnan(report.tpot_mean_ms)
        return
    tpot = [1e3 * (r.finish - r.first) / (r.output - 1) for r in requests if r.output > 1]
    assert report.tpot_mean_ms == pytest.approx(np.mean(tpot), rel=1e-6)
    assert [report.tpot_p50_ms, report.tpot_p95_ms, report.tpot_p99_ms] == pytest.approx(
        np.percentile(tpot, (50, 95, 99)), rel=1e-6
    )
    gaps, tokens = 1e3 * chunks[:, 0], chunks[:, 1]
    assert report.chunk_gap_mean_ms == pytest.approx(gaps.mean(), rel=1e-6)
    assert [report.chunk_gap_p50_ms, report.chunk_gap_p99_ms] == pytest.approx(np.percentile(gaps, (50, 99)), rel=1e-6)
    assert report.prefill_gap_share == pytest.approx((chunks[:, 2] > 0).mean())
    assert report.token_gap_p99_ms == pytest.approx(np.percentile(gaps / tokens, 99), rel=1e-6)
    assert report.target_forwards_per_token == pytest.approx(len(chunks) / tokens.sum())
    assert report.mean_batch == pytest.approx(np.mean([b for _, b, _ in steps]))


def test_arrivals_inside_long_stretches_are_admitted_at_the_next_step():
    work = Workload(LogNormal(50, 0.5), LogNormal(800, 0.3), requests=30, arrival_rate=0.7, steady=False)
    config = EngineConfig(max_batch=4)
    got = trace(Roofline(), work, 3, (0.6, 0.3, 0.2), None, 1, config)
    prompts, outputs = work.draw(30, 1)
    sampler = Acceptance((0.6, 0.3, 0.2)).sampler(3, 1)
    requests, _ = slow_engine(
        Roofline(), 3, config, prompts, outputs, sampler.steps, work.poisson_arrivals(30, 1), closed=False
    )
    assert list(got.finish) == pytest.approx([r.finish for r in requests], rel=1e-7)
