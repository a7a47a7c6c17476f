"""Serving simulation against closed forms, queueing laws and invariants."""

from dataclasses import asdict
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labsim.sim.accept_process import Acceptance, Replay
from labsim.sim.acceptance import acceptance_length, survival_from_conditional, survival_from_constant
from labsim.sim.cost import cost_model
from labsim.sim.report import summarise
from labsim.sim.serving import EngineConfig, compare, compare_traces, simulate, trace
from labsim.sim.workload import Empirical, LogNormal, Workload

SURVIVAL = (0.675, 0.437, 0.279)


class Fixed:
    """One second per step and 1 ms per prompt token, whatever else happens."""

    def step_seconds(self, batch, k, kv_tokens, prefill_tokens=0):
        return 1.0 + 0.001 * prefill_tokens if batch else 0.001 * prefill_tokens


class H100:
    """Llama-3.1-8B with EAGLE on H100, coefficients of arXiv 2601.11580 written out."""

    def step_seconds(self, batch, k, kv_tokens, prefill_tokens=0):
        rows = batch * (k + 1) + prefill_tokens
        target = 5.88590713e-03 + 2.10103129e-05 * rows + 3.92645679e-08 * kv_tokens
        draft = 2.13526175e-03 + 8.41429603e-07 * rows + 2.37768493e-09 * kv_tokens
        return 1.20683946e-03 + target + (draft if k else 0.0)


# Closed forms


def test_one_user_without_speculation_pays_exactly_the_steps():
    # KV before decode step j (0-based) holds prompt + 1 + j tokens.
    got = trace(H100(), Workload(300, 200, requests=20), 0, concurrency=1)
    steps = [H100().step_seconds(1, 0, 301 + j) for j in range(199)]
    assert [f - t for f, t in zip(got.finish, got.first_token, strict=True)] == pytest.approx([sum(steps)] * 20)
    assert [t - a for t, a in zip(got.first_token, got.arrival, strict=True)] == pytest.approx(
        [H100().step_seconds(0, 0, 0, 300)] * 20
    )


@pytest.mark.parametrize("k", [1, 3, 5])
def test_one_user_with_speculation_pays_step_over_acceptance_length(k):
    survival, output = survival_from_constant(0.65, k), 2_000
    report = simulate(H100(), Workload(300, output, requests=60), k, survival, concurrency=1)
    step = H100().step_seconds(1, k, 300 + output / 2)
    assert report.tpot_mean_ms == pytest.approx(1e3 * step / acceptance_length(survival), rel=0.01)


@pytest.mark.parametrize("concurrency", [1, 8, 32, 128])
def test_speedup_without_prompts_is_acceptance_length_over_step_ratio(concurrency):
    work = Workload(200, 400, requests=max(100, 5 * concurrency))
    got = compare(H100(), work, 3, SURVIVAL, concurrency, config=EngineConfig(prefill=False))
    kv = concurrency * 400
    ratio = H100().step_seconds(concurrency, 3, kv) / H100().step_seconds(concurrency, 0, kv)
    assert got.speedup == pytest.approx(acceptance_length(SURVIVAL) / ratio, rel=0.02)


@pytest.mark.parametrize("request_std", [0.0, 0.3])
def test_acceptance_length_lies_within_its_monte_carlo_interval(request_std):
    lengths = [
        simulate(
            H100(), Workload(100, 300, requests=300), 3, Acceptance(SURVIVAL, request_std), 8, seed
        ).acceptance_length
        for seed in range(12)
    ]
    error = np.std(lengths, ddof=1) / sqrt(len(lengths))
    assert abs(np.mean(lengths) - acceptance_length(SURVIVAL)) < 3.5 * error
    assert error < 0.02


