"""JSON in any shape: one document, one document per line (JSONL), server-sent events, lines within a log.

A document is parsed whole up to 128 MiB; longer inputs are read line by line. A streamed answer repeats its figures in
every chunk, cumulated: the last one of each id counts.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from .assemble import Reading
from .bench_text import no_speculation
from .json_bench import BenchRun, bench_run
from .json_request import Found, requests
from .reader import LineReader
from .record import Bench
from .scatter import lag_one

LARGEST_DOCUMENT = 128 << 20

_KEYS = re.compile(
    r'"(?:draft_n|spec_verify_ct|spec_accept_length|acceptance_histogram|speculative_decoding|num_draft_tokens|'
    r'total_draft_tokens|meta_info|spec_decode_\w+|accept_length|mean_tpot_ms|mean_itl_ms)"|numDraftTokens'
)
_ITERATION = re.compile(r"[\"'](numDraftTokens|numAcceptedTokens|numRequestsWithDraftTokens)[\"']\s*:\s*(\d{1,15})\b")
_MOST_STREAMS = 4096

_FORMATS = {"llama.cpp": "llama.cpp-timings", "tensorrt-llm": "tensorrt-llm-json"}


def parse(text: str) -> Any:
    """A JSON value; ValueError for anything else, however deep or long its numbers are."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


class JsonReader(LineReader):
    """Requests and benchmark runs out of JSON."""

    wants = _KEYS
    takes_long_lines = True

    def __init__(self) -> None:
        super().__init__()
        self.per_engine: dict[str, Reading] = {}
        self.benches: dict[str, Reading] = {}
        self.bare: list[Bench] = []
        self.streams: dict[str, list[Found]] = {}
        self.pairs = 0
        self.lag = [0.0] * 5
        self.bad_lines = self.empty = 0

    def line(self, text: str) -> None:
        """A log line that may hold a JSON object, or a printed dictionary of TensorRT-LLM's iteration statistics."""
        start = text.find("{")
        if start < 0:
            return
        try:
            document = parse(text[start : text.rfind("}") + 1])
        except ValueError:
            figures = {name: int(value) for name, value in _ITERATION.findall(text)}
            if len(figures) == 3:
                self.document(figures)
            else:
                self.bad_lines += 1
            return
        self.document(document)

    def document(self, document: Any) -> None:
        """One JSON value: a benchmark result, a list of them, or anything with requests inside."""
        items = document if isinstance(document, list) else [document]
        for item in items:
            run = bench_run(item)
            if run is not None:
                self._bench(run)
                continue
            found = self._requests(item)
            if not found:
                self.empty += 1
            elif _is_chunk(item):
                name = str(item.get("id") or item.get("id_slot") or item.get("index") or "")
                if name in self.streams or len(self.streams) < _MOST_STREAMS:
                    self.streams[name] = found
            else:
                for one in found:
                    self._request(one)

    def _requests(self, item: Any) -> list[Found]:
        try:
            return list(requests(item))
        except RecursionError:
            return []

    def found(self) -> int:
        return self.seen + len(self.streams)

    def end_file(self) -> None:
        streams, self.streams = self.streams, {}
        for found in streams.values():
            for one in found:
                self._request(one)

    def _request(self, found: Found) -> None:
        reading = self.per_engine.get(found.engine)
        if reading is None:
            name = _FORMATS.get(found.engine, f"{found.engine}-request-json")
            reading = Reading(found.engine, name, one_window_is_one="request", variable_length=found.variable_length)
            self.per_engine[found.engine] = reading
            if found.variable_length:
                reading.reasons["k"] = "llama.cpp drafts have variable length; the timings do not print it"
                reading.reasons["drafts"] = reading.reasons["acceptance_length"] = (
                    "the timings count tokens, not verification steps"
                )
        for warning in found.warnings:
            reading.warn(warning)
        seen = found.observation
        self.seen += reading.add(replace(seen, engine=self.engine_label()) if self.file_label else seen)
        for x, y in zip(found.steps, found.steps[1:], strict=False):
            self.pairs += 1
            for i, value in enumerate((x, y, x * x, y * y, x * y)):
                self.lag[i] += value

    def _bench(self, run: BenchRun) -> None:
        if run.observation is None:
            self.seen += 1
            self.bare.append(run.bench)
            return
        reading = self.benches.get(run.engine)
        if reading is None:
            reading = Reading(run.engine, f"{run.engine}-bench-json", one_window_is_one="run")
            if run.engine == "sglang":
                reading.reasons.update(
                    k="SGLang's client does not write the draft length",
                    alpha="SGLang's client writes an acceptance length, not the draft length",
                )
            self.benches[run.engine] = reading
        for warning in run.warnings:
            reading.warn(warning)
        if reading.add(run.observation):
            self.seen += 1
            reading.benches.append(run.bench)

    def readings(self) -> list[Reading]:
        for reading in self.per_engine.values():
            reading.autocorrelation = lag_one(self.pairs, tuple(self.lag))  # type: ignore[arg-type]
        found = self.usable([*self.benches.values(), *self.per_engine.values()])
        if found and self.bad_lines:
            found[0].warn(f"truncated: {self.bad_lines} JSON line(s) are cut or damaged and were ignored")
        if not found:
            if self.bare:
                self.refuse(no_speculation(self.bare[0]))
            elif self.empty:
                self.refuse("its JSON holds no speculation figures: none is configured, or they are switched off")
        return found


def _is_chunk(item: Any) -> bool:
    """A part of a streamed answer (OpenAI's format, or llama.cpp's own); its timings are cumulated."""
    if not isinstance(item, dict):
        return False
    return str(item.get("object", "")).endswith(".chunk") or {"content", "stop", "timings"} <= item.keys()
