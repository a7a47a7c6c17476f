"""vLLM V0's line, `Speculative metrics: ...`: the rate printed there is not accepted/drafted.

Its sampler counted every drafted token that matched, also those *after* the first mismatch, which are thrown away
(vllm#9565). `Draft acceptance rate: 0.754` may go with three accepted tokens in five. The figure that can be trusted
is

    system efficiency = emitted / (drafts * (K + 1)),    so    acceptance length = efficiency * (K + 1)

and, with it, alpha = (acceptance length - 1) / K. Emitted tokens include the target's own, one per draft.

The counters run from the start of the engine and are never reset, so the last line is the total; a fall means a
restart. Some early V1 builds print the same wording per window: there the numbers go up and down, and are added. Where
they fall from line to line but not from every second to the next, two engines print into one stream.
"""

from __future__ import annotations

import re
from collections import Counter, deque

from .assemble import Reading
from .clock import timestamp
from .reader import LineReader, clean, replica
from .streams import ALONE, MOST_IN_TURN
from .sums import Observation, Tally
from .values import count, draft_length, fraction

_START = re.compile(r"Speculative\s*metrics\s*:|System\s*efficiency\s*:")
_EFFICIENCY = re.compile(r"System\s*efficiency\s*:\s*([\d.]+|nan)\s*(?=,|$)")
_FIELD = {
    "k": re.compile(r"Number\s*of\s*speculative\s*tokens\s*:\s*(\d{1,6})\s*(?=,|$)"),
    "drafted": re.compile(r"Number\s*of\s*draft\s*tokens(?:\s*tokens)?\s*:\s*(\d{1,18})\s*(?=,)"),
    "emitted": re.compile(r"Number\s*of\s*emitted\s*tokens(?:\s*tokens)?\s*:\s*(\d{1,18})\s*(?=\.|,|$)"),
}
_END = re.compile(r"emitted\s*tokens(?:\s*tokens)?\s*:\s*\d+\s*\.")
_NEW_RECORD = re.compile(r"^\s*(?:\(\w+ pid=\d+\)|(?:DEBUG|INFO|WARNING|ERROR)\b|\d{4}-\d\d-\d\d|\[)")


class VllmV0Log(LineReader):
    """`Speculative metrics` lines: cumulative counters, emitted and drafted."""

    wants = _START

    def __init__(self) -> None:
        super().__init__()
        self.reading = Reading("vllm", "vllm-v0-log")
        self.pieces: list[str] = []
        self.first = ""
        self.previous: dict[str | None, deque[tuple[int, int]]] = {}
        self.falls: Counter[int] = Counter()  # by how many lines before
        # Both readings of the counters are kept until the end shows which holds.
        self.as_cumulative, self.as_windows = Tally(), Tally()
        self.efficiency: tuple[float, int] | None = None
        self.empty = self.cut = 0

    def line(self, text: str) -> None:
        text = clean(text)
        start = _START.search(text)
        if self.pieces:
            if not _NEW_RECORD.search(text) and "Speculative" not in text and len(self.pieces) < 8 and text.strip():
                self.pieces.append(text.strip())
                if _END.search("".join(self.pieces)):
                    self._close()
                return
            self._close()
        if start is not None:
            self.first, self.pieces, self.collecting = text, [text[start.start() :]], True
            if _END.search(text):
                self._close()

    def found(self) -> int:
        return self.seen + (self.efficiency is not None)

    def end_file(self) -> None:
        if self.pieces:
            self._close()
        self.previous.clear()

    def _close(self) -> None:
        text = "".join(self.pieces)
        self.pieces, self.collecting = [], False
        found = {name: pattern.search(text) for name, pattern in _FIELD.items()}
        k = draft_length(found["k"][1]) if found["k"] else None
        printed = _EFFICIENCY.search(text)
        efficiency = fraction(printed[1]) if printed else None
        drafted = count(found["drafted"][1]) if found["drafted"] else None
        emitted = count(found["emitted"][1]) if found["emitted"] else None
        if drafted == 0:
            self.empty += 1
            return
        if k is not None and efficiency is not None and efficiency * (k + 1) >= 1:
            self.efficiency = (efficiency, k)
        if k is None or drafted is None or emitted is None or emitted * k < drafted:
            self.cut += 1
            return
        self.seen += 1
        most = drafted // k * (k + 1)
        if efficiency is not None and most and abs(efficiency - emitted / most) > 0.002:
            self.reading.warn(
                f"identity broken: system efficiency {efficiency:g} is not emitted / maximum = {emitted / most:.3f}"
            )
        self.as_windows.add(self._observation(k, drafted, emitted))
        past = self.previous.setdefault(self._engine(), deque(maxlen=MOST_IN_TURN))
        for lag, (drafted_then, emitted_then) in enumerate(past, start=1):
            self.falls[lag] += drafted < drafted_then or emitted < emitted_then
        before = past[0] if past and drafted >= past[0][0] and emitted >= past[0][1] else (0, 0)
        past.appendleft((drafted, emitted))
        if drafted > before[0]:
            self.as_cumulative.add(self._observation(k, drafted - before[0], emitted - before[1]))

    def _engine(self) -> str | None:
        return self.engine_label(replica(self.first))

    def _observation(self, k: int, drafted: int, emitted: int) -> Observation:
        start, time = timestamp(self.first)
        drafts = drafted // k
        accepted = emitted - drafts
        whole = drafted % k == 0 and 0 <= accepted <= drafted
        return Observation(
            start=start,
            time=time,
            engine=self._engine(),
            k=k,
            drafts=drafts if whole else None,
            drafted=drafted,
            accepted=accepted if whole else None,
            acceptance_length=max(1.0, emitted * k / drafted),
            weight=drafted / k,
        )

    def readings(self) -> list[Reading]:
        reading = self.reading
        if self.cut:
            reading.warn(f"truncated: {self.cut} line(s) cut before all counts were ignored")
        if self.seen == 0:
            if self.efficiency is None:
                if self.empty:
                    self.refuse("its speculative metrics count zero draft tokens: no speculation ran")
                elif self.cut:
                    self.refuse("its speculative metrics are cut before the counts")
                return []
            efficiency, k = self.efficiency
            reading.tally.add(Observation(k=k, acceptance_length=efficiency * (k + 1)))
        else:
            falls = self.falls[1]
            per_window = falls >= 2 and falls > 0.2 * (self.seen - 1)
            reading.tally = self.as_windows if per_window else self.as_cumulative
            if falls and not per_window:
                reading.warn(f"counter reset: {falls} restart(s); the stretches between them are added")
            turns = [lag for lag in range(2, MOST_IN_TURN + 1) if self.seen > 2 * lag and self.falls[lag] < 0.1 * falls]
            if per_window and turns:
                reading.not_pooled = (
                    f"its counters fall from line to line but not from one to the {turns[0]} lines later: several "
                    f"engines print into one stream; {ALONE}"
                )
                reading.warn(f"mixed stream: {reading.not_pooled}")
        reading.warn(
            "the acceptance rate printed by vLLM V0 counts tokens after the first mismatch (vllm#9565); alpha here "
            "comes from the system efficiency"
        )
        return [reading]
