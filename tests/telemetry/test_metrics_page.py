"""Scraped metrics: counters, gauges, pairs of scrapes, browser tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from labsim.telemetry import TelemetryError, read
from scripts import engine_output as out
from tests.telemetry.helpers import assert_truth, has_warning, read_text, refused

K = 3
FIRST = {"0": out.draw_steps(1, (0.7, 0.5, 0.3), 2_000), "1": out.draw_steps(2, (0.7, 0.5, 0.3), 1_500)}
MORE = {"0": out.draw_steps(3, (0.5, 0.3, 0.1), 900), "1": out.draw_steps(4, (0.5, 0.3, 0.1), 1_300)}
LATER = {engine: FIRST[engine] + MORE[engine] for engine in FIRST}


def both(engines: dict[str, out.Steps]) -> out.Steps:
    return [step for steps in engines.values() for step in steps]


def files(folder: Path, *texts: str) -> list[Path]:
    paths = [folder / f"scrape{i}.prom" for i in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


@pytest.mark.parametrize("suffix", ["_total", ""])
def test_one_scrape_is_everything_since_the_start(suffix: str) -> None:
    record = read_text(out.vllm_metrics(FIRST, K, suffix=suffix))
    assert_truth(record, out.truth(both(FIRST), K))
    assert (record.engine, record.format, record.k) == ("vllm", "vllm-metrics", K)
    assert has_warning(record, "since the server started")


def test_two_scrapes_are_differenced(tmp_path: Path) -> None:
    record = read(files(tmp_path, out.vllm_metrics(FIRST, K), out.vllm_metrics(LATER, K)))
    assert_truth(record, out.truth(both(MORE), K))
    assert not has_warning(record, "since the server started")


def test_the_wrong_order_is_noticed_by_equal_creation_stamps(tmp_path: Path) -> None:
    record = read(files(tmp_path, out.vllm_metrics(LATER, K), out.vllm_metrics(FIRST, K)))
    assert_truth(record, out.truth(both(MORE), K))
    assert has_warning(record, "wrong order")


def test_a_restart_counts_the_later_values(tmp_path: Path) -> None:
    restarted = out.vllm_metrics(MORE, K, created=1.8e9)
    record = read(files(tmp_path, out.vllm_metrics(LATER, K), restarted))
    assert_truth(record, out.truth(both(MORE), K))
    assert has_warning(record, "counter reset")


def test_a_restart_of_one_engine(tmp_path: Path) -> None:
    after = {"0": MORE["0"], "1": LATER["1"]}
    text = "\n".join(line for line in out.vllm_metrics(after, K).splitlines() if "_created" not in line)
    record = read(files(tmp_path, out.vllm_metrics(FIRST, K), text))
    assert_truth(record, out.truth(both(MORE), K))
    assert has_warning(record, "counter reset: counters of 1 engine(s)")


def test_a_restart_that_has_already_overtaken_the_old_counts(tmp_path: Path) -> None:
    """No counter falls; only the newer creation stamps say that the later values are all of the new process."""
    record = read(files(tmp_path, out.vllm_metrics(FIRST, K), out.vllm_metrics(LATER, K, created=1.8e9)))
    assert_truth(record, out.truth(both(LATER), K))
    assert has_warning(record, "counter reset")


def test_without_stamps_the_order_as_given_holds(tmp_path: Path) -> None:
    def bare(engines: dict[str, out.Steps]) -> str:
        return "\n".join(line for line in out.vllm_metrics(engines, K).splitlines() if "_created" not in line) + "\n"

    record = read(files(tmp_path, bare(LATER), bare(FIRST)))
    assert_truth(record, out.truth(both(FIRST), K))
    assert has_warning(record, "other way round")


def test_scrapes_in_one_file_and_a_series_of_them(tmp_path: Path) -> None:
    steps = out.draw_steps(9, (0.7, 0.5, 0.3), 3_000)
    pages = [out.vllm_metrics({"0": steps[:n]}, K) for n in (500, 1_000, 2_200, 3_000)]
    for record in (read_text("".join(pages)), read(files(tmp_path, *pages))):
        assert_truth(record, out.truth(steps[500:], K))
        assert [window.drafts for window in record.windows] == [500, 1_200, 800]


def test_creation_stamps_are_not_counts() -> None:
    text = out.vllm_metrics(FIRST, K)
    assert "_created" in text
    record = read_text(text)
    assert record.drafts == len(both(FIRST))


def test_mixed_engines_are_said() -> None:
    assert has_warning(read_text(out.vllm_metrics({"0": FIRST["0"], "1": MORE["1"]}, K)), "mixed engines")
    assert not has_warning(read_text(out.vllm_metrics(FIRST, K)), "mixed engines")


def test_a_browser_table() -> None:
    lines = [line.replace("} ", "} | ") for line in out.vllm_metrics(FIRST, K).splitlines() if not line.startswith("#")]
    assert_truth(read_text("\n".join(lines)), out.truth(both(FIRST), K))
    assert_truth(read_text("\n".join(f"| {line} |" for line in lines)), out.truth(both(FIRST), K))


def test_a_cut_page_says_what_it_lost() -> None:
    text = out.vllm_metrics({"0": FIRST["0"]}, K)
    cut = text[: text.rindex("position=") + 4]
    record = read_text(cut)
    assert has_warning(record, "truncated")
    assert has_warning(record, "identity broken: the positions add up")
    assert record.alpha == pytest.approx(out.truth(FIRST["0"], K)["alpha"])


def test_variable_drafts_use_the_counts() -> None:
    steps = out.draw_steps(5, (0.6, 0.3, 0.1), 2_000, variable=True)
    record = read_text(out.vllm_metrics({"0": steps}, K))
    assert_truth(record, out.truth(steps, K))
    assert has_warning(record, "shorter than K = 3")


def test_colons_turned_into_underscores_and_llama_cpp_builds() -> None:
    text = out.vllm_metrics({"0": FIRST["0"]}, K)
    assert_truth(read_text(text.replace("vllm:", "vllm_")), out.truth(FIRST["0"], K))
    record = read_text(text.replace("vllm:", "llamacpp:"))
    assert record.engine == "llama.cpp"
    assert_truth(record, out.truth(FIRST["0"], K))


def test_zero_and_missing_counters_are_refused(tmp_path: Path) -> None:
    zero = "\n".join(
        f'vllm:spec_decode_num_{n}_total{{engine="0"}} 0.0' for n in ("drafts", "draft_tokens", "accepted_tokens")
    )
    assert "no speculation" in refused(zero)
    assert "lacks" in refused('vllm:spec_decode_num_drafts_total{engine="0"} 5.0\n')
    assert "no acceptance" in refused('vllm:num_requests_running{engine="0"} 5.0\n')
    page = out.vllm_metrics(FIRST, K)
    with pytest.raises(TelemetryError, match="between the scrapes"):
        read(files(tmp_path, page, page))


def test_v0_efficiency_and_counters_give_k() -> None:
    steps = out.draw_steps(8, (0.7, 0.5, 0.34, 0.2), 1_000)
    drafted, emitted = 4_000, 1_000 + sum(n for _, n in steps)
    text = (
        f"vllm:spec_decode_draft_acceptance_rate 0.75\nvllm:spec_decode_efficiency {emitted / 5_000}\n"
        f"vllm:spec_decode_num_accepted_tokens_total 3000.0\nvllm:spec_decode_num_draft_tokens_total {drafted}.0\n"
        f"vllm:spec_decode_num_emitted_tokens_total {emitted}.0\n"
    )
    record = read_text(text)
    assert record.k == 4
    assert_truth(record, out.truth(steps, 4), "drafts", "accepted", "alpha", "acceptance_length", rel=1e-9)
    assert record.alpha != pytest.approx(0.75, abs=0.1)


def test_sglang_gauges_with_full_digits_give_k() -> None:
    record = read_text(out.sglang_metrics(1 + 5 * 0.412345678, 0.412345678))
    assert (record.engine, record.k) == ("sglang", 5)
    assert record.alpha == pytest.approx(0.412345678)
    assert record.drafts is None and "gauges" in record.unknown["drafts"]
    inside = read_text(out.sglang_metrics(2.7712345, 2.7712345 / 4))
    assert (inside.k, inside.alpha) == (3, pytest.approx((2.7712345 - 1) / 3))


def test_sglang_gauges_are_never_differenced(tmp_path: Path) -> None:
    pages = [out.sglang_metrics(1 + 3 * rate, rate) for rate in (0.61234567, 0.41234567)]
    record = read(files(tmp_path, *pages))
    assert record.alpha == pytest.approx(0.41234567)
    assert has_warning(record, "last scrape")


def test_sglang_ranks_and_engine_types_speak_once() -> None:
    rate = 0.51234567
    draft = 'engine_type="draft",tp_rank="0"'
    ranks = [f'engine_type="unified",tp_rank="{i}"' for i in range(4)]
    text = out.sglang_metrics(1 + 3 * rate, rate, ranks) + out.sglang_metrics(9.0, 0.9, [draft])
    record = read_text(text)
    assert len(record.windows) == 1
    assert record.acceptance_length == pytest.approx(1 + 3 * rate)


def test_sglang_steps_gauge_gives_k_where_the_rate_does_not() -> None:
    assert read_text(out.sglang_metrics(3.33, 0.9, steps=7)).k == 7
    record = read_text(out.sglang_metrics(3.33, 0.9))
    assert record.k is None and record.alpha is None


def test_sglang_idle_gauges_are_refused() -> None:
    assert "zero" in refused(out.sglang_metrics(0.0, 0.0))
