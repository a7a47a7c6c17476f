"""Claims E1 to E6 about EAGLE-3.1, each judged by the probed drafts.

    reproduced       the effect is there, its interval over seeds leaves no doubt, and its size is that of the claim
    trend only       the sign is certain, and the size is another, or the effect is not the claim's alone
    not reproduced   the interval leaves the sign open, it is the other one, or this target cannot show the effect

A gain that a draft has in every situation is no gain in a special one. So for contexts and templates two figures count:
the ratio there, and how much larger it is than in the draft's own situation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from .drift_arms import POST, PRE, TTT
from .drift_causes import Value, beyond, gain, growth, in_situation, over, ratio
from .drift_grid import DriftGrid
from .situations import CORNERS
from .ttt_arms import DEPTHS
from .ttt_causes import Spread, claim_verdict

REPRODUCED, TREND, NOT = "reproduced", "the trend only", "not reproduced"
OWN = CORNERS[0].name
FLAT = 0.1  # a size that changes by less than a tenth over all depths is called flat
UP_TO_2X = (1.18, 2.0)  # the drift paper's abstract: 1.18x on long context, up to 2x under other templates


@dataclass(frozen=True)
class Judged:
    """One claim. `here` is what was found, in numbers; `why` says what stands behind the verdict."""

    claim: str
    said: str
    here: str
    verdict: str
    why: str

    def row(self) -> dict[str, str]:
        return {
            "claim": self.claim,
            "said": self.said,
            "found here": self.here,
            "verdict": self.verdict,
            "why": self.why,
        }


def size_grows(grid: DriftGrid) -> Judged:
    """E2."""
    depth = grid.probing.depth
    pre, post = over(grid, PRE, growth(depth)), over(grid, POST, growth(depth))
    more = gain(grid, PRE, POST, growth(depth))
    flat = max(abs(post.low - 1), abs(post.high - 1)) < FLAT
    verdict = REPRODUCED if pre.low > 1 and flat else TREND if more.low > 0 and pre.low > 1 else NOT
    return Judged(
        "E2",
        "the state grows with depth without normalisation (paper: 3.92 to 14.02; 1.21 to 1.20 with it)",
        f"depth {depth} over depth 1: EAGLE-3 {pre.text}, EAGLE-3.1 {post.text}",
        verdict,
        f"nothing bounds a raw residual stream; a normed state has the size of the norm's weight; "
        f"depths beyond {TTT} were never trained",
    )


def attention_drifts(grid: DriftGrid) -> Judged:
    """E1."""
    depth = grid.probing.depth
    own = [over(grid, arm, lambda one: one.drift.self_mass[depth - 1]) for arm in (PRE, POST)]
    here = f"own branch at depth {depth}: EAGLE-3 {own[0].text}, EAGLE-3.1 {own[1].text}"
    said = "attention drifts from the sink to the draft's own tokens (paper: sink .46 to .08; .11 to .10 with 3.1)"
    if grid.sink.token is None:
        largest = max(grid.sink.shares)
        apart = gain(grid, PRE, POST, lambda one: one.drift.self_mass[depth - 1])
        side = {"more": "more", "less": "less"}.get(apart.verdict, "neither more nor less")
        why = (
            f"{grid.target} has no sink to leave: its most watched early token has {largest:.3f} of the attention, "
            f"where an even share is {grid.sink.even:.3f}; on its own branch EAGLE-3 has {side} than EAGLE-3.1"
        )
        return Judged("E1", said, here, NOT, why)

    def left(one):
        return one.drift.sink_mass[depth - 1] / one.drift.sink_mass[0]

    pre, post, more = over(grid, PRE, left), over(grid, POST, left), gain(grid, POST, PRE, left)
    here = f"sink at depth {depth} over depth 1: EAGLE-3 {pre.text}, EAGLE-3.1 {post.text}; {here}"
    verdict = REPRODUCED if pre.high < 0.5 and more.low > 0 else TREND if pre.high < 1 and more.low > 0 else NOT
    return Judged("E1", said, here, verdict, f"the target's sink is token {grid.sink.token}")


def mean_length(names: Sequence[str], k: int) -> Value:
    """Acceptance length, mean over situations."""
    values = [in_situation(name, k) for name in names]
    return lambda one: fmean(value(one) for value in values)


def excess(grid: DriftGrid, names: Sequence[str], k: int) -> Spread:
    """3.1 over 3 in these situations, over 3.1 over 3 in their own: what the situation adds."""
    there, usual = mean_length(names, k), in_situation(OWN, k)
    return ratio(grid, POST, PRE, lambda one: there(one) / usual(one))


def judged_there(
    grid: DriftGrid, names: Sequence[str], claimed: tuple[float, float], k: int = DEPTHS
) -> tuple[str, str, str]:
    """(what was found, verdict, why) for a claimed ratio of acceptance lengths in special situations."""
    raw, usual = ratio(grid, POST, PRE, mean_length(names, k)), ratio(grid, POST, PRE, in_situation(OWN, k))
    more = excess(grid, names, k)
    here = f"3.1 over 3: {raw.text}; in their own template {usual.text}"
    if raw.low <= 1:
        return here, NOT, "the interval over seeds leaves the sign open"
    if more.high < 1 - 1e-6:
        return here, NOT, f"what 3.1 is ahead shrinks there, by a factor of {more.text}"
    if more.low <= 1:
        return here, TREND, f"no more than anywhere else: what the situation itself adds is a factor of {more.text}"
    return here, claim_verdict(raw, *claimed), f"the situation itself adds a factor of {more.text}"


def long_context(grid: DriftGrid) -> Judged:
    """E3, at the longest context that was probed."""
    name = grid.groups["context"][-1]
    here, verdict, why = judged_there(grid, [name], UP_TO_2X)
    said = "in long context up to 2x (blog); 1.18x (paper's abstract, which has the 2x for templates)"
    return Judged("E3", said, f"{name}: {here}", verdict, why)


def other_templates(grid: DriftGrid) -> Judged:
    """E4, over all templates that are not the draft's own."""
    names = [name for name in grid.groups["template"] if name != OWN]
    here, verdict, why = judged_there(grid, names, (1.0, 2.0))
    said = "steadier under other templates and system prompts (paper: 1.69 to 2.61 without a template)"
    return Judged("E4", said, f"mean of {len(names)} templates: {here}", verdict, why)


