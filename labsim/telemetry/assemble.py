"""From sums to the record: every identity checked, every gap explained, everything doubtful said.

The identities (K drafted tokens per step, n accepted):

    acceptance length = 1 + accepted / drafts
    alpha             = accepted / drafted
    sum of survival   = acceptance length - 1
    mean ITL          = acceptance length * mean TPOT        (a stream chunk is one step)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..sim.acceptance import constant_conditional_acceptance
from .record import AcceptanceRecord, Bench, Part, Unpooled, Window
from .scatter import (
    FEWEST_FOR_SCATTER,
    Shift,
    alpha_interval,
    by_engine,
    engines_that_differ,
    find_drift,
    since_last_shift,
)
from .streams import why_several
from .sums import Observation, Sums, Tally

FEW_DRAFTS = 100


@dataclass
class Reading:
    """What one reader hands over. `reasons` explain gaps better than the general wording does; `rate_half` is half a
    unit of the last digit of its rates per position; `not_pooled` says why its total is no alpha at all."""

    engine: str
    format: str
    tally: Tally = field(default_factory=Tally)
    k: int | None = None
    variable_length: bool = False
    rate_half: float = 0.0005
    benches: list[Bench] = field(default_factory=list)
    autocorrelation: float | None = None
    one_window_is_one: str = "window"
    contradictions: int = 0
    not_pooled: str | None = None
    warnings: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, seen: Observation) -> bool:
        """Count a print, unless its own figures exclude each other; False then, with a warning."""
        if seen.accepted is not None and seen.drafted is not None and seen.accepted > seen.drafted:
            self.contradictions += 1
            self.warn(
                f"identity broken: {seen.accepted} accepted of {seen.drafted} drafted tokens; that print is ignored"
            )
            return False
        self.tally.add(seen)
        return True

    def warn(self, text: str) -> None:
        if text not in self.warnings and len(self.warnings) < 40:
            self.warnings.append(text)


def assemble(reading: Reading, files: Sequence[str]) -> AcceptanceRecord:
    """The record of a reading. Never raises for odd numbers: what contradicts itself is reported as a warning."""
    total, windows = reading.tally.total, reading.tally.series.windows()
    reasons = dict(reading.reasons)
    k = reading.k
    if k is None and not reading.variable_length:
        k = total.common_k()
        if lengths := _several_k(reading, total, k):
            reasons.setdefault("k", f"several draft lengths: {lengths}")
            reasons.setdefault("survival", f"several draft lengths: {lengths}")
    drafts, drafted, accepted = (total.total(name) for name in ("drafts", "drafted", "accepted"))
    alpha, length, survival = total.alpha(), total.acceptance_length(), total.survival()
    if "survival" in reasons:
        survival = None
    shown = [window.window() for window in windows]
    if alpha is None and length is not None and k is not None and not reading.variable_length:
        alpha = min(1.0, (length - 1) / k)
        shown = [_with_alpha(window, k) for window in shown]
        windows = [_sums_with_alpha(window, k) for window in windows]
        for engine in reading.tally.engines.values():
            _sums_with_alpha(engine, k)
    _check(reading, total, k, length, survival)
    if mixed := _several_k(reading, total, k):
        interval, why = None, f"several draft lengths: {mixed}"
    else:
        interval, why = alpha_interval(total, windows, alpha, k, survival, reading.autocorrelation)
    per_token = None
    if k is not None and length is not None and 1 <= length <= 1 + k:
        per_token = constant_conditional_acceptance((length - 1) / k, k)
    bench = reading.benches[0] if len(reading.benches) == 1 else None
    record = AcceptanceRecord(
        engine=reading.engine,
        format=reading.format,
        k=k,
        drafts=drafts,
        drafted=drafted,
        accepted=accepted,
        alpha=alpha,
        alpha_interval=interval,
        alpha_per_token=per_token,
        acceptance_length=length,
        survival=survival,
        windows=tuple(shown),
        bench=bench,
        span_seconds=reading.tally.span(),
        files=tuple(files),
    )
    _judge(reading, windows, record)
    _tell_streams(reading, windows)
    reasons.setdefault("alpha_interval", why)
    if len(reading.benches) > 1:
        reasons.setdefault("bench", f"{len(reading.benches)} benchmark runs were read; give one to get its latencies")
    return replace(
        record,
        warnings=tuple(reading.warnings),
        unknown=_explain(record, reasons),
        unpooled=_unpooled(reading, windows, record),
    )


def _tell_streams(reading: Reading, windows: Sequence[Sums]) -> None:
    """Lines of several engines, not told apart, have no alpha in common."""
    if reading.one_window_is_one != "window":
        return
    series = by_engine(windows)
    for engine, one in series.items():
        if why := why_several(_solid(one), 0.001 / len(series)):
            of = f"{engine}: " if engine else ""
            reading.warn(f"mixed stream: {of}{why}")
            reading.not_pooled = reading.not_pooled or f"{of}{why}"


def _solid(windows: Sequence[Sums]) -> Sequence[Sums]:
    """Those with enough drafts to be compared, all where none has."""
    return [w for w in windows if not w.total("drafts") or w.drafts >= FEW_DRAFTS] or windows


def _several_k(reading: Reading, total: Sums, k: int | None) -> str:
    """The draft lengths of an input that holds several, as text; empty if it holds one, or varies from step to step."""
    known = sorted(value for value in total.k if value is not None)
    return ", ".join(map(str, known)) if k is None and not reading.variable_length and len(known) > 1 else ""


def _unpooled(reading: Reading, windows: Sequence[Sums], record: AcceptanceRecord) -> Unpooled | None:
    """What may be judged where the total may not: each engine since its last shift; None if the total may."""
    if lengths := _several_k(reading, reading.tally.total, record.k):
        return Unpooled(f"it holds several draft lengths ({lengths}): give one log per K")
    if reading.not_pooled:
        return Unpooled(reading.not_pooled)
    if record.alpha is None:
        return None
    series, shifts = by_engine(windows), {}
    if reading.one_window_is_one == "window":
        for engine, one in series.items():
            tail, shift = since_last_shift(_solid(one), record.k, record.survival, 0.001 / len(series))
            if shift:
                shifts[engine] = shift
                series[engine] = one[next(i for i, window in enumerate(one) if window is shift.first) :]
                if len(tail) < FEWEST_FOR_SCATTER:
                    return Unpooled(
                        f"{_moved(shift, engine if len(series) > 1 else None)}, and the {len(tail)} window(s) since "
                        f"then are too few to judge (at least {FEWEST_FOR_SCATTER}): give a longer log from then on"
                    )
    named = [_joined(one) for engine, one in series.items() if engine is not None]
    if pair := engines_that_differ(named, record.k):
        low, high = pair
        reason = f"alpha is {low.alpha():.3f} on {low.engine} and {high.alpha():.3f} on {high.engine}"
        parts = []
        for engine, one in series.items():
            since = f" since {shifts[engine].start}" if engine in shifts and shifts[engine].start else ""
            parts.append(Part(f"{engine or 'engine without a name'}{since}", _part(reading, one, record)))
        return Unpooled(f"{reason}: the worst one counts", tuple(parts))
    if not shifts:
        return None
    engine, shift = max(shifts.items(), key=lambda item: item[1].first.order)
    rest = sorted((window for one in series.values() for window in one), key=lambda window: window.order)
    since = f"since {shift.start}" if shift.start else "since the last shift"
    reason = f"{_moved(shift, engine if len(series) > 1 else None)}: what comes after counts"
    return Unpooled(reason, (Part(since, _part(reading, rest, record)),))


def _moved(shift: Shift, engine: str | None) -> str:
    where, when = f" of {engine}" if engine else "", f" at {shift.start}" if shift.start else ""
    return f"alpha{where} shifts from {shift.before:.3f} to {shift.after:.3f}{when}"


def _joined(windows: Sequence[Sums]) -> Sums:
    total = Sums()
    for window in windows:
        total.merge(window)
    return total


def _part(reading: Reading, windows: Sequence[Sums], record: AcceptanceRecord) -> AcceptanceRecord:
    """The record of some of the windows."""
    total = _joined(windows)
    drafts, drafted, accepted = (total.total(name) for name in ("drafts", "drafted", "accepted"))
    survival = None if record.survival is None else total.survival()
    alpha = total.alpha()
    interval, why = alpha_interval(total, windows, alpha, record.k, survival, reading.autocorrelation)
    part = AcceptanceRecord(
        engine=record.engine,
        format=record.format,
        k=record.k,
        drafts=drafts,
        drafted=drafted,
        accepted=accepted,
        alpha=alpha,
        alpha_interval=interval,
        acceptance_length=total.acceptance_length(),
        survival=survival,
        windows=tuple(window.window() for window in windows),
        files=record.files,
    )
    return replace(part, unknown=_explain(part, {"alpha_interval": why}))


def _with_alpha(window: Window, k: int) -> Window:
    if window.alpha is not None or window.acceptance_length is None:
        return window
    return replace(window, alpha=min(1.0, (window.acceptance_length - 1) / k))


def _sums_with_alpha(window: Sums, k: int) -> Sums:
    """The same window with alpha from its acceptance length, for the statistics."""
    length = window.acceptance_length()
    if window.alpha() is None and length is not None:
        window.alpha_sum, window.with_alpha = window.weight * min(1.0, (length - 1) / k), window.n
    return window


def _check(
    reading: Reading,
    total: Sums,
    k: int | None,
    length: float | None,
    survival: Sequence[float] | None,
) -> None:
    """The identities, each with the rounding of what was printed."""
    drafts, drafted = total.total("drafts"), total.total("drafted")
    if drafts and k and drafted is not None and drafted > drafts * k:
        reading.warn(f"identity broken: {drafted} drafted tokens exceed {drafts} drafts of K = {k}")
    if survival is not None and length is not None:
        allowed = 0.001 + reading.rate_half * len(survival) + (0.005 if not total.total("drafts") else 0.0)
        if total.margin and drafts:
            allowed += (length - 1) * total.margin / drafts
        if total.with_survival == total.n and abs(1 + sum(survival) - length) > allowed:
            reading.warn(
                f"identity broken: 1 + the sum of the per-position rates is {1 + sum(survival):.4f}, the acceptance "
                f"length {length:.4f} (a rate per position must be P(at least i accepted), not conditional)"
            )
    if len(reading.benches) == 1:
        _check_latencies(reading, reading.benches[0], length)


def _check_latencies(reading: Reading, bench: Bench, length: float | None) -> None:
    if not bench.itl_mean_ms or not bench.tpot_mean_ms or length is None:
        return
    ratio = bench.itl_mean_ms / bench.tpot_mean_ms
    if abs(ratio / length - 1) <= 0.05:
        return
    why = "output lengths differ between requests, or chunks hold several steps (stream interval)"
    if reading.engine == "sglang" and abs(ratio - 1) < 0.05:
        why = "SGLang's client divides ITL by the acceptance length for some back ends (sglang#12064)"
    reading.warn(f"mean ITL / mean TPOT is {ratio:.3f}, the acceptance length {length:.3f}: {why}")


def _judge(reading: Reading, windows: Sequence[Sums], record: AcceptanceRecord) -> None:
    """Small samples, recovered drafts, drift, engines that differ, short drafts."""
    total, unit = reading.tally.total, reading.one_window_is_one
    if total.margin and record.drafts:
        reading.warn(
            f"drafts are recovered from rounded figures: {record.drafts} within +-{total.margin} "
            f"({total.margin / record.drafts:.1%})"
        )
    if record.drafts is not None and record.drafts < FEW_DRAFTS:
        reading.warn(f"small sample: {record.drafts} drafts; below {FEW_DRAFTS} alpha is good to +-0.1 at best")
    elif record.drafts is None and record.drafted is not None and record.drafted < FEW_DRAFTS:
        reading.warn(f"small sample: {record.drafted} drafted tokens; below {FEW_DRAFTS} drafts alpha is a rough guess")
    elif record.drafts is not None and len(windows) > 1:
        small = sum(1 for window in windows if window.drafts < FEW_DRAFTS)
        if small:
            reading.warn(
                f"{small} of {len(windows)} {unit}s have fewer than {FEW_DRAFTS} drafts: weight them by drafts, do not "
                "read them one by one"
            )
    if record.k and record.drafts and record.drafted and record.drafted < record.drafts * record.k - total.margin:
        mean = record.drafted / record.drafts
        reading.warn(
            f"drafts are shorter than K = {record.k}: {mean:.2f} tokens on average, so the acceptance length is not "
            "1 + K * alpha"
        )
    if unit == "window" and (shift := find_drift(_solid(windows), record.k, record.survival)):
        when = f" at {shift.start}" if shift.start else ""
        reading.warn(f"drift: alpha shifts from {shift.before:.3f} to {shift.after:.3f}{when}; do not pool the two")
    engines = [sums for name, sums in reading.tally.engines.items() if name is not None]
    if pair := engines_that_differ(engines, record.k):
        low, high = pair
        reading.warn(
            f"mixed engines: alpha is {low.alpha():.3f} on {low.engine} and {high.alpha():.3f} on {high.engine}; "
            "the total hides the difference"
        )


_GENERAL = {
    "k": "the input does not print the draft length",
    "drafts": "the input does not print the number of drafts",
    "drafted": "the input does not print the drafted tokens",
    "accepted": "the input does not print the accepted tokens",
    "alpha": "accepted/drafted follows from nothing that is printed",
    "alpha_interval": "alpha is not determined",
    "alpha_per_token": "needs the acceptance length and K",
    "acceptance_length": "the input prints neither the acceptance length nor the number of drafts",
    "survival": "the input does not print rates per position",
    "bench": "the input is not a client benchmark",
    "span_seconds": "fewer than two timestamps",
}


def _explain(record: AcceptanceRecord, reasons: dict[str, str]) -> dict[str, str]:
    return {name: reasons.get(name) or general for name, general in _GENERAL.items() if getattr(record, name) is None}
