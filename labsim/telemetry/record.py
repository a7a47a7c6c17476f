"""One record for all engines: what a log, a scrape or a benchmark says about acceptance.

Every field is either what the input determines or None; `unknown` says why a field is None. Names follow
`labsim.sim.acceptance`: `alpha` is accepted/drafted, `alpha_per_token` the constant conditional acceptance with the
same acceptance length, `survival` P(at least i accepted).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Window:
    """One reporting window of a log. `start` is as printed; `engine` the engine or rank that printed it."""

    start: str | None = None
    drafts: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    alpha: float | None = None
    acceptance_length: float | None = None
    survival: tuple[float, ...] | None = None
    engine: str | None = None


@dataclass(frozen=True)
class Bench:
    """Latencies of a client benchmark in milliseconds; `itl` is the gap between stream chunks as the client has it."""

    concurrency: int | None = None
    tpot_mean_ms: float | None = None
    tpot_p99_ms: float | None = None
    itl_mean_ms: float | None = None
    itl_p99_ms: float | None = None
    ttft_mean_ms: float | None = None
    ttft_p99_ms: float | None = None
    output_tokens_per_second: float | None = None


@dataclass(frozen=True)
class Part:
    """A stretch of the input that may be pooled: `what` names it ("since 03-07 09:32:30", "engine 1")."""

    what: str
    record: AcceptanceRecord


@dataclass(frozen=True)
class Unpooled:
    """Why the total of a record is the alpha of nothing: a shift of alpha, engines that differ or
    take turns without their names, several K.

    `parts` may each be judged; they are empty where none can, and `reason` then says what would be needed.
    """

    reason: str
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class AcceptanceRecord:
    """What was read. `format` names the kind of input ("vllm-log", ...), `files` where it came from.

    `unpooled` is set where the totals must not be used as one alpha; in `to_dict` the warnings stand for it.
    """

    engine: str
    format: str
    k: int | None = None
    drafts: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    alpha: float | None = None
    alpha_interval: tuple[float, float] | None = None
    alpha_per_token: float | None = None
    acceptance_length: float | None = None
    survival: tuple[float, ...] | None = None
    windows: tuple[Window, ...] = ()
    bench: Bench | None = None
    span_seconds: float | None = None
    warnings: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    unpooled: Unpooled | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: plain lists, None where the input does not determine a value."""
        document = asdict(replace(self, unpooled=None))
        del document["unpooled"]
        return document
