"""SGLang decode lines: where the target's own token is follows from the numbers."""

from __future__ import annotations

import pytest

from labsim.telemetry.sglang_rate import decide, pairs
from scripts import engine_output as out
from tests.telemetry.helpers import has_warning, read_text

STEPS = out.draw_steps(7, (0.7, 0.48, 0.33), 6_000)


def log(rate: str | None, k: int = 3, steps: out.Steps = STEPS, rank: str = "TP0", start: float = 0.0) -> str:
    windows = enumerate(out.windows(steps, 300))
    return "\n".join(out.sglang_line(w, k, rate, at=start + 10.0 * i, rank=rank) for i, w in windows) + "\n"


@pytest.mark.parametrize(("length", "rate", "pair"), [(2.17, 0.54, ("inside", 3)), (2.77, 0.69, ("inside", 3))])
def test_published_lines_with_the_bonus_inside(length: float, rate: float, pair: tuple[str, int]) -> None:
    assert pairs(length, rate) == {pair}


def test_a_published_line_with_the_bonus_outside() -> None:
    assert ("outside", 7) in pairs(3.95, 0.4214, 0.005, 0.00005)
    assert len(pairs(3.95, 0.4214, 0.005, 0.00005)) == 1


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7, 15])
@pytest.mark.parametrize("rate", ["inside", "outside"])
def test_k_and_meaning_are_inferred(k: int, rate: str) -> None:
    steps = out.draw_steps(k, tuple(0.7**i for i in range(1, k + 1)), 6_000)
    record = read_text(log(rate, k, steps))
    truth = out.truth(steps, k)
    assert record.k == k
    assert record.alpha == pytest.approx(truth["alpha"], abs=0.005 / k)
    assert record.acceptance_length == pytest.approx(truth["acceptance_length"], abs=0.005)
    assert has_warning(record, "counts the target's own token") == (rate == "inside")
    assert record.drafts is record.drafted is record.accepted is record.survival is None
    assert record.windows[0].alpha == pytest.approx(out.truth(steps[:300], k)["alpha"], abs=0.0051 / k)


def test_an_upgrade_in_the_middle_of_the_log() -> None:
    text = log("inside", steps=STEPS[:3_000]) + log("outside", steps=STEPS[3_000:], start=200.0)
    record = read_text(text)
    assert record.k == 3
    assert record.alpha == pytest.approx(out.truth(STEPS, 3)["alpha"], abs=0.002)
    assert has_warning(record, "changes its meaning")


def test_without_a_rate_k_and_alpha_stay_unknown() -> None:
    record = read_text(log(None))
    assert record.k is record.alpha is record.alpha_interval is record.alpha_per_token is None
    assert record.acceptance_length == pytest.approx(out.truth(STEPS, 3)["acceptance_length"], abs=0.005)
    assert "no rate" in record.unknown["k"] and "no rate" in record.unknown["alpha"]


def test_server_arguments_in_the_log_give_k() -> None:
    start = "[2026-03-07 09:29:00] server_args=ServerArgs(speculative_algorithm='EAGLE3', speculative_num_steps=3, "
    chain = start + "speculative_eagle_topk=1, speculative_num_draft_tokens=4)\n"
    tree = start + "speculative_eagle_topk=4, speculative_num_draft_tokens=16)\n"
    assert read_text(chain + log(None)).k == 3
    assert read_text(tree + log(None)).k is None


def test_a_single_ambiguous_line_is_not_guessed() -> None:
    # 3.33 / 10 = .333 and (3.33 - 1) / 7 = .333
    assert {("inside", 9), ("outside", 7)} <= pairs(3.33, 0.33)
    line = (
        "[2026-03-07 09:30:00 TP0] Decode batch. #running-req: 1, accept len: 3.33, accept rate: 0.33, cuda graph: True"
    )
    record = read_text(line)
    assert record.k is None and record.alpha is None
    assert "9" in record.unknown["k"] and "7" in record.unknown["k"]
    assert record.acceptance_length == pytest.approx(3.33)


def test_more_lines_resolve_what_one_leaves_open() -> None:
    assert decide([(pairs(3.33, 0.33), 1), (pairs(2.05, 0.15), 1)])[:2] == (7, "outside")


def test_a_rate_above_one_gives_no_k() -> None:
    lines = [
        f"[2026-03-07 09:30:{i:02d} TP0] Decode batch. #running-req: 1, accept len: {a:.2f}, accept rate: {a / 3:.2f}"
        for i, a in enumerate((3.41, 2.9, 3.7, 3.2))
    ]
    record = read_text("\n".join(lines))
    assert record.k is None and record.alpha is None
    assert "11572" in record.unknown["alpha"]
    assert record.acceptance_length == pytest.approx((3.41 + 2.9 + 3.7 + 3.2) / 4)


def test_tensor_ranks_repeat_data_ranks_add() -> None:
    good, bad = out.draw_steps(1, (0.8, 0.6, 0.5), 6_000), out.draw_steps(2, (0.5, 0.2, 0.1), 6_000)
    text = "".join(log("outside", steps=good, rank=f"DP0 TP{tp}") for tp in range(4))
    text += "".join(log("outside", steps=bad, rank=f"DP1 TP{tp}") for tp in range(4, 8))
    record = read_text(text)
    assert len(record.windows) == 40
    expected = (out.truth(good, 3)["alpha"] + out.truth(bad, 3)["alpha"]) / 2
    assert record.alpha == pytest.approx(expected, abs=0.002)
    assert has_warning(record, "mixed engines")


def test_running_requests_weight_the_windows() -> None:
    line = (
        "[2026-03-07 09:30:0{} TP0] Decode batch. #running-req: {}, accept len: {}, accept rate: {}, cuda graph: True\n"
    )
    record = read_text(line.format(0, 9, "2.50", "0.50") + line.format(1, 1, "1.50", "0.17"))
    assert record.acceptance_length == pytest.approx(0.9 * 2.5 + 0.1 * 1.5)


def test_a_cut_line_is_ignored_and_said() -> None:
    record = read_text(log("outside") + "[2026-03-07 10:00:00 TP0] Decode batch. #running-req: 4, accept len: 2.")
    assert len(record.windows) == 20
    assert has_warning(record, "truncated")
