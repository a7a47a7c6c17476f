"""llama.cpp: `draft acceptance = 0.64479 (  167 accepted /   259 generated), mean len =  2.92`, once per request.

Spellings differ (`draft acceptance rate = `, `mean acceptance length =`), and newer builds add the rates per position,
on the line or on a second one, `acc per pos = (0.805, 0.632, 0.483)`. They are survival, over verification steps.
Drafts have *variable* length (they stop where the draft model is unsure), so K is not determined by any of this.

The `statistics draft-eagle3: ...` lines repeat the same tokens, cumulated over requests: they count only where no
request line is found. The tool `llama-speculative` prints n_drafted and n_accept instead.
"""

from __future__ import annotations

import re

from .assemble import Reading
from .clock import timestamp
from .reader import LineReader, clean, replica
from .steps import recover_steps
from .sums import Observation
from .values import count, fraction, length, survival

_REQUEST = re.compile(
    r"draft acceptance(?: rate)?\s*=\s*([\d.]+)\s*%?\s*\(\s*(\d{1,15})\s*(?:accepted)?\s*/\s*(\d{1,15})\s*"
    r"(?:generated)?\s*\)"
)
_CUT = re.compile(r"draft acceptance(?: rate)?\s*=")
_MEAN = re.compile(r"mean (?:len|acceptance length)\s*=\s*(\d+\.\d\d)(?!\d)")
_RATES = re.compile(r"(?:acceptance rate per position|acc per pos|#acc rate/pos)\s*=\s*\(([\d.,\s]*)\)")
_TASK = re.compile(r"\btask\s+(-?\d{1,12})\b")
_STATISTICS = re.compile(
    r"statistics\s+([\w.-]+)\s*:.{0,300}?#gen tokens\s*=\s*(\d{1,15}),\s*#acc tokens\s*=\s*(\d{1,15})"
)
_GEN_DRAFTS = re.compile(r"#gen drafts\s*=\s*(\d{1,15})")
_TOOL = re.compile(r"^\W*(?:[\d.]+ )?(?:I )?(n_draft|n_drafted|n_accept)\s*=\s*(\d{1,15})\s*$")


