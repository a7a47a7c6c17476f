"""SGLang's scheduler line, `Decode batch ... accept len: 2.77, accept rate: 0.69, ...`.

`accept len` is tokens per verify step with the target's own token. The rate has two meanings (`sglang_rate`); some
versions print none. No counts are printed: windows are weighted by the running requests, since each window covers the
same number of steps. Only the lowest tensor-parallel rank of a data-parallel rank counts, the others repeat it.
"""

from __future__ import annotations

import re
from collections import Counter

from .assemble import Reading
from .clock import timestamp
from .reader import LineReader, clean, replica
from .sglang_rate import Pair, decide, pairs
from .sums import Observation, Tally
from .values import draft_length, length, number

_DECODE = re.compile(r"Decode batch")
_LENGTH = re.compile(r"accept\s*len(?:gth)?\s*:\s*(\d{1,4}(?:\.\d+)?)\s*(?=,|$)")
_RATE = re.compile(r"accept\s*rate\s*:\s*(-?\d{1,4}(?:\.\d+)?)\s*(?=,|$)")
_RUNNING = re.compile(r"#running-req\s*:\s*(\d{1,9})")
_RANK = re.compile(r"\b(?=[DTEP]P\d)(DP\d{1,5})?\s?\b(TP\d{1,5})?(?:\s?(?:EP|PP)\d{1,5})*\]")
_STEPS = re.compile(r"speculative_num_steps=(\d{1,4})")
_TOPK = re.compile(r"speculative_eagle_topk=(\d{1,4}|None)")
_MOST_GROUPS = 20_000


class SglangLog(LineReader):
    """Windows of `Decode batch` lines with `accept len`."""

    wants = re.compile(r"accept\s*len|speculative_num_steps")

    def __init__(self) -> None:
        super().__init__()
        self.tallies: dict[tuple[str | None, str], Tally] = {}
        self.admitted: Counter[frozenset[Pair]] = Counter()
        self.above_one = self.without_rate = self.cut = 0
        self.config_k: int | None = None

    def line(self, text: str) -> None:
        text = clean(text)
        if steps := _STEPS.search(text):
            topk = _TOPK.search(text)
            if topk is None or topk[1] in ("1", "None"):
                self.config_k = draft_length(steps[1])
            return
        if not _DECODE.search(text):
            return
        printed = _LENGTH.search(text)
        mean = length(printed[1]) if printed else None
        if mean is None:
            # A length of 0 is printed before the first verify step.
            self.cut += printed is None
            return
        start, time = timestamp(text)
        if self.repeated(start, text):
            return
        running = _RUNNING.search(text)
        weight = max(1.0, (number(running[1]) or 1.0) if running else 1.0)
        printed_rate = _RATE.search(text)
        rate = number(printed_rate[1]) if printed_rate else None
        if rate is None:
            self.without_rate += 1
        elif rate > 1.005:
            self.above_one += 1
        else:
            admitted = pairs(mean, rate)
            if len(self.admitted) < _MOST_GROUPS or admitted in self.admitted:
                self.admitted[admitted] += 1
        self.seen += 1
        rank = _RANK.search(text[:200])
        data_rank, tensor_rank = (rank[1], rank[2] or "TP0") if rank else (None, "TP0")
        key = (self.engine_label(replica(text), data_rank), tensor_rank)
        if key not in self.tallies and len(self.tallies) >= 256:
            return
        self.tallies.setdefault(key, Tally()).add(
            Observation(start=start, time=time, engine=key[0], acceptance_length=mean, weight=weight)
        )

    def readings(self) -> list[Reading]:
        if self.seen == 0:
            return []
        reading = Reading("sglang", "sglang-log", tally=self._one_rank_each())
        k, meaning, why = decide(self.admitted.items()) if self.admitted else (None, None, "")
        if self.above_one:
            k, why = None, "the accept rate exceeds 1 (sglang#11572): what it divides by is unknown"
        elif not self.admitted:
            why = "the lines print an acceptance length but no rate"
        if k is None and self.config_k is not None:
            k = self.config_k
        elif k is not None and self.config_k not in (None, k):
            reading.warn(f"K from the rates is {k}, speculative_num_steps in the log is {self.config_k}")
        reading.k = k
        self.warn_of_repeats(reading)
        if k is None:
            reading.reasons.update(k=why, alpha=why)
        if meaning == "inside":
            reading.warn("the printed accept rate counts the target's own token; alpha here does not")
        elif meaning == "both":
            reading.warn("the printed accept rate changes its meaning within the input; alpha here is accepted/drafted")
        if meaning in ("inside", "both") and k is not None and k > 8:
            reading.warn(f"K = {k} assumes a chain; in a tree the number of draft tokens exceeds the steps")
        if self.cut:
            reading.warn(f"truncated: {self.cut} line(s) cut at the acceptance length were ignored")
        reading.reasons.setdefault("drafts", "the line prints ratios, no counts")
        reading.reasons.setdefault("drafted", "the line prints ratios, no counts")
        reading.reasons.setdefault("accepted", "the line prints ratios, no counts")
        return [reading]

    def _one_rank_each(self) -> Tally:
        lowest: dict[str | None, str] = {}
        for engine, rank in self.tallies:
            if engine not in lowest or int(rank[2:]) < int(lowest[engine][2:]):
                lowest[engine] = rank
        parts = [self.tallies[key] for key in lowest.items()]
        return parts[0] if len(parts) == 1 else Tally.joined(parts)
