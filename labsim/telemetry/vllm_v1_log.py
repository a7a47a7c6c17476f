"""vLLM V1's periodic line, `SpecDecoding metrics: ...`, in all its wordings.

    0.8         Draft acceptance rate: 37.2%, Accepted: 432 tokens, Drafted: 1160 tokens
    0.9-0.10.1  + Mean acceptance length, Per-position acceptance rate (at the end)
    0.10.2 on   Mean acceptance length first, throughputs, Avg Draft acceptance rate at the end

Counts are per window and exact, drafts are not printed (`labsim.telemetry.steps`). The per-position rates are
survival. The throughputs divide by the time since the last print, so after an idle hour they say 0.01 tokens/s: not
used, but the elapsed time that they imply is.

The line carries no engine id; the `Engine 003:` line of the same process just before it does. Several engines whose
names a filter took away give themselves away: together their prints cover more time than has passed.

Terminals wrap the line and lose the space at the wrap, so pieces are joined until the wording is complete.
"""

from __future__ import annotations

import re

from .assemble import Reading
from .clock import timestamp
from .reader import LineReader, clean, process_id, replica
from .steps import recover_steps
from .sums import Observation
from .values import count, draft_length, fraction, length, number, survival

_START = re.compile(r"SpecDecoding\s*metrics\s*:|(?<![a-z] )\bMean\s*acceptance\s*length\s*:\s*[\d.n]")
_ENGINE = re.compile(r"\bEngine (\d{1,5}):")
_NEW_RECORD = re.compile(
    r"^\s*(?:\(\w+ pid=\d+\)|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|\d{4}-\d\d-\d\d|\[\d{4}-|SpecDecoding|=====|\{)"
)
_NUMBER = r"([-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|nan|inf))"
_LENGTH = re.compile(rf"Mean\s*acceptance\s*length\s*:\s*{_NUMBER}\s*(?=,|$|[A-Z])")
_ACCEPTED = re.compile(r"Accepted\s*:\s*(-?\d{1,18})\s*tokens")
_DRAFTED = re.compile(r"Drafted\s*:\s*(-?\d{1,18})\s*tokens")
_THROUGHPUT = re.compile(rf"Drafted\s*throughput\s*:\s*{_NUMBER}\s*tokens/s")
_RATE = re.compile(rf"[Dd]raft\s*acceptance\s*rate\s*:\s*{_NUMBER}\s*%")
_RATES = re.compile(r"Per-position\s*acceptance\s*rate\s*:\s*\[?((?:[\d.]+|nan|[,\s])*)")
_THREE_DIGITS = re.compile(r"^[01]\.\d{3}$")
_CONFIG_K = re.compile(r"num_spec(?:ulative)?_tokens[\"']?\s*[=:]\s*(\d{1,4})")
_MOST_PIECES = 12
_IDLE_SECONDS = 60.0


