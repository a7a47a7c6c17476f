"""The document that `vllm bench serve --save-result` and `sglang.bench_serving --output-file` write.

Per cent and fraction live in one document: `spec_decode_acceptance_rate` is per cent,
`spec_decode_per_position_acceptance_rates` are fractions (survival). The counts beside them settle alpha; without
counts the rates are checked against each other before either is believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .record import Bench
from .sums import Observation
from .values import count, draft_length, length, number, survival

_BENCH = {
    "mean_tpot_ms": "tpot_mean_ms",
    "p99_tpot_ms": "tpot_p99_ms",
    "mean_itl_ms": "itl_mean_ms",
    "p99_itl_ms": "itl_p99_ms",
    "mean_ttft_ms": "ttft_mean_ms",
    "p99_ttft_ms": "ttft_p99_ms",
    "output_throughput": "output_tokens_per_second",
}
SIGNATURE = frozenset(_BENCH) | {"spec_decode_acceptance_rate", "spec_decode_num_drafts", "spec_decode_draft_tokens"}


@dataclass(frozen=True)
class BenchRun:
    """One run; `observation` is None where nothing is said about speculation."""

    engine: str
    bench: Bench
    observation: Observation | None
    warnings: tuple[str, ...] = ()


def bench_run(document: Any) -> BenchRun | None:
    """The run that a JSON object describes; None if it is no benchmark result."""
    if not isinstance(document, dict) or not SIGNATURE & document.keys():
        return None
    values = {name: number(document.get(key)) for key, name in _BENCH.items()}
    limit = count(document.get("max_concurrency"))
    bench = Bench(concurrency=limit or None, **{name: v for name, v in values.items() if v is not None and v >= 0})
    sglang = "accept_length" in document or str(document.get("backend", "")).startswith("sglang")
    warnings: list[str] = []
    seen = _speculation(document, warnings)
    return BenchRun("sglang" if sglang else "vllm", bench, seen, tuple(warnings))


def _speculation(document: Mapping[str, Any], warnings: list[str]) -> Observation | None:
    drafts, drafted, accepted = (
        count(document.get(f"spec_decode_{name}")) for name in ("num_drafts", "draft_tokens", "accepted_tokens")
    )
    mean = length(document.get("spec_decode_acceptance_length")) or length(document.get("accept_length"))
    stated = number(document.get("spec_decode_acceptance_rate"))
    if drafted == 0 or (mean is None and stated is None and not drafted):
        return None
    raw = document.get("spec_decode_per_position_acceptance_rates")
    rates = [number(value) for value in raw] if isinstance(raw, list) else []
    if any(rate is not None and rate > 1 for rate in rates):
        warnings.append("per cent and fraction are mixed: the per-position rates exceed 1 and are read as per cent")
        rates = [rate / 100 if rate is not None else None for rate in rates]
    shape = survival(rates)
    if rates and shape is None:
        warnings.append("the per-position rates are no survival vector (0..1, never increasing) and are ignored")
    k = len(shape) if shape else None
    if k is None and drafts and drafted and drafted % drafts == 0:
        k = draft_length(drafted // drafts)
    alpha = _rate(stated, accepted, drafted, mean, k, warnings)
    if drafts and accepted is not None and mean is not None and abs(mean - 1 - accepted / drafts) > 0.006:
        warnings.append(
            f"identity broken: the stated acceptance length {mean:g} is not 1 + accepted/drafts = "
            f"{1 + accepted / drafts:.4f}"
        )
    return Observation(
        k=k,
        drafts=drafts or None,
        drafted=drafted or None,
        accepted=accepted if drafted else None,
        alpha=alpha,
        acceptance_length=mean,
        survival=shape,
    )


def _rate(
    stated: float | None,
    accepted: int | None,
    drafted: int | None,
    mean: float | None,
    k: int | None,
    warnings: list[str],
) -> float | None:
    """alpha from the stated rate: per cent by definition, a fraction only where the other figures say so."""
    expected = accepted / drafted if accepted is not None and drafted else None
    if expected is None and mean is not None and k:
        expected = (mean - 1) / k
    if stated is None or not 0 <= stated <= 100:
        return None
    if expected is None:
        return stated / 100 if stated > 1 or stated == 0 else None
    if abs(stated / 100 - expected) <= 0.005:
        return stated / 100
    if stated <= 1 and abs(stated - expected) <= 0.005:
        warnings.append("per cent and fraction are mixed: spec_decode_acceptance_rate is a fraction here")
        return stated
    warnings.append(f"identity broken: the stated acceptance rate {stated:g} (per cent) is not {100 * expected:.2f} %")
    return None
