"""Adding up windows: totals in constant memory, and a series that coarsens as it grows.

A log of a year has millions of windows. Totals are sums; the series keeps at most `MOST_WINDOWS` windows: when it is
full, neighbours of the same engine are merged two by two and every later window holds twice as many prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .record import Window

MOST_WINDOWS = 10_000
MOST_ENGINES = 256


_ADDITIVE = (
    *("n", "drafts", "margin", "drafted", "accepted", "weight", "alpha_sum", "length_sum", "survival_weight"),
    *("seconds", "with_drafts", "with_drafted", "with_accepted", "with_alpha", "with_length", "with_survival"),
)


@dataclass(frozen=True)
class Observation:
    """What one print says. `weight` stands in for the number of drafts where that is not printed; `seconds` is the time
    that it covers, 0 where unknown."""

    start: str | None = None
    time: float | None = None
    engine: str | None = None
    k: int | None = None
    drafts: int | None = None
    margin: int = 0
    drafted: int | None = None
    accepted: int | None = None
    alpha: float | None = None
    acceptance_length: float | None = None
    survival: tuple[float, ...] | None = None
    weight: float = 1.0
    seconds: float = 0.0


class Sums:
    """Sums over observations; a count is known only if every one of them prints it."""

    def __init__(self) -> None:
        self.n = 0
        self.start: str | None = None
        self.time: float | None = None
        self.order = 0
        self.engine: str | None = None
        self.drafts = self.margin = self.drafted = self.accepted = 0
        self.with_drafts = self.with_drafted = self.with_accepted = self.with_alpha = self.with_length = 0
        self.weight = self.alpha_sum = self.length_sum = self.seconds = 0.0
        self.survival_sum: list[float] = []
        self.survival_weight = 0.0
        self.with_survival = 0
        self.k: Counter[int | None] = Counter()

    def add(self, seen: Observation) -> None:
        if self.n == 0:
            self.start, self.time = seen.start, seen.time
        self.n += 1
        self.seconds += seen.seconds
        if seen.drafts is not None:
            self.drafts += seen.drafts
            self.margin += seen.margin
            self.with_drafts += 1
        if seen.drafted is not None:
            self.drafted += seen.drafted
            self.with_drafted += 1
        if seen.accepted is not None:
            self.accepted += seen.accepted
            self.with_accepted += 1
        weight = float(seen.drafts) if seen.drafts is not None else seen.weight
        self.weight += weight
        if seen.alpha is not None:
            self.alpha_sum += weight * seen.alpha
            self.with_alpha += 1
        if seen.acceptance_length is not None:
            self.length_sum += weight * seen.acceptance_length
            self.with_length += 1
        if seen.survival is not None:
            missing = len(seen.survival) - len(self.survival_sum)
            self.survival_sum.extend([0.0] * max(0, missing))
            for i, value in enumerate(seen.survival):
                self.survival_sum[i] += weight * value
            self.survival_weight += weight
            self.with_survival += 1
        if len(self.k) < 16 or seen.k in self.k:
            self.k[seen.k] += 1

    def merge(self, other: Sums) -> None:
        if self.n == 0:
            self.start, self.time, self.order, self.engine = other.start, other.time, other.order, other.engine
        for name in _ADDITIVE:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        missing = len(other.survival_sum) - len(self.survival_sum)
        self.survival_sum.extend([0.0] * max(0, missing))
        for i, value in enumerate(other.survival_sum):
            self.survival_sum[i] += value
        self.k.update(other.k)

    # What the sums determine; None otherwise.

    def total(self, name: str) -> int | None:
        """drafts, drafted or accepted, if every observation printed it."""
        return getattr(self, name) if self.n and getattr(self, f"with_{name}") == self.n else None

    def common_k(self) -> int | None:
        return next(iter(self.k)) if len(self.k) == 1 else None

    def alpha(self) -> float | None:
        accepted, drafted = self.total("accepted"), self.total("drafted")
        if accepted is not None and drafted:
            return accepted / drafted
        return self.alpha_sum / self.weight if self.with_alpha == self.n and self.weight > 0 else None

    def acceptance_length(self) -> float | None:
        accepted, drafts = self.total("accepted"), self.total("drafts")
        if accepted is not None and drafts:
            return 1 + accepted / drafts
        return self.length_sum / self.weight if self.with_length == self.n and self.weight > 0 else None

    def survival(self) -> tuple[float, ...] | None:
        if self.survival_weight <= 0 or self.with_survival < self.n / 2:
            return None
        return tuple(value / self.survival_weight for value in self.survival_sum)

    def window(self) -> Window:
        return Window(
            start=self.start,
            drafts=self.total("drafts"),
            drafted=self.total("drafted"),
            accepted=self.total("accepted"),
            alpha=self.alpha(),
            acceptance_length=self.acceptance_length(),
            survival=self.survival(),
            engine=self.engine,
        )


class Series:
    """At most `most` windows in order of appearance, merged within an engine when there are more."""

    def __init__(self, most: int = MOST_WINDOWS) -> None:
        self.most = most
        self.per_window = 1
        self.closed: list[Sums] = []
        self.open: dict[str | None, Sums] = {}
        self.count = 0

    def add(self, seen: Observation, engine: str | None) -> None:
        window = self.open.get(engine)
        if window is None:
            window = self.open[engine] = Sums()
            window.engine, window.order = engine, self.count
        window.add(seen)
        self.count += 1
        if window.n >= self.per_window:
            self.closed.append(self.open.pop(engine))
            self.shrink()

    def shrink(self) -> None:
        """Merge neighbours until there is room."""
        while len(self.closed) >= self.most:
            before = len(self.closed)
            self._coarsen()
            if len(self.closed) == before:
                break

    def _coarsen(self) -> None:
        waiting: dict[str | None, Sums] = {}
        merged: list[Sums] = []
        for window in self.closed:
            if (first := waiting.pop(window.engine, None)) is None:
                waiting[window.engine] = window
            else:
                first.merge(window)
                merged.append(first)
        self.closed = sorted([*merged, *waiting.values()], key=lambda window: window.order)
        self.per_window *= 2

    def windows(self) -> Sequence[Sums]:
        return sorted([*self.closed, *self.open.values()], key=lambda window: window.order)


class Tally:
    """Everything that one reader has seen: total, per engine, series, time span."""

    def __init__(self, most_windows: int = MOST_WINDOWS) -> None:
        self.total = Sums()
        self.engines: dict[str | None, Sums] = {}
        self.series = Series(most_windows)
        self.first: float | None = None
        self.last: float | None = None
        self.timed = 0

    def add(self, seen: Observation) -> None:
        engine = seen.engine if seen.engine in self.engines or len(self.engines) < MOST_ENGINES else "others"
        if seen.time is not None and self.last is not None and seen.time < self.last - 300 * 86400:
            # Dates without a year run from December into January.
            seen = replace(seen, time=seen.time + 366 * 86400)
        self.total.add(seen)
        per_engine = self.engines.setdefault(engine, Sums())
        per_engine.engine = engine
        per_engine.add(seen)
        self.series.add(seen, engine)
        if seen.time is not None:
            self.timed += 1
            time = seen.time
            self.first = time if self.first is None else min(self.first, time)
            self.last = time if self.last is None else max(self.last, time)

    def span(self) -> float | None:
        return self.last - self.first if self.timed >= 2 and self.first is not None and self.last is not None else None

    @classmethod
    def joined(cls, parts: Sequence[Tally]) -> Tally:
        """One tally of several ranks, its series in order of appearance within each rank."""
        whole = cls()
        offset = 0
        for part in parts:
            whole.total.merge(part.total)
            for engine, sums in part.engines.items():
                whole.engines.setdefault(engine, Sums()).merge(sums)
            for window in part.series.windows():
                window.order += offset
                whole.series.closed.append(window)
            offset += part.series.count
            whole.timed += part.timed
            for time in (part.first, part.last):
                if time is not None:
                    whole.first = time if whole.first is None else min(whole.first, time)
                    whole.last = time if whole.last is None else max(whole.last, time)
        whole.series.shrink()
        return whole