def beyond_training(grid: DriftGrid) -> Judged:
    """E5, at the deepest depth at which states were probed."""
    depth = grid.probing.depth
    value = beyond(TTT, depth)
    pre, post, more = over(grid, PRE, value), over(grid, POST, value), gain(grid, POST, PRE, value)
    verdict = NOT if more.low <= 0 else REPRODUCED if post.low > 0.5 > pre.high else TREND
    return Judged(
        "E5",
        "3.1 works beyond the depth it was trained to (paper: trained for 2 steps, stable to 16)",
        f"right guesses at depth {depth} over those at depth {TTT}: EAGLE-3 {pre.text}, EAGLE-3.1 {post.text}",
        verdict,
        "a normed state looks alike at every depth, so the third guess meets what the second was trained on",
    )


def same_path(identical: bool, difference: float) -> Judged:
    """E6: answers unchanged with both generations, and an EAGLE-3 config without the flags gives these logits."""
    good = identical and difference == 0
    return Judged(
        "E6",
        "EAGLE-3 checkpoints load on the same code path",
        f"answers unchanged: {'yes' if identical else 'no'}; logits without the flags differ by {difference:g}",
        REPRODUCED if good else NOT,
        "one class; two flags that default to off",
    )


def judge(grid: DriftGrid, identical: bool, difference: float) -> list[Judged]:
    """E1 to E6."""
    probes = (attention_drifts, size_grows, long_context, other_templates, beyond_training)
    return [*(probe(grid) for probe in probes), same_path(identical, difference)]