def test_engine_without_batching_is_the_m_d_1_queue():
    """Answers of one token on an engine of batch 1: Poisson arrivals, constant service S, one server.

    Pollaczek-Khinchine: mean wait = rho S / (2 (1 - rho)).
    """
    service, rho = 0.2, 0.7
    work = Workload(prompt=200, output=1, requests=40_000, arrival_rate=rho / service)
    report = simulate(Fixed(), work, 0, config=EngineConfig(max_batch=1))
    wait = rho * service / (2 * (1 - rho))
    assert report.ttft_mean_ms == pytest.approx(1e3 * (service + wait), rel=0.05)


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("concurrency", [4, 32])
def test_littles_law_holds_in_the_closed_loop(k, concurrency):
    work = Workload(requests=40 * concurrency)
    report = simulate(H100(), work, k, SURVIVAL, concurrency)
    assert report.requests_per_second * report.latency_mean_ms / 1e3 == pytest.approx(concurrency, rel=0.04)


def test_littles_law_holds_in_the_open_loop():
    # Requests in the system, counted by walking over arrivals and ends, against rate times latency.
    got = trace(H100(), Workload(requests=400, arrival_rate=20.0, steady=False), 3, SURVIVAL)
    events = sorted([(t, 1) for t in got.arrival] + [(t, -1) for t in got.finish])
    area, inside, before = 0.0, 0, events[0][0]
    for time, change in events:
        area, inside, before = area + inside * (time - before), inside + change, time
    span = events[-1][0] - events[0][0]
    report = summarise(got)
    assert area / span == pytest.approx(report.requests_per_second * report.latency_mean_ms / 1e3)


def test_throughput_is_batch_times_acceptance_length_over_step_time():
    work = Workload(100, 500, requests=640)
    report = simulate(H100(), work, 3, SURVIVAL, 64, config=EngineConfig(prefill=False))
    expected = 64 * acceptance_length(SURVIVAL) / H100().step_seconds(64, 3, 64 * 350)
    assert report.throughput_tokens_per_second == pytest.approx(expected, rel=0.02)


# Identities


def test_acceptance_length_is_one_plus_accepted_over_drafts():
    report = simulate(H100(), Workload(), 3, Acceptance(SURVIVAL, 0.3, 0.2), 16)
    assert report.acceptance_length == pytest.approx(1 + report.accepted / report.drafts, abs=1e-12)


def test_one_target_forward_per_step_also_when_every_draft_is_rejected():
    work = Workload(50, 100, requests=10)
    nothing = simulate(H100(), work, 3, (0.0, 0.0, 0.0), 1)
    assert nothing.target_forwards_per_token == 1.0
    assert nothing.chunk_gap_p99_ms <= 1e3 * H100().step_seconds(1, 3, 150)
    everything = simulate(H100(), Workload(50, 101, requests=10), 3, (1.0, 1.0, 1.0), 1)
    assert everything.target_forwards_per_token == pytest.approx(1 / 4)


@pytest.mark.parametrize("concurrency", [1, 8, 32])
def test_mean_chunk_gap_over_mean_tpot_is_the_acceptance_length(concurrency):
    report = simulate(H100(), Workload(), 3, SURVIVAL, concurrency)
    assert report.chunk_gap_mean_ms / report.tpot_mean_ms == pytest.approx(report.acceptance_length, rel=0.03)
    plain = simulate(H100(), Workload(), 0, None, concurrency)
    assert plain.chunk_gap_mean_ms / plain.tpot_mean_ms == pytest.approx(1.0, rel=0.03)


def test_counters_weigh_tokens_and_not_requests():
    # Two kinds of request by turns: short ones accept all, long ones nothing.
    work = Workload(10, Empirical((9, 401), in_order=True), requests=40, steady=False)
    report = simulate(H100(), work, 3, Replay(((3,), (0,))), 1)
    # 8 tokens in 2 steps and 400 in 400; the mean of the two requests' lengths would be 2.5.
    assert report.acceptance_length == pytest.approx(408 / 402)


def test_a_last_step_emits_no_more_than_is_left():
    got = trace(H100(), Workload(10, 7, requests=4, steady=False), 3, Replay(((3,),)), 1)
    assert [list(one) for one in got.emitted] == [[4, 2]] * 4
    assert list(got.overrun) == [2] * 4
    report = summarise(got)
    assert report.acceptance_length == 4.0
    assert report.target_forwards_per_token == pytest.approx(2 / 6)


