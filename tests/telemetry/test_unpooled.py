"""What must not be pooled: shifts of alpha, engines that differ, several K, the same print twice, two services."""

from __future__ import annotations

from pathlib import Path

import pytest

from labsim.telemetry import MixedInput, read
from scripts import engine_output as out
from tests.telemetry.helpers import assert_truth, has_warning, read_text, refused

GOOD, BAD = (0.8, 0.62, 0.48), (0.5, 0.25, 0.1)
FIRST, THEN = out.draw_steps(1, GOOD, 3_000), out.draw_steps(2, BAD, 3_000)


def lines(steps: out.Steps, start: float = 0.0, k: int = 3, pid: int | None = None) -> list[str]:
    """One line per 10 s of 200 steps."""
    prefix = "" if pid is None else f"(EngineCore_0 pid={pid}) "
    return [prefix + out.vllm_v1_line(w, k, at=start + 10.0 * i) for i, w in enumerate(out.windows(steps, 200))]


def text(*parts: list[str]) -> str:
    return "\n".join(line for part in parts for line in part) + "\n"


def test_after_a_shift_the_part_since_then_counts() -> None:
    record = read_text(text(lines(FIRST), lines(THEN, 150)))
    (part,) = record.unpooled.parts
    assert_truth(part.record, out.truth(THEN, 3), "drafts", "drafted", "accepted", "alpha", "survival")
    low, high = part.record.alpha_interval
    assert low < sum(BAD) / 3 < high and high - low < 0.06
    assert part.what == f"since {record.windows[15].start}" and "what comes after counts" in record.unpooled.reason
    assert "unpooled" not in record.to_dict()
    assert read_text(text(lines(FIRST))).unpooled is None


@pytest.mark.parametrize("order", ["time", "newest first"])
def test_last_means_last_in_time(order: str) -> None:
    """Down and up again, also where a log is printed backwards."""
    again = out.draw_steps(3, GOOD, 3_000)
    printed = [*lines(FIRST), *lines(THEN, 150), *lines(again, 300)]
    record = read_text(text(printed if order == "time" else printed[::-1]))
    (part,) = record.unpooled.parts
    assert part.record.alpha == pytest.approx(out.truth(again, 3)["alpha"])


def test_too_few_windows_since_the_shift_leave_no_part() -> None:
    record = read_text(text(lines(FIRST), lines(THEN[:1000], 150)))
    assert record.unpooled.parts == () and "5 window(s) since then are too few" in record.unpooled.reason


def test_engines_that_differ_are_parts_of_their_own() -> None:
    record = read_text(text(lines(FIRST, pid=1), lines(THEN, pid=2)))
    alphas = {part.what: part.record.alpha for part in record.unpooled.parts}
    assert alphas == {"1": pytest.approx(out.truth(FIRST, 3)["alpha"]), "2": pytest.approx(out.truth(THEN, 3)["alpha"])}
    assert "the worst one counts" in record.unpooled.reason
    alike = read_text(text(lines(FIRST, pid=1), lines(out.draw_steps(4, GOOD, 3_000), pid=2)))
    assert alike.unpooled is None


def test_several_k_have_no_interval() -> None:
    record = read_text(text(lines(FIRST), lines(out.draw_steps(5, (0.7, 0.5, 0.3, 0.2), 2_000), 150, k=4)))
    assert record.k is None and record.alpha_interval is None
    assert record.unpooled.parts == () and "several draft lengths (3, 4)" in record.unpooled.reason
    assert record.unknown["alpha_interval"] == "several draft lengths: 3, 4"


def test_the_same_print_counts_once(tmp_path: Path) -> None:
    printed = lines(FIRST)
    for name, part in (("new.log", printed[4:]), ("old.log", printed[:9]), ("copy.log", printed[:9])):
        (tmp_path / name).write_text(text(part))
    record = read([tmp_path / name for name in ("new.log", "old.log", "copy.log")])
    assert_truth(record, out.truth(FIRST, 3), "drafts", "drafted", "accepted")
    assert has_warning(record, "14 print(s) appear twice")
    assert not has_warning(read_text(text(printed)), "appear twice")
    # Without a time stamp equal figures may be two windows.
    bare = text([line[line.index("SpecDecoding") :] for line in printed])
    assert read_text(bare * 2).drafts == 2 * record.drafts


def test_the_same_sglang_line_counts_once() -> None:
    log = out.sglang_line(FIRST[:900], 3, "outside")
    once, twice = read_text(log), read_text(f"{log}\n" * 2)
    assert len(twice.windows) == len(once.windows) and has_warning(twice, "appear twice")


def test_two_services_are_refused_and_one_file_of_both_is_told(tmp_path: Path) -> None:
    one, other = text(lines(FIRST)), out.sglang_line(THEN[:900], 3, "outside")
    (tmp_path / "a.log").write_text(one)
    (tmp_path / "b.log").write_text(other)
    with pytest.raises(MixedInput, match="vllm-v1-log and sglang-log are two services"):
        read([tmp_path / "a.log", tmp_path / "b.log"])
    record = read_text(one + other)
    assert_truth(record, out.truth(FIRST, 3))
    assert has_warning(record, "only vllm-v1-log was read; sglang-log in it is left out")


def test_zstd_is_named() -> None:
    assert "zstd -dc" in refused(b"\x28\xb5\x2f\xfd" + bytes(range(256)) * 8)


def test_repeated_prompts_of_llama_cpp_are_no_alpha() -> None:
    line = "draft acceptance rate = {:.5f} ({:5d} accepted / {:5d} generated)\n"
    record = read_text("".join(line.format(n / 1000, n, 1000) for n in (600, 800, 950)))
    assert record.unpooled.parts == () and "first run alone" in record.unpooled.reason
