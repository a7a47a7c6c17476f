"""Summaries at the end of a run, and lengths whose meaning is unknown."""

from __future__ import annotations

import pytest

from scripts import engine_output as out
from tests.telemetry.helpers import assert_truth, has_warning, read_text, refused

STEPS = out.draw_steps(1, (0.74, 0.54, 0.41, 0.31, 0.23), 4_000)


def test_the_offline_script() -> None:
    record = read_text(out.offline_summary(STEPS, 5))
    truth = out.truth(STEPS, 5)
    assert_truth(record, truth, "drafts", "drafted", "accepted", "alpha", "acceptance_length")
    assert record.survival == pytest.approx(truth["survival"], abs=0.0051)
    assert (record.engine, record.format, record.k) == ("vllm", "vllm-offline", 5)
    assert record.warnings == ()


def test_its_first_version_prints_no_counts() -> None:
    text = "\n".join(
        line.replace(": 0", ":0") for line in out.offline_summary(STEPS, 5).splitlines() if not line.startswith("num_")
    )
    record = read_text(text)
    assert record.acceptance_length == pytest.approx(out.truth(STEPS, 5)["acceptance_length"], abs=0.0051)
    assert record.k == 5
    assert record.drafts is None


def test_a_length_that_contradicts_the_counts_is_said() -> None:
    length = out.truth(STEPS, 5)["acceptance_length"]
    text = out.offline_summary(STEPS, 5).replace(
        f"mean acceptance length: {length:.2f}", "mean acceptance length: 4.90"
    )
    assert has_warning(read_text(text), "identity broken")


def test_trtllm_bench_means_over_requests() -> None:
    # Two requests, K = 3: 100 steps with 60 accepted, 50 steps with 90 accepted.
    rate = (60 / 300 + 90 / 150) / 2
    text = (
        "-- Number of Draft Tokens Details --\n[DT] MINIMUM: 150.00\n[DT] AVERAGE: 225.00\n[ADT] AVERAGE: 75.00\n"
        f"[DAR] AVERAGE: {rate:.2f}\n[AL] MINIMUM: 1.60\n[AL] AVERAGE: {1 + 3 * rate:.2f}\n[AL] P99    : 2.80\n"
    )
    record = read_text(text)
    assert (record.engine, record.k) == ("tensorrt-llm", 3)
    assert record.alpha == pytest.approx(150 / 450)
    assert record.acceptance_length == pytest.approx(2.2)
    assert record.drafts is None and "means" in record.unknown["drafts"]
    assert has_warning(record, "means over requests")


@pytest.mark.parametrize(
    "text", ["Average acceptance length: 3.20\n", "eagle avg accept length:  2.9\n", "accept_length = 2.9\n"]
)
def test_a_lone_length_is_refused(text: str) -> None:
    assert "whether that includes the target's token is unknown" in refused(text)
