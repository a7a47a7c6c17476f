"""`labsim alpha`: acceptance from what an engine already prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from ..telemetry import AcceptanceRecord, MixedInput, TelemetryError, Window, read
from .options import print_json

_BARS, _ASCII_BARS = "▁▂▃▄▅▆▇█", "_.:-=+*#"
_WIDTH = 60
_BENCH_KEYS = ("concurrency", "tpot_mean_ms", "tpot_p99_ms", "itl_mean_ms", "itl_p99_ms", "ttft_p99_ms")
# Below this a file is read before a bar could be drawn.
_WORTH_A_BAR = 32 << 20


class NotTelemetry(click.ClickException):
    """Exit status 3: the input says nothing about speculation."""

    exit_code = 3


@click.command("alpha")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Acceptance from an engine's own output: alpha (accepted/drafted) with its interval, length, survival, drift.

    FILE is a log, a metrics page, a benchmark result or per-request JSON of vLLM, SGLang, llama.cpp or TensorRT-LLM;
    gzip is fine, and - is standard input. Two scrapes of a metrics page give their difference. Exit status 3 when the
    input holds no telemetry, 2 when files of two services are given as one.

    \b
    labsim alpha server.log
    labsim alpha before.prom after.prom --json
    journalctl -u vllm | labsim alpha -
    kubectl logs -l app=vllm --tail=-1 --prefix | labsim alpha -
    """
    try:
        with _progress_bar(files) as progress:
            record = read(files, progress)
    except MixedInput as error:
        raise click.UsageError(str(error)) from error
    except TelemetryError as error:
        raise NotTelemetry(str(error)) from error
    if as_json:
        print_json(_document(record))
    else:
        for line in _screen(record):
            click.echo(line)


def _document(record: AcceptanceRecord) -> dict[str, Any]:
    document = record.to_dict()
    if document["bench"] is not None:
        document["bench"] = {key: document["bench"][key] for key in _BENCH_KEYS}
    return document


def _screen(record: AcceptanceRecord) -> Iterator[str]:
    """A short table, the course of alpha, one sentence of meaning, warnings."""

    def row(name: str, value: str, missing: str) -> str:
        return f"{name:<19}{value or '- (' + record.unknown.get(missing, 'unknown') + ')'}"

    yield f"{'source':<19}{record.engine}, {record.format}: {', '.join(record.files)}"
    interval = (
        f"   95 % {record.alpha_interval[0]:.4f} to {record.alpha_interval[1]:.4f}" if record.alpha_interval else ""
    )
    yield row("alpha", f"{record.alpha:.4f} accepted/drafted{interval}" if record.alpha is not None else "", "alpha")
    yield row("K", str(record.k or ""), "k")
    length = "" if record.acceptance_length is None else f"{record.acceptance_length:.4f}"
    yield row("acceptance length", length, "acceptance_length")
    if record.unpooled is not None:
        for part in record.unpooled.parts:
            alone = part.record
            bounds = "   95 % {:.4f} to {:.4f}".format(*alone.alpha_interval) if alone.alpha_interval else ""
            yield f"{'  of them':<19}{alone.alpha:.4f}{bounds}   {part.what}"
    per_token = "" if record.alpha_per_token is None else f"{record.alpha_per_token:.4f}"
    yield row("alpha per token", per_token, "alpha_per_token")
    yield row("survival", " ".join(f"{value:.3f}" for value in record.survival or ()), "survival")
    counts = [(record.drafts, "drafts"), (record.drafted, "drafted"), (record.accepted, "accepted")]
    shown = ", ".join(f"{value:,} {name}" for value, name in counts if value is not None)
    yield row("counts", shown, "accepted")
    if record.span_seconds is not None:
        yield f"{'span':<19}{_duration(record.span_seconds)}"
    if record.bench is not None:
        yield f"{'latency':<19}{_latency(record)}"
    # Windows of one scrape or benchmark each belong to another engine: no course of time.
    in_time = len({window.engine for window in record.windows}) < len(record.windows)
    bars = sparkline(record.windows, sys.stdout.encoding) if in_time else ""
    if bars:
        values = [window.alpha for window in record.windows if window.alpha is not None]
        yield f"{'alpha over time':<19}{bars}  {min(values):.2f} to {max(values):.2f} in {len(record.windows)} windows"
    yield meaning(record)
    for warning in record.warnings:
        yield f"! {warning}"


def meaning(record: AcceptanceRecord) -> str:
    """One sentence: "0.46 accepted/drafted at K=3: acceptance length 2.38"."""
    length = "" if record.acceptance_length is None else f"acceptance length {record.acceptance_length:.2f}"
    if record.alpha is None:
        what = f"{length}; " if length else ""
        return f"{what}accepted/drafted is unknown: {record.unknown.get('alpha', 'not printed')}"
    draft = f"at K={record.k}" if record.k is not None else "at a draft length that is not printed"
    if (why := record.unknown.get("k", "")).startswith("several draft lengths:"):
        draft = f"over {why}, which no single alpha describes"
    return f"{record.alpha:.2f} accepted/drafted {draft}" + (f": {length}" if length else "")


def sparkline(windows: Sequence[Window], encoding: str | None, width: int = _WIDTH) -> str:
    """alpha from 0 to 1 as a row of bars, in `width` columns; ASCII where the terminal has no block characters.

    Fewer than two windows with an alpha give an empty string.
    """
    points = [(window.alpha, window.drafts or window.drafted or 1) for window in windows if window.alpha is not None]
    if len(points) < 2:
        return ""
    columns = min(width, len(points))
    bars = _BARS
    try:
        bars.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        bars = _ASCII_BARS
    line = ""
    for column in range(columns):
        part = points[column * len(points) // columns : (column + 1) * len(points) // columns]
        mean = sum(alpha * weight for alpha, weight in part) / sum(weight for _, weight in part)
        line += bars[min(len(bars) - 1, int(mean * len(bars)))]
    return line


def _latency(record: AcceptanceRecord) -> str:
    bench = record.bench
    assert bench is not None
    named = [
        ("concurrency", bench.concurrency, ""),
        ("TPOT mean", bench.tpot_mean_ms, " ms"),
        ("TPOT P99", bench.tpot_p99_ms, " ms"),
        ("ITL P99", bench.itl_p99_ms, " ms"),
        ("TTFT P99", bench.ttft_p99_ms, " ms"),
    ]
    return ", ".join(f"{name} {value:g}{unit}" for name, value, unit in named if value is not None) or "none printed"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


@contextmanager
def _progress_bar(files: Sequence[str]) -> Iterator[Callable[[int], None] | None]:
    """A bar on stderr for large inputs, only if stderr is a terminal. Yields what `read` wants as `progress`."""
    size = sum(os.path.getsize(file) for file in files if file != "-" and os.path.isfile(file))
    if not sys.stderr.isatty() or (size < _WORTH_A_BAR and "-" not in files):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None if "-" in files else size)
        before = last = 0

        def progress(done: int) -> None:
            nonlocal before, last
            if done < last:
                before += last
            last = done
            bar.update(task, completed=before + done)

        yield progress
