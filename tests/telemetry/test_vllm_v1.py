"""vLLM V1 lines: every wording, prefix and damage, against counted steps."""

from __future__ import annotations

import pytest

from scripts import engine_output as out
from tests.telemetry.helpers import assert_truth, has_warning, read_text, refused

SURVIVAL = (0.72, 0.5, 0.33, 0.21)
STEPS = out.draw_steps(11, SURVIVAL, 3_000)
K = 4


def log(steps: out.Steps = STEPS, wording: str = "0.10.2", size: int = 300, prefix: str = "", **options: float) -> str:
    lines = [
        prefix + out.vllm_v1_line(window, K, wording, at=10.0 * i, **options)
        for i, window in enumerate(out.windows(steps, size))
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("wording", ["0.9", "0.10.2"])
@pytest.mark.parametrize("prefix", ["", "(APIServer pid=77) ", "\x1b[1;36m(EngineCore_0 pid=9)\x1b[0m ", "    ", "> "])
def test_counts_drafts_and_survival_are_exact(wording: str, prefix: str) -> None:
    record = read_text(log(wording=wording, prefix=prefix))
    assert_truth(record, out.truth(STEPS, K))
    assert (record.engine, record.format, record.k) == ("vllm", "vllm-v1-log", K)
    assert record.span_seconds == 90
    assert record.warnings == ()
    assert set(record.unknown) == {"bench"}
    low, high = record.alpha_interval
    assert low < record.alpha < high
    assert record.windows[3].drafts == 300
    assert record.windows[3].survival == pytest.approx(out.truth(STEPS[900:1200], K)["survival"], abs=1e-12)


def test_the_first_wording_determines_counts_and_alpha_only() -> None:
    record = read_text(log(wording="0.8"))
    assert_truth(record, out.truth(STEPS, K), "drafted", "accepted", "alpha")
    assert record.k is record.drafts is record.acceptance_length is record.survival is record.alpha_per_token is None
    assert {"k", "drafts", "acceptance_length", "survival", "alpha_per_token"} <= set(record.unknown)
    # Ten windows: the interval comes from their scatter.
    low, high = record.alpha_interval
    assert low < record.alpha < high


def test_a_speculative_config_in_the_log_gives_k() -> None:
    line = "INFO 03-07 09:29:50 [core.py:58] Initializing a V1 LLM engine, speculative_config=SpeculativeConfig("
    record = read_text(f"{line}method='eagle', model='org/draft', num_spec_tokens=4)\n" + log(wording="0.8"))
    assert record.k == 4
    assert record.drafts is None


def test_all_wordings_in_one_log_add_up() -> None:
    text = log(STEPS[:900], "0.9") + log(STEPS[900:], "0.10.2")
    assert_truth(read_text(text), out.truth(STEPS, K))


def test_variable_drafts_are_recovered_from_all_printed_figures() -> None:
    steps = out.draw_steps(5, (0.6, 0.3, 0.12, 0.05), 400, variable=True)
    truth = out.truth(steps, K)
    record = read_text(log(steps, size=80))
    assert record.drafted < record.drafts * K
    assert_truth(record, truth)
    assert has_warning(record, "shorter than K")
    # alpha is accepted/drafted of the counts; the length is not 1 + K * alpha.
    assert abs(record.acceptance_length - 1 - K * record.alpha) > 0.3


def test_large_windows_are_recovered_within_the_stated_margin() -> None:
    steps = out.draw_steps(6, (0.6, 0.3, 0.12, 0.05), 60_000, variable=True)
    record = read_text(log(steps, size=60_000))
    assert record.drafts == pytest.approx(60_000, rel=0.006)
    assert has_warning(record, "recovered")


def test_rates_are_survival_not_conditional() -> None:
    record = read_text(log())
    assert sum(record.survival) == pytest.approx(record.acceptance_length - 1, abs=1e-12)


def test_engines_are_told_apart_by_process_and_preceding_line() -> None:
    good, bad = out.draw_steps(1, (0.8, 0.64, 0.5, 0.4), 2_000), out.draw_steps(2, (0.5, 0.25, 0.1, 0.05), 2_000)
    lines = []
    for i in range(10):
        for engine, steps in (("0", good), ("1", bad)):
            lines.append("(APIServer pid=5) " + out.vllm_engine_line(int(engine), 10.0 * i))
            lines.append("(APIServer pid=5) " + out.vllm_v1_line(steps[200 * i : 200 * i + 200], K, at=10.0 * i))
    record = read_text("\n".join(lines))
    assert_truth(record, out.truth(good + bad, K))
    assert {window.engine for window in record.windows} == {"5/000", "5/001"}
    first = [window for window in record.windows if window.engine == "5/001"]
    assert sum(window.accepted for window in first) == out.truth(bad, K)["accepted"]
    assert has_warning(record, "mixed engines")
    assert not has_warning(record, "drift")


def test_two_processes_with_the_same_engine_number_stay_apart() -> None:
    lines = []
    for i, pid in enumerate((100, 200)):
        lines.append(f"(APIServer pid={pid}) " + out.vllm_engine_line(0, 10.0 * i))
        lines.append(f"(APIServer pid={pid}) " + out.vllm_v1_line(STEPS[:500], K, at=10.0 * i))
    assert {w.engine for w in read_text("\n".join(lines)).windows} == {"100/000", "200/000"}


def test_interleaved_processes_keep_their_engine_numbers() -> None:
    """The metrics line of one process follows the engine line of another."""
    lines = []
    for i in range(3):
        lines += [f"(APIServer pid={p}) " + out.vllm_engine_line(e, 10.0 * i) for p, e in ((100, 0), (200, 3))]
        lines += [
            f"(APIServer pid={p}) " + out.vllm_v1_line(STEPS[:n], K, at=10.0 * i) for p, n in ((100, 50), (200, 90))
        ]
    assert {(w.engine, w.drafts) for w in read_text("\n".join(lines)).windows} == {("100/000", 50), ("200/003", 90)}


@pytest.mark.parametrize("width", [78, 80, 96, 100, 120, 132, 200])
@pytest.mark.parametrize("wording", ["0.9", "0.10.2"])
def test_wrapped_lines_that_lose_the_space_at_the_wrap(width: int, wording: str) -> None:
    wrapped = []
    for line in log(wording=wording, prefix="(APIServer pid=1) ").splitlines():
        rest = line
        while rest:
            wrapped.append(rest[:width].rstrip())
            rest = rest[width:].lstrip()
        wrapped.append('(APIServer pid=1) INFO:     127.0.0.1:5000 - "POST /v1/completions HTTP/1.1" 200 OK')
    assert_truth(read_text("\n".join(wrapped)), out.truth(STEPS, K), "drafted", "accepted", "alpha", "drafts")


@pytest.mark.parametrize("keep", range(60, 330, 7))
def test_a_line_cut_anywhere_never_counts_a_cut_number(keep: int) -> None:
    whole = log(STEPS[:1500])
    cut = ("(APIServer pid=1) " + out.vllm_v1_line(STEPS[1500:1800], K, at=200.0))[:keep]
    record = read_text(whole + cut)
    full, short = out.truth(STEPS[:1800], K), out.truth(STEPS[:1500], K)
    assert (record.accepted, record.drafted) in {
        (full["accepted"], full["drafted"]),
        (short["accepted"], short["drafted"]),
    }
    if record.accepted == short["accepted"] and "SpecDecoding metrics:" in cut:
        assert has_warning(record, "truncated")
    assert record.k == K
    assert record.drafts in (1500, 1800)


def test_elided_rates_leave_counts_usable() -> None:
    lines = log().splitlines()
    start = lines[4].index("Per-position")
    lines[4] = lines[4][:start] + "Per-position acceptance rate: 0.72, ..., Avg Draft acceptance rate: 44.0%"
    record = read_text("\n".join(lines))
    assert_truth(record, out.truth(STEPS, K), "drafts", "drafted", "accepted", "alpha")
    assert record.k == K


def test_nan_lines_alone_mean_no_speculation() -> None:
    nan = "INFO 03-07 09:30:00 [metrics.py:53] SpecDecoding metrics: Draft acceptance rate: nan%, Accepted: 0 tokens, "
    message = refused((nan + "Drafted: 0 tokens\n") * 5)
    assert "no speculation" in message
    # Between real windows they are idle time, and do not count.
    lines = log().splitlines()
    assert_truth(
        read_text("\n".join([nan + "Drafted: 0 tokens", *lines, nan + "Drafted: 0 tokens"])), out.truth(STEPS, K)
    )


def test_zero_acceptance_with_counts_is_real() -> None:
    steps = [(4, 0)] * 500
    record = read_text(log(steps, size=100, elapsed=900.0))
    assert record.alpha == 0.0
    assert record.acceptance_length == 1.0
    assert record.survival == (0.0,) * 4
    assert record.alpha_interval[0] == 0.0 < record.alpha_interval[1]
    assert has_warning(record, "diluted")


def test_idle_time_dilutes_throughput_but_not_alpha() -> None:
    record = read_text(log(elapsed=3600.0))
    assert_truth(record, out.truth(STEPS, K))
    assert has_warning(record, "diluted throughput: 10 window")


def test_a_contradiction_in_a_line_is_reported() -> None:
    text = log(STEPS[:600])
    seen = out.truth(STEPS[:300], K)
    wrong = text.replace(f"Accepted: {seen['accepted']} tokens", f"Accepted: {seen['accepted'] + 90} tokens", 1)
    assert wrong != text
    assert has_warning(read_text(wrong), "identity broken")


def test_conditional_rates_in_place_of_survival_are_reported() -> None:
    line = (
        "SpecDecoding metrics: Mean acceptance length: 2.41, Accepted throughput: 14.10 tokens/s, Drafted throughput: "
        "30.00 tokens/s, Accepted: 141 tokens, Drafted: 300 tokens, Per-position acceptance rate: 0.680, 0.647, 0.636, "
        "Avg Draft acceptance rate: 47.0%"
    )
    record = read_text(line)
    assert has_warning(record, "identity broken")
    assert record.alpha == pytest.approx(0.47)


def test_dates_without_a_year_run_over_new_year() -> None:
    first, second = log(STEPS[:300]), log(STEPS[300:600])
    record = read_text(
        first.replace("03-07 09:30:00", "12-31 23:59:50") + second.replace("03-07 09:30:00", "01-01 00:00:20")
    )
    assert record.span_seconds == 30


def test_small_samples_warn() -> None:
    assert has_warning(read_text(log(STEPS[:60])), "small sample: 60 drafts")
    assert has_warning(read_text(log(STEPS[:980])), "1 of 4 windows have fewer than 100")


def test_drift_is_told_from_noise() -> None:
    before, after = out.draw_steps(1, (0.74, 0.5, 0.35, 0.2), 4_000), out.draw_steps(2, (0.6, 0.3, 0.2, 0.1), 4_000)
    drifting = read_text(log(before + after, size=400))
    assert has_warning(drifting, "drift: alpha shifts from 0.4")
    for seed in range(12):
        steady = read_text(log(out.draw_steps(100 + seed, (0.7, 0.45, 0.3, 0.2), 8_000), size=400))
        assert not has_warning(steady, "drift"), seed
