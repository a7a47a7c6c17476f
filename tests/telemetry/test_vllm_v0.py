"""vLLM V0: the printed rate is another quantity, the counters run on."""

from __future__ import annotations

import pytest

from scripts import engine_output as out
from tests.telemetry.helpers import assert_truth, has_warning, read_text, refused

K = 5
STEPS = out.draw_steps(3, (0.7, 0.5, 0.34, 0.24, 0.17), 2_000)


def test_alpha_comes_from_the_emitted_tokens() -> None:
    record = read_text(out.vllm_v0_line(STEPS, K, rate=0.71))
    truth = out.truth(STEPS, K)
    assert_truth(record, truth, "drafts", "drafted", "accepted", "alpha", "acceptance_length")
    assert record.k == K
    assert abs(record.alpha - 0.71) > 0.25
    assert has_warning(record, "vllm#9565")
    assert record.survival is None


def test_counters_are_cumulative_the_last_line_is_the_total() -> None:
    lines = [out.vllm_v0_line(STEPS[:n], K, 0.7, at=n / 10) for n in (400, 900, 1_500, 2_000)]
    record = read_text("\n".join(lines))
    assert_truth(record, out.truth(STEPS, K), "drafts", "accepted", "alpha", "acceptance_length")
    assert [w.drafts for w in record.windows] == [400, 500, 600, 500]
    assert record.windows[1].accepted == out.truth(STEPS[400:900], K)["accepted"]


def test_a_fall_is_a_restart() -> None:
    lines = [out.vllm_v0_line(STEPS[:n], K, 0.7, at=n / 10) for n in (400, 900, 1_500)]
    lines += [out.vllm_v0_line(STEPS[1_500:n], K, 0.7, at=n / 10) for n in (1_700, 1_900, 2_000)]
    record = read_text("\n".join(lines))
    assert_truth(record, out.truth(STEPS, K), "drafts", "accepted", "alpha")
    assert has_warning(record, "counter reset")


def test_counters_that_go_up_and_down_are_per_window() -> None:
    sizes = [300, 120, 420, 90, 500, 80, 490]
    lines, done = [], 0
    for size in sizes:
        lines.append(out.vllm_v0_line(STEPS[done : done + size], K, 0.7, at=done / 10))
        done += size
    assert_truth(read_text("\n".join(lines)), out.truth(STEPS[:done], K), "drafts", "accepted")


def test_a_repeated_word_no_prefix_and_a_wrap() -> None:
    line = out.vllm_v0_line(STEPS, K, 0.7)
    bare = line[line.index("Speculative") :].replace("draft tokens:", "draft tokens tokens:")
    assert_truth(read_text(bare), out.truth(STEPS, K), "accepted")
    wrapped = "\n".join(bare[i : i + 80].strip() for i in range(0, len(bare), 80))
    assert_truth(read_text(wrapped), out.truth(STEPS, K), "accepted")


def test_efficiency_alone_gives_the_length() -> None:
    line = (
        "Speculative metrics: Draft acceptance rate: 0.750, System efficiency: 0.600, Number of speculative tokens: 4"
    )
    record = read_text(line)
    assert record.acceptance_length == pytest.approx(0.6 * 5)
    assert record.alpha == pytest.approx((3.0 - 1) / 4)
    assert record.drafts is record.accepted is None


def test_efficiency_that_contradicts_the_counts_is_reported() -> None:
    line = out.vllm_v0_line(STEPS, K, 0.7)
    seen = out.truth(STEPS, K)["acceptance_length"] / (K + 1)
    wrong = line.replace(f"System efficiency: {seen:.3f}", "System efficiency: 0.900")
    assert wrong != line
    assert has_warning(read_text(wrong), "identity broken: system efficiency")


def test_zero_counters_mean_no_speculation() -> None:
    line = (
        "Speculative metrics: Draft acceptance rate: nan, System efficiency: nan, Number of speculative tokens: 4, "
        "Number of accepted tokens: 0, Number of draft tokens: 0, Number of emitted tokens: 0."
    )
    assert "no speculation" in refused(line)
