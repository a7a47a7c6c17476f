"""What is known of alpha: accepted/drafted at the plan's K, with a lower bound, and where it comes from.

Four things stand between a number in a log and the number that a gate may use.

- **K.** The same head scores lower at a larger K, because deep tokens need every earlier one accepted. A measurement at
  another K is converted: along its survival vector where the log prints one, else along the constant conditional
  acceptance that has the same rate.
- **Noise.** The gate uses the lower end of the confidence interval. Converting keeps the ratio of bound to estimate.
- **Pooling.** A log in which alpha shifts, or in which engines differ, has no single alpha either. What comes after the
  last shift counts, and of several engines the worst one; where neither can be judged there is no alpha.
- **Traffic.** A mix of kinds of traffic has no single alpha before one says what the shares are of
  (`labsim.sim.mixture`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from ..sim.acceptance import (
    constant_conditional_acceptance,
    convert_draft_acceptance_rate,
    convert_survival,
    draft_acceptance_rate,
    survival_from_constant,
)
from ..sim.errors import out_of_range
from ..sim.intervals import draft_acceptance_interval, draft_acceptance_interval_from_counts
from ..sim.mixture import TrafficPart, mix
from ..telemetry.record import AcceptanceRecord
from ..telemetry.scatter import CLUSTERING, FEWEST_FOR_SCATTER
from .inputs import PlanInput, source_of


@dataclass(frozen=True)
class Evidence:
    """alpha at the plan's K. `alpha_lower` is the lower bound, `survival` the vector of length K.

    `survival_measured` is False where the vector is that of a constant conditional acceptance. `missing` says why
    `alpha` or `alpha_lower` is None, `notes` what was converted or assumed. `measured_lower` is the bound that the
    telemetry alone gives where a traffic mix replaces it. `caution` says which part of the telemetry was used and why
    not all of it, `measured_k` the shorter K beyond which the vector is extended (an upper estimate), `design_effect`
    how many times as much as independent steps the telemetry scatters.
    """

    k: int
    origin: str
    alpha: float | None = None
    alpha_lower: float | None = None
    survival: tuple[float, ...] | None = None
    survival_measured: bool = False
    drafts: int | None = None
    notes: tuple[str, ...] = ()
    missing: str | None = None
    measured_lower: float | None = None
    caution: str | None = None
    measured_k: int | None = None
    design_effect: float = CLUSTERING


def gather(inputs: PlanInput) -> Evidence:
    """The evidence for `inputs`: the traffic mix if any, else the telemetry, else the candidate's benchmark."""
    record, note = inputs.acceptance, ()
    if record is None:
        with_alpha = [r for r in inputs.candidate if r.alpha is not None]
        if with_alpha:
            record = max(with_alpha, key=lambda r: r.drafted or 0)
            note = ("No telemetry of the service itself: alpha is that of the benchmark's prompts.",)
    telemetry = from_record(record, inputs.k, inputs.acceptance_k) if record is not None else None
    if inputs.traffic:
        return _mixed(inputs, telemetry)
    if telemetry is None:
        return Evidence(inputs.k, "not measured", missing="no telemetry with an acceptance rate was given")
    return _with_notes(telemetry, note)


