"""What scraped counters and gauges say: vLLM (V1 and V0), llama.cpp builds with the same counters, SGLang.

    vLLM, llama.cpp   spec_decode_num_drafts / _num_draft_tokens / _num_accepted_tokens         counters
                      spec_decode_num_accepted_tokens_per_pos{position=}; over drafts: survival  counters
    vLLM V0           spec_decode_efficiency (gauge) with draft and emitted tokens (counters)
    SGLang            spec_accept_length, spec_accept_rate: *gauges* of the last interval; never differenced

`_created` is a time stamp, not a count. Engines are summed; SGLang repeats a gauge per rank and engine type, so one
rank of the unified (or decode) engine speaks.
"""

from __future__ import annotations

import re

from .assemble import Reading
from .reader import LineReader, clean
from .scrape import (
    WANTED,
    Change,
    Labels,
    Snapshot,
    increase,
    labels_without_position,
    parse_sample,
    positions,
    snapshots_end,
)
from .sglang_rate import pairs
from .sums import Observation
from .values import count, draft_length, length, survival

_DRAFTS, _DRAFTED, _ACCEPTED, _PER_POSITION = (
    "spec_decode_num_drafts",
    "spec_decode_num_draft_tokens",
    "spec_decode_num_accepted_tokens",
    "spec_decode_num_accepted_tokens_per_pos",
)
_EMITTED, _EFFICIENCY = "spec_decode_num_emitted_tokens", "spec_decode_efficiency"
_GAUGE_LENGTH, _GAUGE_RATE = "spec_accept_length", "spec_accept_rate"
_MOST_SNAPSHOTS = 100_000
_ENGINE_LABELS = ("instance", "pod", "engine", "engine_index", "model_name", "model", "dp_rank", "slot", "type")


