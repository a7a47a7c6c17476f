"""Per-request JSON of four engines, JSONL and streams of it."""

from __future__ import annotations

import json

import pytest

from scripts import engine_output as out
from tests.telemetry.helpers import assert_truth, has_warning, read_text, refused

K = 3
REQUESTS = [out.draw_steps(i, (0.7, 0.5, 0.3), 60 + 20 * i) for i in range(10)]
EVERYTHING = [step for steps in REQUESTS for step in steps]


def test_one_vllm_request() -> None:
    record = read_text(json.dumps(out.vllm_request(REQUESTS[3], K)))
    assert_truth(record, out.truth(REQUESTS[3], K))
    assert (record.engine, record.format, record.k) == ("vllm", "vllm-request-json", K)


def test_many_requests_add_up_by_tokens() -> None:
    documents = [out.vllm_request(steps, K) for steps in REQUESTS]
    for text in (out.json_lines(documents), json.dumps(documents), json.dumps({"responses": documents})):
        record = read_text(text)
        assert_truth(record, out.truth(EVERYTHING, K))
        assert len(record.windows) == 10


@pytest.mark.parametrize("names", ["0.5.11", "0.5.9", "bonus"])
def test_sglang_under_the_names_of_three_versions(names: str) -> None:
    record = read_text(out.json_lines([out.sglang_request(steps, K, names) for steps in REQUESTS]))
    assert_truth(record, out.truth(EVERYTHING, K), "drafts", "drafted", "accepted", "alpha", "acceptance_length")
    assert record.k == K
    if names != "bonus":
        assert_truth(record, out.truth(EVERYTHING, K), "survival")


def test_a_histogram_split_by_draft_length() -> None:
    steps = out.draw_steps(5, (0.7, 0.5, 0.3), 400, variable=True)
    split = {
        str(length): [sum(d == length and n == i for d, n in steps) for i in range(length + 1)] for length in (1, 2, 3)
    }
    document = {"metrics": {"speculative_decoding": {"acceptance_histogram": split, "num_spec_tokens": 3}}}
    record = read_text(json.dumps(document))
    assert_truth(record, out.truth(steps, 3))


def test_steps_in_detail_widen_the_interval_by_their_correlation() -> None:
    independent = out.draw_steps(1, (0.7, 0.5, 0.3), 3_000)
    alike = [step for step in out.draw_steps(1, (0.7, 0.5, 0.3), 1_000) for _ in range(3)]
    plain = read_text(json.dumps(out.vllm_request(independent, K, detailed=True)))
    sticky = read_text(json.dumps(out.vllm_request(alike, K, detailed=True)))

    def width(record: object) -> float:
        low, high = record.alpha_interval
        return high - low

    # Three copies of each step: lag-1 correlation 2/3, so 5 times the variance (that of 3 copies is 3).
    assert 1.7 < width(sticky) / width(plain) < 2.6


def test_figures_told_twice_count_once() -> None:
    document = out.vllm_request(REQUESTS[0], K)
    figures = document["metrics"]["speculative_decoding"]
    document["choices"] = [{"index": 0, "speculative_decoding_stats": figures}]
    assert read_text(json.dumps(document)).drafts == len(REQUESTS[0])
    choices = {"choices": [{"speculative_decoding_stats": figures}, {"speculative_decoding_stats": figures}]}
    assert read_text(json.dumps(choices)).drafts == 2 * len(REQUESTS[0])


def test_llama_cpp_timings_and_its_stream() -> None:
    def timings(drafted: int, accepted: int) -> dict:
        return {"prompt_n": 1, "predicted_n": 200, "draft_n": drafted, "draft_n_accepted": accepted}

    record = read_text(json.dumps({"content": "x", "timings": timings(347, 65)}))
    assert (record.drafted, record.accepted, record.k, record.engine) == (347, 65, None, "llama.cpp")
    assert "steps" in record.unknown["drafts"]
    chunks = [
        {"id": "chatcmpl-1", "object": "chat.completion.chunk", "timings": timings(10 * i, 4 * i)} for i in range(1, 9)
    ]
    stream = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n"
    record = read_text(stream)
    assert (record.drafted, record.accepted) == (80, 32)


def test_tensorrt_llm_iterations_and_requests() -> None:
    rows = [
        {
            "iter": i,
            "specDecodingStats": {"numDraftTokens": 24, "numAcceptedTokens": 11, "numRequestsWithDraftTokens": 8},
        }
        for i in range(30)
    ]
    for text in (json.dumps(rows), out.json_lines(rows), "\n".join(f"[TRT-LLM] [I] {row}" for row in rows)):
        record = read_text(text)
        assert (record.engine, record.k, record.drafts) == ("tensorrt-llm", 3, 240)
        assert record.alpha == pytest.approx(11 / 24)
        assert record.acceptance_length == pytest.approx(1 + 11 / 8)
    seen = out.truth(REQUESTS[2], K)
    figures = {
        "total_accepted_draft_tokens": seen["accepted"],
        "total_draft_tokens": seen["drafted"],
        "num_spec_steps": seen["drafts"],
        "num_spec_tokens": K,
        "acceptance_histogram": out.histogram(REQUESTS[2], K + 1),
    }
    assert_truth(read_text(json.dumps({"choices": [{"speculative_decoding": figures}]})), seen)


def test_contradictions_are_reported() -> None:
    document = out.vllm_request(REQUESTS[0], K)
    document["metrics"]["speculative_decoding"]["num_accepted_draft_tokens"] += 7
    assert has_warning(read_text(json.dumps(document)), "identity broken: the histogram")


def test_a_damaged_line_in_a_jsonl_is_said() -> None:
    text = out.json_lines([out.vllm_request(steps, K) for steps in REQUESTS[:4]])
    record = read_text(text + json.dumps(out.vllm_request(REQUESTS[4], K))[:150])
    assert_truth(record, out.truth([s for steps in REQUESTS[:4] for s in steps], K))
    assert has_warning(record, "truncated")


def test_no_speculation_in_the_answer() -> None:
    assert "no speculation figures" in refused(
        '{"choices": [{"text": "x", "speculative_decoding_stats": null}], "usage": {}}'
    )
    assert "no speculation figures" in refused('{"text": "x", "meta_info": {"completion_tokens": 5}}')


def test_log_lines_inside_json_logs() -> None:
    line = out.vllm_v1_line(REQUESTS[9], K)
    text = out.json_lines([{"level": "info", "message": "started"}, {"level": "info", "message": line}])
    assert_truth(read_text(text), out.truth(REQUESTS[9], K), "drafts", "accepted")