def from_record(record: AcceptanceRecord, k: int, known_k: int | None = None) -> Evidence:
    """The evidence in one record, converted to draft length `k`. `known_k` is the K at which the record was made, for
    telemetry that does not say; ValueError when it contradicts the record.
    """
    origin = source_of(record)
    if record.unpooled is not None:
        return _from_parts(record, k, known_k)
    if record.alpha is None:
        reason = record.unknown.get("alpha") or "it does not determine accepted/drafted"
        return Evidence(k, origin, missing=f"{origin}: {reason}")
    k_from = _k_of(record)
    if k_from is not None and known_k is not None and known_k != k_from:
        raise out_of_range("alpha_k", known_k, f"{k_from}, the K that {origin} states (or leave it out)")
    k_from = k_from or known_k
    if k_from is None:
        return Evidence(
            k, origin, missing=f"{origin} has a rate of {record.alpha:.3f} but does not say at which K: give --alpha-k"
        )
    lower = _lower_bound(record, k_from)
    missing = None if lower is not None else f"{origin} has a rate but no counts, so its interval is unknown"
    alpha, notes = record.alpha, []
    if record.survival:
        survival, measured = convert_survival(record.survival, k), len(record.survival) >= k
    else:
        survival, measured = None, False
    if k != k_from:
        alpha, lower, how = _convert(record, k_from, k, lower)
        notes.append(f"alpha was measured at K={k_from} and is converted to K={k} {how}.")
    if survival is None:
        survival = survival_from_constant(constant_conditional_acceptance(alpha, k), k)
    return Evidence(
        k,
        origin,
        alpha,
        lower,
        survival,
        measured,
        record.drafts,
        tuple(notes),
        missing,
        measured_k=k_from if k > k_from else None,
        design_effect=_design_effect(record),
    )


def _from_parts(record: AcceptanceRecord, k: int, known_k: int | None) -> Evidence:
    """The evidence of the worst part of a record that must not be pooled; none where it has no parts."""
    origin, why = source_of(record), record.unpooled.reason
    k_from = _k_of(record)
    if k_from is not None and known_k is not None and known_k != k_from:
        raise out_of_range("alpha_k", known_k, f"{k_from}, the K that {origin} states (or leave it out)")
    if not record.unpooled.parts:
        return Evidence(k, origin, missing=f"{origin}: {why}", caution=why)
    parts = [(part.what, from_record(part.record, k, known_k)) for part in record.unpooled.parts]
    for what, part in parts:
        if part.alpha is None:
            return replace(part, missing=f"{why}, and of {what}: {part.missing}")
    what, worst = min(parts, key=lambda part: _bound(part[1]))
    if unbounded := [part for part in parts if part[1].alpha_lower is None]:
        what, worst = min(unbounded, key=lambda part: part[1].alpha)
    return replace(worst, origin=f"{origin}, {what}", notes=(f"{why}.", *worst.notes), caution=why)


def _bound(evidence: Evidence) -> float:
    return evidence.alpha if evidence.alpha_lower is None else evidence.alpha_lower


def _k_of(record: AcceptanceRecord) -> int | None:
    return record.k or (len(record.survival) if record.survival else None)


def _design_effect(record: AcceptanceRecord) -> float:
    """How many times as much as independent steps the record's alpha scatters, from its interval where that rests on
    enough windows to tell; else the usual clustering of steps."""
    windows = [w for w in record.windows if w.drafts and w.accepted is not None]
    if len(windows) < FEWEST_FOR_SCATTER or not (record.survival and record.drafts and record.alpha_interval):
        return CLUSTERING
    independent = record.alpha - draft_acceptance_interval(record.survival, record.drafts).low
    if independent <= 0:
        return CLUSTERING
    return max(1.0, ((record.alpha - record.alpha_interval[0]) / independent) ** 2)


def _lower_bound(record: AcceptanceRecord, k: int) -> float | None:
    if record.alpha_interval is not None:
        return record.alpha_interval[0]
    if record.survival and record.drafts:
        return draft_acceptance_interval(record.survival, record.drafts).low
    if record.drafted and record.accepted is not None:
        return draft_acceptance_interval_from_counts(record.accepted, ceil(record.drafted / k), k).low
    return None


def _convert(record: AcceptanceRecord, k_from: int, k: int, lower: float | None) -> tuple[float, float | None, str]:
    if record.survival:
        alpha = draft_acceptance_rate(convert_survival(record.survival, k))
        ratio = None if lower is None else (lower / record.alpha if record.alpha else 0.0)
        low = (
            None if ratio is None else draft_acceptance_rate(convert_survival([s * ratio for s in record.survival], k))
        )
        how = "along its survival vector"
        if k > k_from:
            how += (
                ", extended with the last conditional acceptance (an upper estimate for a head that fades with depth)"
            )
        return alpha, low, how
    alpha = convert_draft_acceptance_rate(record.alpha, k_from, k)
    low = None if lower is None else convert_draft_acceptance_rate(lower, k_from, k)
    return alpha, low, "assuming one constant conditional acceptance (no per-position rates were printed)"


