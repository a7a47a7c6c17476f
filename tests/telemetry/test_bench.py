"""Benchmark blocks and documents: per cent against fractions, cut ends, baselines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labsim.telemetry import Bench, TelemetryError, read, read_bench
from scripts import engine_output as out
from tests.telemetry.helpers import assert_truth, has_warning, read_text, refused

K = 3
STEPS = out.draw_steps(1, (0.66, 0.4, 0.24), 5_000)
TRUTH = out.truth(STEPS, K)


def test_the_block() -> None:
    record = read_text(out.bench_block(STEPS, K))
    assert_truth(record, TRUTH, "drafts", "drafted", "accepted", "alpha", "acceptance_length")
    # Two decimals of a per cent.
    assert record.survival == pytest.approx(TRUTH["survival"], abs=5.1e-5)
    assert (record.engine, record.format, record.k) == ("vllm", "vllm-bench-text", K)
    bench = record.bench
    assert (bench.concurrency, bench.tpot_mean_ms, bench.tpot_p99_ms) == (16, 5.0, 8.0)
    assert (bench.itl_p99_ms, bench.ttft_mean_ms, bench.ttft_p99_ms) == (14.58, 95.85, 326.32)
    assert bench.itl_mean_ms / bench.tpot_mean_ms == pytest.approx(record.acceptance_length, rel=0.002)
    assert record.warnings == ()


@pytest.mark.parametrize("prefix", ["> ", "    ", "100%|##########| 200/200 [00:48<00:00,  4.1it/s]\r"])
def test_quoted_indented_and_behind_a_progress_bar(prefix: str) -> None:
    text = "".join(prefix + line + "\r\n" for line in out.bench_block(STEPS, K).splitlines())
    record = read_text("Starting main benchmark run...\n" + text)
    assert_truth(record, TRUTH, "drafts", "accepted")
    assert record.bench.concurrency == 16


def test_a_cut_block_keeps_what_it_printed() -> None:
    block = out.bench_block(STEPS, K)
    record = read_text(block[: block.index("Drafts:")])
    assert record.alpha == pytest.approx(TRUTH["alpha"], abs=5.1e-5)
    assert record.acceptance_length == pytest.approx(TRUTH["acceptance_length"], abs=0.0051)
    assert record.drafts is record.k is None
    assert has_warning(record, "truncated")


def test_a_block_without_its_head() -> None:
    block = out.bench_block(STEPS, K)
    record = read_text(block[block.index("Mean TTFT") :])
    assert_truth(record, TRUTH, "drafts", "drafted", "accepted", "alpha")
    assert (record.bench.concurrency, record.bench.tpot_p99_ms) == (None, 8.0)
    tail = read_text(block[block.index("Acceptance rate") :])
    assert_truth(tail, TRUTH, "drafts", "drafted", "accepted", "alpha")
    twice = read_text(
        "## first\n" + block[block.index("Mean TTFT") : -52] + "## second\n" + block[block.index("Mean TTFT") :]
    )
    assert twice.drafts == 2 * TRUTH["drafts"]
    assert twice.bench is None


def test_the_document_mixes_per_cent_and_fractions() -> None:
    document = out.bench_json(STEPS, K)
    assert document["spec_decode_acceptance_rate"] > 1 > document["spec_decode_per_position_acceptance_rates"][0]
    for text in (json.dumps(document), json.dumps(document, indent=4), json.dumps([document])):
        record = read_text(text)
        assert_truth(record, TRUTH)
        assert record.bench.concurrency == 16
        assert record.warnings == ()


def test_rates_without_counts_are_checked_before_they_are_believed() -> None:
    document = out.bench_json(STEPS, K)
    for name in ("num_drafts", "draft_tokens", "accepted_tokens"):
        del document[f"spec_decode_{name}"]
    assert read_text(json.dumps(document)).alpha == pytest.approx(TRUTH["alpha"])
    fraction = document | {"spec_decode_acceptance_rate": TRUTH["alpha"]}
    record = read_text(json.dumps(fraction))
    assert record.alpha == pytest.approx(TRUTH["alpha"])
    assert has_warning(record, "per cent and fraction are mixed")
    nonsense = document | {"spec_decode_acceptance_rate": 91.0}
    assert has_warning(read_text(json.dumps(nonsense)), "identity broken")


def test_positions_in_per_cent_are_recognised() -> None:
    document = out.bench_json(STEPS, K)
    document["spec_decode_per_position_acceptance_rates"] = [100 * s for s in TRUTH["survival"]]
    record = read_text(json.dumps(document))
    assert record.survival == pytest.approx(TRUTH["survival"])
    assert has_warning(record, "mixed")


def test_conditional_positions_are_not_survival() -> None:
    document = out.bench_json(STEPS, K)
    document["spec_decode_per_position_acceptance_rates"] = [0.66, 0.61, 0.6]
    assert has_warning(read_text(json.dumps(document)), "identity broken")
    document["spec_decode_per_position_acceptance_rates"] = [0.66, 0.61, 0.7]
    record = read_text(json.dumps(document))
    assert record.survival is None
    assert has_warning(record, "no survival vector")


def test_several_runs_in_a_jsonl_have_no_single_latency() -> None:
    other = out.draw_steps(2, (0.66, 0.4, 0.24), 4_000)
    record = read_text(out.json_lines([out.bench_json(STEPS, K), out.bench_json(other, K, 64)]))
    assert_truth(record, out.truth(STEPS + other, K))
    assert record.bench is None and "2 benchmark runs" in record.unknown["bench"]
    assert len(record.windows) == 2
    assert not has_warning(record, "drift")


def test_sglang_prints_a_length_only() -> None:
    record = read_text(out.bench_block(STEPS, K, engine="sglang"))
    assert (record.engine, record.format) == ("sglang", "sglang-bench-text")
    assert record.acceptance_length == pytest.approx(TRUTH["acceptance_length"], abs=0.0051)
    assert record.alpha is record.k is record.survival is None
    assert record.bench.concurrency == 16
    document = {
        "backend": "sglang-oai",
        "max_concurrency": 8,
        "accept_length": 2.31,
        "mean_tpot_ms": 5.0,
        "mean_itl_ms": 5.1,
    }
    record = read_text(json.dumps(document))
    assert (record.engine, record.acceptance_length, record.bench.concurrency) == ("sglang", 2.31, 8)
    assert has_warning(record, "sglang#12064")


def test_itl_that_breaks_the_identity_is_said() -> None:
    document = out.bench_json(STEPS, K) | {"mean_itl_ms": 30.0}
    assert has_warning(read_text(json.dumps(document)), "mean ITL / mean TPOT is 6.000")


def test_a_block_that_contradicts_itself_is_said() -> None:
    block = out.bench_block(STEPS, K).replace(f"{100 * TRUTH['alpha']:.2f}", "71.00")
    record = read_text(block)
    assert record.alpha == pytest.approx(TRUTH["alpha"])
    assert has_warning(record, "identity broken")


def test_a_baseline_has_latencies_and_no_alpha(tmp_path: Path) -> None:
    assert "without a speculation section" in refused(out.bench_block(None, K))
    assert "without a speculation section" in refused(json.dumps(out.bench_json(None, K)))
    path = tmp_path / "base.txt"
    path.write_text(out.bench_block(None, K, concurrency=32))
    expected = Bench(32, 5.0, 8.0, 5.0, 14.58, 95.85, 326.32, 1492.61)
    assert read_bench(path) == expected
    path.write_text(json.dumps(out.bench_json(STEPS, K)))
    assert read_bench(path).tpot_p99_ms == 8.0
    path.write_text("nothing\n")
    with pytest.raises(TelemetryError, match="no client benchmark"):
        read_bench(path)
    path.write_text(out.bench_block(None, K) * 2)
    with pytest.raises(TelemetryError, match="holds 2"):
        read_bench(path)


def test_a_client_that_hides_speculation_is_hinted_at() -> None:
    block = out.bench_block(None, K).replace("Mean ITL (ms):                           5.00", "Mean ITL (ms): 12.00")
    assert "hints at an acceptance length" in refused(block)


def test_a_log_and_a_benchmark_count_the_traffic_once(tmp_path: Path) -> None:
    log = "\n".join(out.vllm_v1_line(w, K, at=10.0 * i) for i, w in enumerate(out.windows(STEPS, 500)))
    (tmp_path / "server.log").write_text(log)
    (tmp_path / "bench.txt").write_text(out.bench_block(STEPS[200:], K))
    record = read([tmp_path / "server.log", tmp_path / "bench.txt"])
    assert_truth(record, TRUTH)
    assert record.bench.concurrency == 16
    assert has_warning(record, "lends its latencies only")