def test_token_gap_divides_by_the_tokens_of_the_chunk():
    report = simulate(Fixed(), Workload(1, 9, requests=8, steady=False), 3, Replay(((3,),)), 1)
    assert report.chunk_gap_p50_ms == pytest.approx(1e3)
    assert report.token_gap_p99_ms == pytest.approx(250)


def test_prompts_lengthen_the_steps_of_requests_that_decode():
    # Second user's prompt of 500 tokens: 0.5 s on top of a 1 s step, felt by the first user.
    work = Workload(500, 30, requests=2, steady=False)
    got = trace(Fixed(), work, 0, concurrency=2, config=EngineConfig(token_budget=500))
    assert list(got.step_seconds[:3]) == pytest.approx([0.5, 1.499, 1.001])
    assert list(got.prefill_tokens[:4]) == [500, 499, 1, 0]
    assert list(got.first_token) == pytest.approx([0.5, 3.0])


# Who wins, who loses


def test_speculation_below_break_even_loses_and_above_wins():
    cost, work, k, users = H100(), Workload(300, 200, requests=320), 3, 32
    plain, drafted = (cost.step_seconds(users, n, users * 400) for n in (0, k))
    breakeven = (drafted / plain - 1) / k
    lose, win = ([factor * breakeven * k / 3] * 3 for factor in (0.6, 1.4))
    assert compare(cost, work, k, lose, users).speedup < 0.97
    assert compare(cost, work, k, win, users).speedup > 1.03


def test_a_draft_that_is_always_rejected_costs_the_step_ratio():
    work = Workload(300, 200, requests=100)
    got = compare(H100(), work, 3, (0.0, 0.0, 0.0), 1)
    assert got.speedup == pytest.approx(H100().step_seconds(1, 0, 400) / H100().step_seconds(1, 3, 400), rel=0.005)
    assert got.requests_slower == 1.0


def test_chunk_gap_p99_jumps_when_the_prefill_share_crosses_one_percent():
    # The same stalls on either side, as a share of fewer steps.
    work = Workload(2_000, LogNormal(1_000, 0.5), requests=240)
    got = compare(H100(), work, 3, SURVIVAL, 8)
    before, after = got.baseline, got.speculative
    assert before.prefill_step_share < 0.01 < after.prefill_step_share
    assert before.chunk_gap_p99_ms < 10
    assert after.chunk_gap_p99_ms > 40
    assert after.tpot_mean_ms < before.tpot_mean_ms
    assert after.prefill_step_share / before.prefill_step_share == pytest.approx(after.acceptance_length, rel=0.15)


def test_spread_makes_the_slow_users_slower_while_the_mean_improves():
    work = Workload(200, LogNormal(400, 0.5), requests=768)
    config = EngineConfig(prefill=False)
    alike = compare(H100(), work, 3, (0.622, 0.381, 0.252), 128, config=config)
    differing = compare(H100(), work, 3, Acceptance((0.622, 0.381, 0.252), 0.35, 0.2), 128, config=config)
    assert alike.speedup > 1.15
    assert differing.speedup > 1.15
    assert alike.speculative.tpot_p99_ms < alike.baseline.tpot_p99_ms
    assert differing.speculative.tpot_p99_ms > 1.1 * differing.baseline.tpot_p99_ms
    assert alike.requests_slower < 0.02 < differing.requests_slower


# Invariants

RUNS = st.fixed_dictionaries(
    {
        "k": st.integers(0, 5),
        "users": st.integers(1, 12),
        "open_loop": st.booleans(),
        "alpha_c": st.floats(0, 1),
        "std": st.floats(0, 0.15),
        "memory": st.floats(0, 0.8),
        "prompt": st.floats(1, 300),
        "output": st.floats(1, 80),
        "sigma": st.floats(0, 1.2),
        "budget": st.integers(1, 600),
        "max_batch": st.integers(1, 12),
        "prefill": st.booleans(),
        "seed": st.integers(0, 10**6),
    }
)


