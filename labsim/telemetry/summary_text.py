"""Summaries printed once at the end of a run: vLLM's offline `spec_decode.py`, TensorRT-LLM's `trtllm-bench`.

The offline script prints counts and rates per position (survival):

    num_drafts: 4816          num_draft_tokens: 33712      num_accepted_tokens: 12208
    mean acceptance length: 3.53                           acceptance at token 0: 0.74

`trtllm-bench` prints means over *requests* of draft tokens [DT], accepted draft tokens [ADT], their ratio [DAR] and
the acceptance length [AL]. Each request counts K draft tokens per step, so AL = 1 + K * DAR holds for the means too
and gives K; alpha over tokens is ADT / DT.

A lone `acceptance length: 3.2` from anything else is refused: whether it includes the target's own token is unknown.
"""

from __future__ import annotations

import re

from .assemble import Reading
from .reader import LineReader, clean
from .sums import Observation
from .values import count, draft_length, fraction, length, number, survival

_COUNT = re.compile(
    r"^\W*(?:total\s+)?num(?:ber)?[ _](?:of[ _])?(drafts|draft[ _]tokens|accepted[ _]tokens)"
    r"(?:\s*\([^)]{0,40}\))?\s*:\s*(\d{1,15})(?:\.0+)?\W*$",
    re.IGNORECASE,
)
_LENGTH = re.compile(r"^\W*mean accept(?:ance)?[ _]length\s*:\s*(\d+\.\d+)\W*$", re.IGNORECASE)
_AT = re.compile(r"^\W*acceptance at token (\d{1,4})\s*:\s*(\d\.\d+)\W*$", re.IGNORECASE)
_TRT = re.compile(r"\[(DT|ADT|DAR|AL)\]\s*AVERAGE\s*:\s*(\d[\d.]{0,20})")
_BARE = re.compile(r"\b(?:average|avg|mean)?[ _]?accept(?:ance|ed)?[ _]length\b\W{1,6}\d", re.IGNORECASE)


class SummaryText(LineReader):
    """Counts and rates by name; a repeated name begins the next run."""

    wants = re.compile(
        r"num(?:ber)?[ _](?:of[ _])?(?:drafts|draft[ _]tokens|accepted)|acceptance at token|"
        r"accept(?:ance|ed)?[ _]length|\[(?:DT|ADT|DAR|AL)\]",
        re.IGNORECASE,
    )

    def __init__(self) -> None:
        super().__init__()
        self.reading = Reading("vllm", "vllm-offline", one_window_is_one="run", rate_half=0.005)
        self.trt = Reading("tensorrt-llm", "tensorrt-llm-bench", one_window_is_one="run")
        self.counts: dict[str, int] = {}
        self.mean: float | None = None
        self.rates: dict[int, float] = {}
        self.averages: dict[str, float] = {}
        self.bare = False

    def line(self, text: str) -> None:
        text = clean(text)
        if found := _COUNT.match(text):
            name = found[1].lower().replace(" ", "_")
            if name in self.counts:
                self._close()
            if (value := count(found[2])) is not None:
                self.counts[name] = value
        elif found := _LENGTH.match(text):
            if self.mean is not None:
                self._close()
            self.mean = length(found[1])
        elif found := _AT.match(text):
            if (rate := fraction(found[2])) is not None:
                self.rates[int(found[1])] = rate
        elif found := _TRT.search(text):
            if found[1] in self.averages:
                self._close_trt()
            if (value := number(found[2])) is not None:
                self.averages[found[1]] = value
        elif "SpecDecoding" not in text and "draft acceptance" not in text and _BARE.search(text):
            self.bare = True

    def end_file(self) -> None:
        self._close()
        self._close_trt()

    def _close(self) -> None:
        counts, mean, rates = self.counts, self.mean, self.rates
        self.counts, self.mean, self.rates = {}, None, {}
        drafts, drafted, accepted = (counts.get(name) for name in ("drafts", "draft_tokens", "accepted_tokens"))
        shape = survival([rates[i] for i in sorted(rates)]) if sorted(rates) == list(range(len(rates))) else None
        if drafted == 0 or drafts == 0:
            self.refuse("it counts zero drafts: no speculation ran")
            return
        if accepted is None or drafted is None:
            # The first versions of the script print the length and the rates only; both name the bonus token.
            if mean is None or shape is None:
                self.bare |= mean is not None
                return
            drafts = drafted = accepted = None
            self.reading.reasons["alpha"] = "this version prints no counts, and drafts may be shorter than K"
        k = len(shape) if shape else None
        if k is None and drafts and drafted and drafted % drafts == 0:
            k = draft_length(drafted // drafts)
        if drafts and accepted is not None and mean is not None and abs(mean - 1 - accepted / drafts) > 0.0051:
            self.reading.warn(
                f"identity broken: the printed acceptance length {mean:g} is not 1 + accepted/drafts = "
                f"{1 + accepted / drafts:.4f}"
            )
        self.seen += self.reading.add(
            Observation(k=k, drafts=drafts, drafted=drafted, accepted=accepted, acceptance_length=mean, survival=shape)
        )

    def _close_trt(self) -> None:
        averages, self.averages = self.averages, {}
        rate, mean = fraction(averages.get("DAR")), length(averages.get("AL"))
        if rate is None and mean is None:
            return
        self.seen += 1
        k = None
        if rate and mean is not None:
            admitted = [k for k in range(1, 65) if abs(1 + k * rate - mean) <= 0.005 * k + 0.0051]
            k = admitted[0] if len(admitted) == 1 else None
        drafted, accepted = averages.get("DT"), averages.get("ADT")
        alpha = fraction(accepted / drafted) if drafted and accepted is not None else rate
        self.trt.tally.add(Observation(k=k, alpha=alpha, acceptance_length=mean))
        self.trt.warn("these are means over requests: acceptance length gives every request the same weight")
        for name in ("drafts", "drafted", "accepted"):
            self.trt.reasons[name] = "trtllm-bench prints means per request, no totals"
        self.trt.reasons["k"] = "the printed means of rate and length admit several draft lengths"

    def readings(self) -> list[Reading]:
        found = self.usable([self.reading, self.trt])
        if not found and self.bare:
            self.refuse(
                "it prints an acceptance length without counts, and whether that includes the target's token is unknown"
            )
        return found
