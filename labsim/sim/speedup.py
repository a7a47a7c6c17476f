"""Speedup: tokens per step over the price of a step.

    S = acceptance length / R        R = time of a speculative step / time of a plain step = 1 + overhead

Nothing else enters: a rejected draft costs no extra target forward, because the verify pass already holds the logits
from which the corrected token is drawn (Leviathan et al., arXiv 2211.17192, section 2.3). Speculation pays when AL >
R, so with accepted/drafted

    1 + K * alpha_d > 1 + overhead   <=>   alpha_d > overhead / K

The overhead is where everything physical hides: the draft's own time, and a verify pass over K + 1 tokens per
request instead of one. It grows with batch and K; `labsim.sim.cost` computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .acceptance import (
    acceptance_length,
    check_survival,
    convert_survival,
    expected_tokens_geometric,
    expected_tokens_linear,
    solve_increasing,
)
from .errors import check_positive, check_whole, out_of_range


class StepCost(Protocol):
    """Anything that prices one engine step (`labsim.sim.cost.CostModel` does)."""

    def step_seconds(
        self, batch: int, num_speculative_tokens: int, kv_tokens: int, prefill_tokens: int = 0
    ) -> float: ...


def speedup(tokens_per_step: float, overhead: float) -> float:
    """S = tokens per step / (1 + overhead); `overhead` is the extra time of a speculative step relative to a plain
    one.
    """
    tokens_per_step = check_positive("tokens_per_step", tokens_per_step)
    if tokens_per_step < 1:
        raise out_of_range("tokens_per_step", tokens_per_step, "at least 1: the target always adds a token of its own")
    return tokens_per_step / (1 + check_positive("overhead", overhead, zero=True))


def breakeven_draft_acceptance_rate(overhead: float, k: int) -> float:
    """alpha_d at which S = 1: overhead / K. Above 1 no draft can win."""
    return check_positive("overhead", overhead, zero=True) / check_whole("k", k)


def breakeven_conditional_acceptance(overhead: float, k: int) -> float | None:
    """The constant alpha_c at which S = 1, or None when even alpha_c = 1 loses (overhead above K)."""
    overhead, k = check_positive("overhead", overhead, zero=True), check_whole("k", k)
    if overhead > k:
        return None
    return solve_increasing(lambda a: expected_tokens_geometric(a, k), 1 + overhead)


def needed_draft_acceptance_rate(target_speedup: float, overhead: float, k: int) -> float | None:
    """alpha_d for a wanted speedup: (S * (1 + overhead) - 1) / K; None when it would have to exceed 1."""
    needed = (
        check_positive("target_speedup", target_speedup) * (1 + check_positive("overhead", overhead, zero=True)) - 1
    )
    alpha_d = max(0.0, needed / check_whole("k", k))
    return alpha_d if alpha_d <= 1 else None


def needed_conditional_acceptance(target_speedup: float, overhead: float, k: int) -> float | None:
    """The constant alpha_c for a wanted speedup; None when even alpha_c = 1 falls short."""
    goal = check_positive("target_speedup", target_speedup) * (1 + check_positive("overhead", overhead, zero=True))
    k = check_whole("k", k)
    if goal > k + 1:
        return None
    return solve_increasing(lambda a: expected_tokens_geometric(a, k), goal)


def leviathan_speedup(alpha_c: float, k: int, draft_cost_ratio: float) -> float:
    """Closed form of Leviathan et al., theorem 3.8: the verify pass is free and each draft token costs
    `draft_cost_ratio`.
    """
    overhead = check_positive("draft_cost_ratio", draft_cost_ratio, zero=True) * check_whole("k", k)
    return speedup(expected_tokens_geometric(alpha_c, k), overhead)


@dataclass(frozen=True)
class Prediction:
    """One operating point. `step_ratio` is R, `alpha_breakeven` the accepted/drafted rate at which R is paid back."""

    k: int
    concurrency: int
    context: int
    step_ratio: float
    alpha_breakeven: float
    acceptance_length: float
    speedup: float


def predict(cost: StepCost, survival: Sequence[float], concurrency: int, context: int) -> Prediction:
    """Speedup at one point from the step cost and a survival vector; K is the vector's length.

    `concurrency` requests decode together, each with `context` tokens in its KV cache.
    """
    values = check_survival(survival)
    k, concurrency, context = len(values), check_whole("concurrency", concurrency), check_whole("context", context)
    kv_tokens = concurrency * context
    ratio = cost.step_seconds(concurrency, k, kv_tokens) / cost.step_seconds(concurrency, 0, kv_tokens)
    length = acceptance_length(values)
    return Prediction(k, concurrency, context, ratio, (ratio - 1) / k, length, length / ratio)


def best_k(
    cost: StepCost, survival: Sequence[float], concurrency: int, context: int, k_max: int | None = None
) -> Prediction | None:
    """The draft length 1..k_max with the highest speedup, or None when every one loses: then K = 0 is best.

    `k_max` defaults to the vector's length; beyond it the survival is extended (`convert_survival`).
    """
    values = check_survival(survival)
    lengths = range(1, check_whole("k_max", k_max if k_max is not None else len(values)) + 1)
    best = max((predict(cost, convert_survival(values, k), concurrency, context) for k in lengths), key=_speedup)
    return best if best.speedup > 1 else None


def paying_ranges(
    cost: StepCost, acceptance_length: float, k: int, context: int, limit: int = 4096
) -> list[tuple[int, int]]:
    """The ranges (first, last) of concurrency from 1 to `limit` in which speculation pays: R below `acceptance_length`.

    Usually one range or none. A mixture-of-experts model can have a gap: its R peaks where drafted tokens touch many
    further experts, and falls again once the plain step touches all of them anyway.
    """
    k, context, limit = check_whole("k", k), check_whole("context", context, 0), check_whole("limit", limit)
    ranges: list[tuple[int, int]] = []
    for c in range(1, limit + 1):
        plain, speculative = (cost.step_seconds(c, drafted, c * context) for drafted in (0, k))
        if speculative < acceptance_length * plain:
            extends = ranges and ranges[-1][1] == c - 1
            ranges[-1:] = [(ranges[-1][0], c)] if extends else [*ranges[-1:], (c, c)]
    return ranges


def surface(
    cost: StepCost,
    survival_at: Callable[[int], Sequence[float]],
    ks: Sequence[int],
    concurrencies: Sequence[int],
    context: int,
) -> list[list[Prediction]]:
    """The K x concurrency surface: one row per K. `survival_at(k)` gives the survival vector of a draft of k tokens."""
    return [[predict(cost, survival_at(k), c, context) for c in concurrencies] for k in ks]


def tokens_per_step(alpha: float, k: int, *, per_token: bool = False) -> float:
    """Tokens per target forward from either alpha: accepted/drafted by default, conditional with `per_token`."""
    return expected_tokens_geometric(alpha, k) if per_token else expected_tokens_linear(alpha, k)


def _speedup(prediction: Prediction) -> float:
    return prediction.speedup