def run(case):
    k, users = case["k"], case["users"]
    work = Workload(
        LogNormal(case["prompt"], case["sigma"]),
        LogNormal(case["output"], case["sigma"]),
        requests=60,
        arrival_rate=40.0 if case["open_loop"] else None,
    )
    config = EngineConfig(case["max_batch"], case["budget"], case["prefill"])
    survival = survival_from_constant(case["alpha_c"], max(k, 1))
    std = case["std"] if 0.2 < case["alpha_c"] < 0.8 else 0.0
    acceptance = Acceptance(survival, std, case["memory"])
    return trace(H100(), work, k, acceptance, None if case["open_loop"] else users, case["seed"], config), work, config


@given(RUNS)
@settings(max_examples=120, deadline=None)
def test_tokens_are_conserved_time_runs_forward_and_nobody_starves(case):
    got, work, config = run(case)
    prompts, outputs = work.draw(60, case["seed"])
    assert list(got.outputs) == outputs
    for r in range(60):
        assert got.arrival[r] <= got.first_token[r] <= got.finish[r]
        if case["k"]:
            assert sum(got.emitted[r]) == outputs[r] - 1
            assert all(1 <= n <= case["k"] + 1 for n in got.emitted[r])
    assert list(got.arrival) == sorted(got.arrival)
    # First tokens come in order of arrival: nobody overtakes in the queue.
    assert list(got.first_token) == sorted(got.first_token)
    assert all(seconds > 0 for seconds in got.step_seconds)
    assert list(got.step_end) == sorted(got.step_end)
    assert max(got.batch, default=0) <= config.max_batch
    assert sum(got.tokens) == sum(outputs) - 60
    assert sum(got.prefill_tokens) == (sum(prompts) if config.prefill else 0)
    assert max(got.prefill_tokens, default=0) <= config.token_budget


@given(RUNS)
@settings(max_examples=25, deadline=None)
def test_a_seed_fixes_everything(case):
    assert run(case)[0] == run(case)[0]


@given(st.integers(0, 10**6), st.integers(1, 16))
@settings(max_examples=20, deadline=None)
def test_no_drafts_equal_the_baseline(seed, users):
    work = Workload(100, LogNormal(60, 0.5), requests=80)
    baseline = compare(H100(), work, 2, (0.5, 0.2), users, seed).baseline
    assert simulate(H100(), work, 0, (0.9, 0.8), users, seed) == baseline


@given(
    st.lists(st.floats(0.05, 0.9), min_size=3, max_size=3),
    st.floats(0.02, 0.3),
    st.integers(1, 16),
    st.integers(0, 1_000),
)
@settings(max_examples=40, deadline=None)
def test_higher_survival_never_lowers_throughput(conditional, more, users, seed):
    low = survival_from_conditional(conditional)
    high = survival_from_conditional([c + (1 - c) * more for c in conditional])
    work = Workload(100, LogNormal(80, 0.5), requests=96, steady=False)
    config = EngineConfig(prefill=False)
    before, after = (simulate(H100(), work, 3, s, users, seed, config) for s in (low, high))
    # Users finish in another order, so the drain at the end can cost a little.
    assert after.throughput_tokens_per_second > 0.97 * before.throughput_tokens_per_second


def test_seeds_differ():
    assert simulate(H100(), Workload(), 3, SURVIVAL, 4, 1) != simulate(H100(), Workload(), 3, SURVIVAL, 4, 2)


def test_an_open_loop_that_keeps_up_has_the_throughput_of_its_arrivals():
    work = Workload(100, 50, requests=2_000, arrival_rate=8.0)
    got = compare(H100(), work, 3, SURVIVAL)
    assert got.concurrency is None
    assert got.throughput_ratio == pytest.approx(1.0, abs=0.01)
    assert got.speculative.requests_per_second == pytest.approx(8.0, rel=0.08)


