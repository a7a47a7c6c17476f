"""The block that `vllm bench serve` and `sglang.bench_serving` print at the end.

    ============ Serving Benchmark Result ============
    Maximum request concurrency:             8
    Mean TPOT (ms):                          5.36
    ---------------Speculative Decoding---------------
    Acceptance rate (%):                     42.23
    Drafts:                                  9000
      Position 0:                            65.06

Rates are per cent in this block, also per position; counts are exact and come first. Blocks are quoted, indented, cut
at either end, and begin behind a progress bar; SGLang prints `Accept length` and calls the limit `Max request
concurrency`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from .assemble import Reading
from .reader import LineReader, clean
from .record import Bench
from .sums import Observation
from .values import count, draft_length, length, number, survival

_HEADER = re.compile(r"Serving Benchmark Result")
# Names that no other program prints: a block whose head was lost begins at one of them, and again where one repeats.
_HEADLESS = re.compile(r"(?:Mean TTFT \(ms\)|Acceptance rate \(%\)) *:")
_FOOTER = re.compile(r"^\W*={20,}\W*$")
_FIELD = re.compile(r"^\W*?([A-Za-z][A-Za-z0-9 ().%/_-]{2,48}?)\s*:\s*\**\s*(\S{1,40})")
_POSITION = re.compile(r"^\W*Position\s+(\d{1,4})\s*:\s*\**\s*([\d.]{1,12})\s*%?")
_MOST_LINES = 300

_BENCH = {
    "mean tpot (ms)": "tpot_mean_ms",
    "p99 tpot (ms)": "tpot_p99_ms",
    "mean itl (ms)": "itl_mean_ms",
    "p99 itl (ms)": "itl_p99_ms",
    "mean ttft (ms)": "ttft_mean_ms",
    "p99 ttft (ms)": "ttft_p99_ms",
    "output token throughput (tok/s)": "output_tokens_per_second",
}


class BenchText(LineReader):
    """Benchmark blocks; each is one run."""

    wants = re.compile(f"{_HEADER.pattern}|{_HEADLESS.pattern}")

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.rates: dict[int, float] = {}
        self.lines = 0
        self.finished = False
        self.reading = Reading("vllm", "vllm-bench-text", one_window_is_one="run", rate_half=0.00005)
        self.bare: list[Bench] = []
        self.sglang = False

    def line(self, text: str) -> None:
        text = clean(text)
        if _HEADER.search(text):
            self._close()
            self.collecting, self.lines, self.finished = True, 1, False
            return
        headless = _HEADLESS.search(text)
        if headless and (not self.collecting or headless[0].rstrip(" :").lower() in self.fields):
            self._close()
            self.collecting, self.lines, self.finished = True, 1, False
        self.lines += 1
        if _FOOTER.match(text) and self.lines > 2:
            self.finished = True
            self._close()
        elif self.lines > _MOST_LINES:
            self._close()
        elif position := _POSITION.match(text):
            if (rate := number(position[2])) is not None:
                self.rates[int(position[1])] = rate
        elif field := _FIELD.match(text):
            self.fields.setdefault(" ".join(field[1].lower().split()), field[2])

    def end_file(self) -> None:
        self._close()

    def _close(self) -> None:
        fields, rates, self.fields, self.rates = self.fields, self.rates, {}, {}
        was_open, self.collecting = self.collecting, False
        if not was_open or not fields:
            return
        if not self.finished:
            self.reading.warn("truncated: the benchmark block ends before its closing line")
        self.sglang |= any(
            name in fields for name in ("accept length", "max request concurrency", "traffic request rate")
        )
        bench = _bench(fields)
        drafts, drafted, accepted = (count(fields.get(key)) for key in ("drafts", "draft tokens", "accepted tokens"))
        mean = length(fields.get("acceptance length") or fields.get("accept length"))
        percent = number(fields.get("acceptance rate (%)", fields.get("acceptance rate", "")).rstrip("%"))
        if drafted == 0 or (mean is None and percent is None and not accepted):
            self.bare.append(bench)
            self.seen += 1
            return
        shape = _survival(rates)
        k = len(shape) if shape else None
        if k is None and drafts and drafted and drafted % drafts == 0:
            k = draft_length(drafted // drafts)
        alpha = percent / 100 if percent is not None and 0 <= percent <= 100 else None
        if drafted and accepted is not None and alpha is not None and abs(alpha - accepted / drafted) > 0.00006:
            self.reading.warn(
                f"identity broken: the printed acceptance rate {percent:g}% is not accepted/drafted = "
                f"{100 * accepted / drafted:.2f}%"
            )
        if drafts and accepted is not None and mean is not None and abs(mean - 1 - accepted / drafts) > 0.0051:
            self.reading.warn(
                f"identity broken: the printed acceptance length {mean:g} is not 1 + accepted/drafts = "
                f"{1 + accepted / drafts:.4f}"
            )
        seen = Observation(
            k=k,
            drafts=drafts or None,
            drafted=drafted,
            accepted=accepted,
            alpha=alpha,
            acceptance_length=mean,
            survival=shape,
        )
        if self.reading.add(seen):
            self.seen += 1
            self.reading.benches.append(bench)

    def readings(self) -> list[Reading]:
        reading = self.reading
        if self.sglang:
            reading.engine, reading.format = "sglang", "sglang-bench-text"
            reading.reasons.update(
                alpha="SGLang's client prints an acceptance length, not the draft length",
                k="SGLang's client does not print the draft length",
            )
        if reading.benches:
            if self.bare:
                reading.warn(
                    f"{len(self.bare)} benchmark run(s) without speculation were read beside; they count nothing"
                )
            return [reading]
        if self.bare:
            self.refuse(no_speculation(self.bare[0]))
        return self.usable([reading])


def no_speculation(bench: Bench) -> str:
    """Why a benchmark without counters is not telemetry, and what its latencies hint at."""
    reason = "it is a benchmark without a speculation section: none is configured, or this client does not report it"
    if bench.itl_mean_ms and bench.tpot_mean_ms and bench.itl_mean_ms / bench.tpot_mean_ms > 1.1:
        ratio = bench.itl_mean_ms / bench.tpot_mean_ms
        reason += f" (mean ITL / mean TPOT = {ratio:.2f} hints at an acceptance length of that size)"
    return reason


def _bench(fields: dict[str, str]) -> Bench:
    values = {name: number(fields.get(key)) for key, name in _BENCH.items()}
    limit = count(fields.get("maximum request concurrency") or fields.get("max request concurrency"))
    return replace(
        Bench(concurrency=limit or None), **{name: v for name, v in values.items() if v is not None and v >= 0}
    )


def _survival(percents: dict[int, float]) -> tuple[float, ...] | None:
    if sorted(percents) != list(range(len(percents))):
        return None
    return survival([percents[i] / 100 for i in range(len(percents))])
