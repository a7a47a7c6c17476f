"""`labsim alpha` as scripts use it: contract keys, exit status 3, one line of error, a screen for people."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from labsim.commands.alpha import command, sparkline
from labsim.telemetry import Window
from scripts import engine_output as out

KEYS = {
    *("engine", "format", "k", "drafts", "drafted", "accepted", "alpha", "alpha_interval", "alpha_per_token"),
    *("acceptance_length", "survival", "windows", "bench", "warnings", "unknown", "files", "span_seconds"),
}
BENCH_KEYS = {"concurrency", "tpot_mean_ms", "tpot_p99_ms", "itl_mean_ms", "itl_p99_ms", "ttft_p99_ms"}
STEPS = out.draw_steps(1, (0.675, 0.437, 0.279), 6_000)


def log(steps: out.Steps = STEPS) -> str:
    return "".join(out.vllm_v1_line(w, 3, at=10.0 * i) + "\n" for i, w in enumerate(out.windows(steps, 300)))


def alpha(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], input=stdin, standalone_mode=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(log())
    return path


def test_the_contract(path: Path) -> None:
    result = alpha(path, "--json")
    assert result.exception is None and result.stderr == ""
    document = json.loads(result.stdout)
    assert document.keys() == KEYS
    truth = out.truth(STEPS, 3)
    assert (document["k"], document["drafts"], document["accepted"]) == (3, 6_000, truth["accepted"])
    assert document["alpha"] == pytest.approx(truth["alpha"])
    low, high = document["alpha_interval"]
    assert low < truth["alpha"] < high
    # A constant per-token acceptance with the same length: 1 + a + a^2 + a^3.
    a = document["alpha_per_token"]
    assert 1 + a + a**2 + a**3 == pytest.approx(truth["acceptance_length"])
    assert document["bench"] is None and "bench" in document["unknown"]
    assert len(document["windows"]) == 20
    assert document["files"] == [str(path)]


def test_every_null_has_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "sglang.log"
    path.write_text(out.sglang_line(STEPS[:300], 3, None))
    document = json.loads(alpha(path, "--json").stdout)
    nulls = {key for key, value in document.items() if value is None}
    assert nulls == document["unknown"].keys()
    assert {"k", "alpha", "drafts", "survival"} <= nulls


def test_a_benchmark_fills_bench(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(out.bench_json(STEPS, 3)))
    bench = json.loads(alpha(path, "--json").stdout)["bench"]
    assert bench.keys() == BENCH_KEYS
    assert (bench["concurrency"], bench["tpot_p99_ms"], bench["ttft_p99_ms"]) == (16, 8.0, 326.32)


def test_the_screen(path: Path) -> None:
    lines = alpha(path).stdout.splitlines()
    truth = out.truth(STEPS, 3)
    assert f"{truth['alpha']:.2f} accepted/drafted at K=3: acceptance length {truth['acceptance_length']:.2f}" in lines
    assert any(line.startswith("alpha over time") and "in 20 windows" in line for line in lines)
    assert any(line.startswith("survival") for line in lines)
    assert len(lines) < 15


def test_warnings_are_on_the_screen(path: Path) -> None:
    path.write_text(log(STEPS[:3_000] + out.draw_steps(2, (0.5, 0.2, 0.1), 3_000)))
    assert any(line.startswith("! drift: alpha shifts") for line in alpha(path).stdout.splitlines())


def test_what_is_missing_is_named_on_the_screen(tmp_path: Path) -> None:
    path = tmp_path / "sglang.log"
    path.write_text(out.sglang_line(STEPS[:300], 3, None))
    output = alpha(path).stdout
    assert "accepted/drafted is unknown: the lines print an acceptance length but no rate" in output


def test_standard_input_and_gzip() -> None:
    result = alpha("-", "--json", stdin=gzip.compress(log().encode()))
    assert json.loads(result.stdout)["drafts"] == 6_000


@pytest.mark.parametrize("content", ["", "nginx\n", '{"a": 1', out.bench_block(None, 3)])
def test_no_telemetry_exits_3_with_one_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    error = alpha(path).exception
    assert isinstance(error, click.ClickException)
    assert error.exit_code == 3
    assert str(path) in error.format_message() and "\n" not in error.format_message()


def test_missing_files_and_directories_exit_3(tmp_path: Path) -> None:
    assert alpha(tmp_path / "missing").exception.exit_code == 3
    assert alpha(tmp_path).exception.exit_code == 3


def test_no_file_is_a_usage_error() -> None:
    assert alpha().exception.exit_code == 2


def test_the_sparkline_spans_zero_to_one_and_degrades() -> None:
    windows = [Window(alpha=i / 10, drafts=100) for i in range(11)]
    assert sparkline(windows, "utf-8") == "▁▁▂▃▄▅▅▆▇██"
    assert sparkline(windows, "ascii").isascii()
    assert len(sparkline(windows * 40, "utf-8")) == 60
    assert sparkline(windows[:1], "utf-8") == ""
    # Columns are means weighted by drafts.
    pair = [Window(alpha=0.0, drafts=1), Window(alpha=1.0, drafts=9_999)]
    assert sparkline(pair * 60, "utf-8") == "█" * 60


def test_a_bar_only_on_a_terminal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    from labsim.commands import alpha as module

    terminal = Terminal()
    monkeypatch.setattr(module, "_WORTH_A_BAR", 0)
    monkeypatch.setattr(module.sys, "stderr", terminal)
    with module._progress_bar([str(path)]) as progress:
        progress(path.stat().st_size)
    assert "reading" in terminal.getvalue()
    monkeypatch.setattr(module.sys, "stderr", io.StringIO())
    with module._progress_bar([str(path)]) as progress:
        assert progress is None


def test_parts_and_mixtures_are_on_the_screen(path: Path, tmp_path: Path) -> None:
    worse = out.draw_steps(2, (0.5, 0.2, 0.1), 3_000)
    path.write_text(log(STEPS[:3_000] + worse))
    row = next(line for line in alpha(path).stdout.splitlines() if line.startswith("  of them"))
    assert f"{out.truth(worse, 3)['alpha']:.4f}" in row and "since " in row
    four = "".join(out.vllm_v1_line(w, 4, at=900.0 + 10 * i) + "\n" for i, w in enumerate(out.windows(worse, 300)))
    path.write_text(log() + four)
    screen = alpha(path).stdout
    assert "over several draft lengths: 3, 4" in screen and "not printed" not in screen and "95 %" not in screen
    sglang = tmp_path / "sglang.log"
    sglang.write_text(out.sglang_line(STEPS[:300], 3, None))
    assert alpha(path, sglang).exception.exit_code == 2
