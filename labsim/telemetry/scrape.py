"""Scrapes of a `/metrics` page: samples parsed with prometheus_client, snapshots told apart, pairs differenced.

Counters (`..._total`) run since the start of the server, so a measurement is the difference of two scrapes. A value
that falls means a restart: then the later value alone counts what happened since. Two scrapes given in the wrong
order look the same; `process_start_time_seconds` or the `_created` stamps tell the two cases apart (equal stamps: the
same process, so the order was wrong). Without stamps the order as given holds, as Prometheus itself would read it.

Pages copied from a browser's table put the value after " | ", and may be cut anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from .values import number

Labels = tuple[tuple[str, str], ...]
Series = tuple[str, Labels]

WANTED = re.compile(
    r"^\W*(?:([A-Za-z_]\w*?)[:_])?(spec_(?:decode|accept|num)_\w+|process_start_time_seconds)(?=[{\s|]|$)"
)
_TABLE = re.compile(r"\s+\|\s+|\|\s*$|^\s*\|\s*")
_MOST_SERIES = 20_000


@dataclass
class Snapshot:
    """One scrape: values by (name without engine prefix and `_total`, labels)."""

    values: dict[Series, float] = field(default_factory=dict)
    created: dict[Series, float] = field(default_factory=dict)
    prefix: str = ""

    def named(self, name: str) -> dict[Labels, float]:
        return {labels: value for (other, labels), value in self.values.items() if other == name}


def parse_sample(line: str) -> tuple[str, str, Labels, float] | None:
    """(engine prefix, metric name, labels, value) of one line of a page or of a browser table; None if damaged."""
    text = _TABLE.sub(" ", line).strip().strip("|").strip()
    wanted = WANTED.match(text)
    if wanted is None or len(text) > 8192:
        return None
    text = text[wanted.start(2) if wanted[1] is None else wanted.start(1) :]
    try:
        families = list(text_string_to_metric_families(text + "\n"))
        samples = [sample for family in families for sample in family.samples]
    except (ValueError, IndexError, KeyError, TypeError):
        return None
    if len(samples) != 1 or (value := number(samples[0].value)) is None or value < 0:
        return None
    sample = samples[0]
    name = re.match(r"(?:(\w*?)[:_])?(spec_\w+|process_start_time_seconds)$", sample.name)
    if name is None:
        return None
    return name[1] or "", name[2], tuple(sorted(sample.labels.items())), value


@dataclass(frozen=True)
class Change:
    """Increase of every counter between two snapshots."""

    values: dict[Series, float]
    resets: int = 0
    swapped: bool = False
    appeared: int = 0


def increase(before: Snapshot, after: Snapshot) -> Change:
    """Counter increases from `before` to `after`, under the rules of the module's docstring."""
    fallen = [series for series, value in after.values.items() if value < before.values.get(series, value)]
    if fallen and _same_process(before, after) and not _risen(before, after):
        return Change(increase(after, before).values, swapped=True)
    # When one counter of an engine fell or was created anew, all of that engine's counters started again.
    restarted = {labels_without_position(series[1]) for series in fallen}
    restarted |= {labels_without_position(series[1]) for series in after.values if _created_anew(series, before, after)}
    values = {
        series: value - (0.0 if labels_without_position(series[1]) in restarted else before.values.get(series, 0.0))
        for series, value in after.values.items()
    }
    appeared = sum(1 for series in after.values if series not in before.values)
    return Change(values, resets=len(restarted), appeared=appeared)


def labels_without_position(labels: Labels) -> Labels:
    return tuple(pair for pair in labels if pair[0] != "position")


def _risen(before: Snapshot, after: Snapshot) -> bool:
    return any(value > before.values.get(series, value) for series, value in after.values.items())


def _created_anew(series: Series, before: Snapshot, after: Snapshot) -> bool:
    old, new = before.created.get(series), after.created.get(series)
    return old is not None and new is not None and new > old + 1


def _same_process(before: Snapshot, after: Snapshot) -> bool:
    common = before.created.keys() & after.created.keys()
    return bool(common) and all(abs(before.created[key] - after.created[key]) <= 1 for key in common)


def snapshots_end(current: Snapshot, series: Series) -> bool:
    """Whether this sample opens a new scrape: a page never repeats a series."""
    return series in current.values or len(current.values) >= _MOST_SERIES


def positions(values: Iterable[tuple[Labels, float]]) -> list[float] | None:
    """Sums by the label `position`, 0 .. K-1 without a gap; None otherwise."""
    by_position: dict[int, float] = {}
    for labels, value in values:
        place = dict(labels).get("position", "")
        if not place.isdecimal() or len(place) > 4:
            return None
        by_position[int(place)] = by_position.get(int(place), 0.0) + value
    if not by_position or sorted(by_position) != list(range(len(by_position))):
        return None
    return [by_position[i] for i in range(len(by_position))]
