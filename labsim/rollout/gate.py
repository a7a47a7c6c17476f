"""The gate: what must hold before speculation is switched on.

| gate | holds when |
|---|---|
| alpha | the LOWER bound of accepted/drafted at the plan's K reaches the governing limit |
| tpot_p99 | the candidate's P99 TPOT (per request) is no worse than the baseline's, up to a stated tolerance |
| stall | the candidate's P99 chunk gap stays below an absolute limit |
| ttft_p99 | the candidate's P99 TTFT is no worse than the baseline's, up to a stated tolerance |
| latency at concurrency N | an operating point was asked for that no pair of benchmarks covers: it never holds |

The limit for alpha is a policy (0.55 unless set), break-even at the hardest operating point plus a margin, or the
higher of both. A policy alone is a poor judge: it rejects heads that win (EAGLE on Llama-3.1-8B has 0.46 at K = 3 and
1.73x) and accepts some that lose on mixture-of-experts targets, so `findings` says whenever the two rules disagree.

The stall limit is absolute. With speculation a chunk carries several tokens, so P99 ITL with over P99 ITL without is
expected to rise even when every user is served faster.

The verdict is for all operating points together. `verdict_at` gives it for each one, against its own break-even.

A gate without data neither passes nor fails: `passed` is None with the reason, and the verdict is then "measure-first"
unless another gate fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .benches import BenchPair, number
from .breakeven import BreakEvenPoint
from .evidence import Evidence
from .inputs import PlanInput


@dataclass(frozen=True)
class Gate:
    """One condition. `better` is "at least" or "at most"; `reason` explains a `passed` of None, or the failure."""

    name: str
    value: float | None
    limit: float | None
    passed: bool | None
    source: str
    better: str
    unit: str = ""
    limit_source: str = ""
    reason: str | None = None
    concurrency: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def verdict(gates: Sequence[Gate]) -> str:
    """ "no-go" if a gate fails, "measure-first" if one lacks data (or there is none), else "go"."""
    if any(gate.passed is False for gate in gates):
        return "no-go"
    if not gates or any(gate.passed is None for gate in gates):
        return "measure-first"
    return "go"


def verdict_at(
    gates: Sequence[Gate], evidence: Evidence, points: Sequence[BreakEvenPoint], inputs: PlanInput
) -> dict[int, str]:
    """The verdict at each operating point alone: alpha against that point's own limit, and the latencies there.

    Benchmarks that do not state their concurrency count at every point.
    """
    found = {}
    for point in points:
        limit = alpha_limit((point,), inputs.rule, inputs.policy, inputs.margin)
        here = [gate for gate in gates[1:] if gate.concurrency == point.concurrency]
        unnamed = [gate for gate in gates[1:] if gate.concurrency is None]
        found[point.concurrency] = verdict([alpha_gate(evidence, limit), *here, *unnamed])
    return found


def only_the_policy(gates: Sequence[Gate], evidence: Evidence, limit: AlphaLimit, inputs: PlanInput) -> bool:
    """Whether alpha fails by the policy alone: break-even plus margin, known at every point, lets it pass."""
    return (
        gates[0].passed is False
        and inputs.rule != "breakeven"
        and limit.breakeven is not None
        and limit.known_everywhere
        and evidence.alpha_lower is not None
        and evidence.measured_k is None
        and evidence.alpha_lower >= limit.breakeven
    )


@dataclass(frozen=True)
class AlphaLimit:
    """The governing limit of alpha. `complete` is False where an unknown break-even could still raise it;
    `breakeven` is the hardest known break-even plus margin, `known_everywhere` whether no point lacks one."""

    value: float | None
    complete: bool
    source: str
    breakeven: float | None
    known_everywhere: bool = True


def alpha_limit(points: Sequence[BreakEvenPoint], rule: str, policy: float, margin: float) -> AlphaLimit:
    """The limit under `rule`. The hardest operating point counts: the highest break-even plus `margin`."""
    known = [point for point in points if point.alpha is not None]
    worst = max(known, key=lambda point: point.alpha, default=None)
    floor = None if worst is None else max(0.0, worst.alpha) + margin
    said = (
        ""
        if worst is None
        else (f"break-even {worst.alpha:.3f} at concurrency {worst.concurrency} + margin {margin:g} ({worst.origin})")
    )
    unknown = [str(point.concurrency) for point in points if point.alpha is None]
    if unknown:
        said += (", " if said else "") + f"break-even unknown at concurrency {', '.join(unknown)}"
    if rule == "policy":
        return AlphaLimit(policy, True, f"policy {policy:g}", floor, not unknown)
    if rule == "breakeven":
        return AlphaLimit(floor, not unknown, said, floor, not unknown)
    if floor is None or policy >= floor:
        return AlphaLimit(policy, not unknown, f"policy {policy:g}, the higher of it and {said}", floor, not unknown)
    return AlphaLimit(floor, not unknown, f"{said}, the higher of it and policy {policy:g}", floor, not unknown)


def alpha_gate(evidence: Evidence, limit: AlphaLimit) -> Gate:
    """Lower bound of alpha against the limit; also fails when only the estimate is known and already lies below."""

    def gate(value: float | None, passed: bool | None, reason: str | None) -> Gate:
        source = f"lower bound from {evidence.origin}" if evidence.alpha_lower is not None else evidence.origin
        return Gate("alpha", value, limit.value, passed, source, "at least", "", limit.source, reason)

    lower = evidence.alpha_lower
    if evidence.alpha is None:
        return gate(None, None, evidence.missing)
    if limit.value is None:
        return gate(lower, None, f"{limit.source}; give --step-times CONCURRENCY=BASELINE_MS,CANDIDATE_MS")
    if lower is None:
        if evidence.alpha < limit.value:
            return gate(evidence.alpha, False, f"even the estimate is below the limit ({evidence.missing})")
        return gate(None, None, f"the estimate {evidence.alpha:.3f} has no lower bound: {evidence.missing}")
    if lower < limit.value:
        return gate(lower, False, "the lower bound is below the limit")
    if evidence.measured_k is not None:
        return gate(
            lower,
            None,
            f"measured at K={evidence.measured_k} only: beyond it the figure is an upper estimate, not a lower bound. "
            f"Measure at K={evidence.k}",
        )
    if not limit.complete:
        return gate(lower, None, f"{limit.source}; give --step-times CONCURRENCY=BASELINE_MS,CANDIDATE_MS")
    if evidence.measured_lower is not None and evidence.measured_lower < limit.value:
        return gate(
            lower,
            None,
            "only the traffic mix reaches the limit: the measured traffic has a lower bound of "
            f"{evidence.measured_lower:.3f}. Measure on the mix",
        )
    return gate(lower, True, None)


def bench_gates(pairs: Sequence[BenchPair], inputs: PlanInput) -> list[Gate]:
    """The three latency gates per benchmark pair, and one that stays open for each point that no pair covers."""
    if not pairs:
        have = "baseline" if inputs.baseline else "candidate" if inputs.candidate else None
        lacking = {"baseline": "--candidate-bench", "candidate": "--baseline-bench"}.get(
            have, "--baseline-bench and --candidate-bench"
        )
        reason = f"{lacking} {'was' if have else 'were'} not given"
        stall = inputs.stall_limit_ms
        return [
            Gate("tpot_p99", None, None, None, "not measured", "at most", "ms", "", reason),
            Gate("stall", None, stall, None, "not measured", "at most", "ms", _stall_source(inputs), reason),
            Gate("ttft_p99", None, None, None, "not measured", "at most", "ms", "", reason),
        ]
    gates = []
    for pair in pairs:
        suffix = "" if len(pairs) == 1 else f" at concurrency {pair.concurrency}"
        gates.append(_relative(f"tpot_p99{suffix}", "tpot_p99_ms", "TPOT", pair, inputs, inputs.tpot_tolerance))
        gates.append(_stall(f"stall{suffix}", pair, inputs))
        gates.append(_relative(f"ttft_p99{suffix}", "ttft_p99_ms", "TTFT", pair, inputs, inputs.ttft_tolerance))
    covered = {pair.concurrency for pair in pairs}
    if covered == {None} and len(inputs.concurrency) == 1:
        return gates
    have = ", ".join(str(point) for point in sorted(c for c in covered if c is not None)) or "an unstated concurrency"
    for point in inputs.concurrency:
        if point not in covered:
            reason = f"the benchmarks cover {have} only: measure at {point}"
            name = f"latency at concurrency {point}"
            source = f"not measured there; {pairs[0].both}; your input"
            gates.append(Gate(name, None, None, None, source, "at most", "ms", "", reason, point))
    return gates


def _other_k(pair: BenchPair, inputs: PlanInput) -> str | None:
    """Why this pair judges another configuration, or None."""
    if pair.k is not None and pair.k != inputs.k:
        return f"{pair.candidate_file} ran at K={pair.k}, the plan is for K={inputs.k}"
    return None


def _doubt(pair: BenchPair) -> str | None:
    """Why a pass of this pair would prove nothing (a failure still counts), or None."""
    if pair.speculates is None:
        return f"nothing in {pair.candidate_file} shows that speculation was on"
    if not pair.baseline_plain:
        return (
            f"mean ITL is far above mean TPOT in {pair.baseline_file}: it speculated, or merged chunks "
            "(--stream-interval)"
        )
    return None


def _relative(name: str, key: str, what: str, pair: BenchPair, inputs: PlanInput, tolerance: float) -> Gate:
    before, after = number(getattr(pair.baseline, key)), number(getattr(pair.candidate, key))
    limit = None if before is None else before * (1 + tolerance)
    limit_source = "" if before is None else f"P99 {what} {before:.2f} ms in {pair.baseline_file} x {1 + tolerance:g}"
    lacking = [f for f, v in ((pair.baseline_file, before), (pair.candidate_file, after)) if v is None]
    if lacking:
        passed, reason = None, f"{' and '.join(lacking)} holds no P99 {what}"
    elif _other_k(pair, inputs):
        passed, reason = None, _other_k(pair, inputs)
    elif after > limit:
        passed, reason = False, f"P99 {what} {after:.2f} ms is above {limit:.2f} ms"
    else:
        reason = _doubt(pair)
        passed = True if reason is None else None
    return Gate(
        name, after, limit, passed, pair.candidate_file, "at most", "ms", limit_source, reason, pair.concurrency
    )


def _stall(name: str, pair: BenchPair, inputs: PlanInput) -> Gate:
    gap = number(pair.candidate.itl_p99_ms)
    if gap is None:
        passed, reason = None, f"{pair.candidate_file} holds no P99 ITL"
    elif pair.chunk_gap_unknown is not None:
        gap, passed, reason = None, None, pair.chunk_gap_unknown
    elif _other_k(pair, inputs):
        passed, reason = None, _other_k(pair, inputs)
    elif gap > inputs.stall_limit_ms:
        passed, reason = False, f"P99 chunk gap {gap:.2f} ms is above {inputs.stall_limit_ms:g} ms"
    else:
        reason = _doubt(pair)
        passed = True if reason is None else None
    return Gate(
        name,
        gap,
        inputs.stall_limit_ms,
        passed,
        pair.candidate_file,
        "at most",
        "ms",
        _stall_source(inputs),
        reason,
        pair.concurrency,
    )


def _stall_source(inputs: PlanInput) -> str:
    return f"absolute limit, {inputs.origin('stall_limit_ms')}"
