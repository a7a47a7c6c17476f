"""llama.cpp: spellings, variable drafts, statistics lines that repeat the same tokens."""

from __future__ import annotations

import pytest

from scripts import engine_output as out
from tests.telemetry.helpers import assert_truth, has_warning, read_text, refused

REQUESTS = [out.draw_steps(40 + i, (0.75, 0.52, 0.36), 150, variable=True) for i in range(7)]
EVERYTHING = [step for steps in REQUESTS for step in steps]
PREFIXED = "2026-05-17 11:04:29.854 | "


def log(version: str, prefix: str = "") -> str:
    lines = [
        line
        for task, steps in enumerate(REQUESTS)
        for line in out.llamacpp_lines(steps, 3, version, task=task, at=4.0 * task)
    ]
    return "\n".join(prefix + line for line in lines) + "\n"


@pytest.mark.parametrize("prefix", ["", PREFIXED])
@pytest.mark.parametrize("version", ["plain", "short", "trace", "long"])
def test_counts_are_exact_in_every_version(version: str, prefix: str) -> None:
    record = read_text(log(version, prefix))
    assert_truth(record, out.truth(EVERYTHING, 3), "drafted", "accepted", "alpha")
    assert (record.engine, record.format, record.k) == ("llama.cpp", "llama.cpp-log", None)
    assert "variable" in record.unknown["k"]
    assert len(record.windows) == 7
    assert record.alpha_interval[0] < record.alpha < record.alpha_interval[1]


@pytest.mark.parametrize("version", ["trace", "long"])
def test_rates_per_position_give_drafts_and_survival(version: str) -> None:
    assert_truth(read_text(log(version)), out.truth(EVERYTHING, 3))


def test_the_mean_length_gives_drafts_within_its_rounding() -> None:
    record = read_text(log("short"))
    assert record.drafts == pytest.approx(len(EVERYTHING), rel=0.01)
    assert record.survival is None


def test_tokens_alone_give_no_length() -> None:
    record = read_text(log("plain"))
    assert record.drafts is record.acceptance_length is None
    assert "no mean length" in record.unknown["acceptance_length"]


def test_statistics_lines_count_only_alone() -> None:
    lines = [line for line in log("long").splitlines() if "statistics" in line]
    record = read_text(lines[-1])
    assert_truth(record, out.truth(REQUESTS[-1], 3), "drafts", "drafted", "accepted")


def test_two_drafters_add_up_in_the_statistics() -> None:
    text = (
        "statistics ngram_simple: #calls = 15, #gen drafts = 5, #acc drafts = 5, #gen tokens = 187, #acc tokens = 73\n"
        "statistics draft: #calls = 10, #gen drafts = 10, #acc drafts = 10, #gen tokens = 110, #acc tokens = 98\n"
    )
    record = read_text(text)
    assert (record.drafted, record.accepted, record.drafts) == (297, 171, 15)


def test_the_speculative_tool() -> None:
    record = read_text("n_draft   = 5\nn_predict = 673\nn_drafted = 730\nn_accept  = 526\naccept    = 72.055%\n")
    assert (record.drafted, record.accepted, record.k) == (730, 526, None)


def test_a_repeated_prompt_is_said() -> None:
    text = "draft acceptance = 0.40000 (   40 accepted /   100 generated)\n"
    text += "draft acceptance = 0.99000 (   99 accepted /   100 generated)\n"
    record = read_text(text)
    assert record.alpha == pytest.approx(139 / 200)
    assert has_warning(record, "only the first run")


def test_nothing_accepted() -> None:
    record = read_text("draft acceptance = 0.00000 (    0 accepted /   198 generated), mean len =  1.00\n")
    assert (record.alpha, record.accepted, record.drafted) == (0.0, 0, 198)


def test_contradictions_are_reported() -> None:
    text = "draft acceptance = 0.60000 (   40 accepted /   100 generated)\n"
    assert has_warning(read_text(text), "identity broken")
    more = "draft acceptance = 1.20000 (  120 accepted /   100 generated)\n"
    assert has_warning(read_text(text + more), "identity broken: 120 accepted of 100")
    assert read_text(text + more).accepted == 40


def test_a_cut_line_is_refused() -> None:
    assert "cut" in refused("draft acceptance = 0.22700 ( 227 acc")