class LlamaCppLog(LineReader):
    """One observation per request."""

    wants = re.compile(r"draft acceptance|acc per pos|#acc tokens|\bn_draft|\bn_accept")

    def __init__(self) -> None:
        super().__init__()
        self.reading = Reading("llama.cpp", "llama.cpp-log", variable_length=True, one_window_is_one="request")
        self.open: tuple[str, re.Match[str], str | None] | None = None
        self.open_rates: list[float] | None = None
        self.waiting: tuple[str | None, list[float]] | None = None
        self.statistics: dict[str, tuple[int, int, int | None]] = {}
        self.tool: dict[str, int] = {}
        self.cut = self.empty = 0
        self.alphas: list[float] = []

    def line(self, text: str) -> None:
        text = clean(text)
        if tool := _TOOL.search(text):
            self.tool[tool[1]] = int(tool[2])
            return
        rates = _rates(text)
        task = _TASK.search(text)
        task_id = task[1] if task else None
        if request := _REQUEST.search(text):
            self._close()
            self.open = (text, request, task_id)
            self.open_rates = rates
            if rates is None and self.waiting and self.waiting[0] == task_id:
                self.open_rates = self.waiting[1]
            self.waiting = None
        elif statistics := _STATISTICS.search(text):
            drafts = _GEN_DRAFTS.search(text)
            if len(self.statistics) < 64 or statistics[1] in self.statistics:
                self.statistics[statistics[1]] = (
                    int(statistics[3]),
                    int(statistics[2]),
                    int(drafts[1]) if drafts else None,
                )
        elif rates is not None:
            if self.open and self.open_rates is None and self.open[2] == task_id:
                self.open_rates = rates
            else:
                self.waiting = (task_id, rates)
        elif _CUT.search(text):
            self.cut += 1

    def found(self) -> int:
        return self.seen + len(self.statistics) + len(self.tool)

    def end_file(self) -> None:
        self._close()
        self.waiting = None

    def _close(self) -> None:
        if self.open is None:
            return
        text, request, _ = self.open
        self.open, rates, self.open_rates = None, self.open_rates, None
        accepted, generated = count(request[2]), count(request[3])
        if not generated or accepted is None:
            self.empty += 1
            return
        if (
            accepted <= generated
            and (printed := fraction(request[1])) is not None
            and abs(printed - accepted / generated) > 6e-4
        ):
            self.reading.warn(
                f"identity broken: the printed draft acceptance {printed:g} is not accepted/generated = "
                f"{accepted / generated:.5f}"
            )
        start, time = timestamp(text)
        if self.repeated(start, text):
            return
        mean = _MEAN.search(text)
        printed_length = length(mean[1]) if mean else None
        steps = recover_steps(accepted, generated, printed_length, rates)
        drafts = steps.drafts if printed_length is not None and steps.consistent else None
        if not steps.consistent and printed_length is not None:
            self.reading.warn("identity broken: no number of drafts agrees with the counts, mean length and rates")
        if accepted <= generated and len(self.alphas) < 10_000:
            self.alphas.append(accepted / generated)
        self.seen += self.reading.add(
            Observation(
                start=start,
                time=time,
                engine=self.engine_label(replica(text)),
                drafts=drafts,
                margin=steps.margin if drafts is not None else 0,
                drafted=generated,
                accepted=accepted,
                acceptance_length=printed_length,
                survival=survival(list(steps.survival)) if steps.survival else None,
            )
        )

    def readings(self) -> list[Reading]:
        reading = self.reading
        if self.seen == 0:
            self._totals()
        if self.seen == 0:
            if self.empty:
                self.refuse("it counts zero drafted tokens: no speculation ran")
            elif self.cut:
                self.refuse("its draft acceptance line is cut before the counts")
            return self.usable([reading])
        self.warn_of_repeats(reading)
        if self.cut:
            reading.warn(f"truncated: {self.cut} line(s) cut before the counts were ignored")
        if len(self.alphas) >= 2 and self.alphas[-1] >= 0.9 and self.alphas[-1] - self.alphas[0] >= 0.2:
            reading.warn(
                f"acceptance rises from {self.alphas[0]:.2f} on the first request to {self.alphas[-1]:.2f} on the "
                "last: a repeated prompt reuses the draft's context and inflates it (llama.cpp#26100), so that only "
                "the first run counts"
            )
            reading.not_pooled = "acceptance rises as the same prompt is repeated: give the first run alone"
        reading.reasons["k"] = "llama.cpp drafts have variable length; the configured maximum is not their length"
        if reading.tally.total.total("drafts") is None:
            reading.reasons["drafts"] = "this build prints tokens only, no mean length"
            reading.reasons["acceptance_length"] = "this build prints tokens only, no mean length"
        return [reading]

    def _totals(self) -> None:
        """Cumulated statistics per drafter, or the counters of llama-speculative, where no request line is found."""
        rows = list(self.statistics.values())
        if not rows and "n_drafted" in self.tool and "n_accept" in self.tool:
            rows = [(self.tool["n_accept"], self.tool["n_drafted"], None)]
        self.statistics, self.tool = {}, {}
        for accepted, generated, drafts in rows:
            if generated > 0 and 0 <= accepted <= generated:
                self.seen += 1
                whole = drafts if drafts and drafts <= generated else None
                self.reading.tally.add(
                    Observation(engine=self.engine_label(), drafts=whole, drafted=generated, accepted=accepted)
                )


def _rates(text: str) -> list[float] | None:
    match = _RATES.search(text)
    if match is None:
        return None
    values = [fraction(part.strip()) for part in match[1].split(",") if part.strip()]
    good = [value for value in values if value is not None]
    return good if good and len(good) == len(values) and survival(list(values)) is not None else None