def test_more_users_than_the_batch_holds_wait_in_the_queue():
    work = Workload(100, 100, requests=200)
    report = simulate(H100(), work, 0, None, 20, config=EngineConfig(max_batch=5))
    assert report.mean_batch <= 5
    assert report.ttft_mean_ms > 0.6 * report.latency_mean_ms


def test_coarse_runs_agree_with_full_ones():
    for users in (1, 32):
        full = compare(H100(), Workload(), 3, SURVIVAL, users).speedup
        assert compare(H100(), Workload().coarse(users), 3, SURVIVAL, users).speedup == pytest.approx(full, rel=0.05)


def test_row_has_the_fields_of_the_command_line():
    row = compare(H100(), Workload(), 3, SURVIVAL, 8).to_dict()
    fields = ["tpot_mean_ms", "tpot_p95_ms", "tpot_p99_ms", "chunk_gap_p99_ms", "token_gap_p99_ms"]
    fields.append("target_forwards_per_token")
    assert row["concurrency"] == 8
    assert row["speedup"] == pytest.approx(row["baseline"]["tpot_mean_ms"] / row["tpot_mean_ms"])
    assert all(isinstance(row[name], float) and isinstance(row["baseline"][name], float) for name in fields)
    assert row["baseline"]["target_forwards_per_token"] == 1.0


def test_one_plain_run_serves_many_draft_lengths():
    work = Workload(requests=100)
    plain = trace(H100(), work, 0, None, 4)
    shared = compare_traces(plain, trace(H100(), work, 3, SURVIVAL, 4))
    assert asdict(shared) == asdict(compare(H100(), work, 3, SURVIVAL, 4))
    with pytest.raises(ValueError, match="different requests"):
        compare_traces(plain, trace(H100(), work, 3, SURVIVAL, 4, seed=1))


def test_published_cost_model_plugs_in():
    got = compare(cost_model("h100", "llama-3.1-8b", "eagle3"), Workload(), 3, SURVIVAL, 8)
    assert got.speedup == pytest.approx(compare(H100(), Workload(), 3, SURVIVAL, 8).speedup, rel=1e-3)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: simulate(H100(), Workload(), -1, SURVIVAL, 1), "k is -1"),
        (lambda: compare(H100(), Workload(), 0, SURVIVAL, 1), "k is 0"),
        (lambda: simulate(H100(), Workload(), 3, SURVIVAL, 0), "concurrency is 0"),
        (lambda: simulate(H100(), Workload(), 3, SURVIVAL), "concurrency is None"),
        (lambda: simulate(H100(), Workload(arrival_rate=1.0), 3, SURVIVAL, 8), "concurrency is 8"),
        (lambda: simulate(H100(), Workload(), 3, None, 1), "acceptance is None"),
        (lambda: simulate(H100(), Workload(), 3, (0.2, 0.4, 0.1), 1), r"survival\[1\] is 0.4"),
        (lambda: simulate(H100(), Workload(), 3, (), 1), "survival is empty"),
        (lambda: simulate(H100(), Workload(), 2, Replay(((3,),)), 1), r"accepted\[0\]\[0\] is 3"),
        (lambda: simulate(H100(), Workload(requests=20), 3, SURVIVAL, 16), "requests is 20"),
        (lambda: EngineConfig(max_batch=0), "max_batch is 0"),
        (lambda: EngineConfig(token_budget=0), "token_budget is 0"),
        (lambda: compare(H100(), Workload(10, 1), 3, SURVIVAL, 4), "output is 1 token"),
    ],
)
def test_wrong_values_are_named(build, name):
    with pytest.raises(ValueError, match=name):
        build()


def test_an_overloaded_open_loop_shows_its_capacity():
    """Above capacity throughput levels off; it does not fall because the window ends with the last arrival."""
    cost = cost_model("h100", "llama-3.1-8b", "eagle3")
    rates = (60.0, 300.0, 3000.0)
    runs = [compare(cost, Workload(arrival_rate=rate), 3, (0.74, 0.48, 0.3)) for rate in rates]
    plain = [run.baseline.throughput_tokens_per_second for run in runs]
    assert min(plain) > 0.6 * max(plain)
