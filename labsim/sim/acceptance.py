"""Acceptance: how many drafted tokens survive the target's check.

A chain draft proposes K tokens; the target accepts a prefix of n of them (0..K) and always adds one token of its
own, the correction after the first mismatch or the bonus token after a full match. So one target forward emits n + 1
tokens.

Three descriptions of the same thing, and the words used for them everywhere in labsim:

- **survival** s_i = P(n >= i), i = 1..K. The currency: everything else follows from it.
- **conditional acceptance** c_i = s_i / s_(i-1): the chance that token i passes once all before it have (s_0 = 1).
- **acceptance length** AL = 1 + s_1 + ... + s_K: mean tokens per target forward, the target's own token included.

and the two numbers that are both called "alpha":

- `draft_acceptance_rate` (alpha_d) = accepted / drafted = (s_1 + ... + s_K) / K. Engines print this one. AL = 1 + K *
  alpha_d, whatever the shape of s.
- `conditional_acceptance` (alpha_c) = a constant c_i, the alpha of Leviathan et al. (arXiv 2211.17192, eq. 1).
  AL = (1 - alpha_c^(K+1)) / (1 - alpha_c).

At K = 1 they coincide; at K = 5 the same 0.7 means 4.5 tokens under one name and 2.94 under the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp, log

from .errors import check_probability, check_whole, out_of_range


def check_survival(survival: Sequence[float], name: str = "survival") -> tuple[float, ...]:
    """Return the vector as floats; ValueError unless it is non-empty, within 0..1 and never increases."""
    if isinstance(survival, str | bytes) or not hasattr(survival, "__len__"):
        raise out_of_range(name, repr(survival), "a sequence of probabilities such as (0.74, 0.48, 0.30)")
    if len(survival) == 0:
        raise out_of_range(name, "empty", "one probability per drafted position")
    values = tuple(check_probability(f"{name}[{i}]", value) for i, value in enumerate(survival))
    for i, (before, after) in enumerate(pairwise(values)):
        if after > before + 1e-12:
            raise ValueError(
                f"{name}[{i + 1}] is {after}, above {name}[{i}] = {before}; allowed: never increasing, since reaching "
                f"position {i + 2} needs position {i + 1} accepted (conditional rates? use survival_from_conditional)"
            )
    return values


def survival_from_constant(alpha_c: float, k: int) -> tuple[float, ...]:
    """Survival of a draft whose every token passes with the same chance `alpha_c`: s_i = alpha_c^i."""
    alpha_c, k = check_probability("alpha_c", alpha_c), check_whole("k", k)
    return tuple(alpha_c**i for i in range(1, k + 1))


def survival_from_decay(first: float, decay: float, k: int) -> tuple[float, ...]:
    """Survival for conditional acceptance that falls (or rises) with depth: c_i = first * decay^(i-1), capped at 1."""
    first, k = check_probability("first", first), check_whole("k", k)
    if not decay > 0:
        raise out_of_range("decay", decay, "a factor above 0, 1 for no decay")
    return survival_from_conditional([min(1.0, first * decay**i) for i in range(k)])


def survival_from_conditional(conditional: Sequence[float]) -> tuple[float, ...]:
    """Running product of the conditional acceptances c_1..c_K."""
    if len(conditional) == 0:
        raise out_of_range("conditional", "empty", "one probability per drafted position")
    survival, running = [], 1.0
    for i, value in enumerate(conditional):
        running *= check_probability(f"conditional[{i}]", value)
        survival.append(running)
    return tuple(survival)


def conditional_from_survival(survival: Sequence[float]) -> tuple[float, ...]:
    """c_i = s_i / s_(i-1); 0 where position i is never reached."""
    values = check_survival(survival)
    return tuple(now / before if before > 0 else 0.0 for before, now in zip((1.0, *values), values, strict=False))


def acceptance_length(survival: Sequence[float]) -> float:
    """Mean tokens per target forward: 1 + sum of survival."""
    return 1.0 + sum(check_survival(survival))


def draft_acceptance_rate(survival: Sequence[float]) -> float:
    """alpha_d = accepted / drafted, the mean of the survival vector."""
    values = check_survival(survival)
    return sum(values) / len(values)


def accepted_distribution(survival: Sequence[float]) -> tuple[float, ...]:
    """P(n = 0), ..., P(n = K), the histogram of accepted tokens per step: s_n - s_(n+1)."""
    values = (1.0, *check_survival(survival), 0.0)
    return tuple(now - after for now, after in pairwise(values))


def survival_from_histogram(counts: Sequence[int]) -> tuple[float, ...]:
    """Survival from how many steps accepted 0, 1, ..., K tokens."""
    whole = [check_whole(f"counts[{i}]", count, 0) for i, count in enumerate(counts)]
    if len(whole) < 2 or sum(whole) == 0:
        raise out_of_range("counts", list(counts), "one count for 0..K accepted tokens, not all of them 0")
    steps = sum(whole)
    return tuple(sum(whole[i:]) / steps for i in range(1, len(whole)))


def accepted_variance(survival: Sequence[float]) -> float:
    """Variance of the accepted tokens per step: E[n^2] = sum of (2i - 1) s_i over i."""
    values = check_survival(survival)
    mean = sum(values)
    return max(0.0, sum((2 * i - 1) * s for i, s in enumerate(values, start=1)) - mean * mean)


def expected_tokens_linear(alpha_d: float, k: int) -> float:
    """1 + K * alpha_d: exact for accepted/drafted, whatever the shape of the survival vector."""
    return 1.0 + check_whole("k", k) * check_probability("alpha_d", alpha_d)


def expected_tokens_geometric(alpha_c: float, k: int) -> float:
    """(1 - alpha_c^(K+1)) / (1 - alpha_c): exact for one constant conditional acceptance (Leviathan et al., eq. 1)."""
    alpha_c, k = check_probability("alpha_c", alpha_c), check_whole("k", k)
    if k > 1000 and alpha_c < 0.99:
        return (1 - alpha_c ** (k + 1)) / (1 - alpha_c)
    # The quotient is 0/0 at 1 and loses digits close to it; Horner's scheme has neither trouble.
    total = 1.0
    for _ in range(k):
        total = 1.0 + alpha_c * total
    return total


def constant_conditional_acceptance(alpha_d: float, k: int) -> float:
    """The constant alpha_c whose draft of K tokens has accepted/drafted = `alpha_d` (bisection to 1e-14)."""
    alpha_d, k = check_probability("alpha_d", alpha_d), check_whole("k", k)
    return solve_increasing(lambda a: expected_tokens_geometric(a, k), 1.0 + k * alpha_d)


def convert_draft_acceptance_rate(alpha_d: float, k_from: int, k_to: int) -> float:
    """accepted/drafted at another draft length, under one constant conditional acceptance.

    The same head scores lower at a larger K because deep tokens need every earlier one accepted.
    Real heads lose a little more: prefer `convert_survival` when the per-position rates are known.
    """
    alpha_c = constant_conditional_acceptance(alpha_d, k_from)
    return draft_acceptance_rate(survival_from_constant(alpha_c, k_to))


def convert_survival(survival: Sequence[float], k: int) -> tuple[float, ...]:
    """Survival at draft length `k`: cut when shorter, extended with the last conditional acceptance when longer.

    Cutting a chain draft is exact at each step, but a shorter draft starts its steps elsewhere: measured EAGLE chains
    cut from K = 5 to 3 predict the acceptance length at K = 3 within 3.5 %. Extending assumes that acceptance does
    not fall further with depth, so it is an upper estimate for drafts trained without training-time test.
    """
    values, k = check_survival(survival), check_whole("k", k)
    if k <= len(values):
        return values[:k]
    last = conditional_from_survival(values)[-1]
    return values + tuple(values[-1] * last**i for i in range(1, k - len(values) + 1))


def fit_decay(survival: Sequence[float]) -> tuple[float, float]:
    """(first, decay) of c_i = first * decay^(i-1) by least squares on log c_i, weighted by how often position i is
    reached.

    ValueError for fewer than two positions that are ever accepted: they do not determine a decay.
    """
    values = check_survival(survival)
    reached = (1.0, *values)
    points = [(i, log(c), reached[i]) for i, c in enumerate(conditional_from_survival(values)) if c > 0]
    if len(points) < 2:
        raise out_of_range("survival", list(values), "at least two positions with survival above 0")
    weight = sum(w for _, _, w in points)
    mean_x = sum(w * x for x, _, w in points) / weight
    mean_y = sum(w * y for _, y, w in points) / weight
    spread = sum(w * (x - mean_x) ** 2 for x, _, w in points)
    slope = sum(w * (x - mean_x) * (y - mean_y) for x, y, w in points) / spread
    return exp(mean_y - slope * mean_x), exp(slope)


def solve_increasing(function: Callable[[float], float], goal: float, low: float = 0.0, high: float = 1.0) -> float:
    """The x in low..high at which an increasing `function` reaches `goal`; the nearer end when it never does."""
    if function(low) >= goal:
        return low
    if function(high) <= goal:
        return high
    while high - low > 1e-14:
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < goal else (low, middle)
    return (low + high) / 2