def _mixed(inputs: PlanInput, telemetry: Evidence | None) -> Evidence:
    kinds = {name: _kind(name, inputs) for name in inputs.traffic}
    origin = "; ".join(f"{name}: {kind.origin}" for name, kind in kinds.items())
    for kind in kinds.values():
        if kind.alpha is None:
            return Evidence(inputs.k, origin, missing=kind.missing)
    estimate = _mix(inputs, {name: kind.survival for name, kind in kinds.items()})
    alpha = estimate.draft_acceptance_rate
    notes = [note for kind in kinds.values() for note in kind.notes]
    of = {"tokens": "output tokens", "requests": "requests", "drafts": "drafts"}[inputs.traffic_shares]
    equal = (
        " (equal answer lengths assumed)" if inputs.traffic_shares == "requests" and not inputs.output_tokens_by else ""
    )
    notes.append(
        f"The traffic shares are shares of {of}{equal}. The engine's counter weighs by drafts and will read "
        f"{alpha:.3f}; weighted by output tokens it is {estimate.token_weighted:.3f}, by requests "
        f"{estimate.request_weighted:.3f}."
    )
    measured = telemetry.alpha_lower if telemetry else None
    missing = None
    if all(kind.alpha_lower is not None for kind in kinds.values()):
        scaled = {
            name: tuple(s * (kind.alpha_lower / kind.alpha if kind.alpha else 0.0) for s in kind.survival)
            for name, kind in kinds.items()
        }
        lower, measured = _mix(inputs, scaled).draft_acceptance_rate, None
        notes.append("The bound of the mix takes the lower bound of every kind at once.")
    elif measured is not None:
        lower = alpha * (measured / telemetry.alpha if telemetry.alpha else 0.0)
        notes.append(
            f"Rates given by hand carry no counts: the bound keeps the relative width seen in {telemetry.origin}."
        )
        if not lower * 0.98 <= telemetry.alpha <= (2 * alpha - lower) * 1.02:
            notes.append(
                f"The mix predicts {alpha:.3f}, {telemetry.origin} measured {telemetry.alpha:.3f}: the measured "
                "traffic is not this mix, or the rates per kind are stale."
            )
    else:
        lower, missing = None, "the rates per kind of traffic were given by hand: they carry no counts and no interval"
    used = [*kinds.values(), *([telemetry] if measured is not None else [])]
    return Evidence(
        inputs.k,
        origin,
        alpha,
        lower,
        estimate.survival,
        all(kind.survival_measured for kind in kinds.values()),
        None,
        tuple(notes),
        missing,
        measured,
        caution="; ".join(dict.fromkeys(one.caution for one in used if one.caution)) or None,
        measured_k=min((one.measured_k for one in used if one.measured_k), default=None),
        design_effect=max(one.design_effect for one in used),
    )


def _mix(inputs: PlanInput, survivals: dict):
    parts = [
        TrafficPart(name, share, survivals[name], inputs.output_tokens_by.get(name, 256.0))
        for name, share in inputs.traffic.items()
    ]
    return mix(parts, inputs.traffic_shares)


def _kind(name: str, inputs: PlanInput) -> Evidence:
    value = inputs.alpha_by[name]
    if isinstance(value, AcceptanceRecord):
        return from_record(value, inputs.k, inputs.acceptance_k if value.k is None else None)
    survival = survival_from_constant(constant_conditional_acceptance(value, inputs.k), inputs.k)
    return Evidence(inputs.k, "your input", float(value), None, survival)


def _with_notes(evidence: Evidence, notes: tuple[str, ...]) -> Evidence:
    return replace(evidence, notes=notes + evidence.notes)
