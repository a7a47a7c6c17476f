"""One call for all formats: sniff, read, pick what the input is about, assemble the record.

All readers see every candidate line; what an input is follows from what was found in it, not from its name. Files of
one call are one measurement: rotated logs are added, scrapes of a metrics page are differenced, a benchmark beside a
log gives its latencies. Two kinds of one engine might count the same traffic twice and are not added: the one with more
to say speaks. Files of two engines are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from .assemble import Reading, assemble
from .bench_text import BenchText
from .errors import MixedInput, TelemetryError
from .json_reader import LARGEST_DOCUMENT, JsonReader, parse
from .llamacpp_log import LlamaCppLog
from .metrics_page import MetricsPage
from .reader import LineReader
from .record import AcceptanceRecord, Bench
from .scan import Scanner
from .sglang_log import SglangLog
from .source import Progress, chunks, open_source
from .summary_text import SummaryText
from .vllm_v0_log import VllmV0Log
from .vllm_v1_log import VllmV1Log

# How files begin that other programs unpack: first bytes, name, command.
PACKED = ((b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"), (b"\xfd7zXZ\0", "xz", "xz -dc"), (b"BZh", "bzip2", "bzip2 -dc"))


def read(paths: Sequence[str | Path] | str | Path, progress: Progress | None = None) -> AcceptanceRecord:
    """Acceptance telemetry of one or several files (`-` is standard input, gzip is recognised).

    `progress` is called with the bytes read of the current file. Raises TelemetryError, a ValueError of one sentence,
    for what is no telemetry or says nothing about speculation.
    """
    listed = _listed(paths)
    call = _Call(progress, many=len(listed) > 1)
    for path in listed:
        with open_source(path) as (stream, name):
            call.read_file(stream, name)
    return call.record()


def read_stream(stream: BinaryIO, name: str = "stream", progress: Progress | None = None) -> AcceptanceRecord:
    """Acceptance telemetry of one open binary stream."""
    call = _Call(progress, many=False)
    call.read_file(stream, name)
    return call.record()


def read_bench(path: str | Path, progress: Progress | None = None) -> Bench:
    """Latencies of a client benchmark, also of one without speculation (a baseline). TelemetryError if it is none."""
    call = _Call(progress, many=False)
    with open_source(path) as (stream, name):
        call.read_file(stream, name, need_speculation=False)
    found = call.benches()
    if not found:
        raise TelemetryError(f"{name}: no client benchmark in it (vllm bench serve, sglang.bench_serving)")
    if len(found) > 1:
        raise TelemetryError(f"{name} holds {len(found)} benchmark runs; give a file with one")
    return found[0]


def _listed(paths: Sequence[str | Path] | str | Path) -> list[str | Path]:
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    if not listed:
        raise TelemetryError("no file given")
    if sum(str(path) == "-" for path in listed) > 1:
        raise TelemetryError("standard input (-) is given twice; it can be read once")
    return listed


class _Call:
    """Readers that live through all files of a call."""

    def __init__(self, progress: Progress | None, many: bool = True) -> None:
        self.progress, self.many = progress, many
        self.json, self.bench_text = JsonReader(), BenchText()
        self.readers: list[LineReader] = [
            VllmV1Log(),
            VllmV0Log(),
            SglangLog(),
            LlamaCppLog(),
            MetricsPage(),
            self.bench_text,
            SummaryText(),
            self.json,
        ]
        self.scanner = Scanner(self.readers)
        self.files: list[str] = []
        self.notes: list[str] = []
        self.oversized = False

    def read_file(self, stream: BinaryIO, name: str, need_speculation: bool = True) -> None:
        self.files.append(name)
        before = self._found()
        refused_before = sum(len(reader.refusals) for reader in self.readers)
        label = Path(name).name if self.many else None
        self.scanner.start_file(label)
        notes: list[str] = []
        parts = chunks(stream, name, notes, self.progress)
        document: list[bytes] | None = None
        size = 0
        for part in parts:
            if size == 0 and _looks_like_json(part):
                document = []
            size += len(part)
            if document is not None:
                document.append(part)
                if size <= LARGEST_DOCUMENT:
                    continue
                for held in document:
                    self.scanner.feed(held)
                document = None
                self.oversized = True
            else:
                self.scanner.feed(part)
        cut = None
        if document is not None:
            cut = self._document(b"".join(document))
        self.scanner.end_file()
        self.notes += [f"{name}: {note}" for note in notes]
        if self._found() > before or not need_speculation:
            return
        refusals = [reason for reader in self.readers for reason in reader.refusals]
        if len(refusals) <= refused_before:
            # Some reasons are known at the end only.
            for reader in self.readers:
                reader.readings()
            refusals = [reason for reader in self.readers for reason in reader.refusals]
        raise TelemetryError(f"{name}: {self._why_nothing(size, cut, refusals, notes)}")

    def _found(self) -> int:
        repeats = sum(reader.repeats for reader in self.readers)
        return (
            repeats + sum(reader.found() for reader in self.readers) - len(self.bench_text.bare) - len(self.json.bare)
        )

    def _document(self, data: bytes) -> str | None:
        """Read a whole JSON document, or its lines; returns what is wrong with it where nothing is found."""
        text = data.decode("utf-8", "replace").strip("\ufeff \t\r\n\x00")
        try:
            self.json.document(parse(text))
            return None
        except ValueError as error:
            problem = str(error)
        for start in range(0, len(data), 1 << 20):
            self.scanner.feed(data[start : start + (1 << 20)])
        return problem

    def _why_nothing(self, size: int, cut: str | None, refusals: list[str], notes: list[str]) -> str:
        if size == 0:
            return "it is empty" if not notes else notes[0]
        if refusals:
            return refusals[0]
        if self.oversized:
            return f"it is one JSON document of over {LARGEST_DOCUMENT >> 20} MiB; save it without per-request details"
        if cut is not None:
            return f"the JSON is cut or damaged ({_short(cut)})"
        for begins, name, reads in PACKED:
            if self.scanner.head.startswith(begins):
                return f"it is packed with {name}, which is not read here; right: {reads} FILE | labsim alpha -"
        if self.scanner.binary():
            return "it is binary, not a log, a metrics page or JSON"
        head = self.scanner.head
        if b"Decode batch" in head or b"Avg generation throughput" in head:
            return "it is an engine's log, but no line reports speculation: none is configured, or statistics are off"
        if head[:1] in b"{[" and self.json.empty:
            return "its JSON holds no speculation figures"
        return "no acceptance telemetry of a known format in it"

    def benches(self) -> list[Bench]:
        found = [bench for reader in self.readers for reading in reader.readings() for bench in reading.benches]
        return found + self.bench_text.bare + self.json.bare

    def record(self) -> AcceptanceRecord:
        found = [reading for reader in self.readers for reading in reader.readings()]
        if not found:
            reasons = [reason for reader in self.readers for reason in reader.refusals]
            reason = reasons[0] if reasons else "no acceptance telemetry of a known format in it"
            raise TelemetryError(f"{' '.join(self.files)}: {reason}")
        chosen = self._choose(found)
        for note in self.notes:
            chosen.warn(note)
        if self.scanner.long_lines:
            chosen.warn(f"truncated: {self.scanner.long_lines} line(s) over 8 MiB were split")
        return assemble(chosen, self.files)

    def _choose(self, found: list[Reading]) -> Reading:
        """The reading that speaks; a benchmark beside it lends its latencies."""
        others = [reading for reading in found if not reading.benches]
        runs = [reading for reading in found if reading.benches]
        pool = others or runs
        chosen = max(pool, key=lambda reading: (reading.tally.total.drafted, reading.tally.total.n))
        bare = self.bench_text.bare + self.json.bare
        if not chosen.benches:
            chosen.benches = [bench for reading in runs for bench in reading.benches] or bare
        for other in found:
            if other is chosen:
                continue
            if other.benches and others:
                chosen.warn(f"mixed input: {other.format} beside {chosen.format} lends its latencies only")
                continue
            if len(self.files) > 1 and not other.benches and other.engine != chosen.engine:
                raise MixedInput(
                    f"{' '.join(self.files)}: {chosen.format} and {other.format} are two services; allowed: the files "
                    "of one"
                )
            chosen.warn(f"mixed input: only {chosen.format} was read; {other.format} in it is left out: give it alone")
        return chosen


def _looks_like_json(part: bytes) -> bool:
    head = part[:256].lstrip(b"\xef\xbb\xbf \t\r\n")
    return head[:1] == b"{" or (head[:1] == b"[" and head[1:].lstrip()[:1] in (b"{", b"[", b"]"))


def _short(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."
