"""Exercises of notebook 01: what alpha buys."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ...sim.acceptance import acceptance_length, conditional_from_survival, survival_from_conditional
from ...sim.speedup import needed_conditional_acceptance, needed_draft_acceptance_rate
from ..check import Check, Misconception
from ..exercise import Exercise


def tokens_per_step(alpha: float, k: int) -> float:
    """1 + alpha + ... + alpha^k."""
    return sum(alpha**i for i in range(k + 1))


def needed_alpha(target: float, k: int, overhead: float) -> float | None:
    """accepted/drafted for a wanted speedup."""
    return needed_draft_acceptance_rate(target, overhead, k)


def read_positions(rates: Sequence[float]) -> tuple[float, list[float]]:
    """(acceptance length, conditional acceptances) from a log's per-position rates."""
    return acceptance_length(rates), list(conditional_from_survival(rates))


def mixed_alpha(shares: Sequence[float], alphas: Sequence[float], k: int) -> float:
    """What the engine's counter reads for shares of output tokens."""
    drafts = [share / (1 + k * alpha) for share, alpha in zip(shares, alphas, strict=True)]
    return sum(d * a for d, a in zip(drafts, alphas, strict=True)) / sum(drafts)


def _some_alpha_and_k(rng: Random) -> tuple[float, int]:
    return round(rng.uniform(0, 0.95), 3), rng.randint(1, 9)


def _some_wish(rng: Random) -> tuple[float, int, float]:
    k = rng.randint(2, 9)
    return round(rng.uniform(1.2, 1.2 * k + 1), 2), k, round(rng.uniform(0.02, 0.5), 2)


def _some_rates(rng: Random) -> tuple[list[float]]:
    conditional = [rng.uniform(0.3, 0.9) for _ in range(rng.randint(2, 7))]
    return ([round(s, 4) for s in survival_from_conditional(conditional)],)


def _some_traffic(rng: Random) -> tuple[list[float], list[float], int]:
    share = round(rng.uniform(0.1, 0.9), 2)
    return [share, 1 - share], [round(rng.uniform(0.1, 0.95), 2) for _ in range(2)], rng.randint(2, 8)


