"""From recorded metrics to findings, one per claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from . import drift, serving, training  # noqa: F401  they register the rules
from .findings import AT_SCALE, RULES, Finding, Value, Values, Verdict
from .table import Claim

# What no notebook measures so far, and what will.
PENDING = {
    "S7": "notebook 14 will take a chat draft to code and agent traffic",
    "S10": "no engine runs in this course; exercise 02.3 writes the configuration as vLLM documents it",
    "S14": "notebook 14 will train the draft on with the other domain's answers",
    "A9": "notebook 13 will store real features with several codecs",
    "A11": "notebook 14 will cross shifted traffic with draft capacity",
    "A12": "notebook 16 will simulate an agent's turns from end to end",
    "A16": "notebook 14 will measure acceptance by context length, as far as a CPU reaches",
}


@dataclass(frozen=True)
class Judged:
    """A claim with what was found: at the scale of every run, and at a larger one where that was run too."""

    claim: Claim
    finding: Finding
    basis: str
    uses: tuple[str, ...]
    at_scale: Mapping[str, Finding]


def finding(claim: Claim, values: Mapping[str, Value]) -> Finding:
    """The finding of one claim; "not yet measured" where its rule or one of its metrics is missing."""
    rule = RULES.get(claim.id)
    if rule is None:
        return Finding("", Verdict.NOT_YET, PENDING[claim.id])
    missing = [name for name in rule.uses if name not in values]
    if missing:
        return Finding("", Verdict.NOT_YET, f"no recorded metric {', '.join(missing)}")
    return rule.judge(claim, Values(values, rule.uses))


def beside(claim: Claim, values: Mapping[str, Value], scale: str) -> Finding:
    """The finding of a larger scale: by a rule of its own, whose basis it names, where its metrics are all there."""
    own = AT_SCALE.get((claim.id, scale))
    if own is None or any(name not in values for name in own.uses):
        return finding(claim, values)
    found = own.judge(claim, Values(values, own.uses))
    return replace(found, here=f"{found.here} ({own.basis})")


def judge(claims: Mapping[str, Claim], by_scale: Mapping[str, Mapping[str, Value]]) -> list[Judged]:
    """All claims against the metrics of each scale, in the order of the claims.

    Args:
        claims: by id.
        by_scale: metrics by scale; the first scale decides the verdict, others are shown beside it where a rule's
            metrics are all there.
    """
    first, *others = by_scale
    judged = []
    for claim in claims.values():
        larger = {scale: beside(claim, by_scale[scale], scale) for scale in others}
        larger = {scale: found for scale, found in larger.items() if found.verdict is not Verdict.NOT_YET}
        rule = RULES.get(claim.id)
        judged.append(
            Judged(
                claim,
                finding(claim, by_scale[first]),
                rule.basis if rule else "",
                rule.uses if rule else (),
                larger,
            )
        )
    return judged