class VllmV1Log(LineReader):
    """Windows of `SpecDecoding metrics` lines."""

    wants = re.compile(f"{_START.pattern}|{_ENGINE.pattern}|num_spec(?:ulative)?_tokens")

    def __init__(self) -> None:
        super().__init__()
        self.reading = Reading("vllm", "vllm-v1-log")
        self.pieces: list[str] = []
        self.first = ""
        self.engine_of: dict[tuple[str | None, str | None], str] = {}
        self.empty = self.cut = self.diluted = 0
        self.config_k: int | None = None

    def line(self, text: str) -> None:
        text = clean(text)
        start = _START.search(text)
        if self.pieces:
            fresh = start is not None and not (start[0].startswith("Mean") and len(self.pieces) < 2)
            if not fresh and not _NEW_RECORD.search(text) and len(self.pieces) < _MOST_PIECES and text.strip():
                self.pieces.append(text.strip())
                if self._complete(joined := "".join(self.pieces)):
                    self._close(joined)
                return
            self._close("".join(self.pieces))
        if start is not None:
            self.first = text
            joined = text[start.start() :]
            if self._complete(joined):
                self._close(joined)
            else:
                self.pieces, self.collecting = [joined], True
        elif engine := _ENGINE.search(text):
            if len(self.engine_of) < 4096:
                self.engine_of[replica(text), process_id(text)] = engine[1]
        elif config := _CONFIG_K.search(text):
            self.config_k = draft_length(config[1]) or self.config_k

    def end_file(self) -> None:
        if self.pieces:
            self._close("".join(self.pieces))
        self.engine_of.clear()

    @staticmethod
    def _complete(text: str) -> bool:
        """Whether nothing more can belong to this print."""
        drafted = _DRAFTED.search(text)
        if drafted is None or text.endswith((",", ":", "-")):
            return False
        if "throughput" in text:
            return _RATE.search(text, drafted.end()) is not None
        if "Per-position" not in text:
            # The oldest wording ends here; the middle one goes on with a comma.
            return "Mean" not in text or _RATE.search(text) is None
        rates, printed = _rates(text), _LENGTH.search(text)
        if rates is None or printed is None or (mean := number(printed[1])) is None:
            return rates is not None
        return abs(1 + sum(rates) - mean) <= 0.006 + 0.0005 * len(rates)

    def _close(self, text: str) -> None:
        self.pieces, self.collecting = [], False
        accepted, drafted = _ACCEPTED.search(text), _DRAFTED.search(text)
        if accepted is None or drafted is None:
            self.cut += 1
            return
        start, time = timestamp(self.first)
        process = (replica(self.first), process_id(self.first))
        if self.repeated(start, *process, self.engine_of.get(process), text):
            return
        n_accepted, n_drafted = count(accepted[1]), count(drafted[1])
        if n_accepted is None or n_drafted is None:
            self.cut += 1
            return
        if n_drafted == 0:
            self.empty += 1
            return
        printed = _LENGTH.search(text)
        mean, rates = length(printed[1]) if printed else None, _rates(text)
        if rates is not None and mean is not None and abs(1 + sum(rates) - mean) > 0.006 + 0.0005 * len(rates):
            if len(rates) * n_drafted >= n_accepted and _cut_rates(text):
                rates = None
            else:
                self.reading.warn(
                    f"identity broken: 1 + the sum of the per-position rates is {1 + sum(rates):.3f}, the printed mean "
                    f"acceptance length {mean:.2f}"
                )
        steps = recover_steps(n_accepted, n_drafted, mean, rates, None if rates else self.config_k)
        if not steps.consistent:
            self.reading.warn("identity broken: no number of drafts agrees with the counts, length and rates of a line")
        self._compare_rate(text, n_accepted, n_drafted)
        self.seen += self.reading.add(
            Observation(
                start=start,
                time=time,
                engine=self.engine_label(*process, self.engine_of.get(process)),
                k=steps.k or self.config_k,
                drafts=steps.drafts,
                margin=steps.margin,
                drafted=n_drafted,
                accepted=n_accepted,
                acceptance_length=mean,
                survival=survival(list(steps.survival)) if steps.survival else None,
                seconds=self._elapsed(text, n_drafted),
            )
        )

    def _compare_rate(self, text: str, accepted: int, drafted: int) -> None:
        printed = _RATE.search(text)
        value = number(printed[1]) if printed else None
        if value is not None and abs(value - 100 * accepted / drafted) > 0.051:
            self.reading.warn(
                f"identity broken: the printed draft acceptance rate {value:g}% is not accepted/drafted = "
                f"{100 * accepted / drafted:.1f}%"
            )

    def _elapsed(self, text: str, drafted: int) -> float:
        """Seconds since the same engine's last print; 0 where they are not printed or lost in rounding."""
        printed = _THROUGHPUT.search(text)
        per_second = number(printed[1]) if printed else None
        if per_second is not None and 0 <= per_second * _IDLE_SECONDS < drafted:
            self.diluted += 1
        return drafted / per_second if per_second is not None and per_second >= 1 else 0.0

    def readings(self) -> list[Reading]:
        if self.seen == 0:
            if self.empty:
                self.refuse("it prints nan% or zero drafted tokens only: no speculation is configured, or none ran")
            elif self.cut:
                self.refuse("its SpecDecoding lines are cut before the counts")
            return self.usable([self.reading])
        reading = self.reading
        self.warn_of_repeats(reading)
        if self.cut:
            reading.warn(f"truncated: {self.cut} line(s) cut before the counts were ignored")
        if self.diluted:
            reading.warn(
                f"diluted throughput: {self.diluted} window(s) lasted over {_IDLE_SECONDS:.0f} s of mostly idle time, "
                "so the printed tokens/s mean nothing; the counts do"
            )
        total = reading.tally.total
        if total.common_k() is None and len(total.k) == 2 and total.k[None] > 0:
            # A window that lost its rates, or an older wording between newer ones, has the K of its neighbours.
            reading.k = next(value for value in total.k if value is not None)
        if total.total("drafts") is None and total.with_length < total.n:
            reading.reasons["drafts"] = "this wording prints tokens only, neither the acceptance length nor the drafts"
            reading.reasons["k"] = "this wording prints neither rates per position nor the acceptance length"
        return [reading]


def _cut_rates(text: str) -> bool:
    """Whether the list of rates may have lost its end: nothing follows it, or an ellipsis does."""
    match = _RATES.search(text)
    return match is not None and (not text[match.end() :].strip() or text[match.end() :].lstrip().startswith("..."))


def _rates(text: str) -> list[float] | None:
    """The printed rates per position, without an unfinished last one; None where the list is absent or elided."""
    match = _RATES.search(text)
    if match is None or text[match.end() :].lstrip().startswith(("...", "…")) or "..." in match[1]:
        return None
    parts = [part.strip() for part in match[1].split(",") if part.strip()]
    if parts and not _THREE_DIGITS.match(parts[-1]) and not text[match.end() :].strip():
        parts.pop()
    values = [fraction(part) for part in parts]
    if not values or len(values) > 1024 or any(value is None for value in values):
        return None
    return [value for value in values if value is not None]
