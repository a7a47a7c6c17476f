"""A benchmark file as a record, whether it speculated or not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..telemetry import TelemetryError, read, read_bench
from ..telemetry.record import AcceptanceRecord


def benchmark(path: str | Path) -> AcceptanceRecord:
    """The record of one client benchmark, for `PlanInput.baseline` or `.candidate`.

    With draft counts where the file prints some; a run without speculation has latencies only, and engine "unknown".
    TelemetryError (a ValueError) if the file holds no benchmark.
    """
    try:
        record = read(path)
    except TelemetryError:
        if str(path) == "-":
            raise
        record = None
    if record is not None and record.bench is not None:
        return record
    bench = read_bench(path)
    if record is not None:
        return replace(record, bench=bench)
    return AcceptanceRecord(engine="unknown", format="bench", bench=bench, files=(str(path),))