class MetricsPage(LineReader):
    """Scrapes, one or many; files and repeated series separate them."""

    # Not WANTED itself: searched from every letter of a long line, it would take quadratic time.
    wants = re.compile(r"spec_(?:decode|accept|num)_|process_start_time_seconds")

    def __init__(self) -> None:
        super().__init__()
        self.current = Snapshot()
        self.previous: Snapshot | None = None
        self.first: Snapshot | None = None
        self.changes: list[Change] = []
        self.snapshots = self.damaged = 0
        self.prefixes: set[str] = set()

    def start_file(self, label: str | None) -> None:
        # Labels of files must not enter the series: a pair of scrapes is matched by its own labels.
        self.file_label = None

    def line(self, text: str) -> None:
        text = clean(text)
        if text.lstrip().startswith("#"):
            return
        if WANTED.match(text) is None:
            return
        sample = parse_sample(text)
        if sample is None:
            self.damaged += 1
            return
        prefix, name, labels, value = sample
        if name == "process_start_time_seconds":
            self.current.created[name, labels] = value
            return
        if name.endswith("_created"):
            self.current.created[name.removesuffix("_created"), labels] = value
            return
        series = (name.removesuffix("_total"), labels)
        if snapshots_end(self.current, series):
            self._close()
        self.current.values[series] = value
        self.current.prefix = prefix
        self.prefixes.add(prefix)
        self.seen += 1

    def end_file(self) -> None:
        self._close()

    def _close(self) -> None:
        if not self.current.values:
            self.current = Snapshot()
            return
        self.snapshots += 1
        if self.first is None:
            self.first = self.current
        if self.previous is not None and len(self.changes) < _MOST_SNAPSHOTS:
            self.changes.append(increase(self.previous, self.current))
        self.previous, self.current = self.current, Snapshot()

    def readings(self) -> list[Reading]:
        if self.first is None or self.previous is None:
            if self.damaged:
                self.refuse("its metrics lines are cut")
            return []
        names = {name for name, _ in self.first.values} | {name for name, _ in self.previous.values}
        if _GAUGE_LENGTH in names or _GAUGE_RATE in names:
            found = self._gauges()
        elif _EFFICIENCY in names and _DRAFTS not in names:
            found = self._v0(self.previous)
        elif {_DRAFTED, _ACCEPTED} <= names:
            found = self._counters()
        else:
            self.refuse("its metrics page lacks the counters of draft and accepted tokens")
            return []
        if found is None:
            return []
        if self.damaged:
            found.warn(f"truncated: {self.damaged} metrics line(s) could not be read and were ignored")
        return [found]

    def _counters(self) -> Reading | None:
        engine = "llama.cpp" if any(prefix.startswith("llamacpp") for prefix in self.prefixes) else "vllm"
        reading = Reading(engine, f"{engine}-metrics")
        assert self.first is not None
        changes = self.changes or [Change(self.first.values)]
        for change in changes:
            self._add(reading, change)
        if self.snapshots == 1:
            reading.warn("one scrape: the counters cover everything since the server started, warm-up included")
        if any(change.swapped for change in changes):
            reading.warn("the scrapes were given in the wrong order (same process, all counters fall): taken reversed")
        if resets := sum(change.resets for change in changes):
            reading.warn(
                f"counter reset: counters of {resets} engine(s) fell between scrapes; their later values alone count. "
                "If the two files were swapped, give them the other way round"
            )
        if self.changes and any(change.appeared for change in changes):
            reading.warn("counter reset: some series appear only in a later scrape and are counted from zero")
        if not self.usable([reading]):
            self.refuse(
                "no token was drafted between the scrapes"
                if self.changes
                else "its counters are zero: no speculation ran"
            )
            return None
        return reading

    def _add(self, reading: Reading, change: Change) -> None:
        by_engine: dict[Labels, dict[str, float]] = {}
        per_position: dict[Labels, list[tuple[Labels, float]]] = {}
        for (name, labels), value in change.values.items():
            engine = labels_without_position(labels)
            if name == _PER_POSITION:
                per_position.setdefault(engine, []).append((labels, value))
            elif name in (_DRAFTS, _DRAFTED, _ACCEPTED):
                by_engine.setdefault(engine, {})[name] = value
        many = len(by_engine) > 1
        for labels, values in sorted(by_engine.items()):
            drafted, accepted = count(values.get(_DRAFTED)), count(values.get(_ACCEPTED))
            if not drafted or accepted is None:
                continue
            drafts = count(values.get(_DRAFTS)) or None
            places = positions(per_position.get(labels, []))
            rates = survival([place / drafts for place in places]) if places and drafts else None
            if places is not None and abs(sum(places) - accepted) > 0.5:
                reading.warn(
                    f"identity broken: the positions add up to {sum(places):g} accepted tokens, the counter says "
                    f"{accepted}"
                )
            k = len(places) if places else None
            if k is None and drafts and drafted % drafts == 0:
                k = draft_length(drafted // drafts)
            reading.add(
                Observation(
                    engine=_label(labels) if many else None,
                    k=k,
                    drafts=drafts,
                    drafted=drafted,
                    accepted=accepted,
                    survival=rates,
                )
            )

    def _v0(self, snapshot: Snapshot) -> Reading | None:
        """efficiency = emitted * K / (drafted * (K + 1)), which gives K/(K + 1) and with it K."""
        drafted, emitted = sum(snapshot.named(_DRAFTED).values()), sum(snapshot.named(_EMITTED).values())
        gauges = list(snapshot.named(_EFFICIENCY).values())
        if not drafted:
            self.refuse("its counters are zero: no speculation ran")
            return None
        reading = Reading("vllm", "vllm-v0-metrics")
        share = gauges[0] * drafted / emitted if len(gauges) == 1 and emitted else 0.0
        k = round(share / (1 - share)) if 0.4 < share < 0.999 else 0
        if not (1 <= k <= 64 and abs(share - k / (k + 1)) < 0.02 / (k + 1) ** 2):
            reading.reasons["k"] = reading.reasons["alpha"] = (
                "vLLM V0 counts accepted tokens after a mismatch, and its efficiency and counters do not determine K"
            )
            reading.tally.add(Observation(drafted=int(drafted)))
            return reading
        drafts = count(drafted / k)
        accepted = count(emitted - drafted / k)
        reading.tally.add(
            Observation(
                k=k,
                drafts=drafts,
                drafted=int(drafted),
                accepted=accepted if drafts is not None else None,
                acceptance_length=max(1.0, gauges[0] * (k + 1)),
            )
        )
        reading.warn("vLLM V0's accepted counter holds tokens after a mismatch (vllm#9565); emitted tokens are used")
        return reading

    def _gauges(self) -> Reading | None:
        reading = Reading("sglang", "sglang-metrics")
        assert self.previous is not None
        lengths = _one_rank(self.previous.named(_GAUGE_LENGTH))
        rates = _one_rank(self.previous.named(_GAUGE_RATE))
        steps = {draft_length(value) for value in _one_rank(self.previous.named("spec_num_steps")).values()}
        values = {labels: value for labels, value in lengths.items() if length(value) is not None}
        if not values:
            self.refuse("its gauges are zero: no speculation ran in the last interval")
            return None
        for labels, value in sorted(values.items()):
            rate = rates.get(labels)
            admitted = pairs(value, rate, _half(value), _half(rate)) if rate and rate <= 1 else frozenset()
            lengths_admitted = {k for _, k in admitted}
            k = lengths_admitted.pop() if len(lengths_admitted) == 1 else None
            if k is None and len(steps) == 1:
                k = next(iter(steps))
            reading.tally.add(
                Observation(engine=_label(labels) if len(values) > 1 else None, k=k, acceptance_length=value)
            )
        if self.snapshots > 1:
            reading.warn(
                "SGLang's figures are gauges of the last interval: the last scrape speaks, nothing is differenced"
            )
        if len(values) > 1:
            reading.warn(f"{len(values)} data-parallel ranks or models are averaged with equal weight")
        for name in ("drafts", "drafted", "accepted"):
            reading.reasons[name] = "SGLang exports ratios (gauges), no counters of draft tokens"
        reading.reasons["k"] = reading.reasons["alpha"] = "the gauges of length and rate admit no single draft length"
        return reading


def _one_rank(values: dict[Labels, float]) -> dict[Labels, float]:
    """Of gauges repeated per rank and engine type: unified before decode, the lowest rank of a data-parallel rank."""
    best: dict[Labels, tuple[tuple[int, tuple[int, ...]], float]] = {}
    for labels, value in values.items():
        named = dict(labels)
        kind = named.pop("engine_type", "unified")
        if kind in ("draft", "prefill"):
            continue
        ranks = tuple(
            int(text) if (text := named.pop(rank, "0")).isdecimal() and len(text) < 9 else 0
            for rank in ("pp_rank", "moe_ep_rank", "ep_rank", "attn_tp_rank", "tp_rank")
        )
        key = tuple(sorted(named.items()))
        order = (0 if kind == "unified" else 1, ranks)
        if key not in best or order < best[key][0]:
            best[key] = (order, value)
    return {key: value for key, (_, value) in best.items()}


def _half(value: float) -> float:
    """Half a unit of the last digit written, for two to five digits after the point."""
    return 0.5 * 10.0 ** -min(5, max(2, len(repr(value).partition(".")[2])))


def _label(labels: Labels) -> str:
    named = dict(labels)
    return " ".join(f"{name}={named[name]}" for name in _ENGINE_LABELS if name in named) or "all"
