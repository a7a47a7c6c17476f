"""Claims E1 to E6 about EAGLE-3.1, each judged by the probed drafts.

    reproduced       the effect is there, its interval over seeds leaves no doubt, and its size is that of the claim
    trend only       the sign is certain, and the size is another, or the effect is not the claim's alone
    not reproduced   the interval leaves the sign open, it is the other one, or this target cannot show the effect

A gain that a draft has in every situation is no gain in a special one. So for contexts and templates two figures count:
the ratio there, and how much larger it is than in the draft's own situation. Both are ratios of accepted drafted tokens
per step: the token that the target adds itself would pull a ratio of acceptance lengths to 1 where little is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from .drift_arms import POST, PRE, TTT
from .drift_causes import Value, accepted_in, beyond, brought_back, gain, growth, over, ratio
from .drift_grid import DriftGrid
from .drift_published import LENGTHS, SIZES
from .drift_real import DEPTH, ProbedDraft, RealProbes
from .situations import CORNERS
from .ttt_arms import DEPTHS
from .ttt_causes import Spread, claim_verdict

REPRODUCED, TREND, NOT = "reproduced", "the trend only", "not reproduced"
OWN = CORNERS[0].name
FLAT = 0.1  # a size that changes by less than a tenth over all depths is called flat
# What a situation adds, as a factor on accepted tokens. The drift paper's abstract has 1.18x on acceptance length in
# long context, which is at least that much of accepted tokens; for templates it gives both lengths in three situations.
LONG = (1.18, float("inf"))
_THERE = [(after - 1) / (before - 1) for name, (before, after) in LENGTHS.items() if name != OWN]
TEMPLATES = (min(_THERE), max(_THERE))
_EACH = [(sizes["depth 8"] / sizes["depth 1"]) ** (1 / 7) for sizes in SIZES.values()]
GROWTH = (min(_EACH), max(_EACH))  # of the state from one depth to the next, in the paper's three targets


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


def size_grows(grid: DriftGrid, real: RealProbes) -> Judged:
    """E2, by the growth per depth within the trained depths; flat must hold for all of them."""
    depth = grid.probing.depth
    trained, post = over(grid, PRE, growth(TTT)), over(grid, POST, growth(depth))
    each = over(grid, PRE, lambda one: growth(TTT)(one) ** (1 / (TTT - 1)))
    more = gain(grid, PRE, POST, growth(TTT))
    flat = max(abs(post.low - 1), abs(post.high - 1)) < FLAT
    sized = claim_verdict(each, *GROWTH) == REPRODUCED
    verdict = NOT if trained.low <= 1 or more.low <= 0 else REPRODUCED if flat and sized else TREND
    return Judged(
        "E2",
        "the state grows with depth without normalisation (paper: 3.92 to 14.02; 1.21 to 1.20 with it)",
        f"EAGLE-3 within the {TTT} trained depths {trained.text}, depth {depth} over depth 1, beyond them, "
        f"{over(grid, PRE, growth(depth)).text}; EAGLE-3.1 {post.text}",
        verdict,
        f"nothing bounds a raw residual stream; a normed state has the size of the norm's weight; "
        f"in the paper a state grows by {GROWTH[0]:.2f} to {GROWTH[1]:.2f} per depth; beside "
        f"{real.target}, depth {DEPTH} over depth 1: {real.each(lambda one: f'{one.growth().mean:.2f}')}",
    )


def attention_drifts(grid: DriftGrid, real: RealProbes) -> Judged:
    """E1. Where the grid's target has no sink, what a real target's drafts make of theirs stands beside the verdict."""
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
            f"where an even share is {grid.sink.even:.3f}; on its own branch EAGLE-3 has {side} than EAGLE-3.1; "
            f"{real.target} gives its sink {max(real.sink.shares):.2f}, and its drafts, at depths 1 and {DEPTH}, "
            f"{real.each(on_sink)}"
        )
        return Judged("E1", said, here, NOT, why)

    def left(one):
        return one.drift.sink_mass[depth - 1] / one.drift.sink_mass[0]

    pre, post, more = over(grid, PRE, left), over(grid, POST, left), gain(grid, POST, PRE, left)
    here = f"sink at depth {depth} over depth 1: EAGLE-3 {pre.text}, EAGLE-3.1 {post.text}; {here}"
    verdict = REPRODUCED if pre.high < 0.5 and more.low > 0 else TREND if pre.high < 1 and more.low > 0 else NOT
    return Judged("E1", said, here, verdict, f"the target's sink is token {grid.sink.token}")


def on_sink(one: ProbedDraft) -> str:
    """A real draft's attention on the sink at its first and its last depth."""
    first, *_, last = one.by_depth("sink_mass")
    return f"{first.mean:.2f} and {last.mean:.2f}"


def mean_accepted(names: Sequence[str], k: int) -> Value:
    """Accepted drafted tokens per step, mean over situations."""
    values = [accepted_in(name, k) for name in names]
    return lambda one: fmean(value(one) for value in values)


def excess(grid: DriftGrid, names: Sequence[str], k: int) -> Spread:
    """3.1 over 3 in these situations, over 3.1 over 3 in their own: what the situation adds."""
    there, usual = mean_accepted(names, k), accepted_in(OWN, k)
    return ratio(grid, POST, PRE, lambda one: there(one) / usual(one))


def judged_there(
    grid: DriftGrid, names: Sequence[str], claimed: tuple[float, float], k: int = DEPTHS
) -> tuple[str, str, str]:
    """(what was found, verdict, why) for what special situations are claimed to add."""
    raw, usual = ratio(grid, POST, PRE, mean_accepted(names, k)), ratio(grid, POST, PRE, accepted_in(OWN, k))
    more = excess(grid, names, k)
    here = f"accepted tokens of 3.1 over those of 3: {raw.text}; in their own template {usual.text}"
    if raw.low <= 1:
        return here, NOT, "the interval over seeds leaves the sign open"
    if more.high < 1 - 1e-6:
        return here, NOT, f"what 3.1 is ahead shrinks there, by a factor of {more.text}"
    if more.low <= 1:
        return here, TREND, f"no more than anywhere else: what the situation itself adds is a factor of {more.text}"
    return here, claim_verdict(more, *claimed), f"the situation itself adds a factor of {more.text}"


def long_context(grid: DriftGrid) -> Judged:
    """E3, at the longest context that was probed."""
    name = grid.groups["context"][-1]
    here, verdict, why = judged_there(grid, [name], LONG)
    said = "in long context up to 2x (blog); 1.18x (paper's abstract, which has the 2x for templates)"
    return Judged("E3", said, f"{name}: {here}", verdict, why)


def other_templates(grid: DriftGrid) -> Judged:
    """E4, over all templates that are not the draft's own."""
    names = [name for name in grid.groups["template"] if name != OWN]
    here, verdict, why = judged_there(grid, names, TEMPLATES)
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
        f"a draft trained on a normed state meets at the third guess what it met at the second; growth itself "
        f"explains little: EAGLE-3's state held at depth 1's size gives {brought_back(grid, PRE).text} tokens back",
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


def judge(grid: DriftGrid, real: RealProbes, identical: bool, difference: float) -> list[Judged]:
    """E1 to E6."""
    beyond_size = (long_context, other_templates, beyond_training)
    return [
        attention_drifts(grid, real), size_grows(grid, real), *(probe(grid) for probe in beyond_size),
        same_path(identical, difference),
    ]  # fmt: skip