def _weighted(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


EXERCISES = (
    Exercise(
        id="01.1",
        title="Tokens per step from a per-token alpha",
        minutes=6,
        difficulty="easy",
        prompt=(
            "Each drafted token passes with chance `alpha`, given that all before it have passed; the first failure "
            "ends the step. The draft has `k` tokens. Return the mean number of tokens that one target forward emits, "
            "its own token included. (`alpha` is below 1.)"
        ),
        hints=(
            "Token i is emitted from the draft only if tokens 1..i all pass. How likely is that?",
            "Add up the chances that token 1, 2, ..., k survive, and the one token that is always there.",
            "`1 + alpha + alpha**2 + ...`: a `sum` with a `range`. Which power is the last one, and where "
            "does `range` end?",
        ),
        check=Check(
            reference=tokens_per_step,
            cases=[(0.7, 5), (0.55, 3), (0.0, 4), (0.8, 1)],
            random_cases=_some_alpha_and_k,
            misconceptions=[
                Misconception(
                    "this is 1 + K * alpha",
                    "That is right for accepted/drafted and wrong for a per-token alpha: token 3 can only pass when "
                    "tokens 1 and 2 did.",
                    wrong=lambda alpha, k: 1 + k * alpha,
                ),
                Misconception(
                    "the bonus token is missing",
                    "You count the surviving drafted tokens; the target adds one of its own in every step.",
                    wrong=lambda alpha, k: sum(alpha**i for i in range(1, k + 1)),
                ),
                Misconception(
                    "the last drafted token is missing",
                    "The exponent stops one early: with k drafted tokens and the target's own there are k + 1 terms.",
                    wrong=lambda alpha, k: sum(alpha**i for i in range(k)),
                ),
                Misconception(
                    "all or nothing",
                    "You count the draft only when every token of it passes. A partly accepted draft keeps its prefix.",
                    wrong=lambda alpha, k: 1 + k * alpha**k,
                ),
                Misconception(
                    "an endless draft",
                    "1 / (1 - alpha) is the limit for k without end; a draft stops after k tokens.",
                    wrong=lambda alpha, k: 1 / (1 - alpha),
                ),
            ],
        ),
        takeaway="At 0.7 and K = 5 that is 2.94 tokens, not 4.5: deep tokens need all the earlier ones.",
    ),
    Exercise(
        id="01.2",
        title="Read a log's per-position rates",
        minutes=6,
        difficulty="medium",
        prompt=(
            "vLLM prints `Per-position acceptance rate: 0.675, 0.437, 0.279`. Position i counts the steps in which "
            "token i was accepted, over all steps. Return the pair `(acceptance_length, conditional)`: the mean "
            "tokens per step, and the list of chances that token i passes once those before it have."
        ),
        hints=(
            "0.437 is over all steps, not over the steps whose first token passed. So it already contains the 0.675.",
            "Acceptance length: the sum of the rates, plus the target's token. Conditional: each rate over its "
            "left neighbour.",
            "`zip([1, *rates], rates)` pairs each rate with the one before it; before the first one stands "
            "certainty, 1.",
        ),
        check=Check(
            reference=read_positions,
            cases=[([0.675, 0.437, 0.279],), ([0.16, 0.128, 0.107],), ([0.9],)],
            random_cases=_some_rates,
            rel_tol=1e-4,
            misconceptions=[
                Misconception(
                    "the rates are read as conditional",
                    "You multiply them up. Engines print survival, P(at least i accepted); papers print "
                    "conditional rates.",
                    wrong=lambda rates: (acceptance_length(survival_from_conditional(rates)), list(rates)),
                ),
                Misconception(
                    "the target's own token is missing",
                    "The rates count drafted tokens; every step emits one more.",
                    wrong=lambda rates: (sum(rates), read_positions(rates)[1]),
                ),
                Misconception(
                    "divided by the first rate",
                    "Conditional means: given the token just before. Divide each rate by its left neighbour.",
                    wrong=lambda rates: (acceptance_length(rates), [rates[0], *(r / rates[0] for r in rates[1:])]),
                ),
                Misconception(
                    "survival and conditional are the same list",
                    "They agree at the first position only.",
                    wrong=lambda rates: (acceptance_length(rates), list(rates)),
                ),
                Misconception(
                    "this is accepted/drafted",
                    "You divided the sum by K. That is alpha, not the tokens per step.",
                    wrong=lambda rates: (sum(rates) / len(rates), read_positions(rates)[1]),
                ),
            ],
        ),
        takeaway=(
            "A flat conditional list means that the draft is as good at depth 3 as at depth 1; survival falls all the "
            "same."
        ),
    ),
    Exercise(
        id="01.3",
        title="How much alpha for 2x, for 3x?",
        minutes=8,
        difficulty="easy",
        prompt=(
            "Return the accepted/drafted rate that gives a speedup of `target` with `k` drafted tokens, when a "
            "speculative step takes `1 + overhead` times a plain one. Return `None` when no rate is enough."
        ),
        hints=(
            "Speedup = tokens per step / (1 + overhead). How many tokens per step are needed?",
            "Tokens per step are 1 + K * alpha for accepted/drafted. Solve for alpha.",
            "`alpha = (target * (1 + overhead) - 1) / k`; a rate above 1 does not exist, so return None there.",
        ),
        check=Check(
            reference=needed_alpha,
            cases=[(2.0, 5, 0.1), (3.0, 5, 0.1), (2.0, 5, 0.3), (4.0, 2, 0.1), (3.0, 2, 0.1)],
            random_cases=_some_wish,
            misconceptions=[
                Misconception(
                    "the overhead is missing",
                    "A speculative step takes longer than a plain one, so more tokens are needed than the speedup.",
                    wrong=lambda target, k, overhead: needed_alpha(target, k, 0.0),
                ),
                Misconception(
                    "the target's own token is missing",
                    "One token of every step does not come from the draft; the draft need not earn it.",
                    wrong=lambda target, k, overhead: _at_most_one(target * (1 + overhead) / k),
                ),
                Misconception(
                    "this is a per-token alpha",
                    "You solved (1 - a^(K+1)) / (1 - a). Engines print accepted/drafted, for which tokens = 1 + "
                    "K * alpha.",
                    wrong=lambda target, k, overhead: needed_conditional_acceptance(target, overhead, k),
                ),
                Misconception(
                    "a rate above 1",
                    "For some wishes this asks the target to accept more than was drafted. Return None there.",
                    wrong=lambda target, k, overhead: (target * (1 + overhead) - 1) / k,
                ),
                Misconception(
                    "the overhead is paid per drafted token",
                    "`overhead` is of the whole step, already including all k tokens.",
                    wrong=lambda target, k, overhead: needed_alpha(target, k, overhead * k),
                ),
            ],
        ),
        takeaway=(
            "At K = 5 and overhead 0.1: 0.24 for 2x, 0.46 for 3x. Each 0.1 of overhead costs another 0.04 or 0.06."
        ),
    ),
    Exercise(
        id="01.4",
        title="The alpha of mixed traffic",
        minutes=10,
        difficulty="medium",
        prompt=(
            "`shares` of the output tokens come from kinds of traffic whose accepted/drafted rates are `alphas`, all "
            "with `k` drafted tokens. Return what the engine's counter reads: all accepted over all drafted tokens. "
            "For example 70 % chat at 0.7, 30 % code at 0.4, k = 5."
        ),
        hints=(
            "The counter weighs by drafted tokens. Which kind needs more drafts for the same number of output tokens?",
            "A kind with share s of the tokens needs s / (1 + k * alpha) steps, and every step drafts k tokens.",
            "`steps = [s / (1 + k*a) ...]`, then `sum(steps_i * a_i) / sum(steps_i)`.",
        ),
        check=Check(
            reference=mixed_alpha,
            cases=[
                ([0.7, 0.3], [0.7, 0.4], 5),
                ([0.5, 0.5], [0.9, 0.1], 4),
                ([1.0], [0.6], 3),
                ([0.5, 0.2, 0.3], [0.8, 0.3, 0.6], 3),
            ],
            random_cases=_some_traffic,
            misconceptions=[
                Misconception(
                    "the plain average",
                    "0.61 would be right if the shares were shares of the drafts. Code needs more drafts per "
                    "token, so it "
                    "weighs more in the counter than in the text.",
                    wrong=lambda shares, alphas, k: _weighted(shares, alphas),
                ),
                Misconception(
                    "steps counted without the target's own token",
                    "A step yields 1 + k * alpha tokens, not k * alpha.",
                    wrong=lambda shares, alphas, k: _weighted(
                        [s / (k * a) for s, a in zip(shares, alphas, strict=True)], alphas
                    ),
                ),
                Misconception(
                    "weighted the wrong way round",
                    "You multiply by the tokens per step. The kind with short steps needs *more* of them: divide.",
                    wrong=lambda shares, alphas, k: _weighted(
                        [s * (1 + k * a) for s, a in zip(shares, alphas, strict=True)], alphas
                    ),
                ),
                Misconception(
                    "the shares are ignored",
                    "This averages the kinds as if each made the same amount of text.",
                    wrong=lambda shares, alphas, k: sum(alphas) / len(alphas),
                ),
                Misconception(
                    "this is tokens per step",
                    "The acceptance length of the mixture is right; the question asks for accepted/drafted.",
                    wrong=lambda shares, alphas, k: 1 + k * mixed_alpha(shares, alphas, k),
                ),
            ],
        ),
        takeaway=(
            "The counter reads 0.583, below the 0.61 of the plain average, and no single number tells you that code "
            "runs at 0.4."
        ),
    ),
)


def _at_most_one(alpha: float) -> float | None:
    return alpha if alpha <= 1 else None
