"""Speculative sampling on a vocabulary that fits on paper: right answers, inputs and mistakes of notebook 03.

p is the target's distribution, q the draft's, both plain lists over the same few words.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

Probabilities = Sequence[float]


def accept_chance(p: float, q: float) -> float:
    """Chance to keep a drafted token with target probability `p` and draft probability `q`."""
    return min(1.0, p / q)


def normalised(weights: Sequence[float]) -> list[float]:
    """Divided by their sum; all zeros stay."""
    total = sum(weights)
    return [weight / total for weight in weights] if total > 0 else list(weights)


def residual(p: Probabilities, q: Probabilities) -> list[float]:
    """What p has and q lacks, as a distribution."""
    return normalised([max(0.0, a - b) for a, b in zip(p, q, strict=True)])


def emitted(p: Probabilities, q: Probabilities, r: Probabilities) -> list[float]:
    """Distribution of the token that one step emits when a rejected draft is replaced by a draw from `r`."""
    kept = [min(a, b) for a, b in zip(p, q, strict=True)]
    return [k + (1 - sum(kept)) * x for k, x in zip(kept, r, strict=True)]


def acceptance(p: Probabilities, q: Probabilities) -> float:
    """Chance that a token drawn from q is accepted: 1 - total variation distance."""
    return sum(map(min, p, q))


def first_choice(p: Probabilities, q: Probabilities) -> tuple[float, list[float]]:
    """Chance to keep q's most likely word when it is proposed without chance, and the distribution after a rejection.

    The word was certain to be proposed: its q is a point mass, so the chance is p of it, and the residual p without it.
    """
    word = max(range(len(q)), key=q.__getitem__)
    return p[word], normalised([0.0 if x == word else chance for x, chance in enumerate(p)])


def greedy_step(draft: Sequence[str], choices: Sequence[str]) -> list[str]:
    """Tokens that a greedy step emits."""
    n = 0
    while n < len(draft) and draft[n] == choices[n]:
        n += 1
    return [*draft[:n], choices[n]]


def fastest_k(survival: Probabilities, forward_ms: Probabilities, draft_ms: float) -> tuple[int, float]:
    """(K, speedup) of the best draft length; (0, 1.0) when none pays."""
    speedups = {0: 1.0}
    for k in range(1, len(survival) + 1):
        speedups[k] = (1 + sum(survival[:k])) * forward_ms[0] / (forward_ms[k] + k * draft_ms)
    best = max(speedups, key=speedups.__getitem__)
    return best, speedups[best]


def some_distribution(rng: Random, size: int) -> list[float]:
    return normalised([rng.random() ** 2 + 0.02 for _ in range(size)])


def some_pair(rng: Random) -> tuple[list[float], list[float]]:
    size = rng.randint(2, 6)
    return some_distribution(rng, size), some_distribution(rng, size)


def some_triple(rng: Random) -> tuple[list[float], list[float], list[float]]:
    size = rng.randint(3, 5)
    return some_distribution(rng, size), some_distribution(rng, size), some_distribution(rng, size)


def some_chances(rng: Random) -> tuple[float, float]:
    return round(rng.uniform(0.02, 1), 3), round(rng.uniform(0.05, 1), 3)


def some_words(rng: Random) -> tuple[list[str], list[str]]:
    words = ["a", "b", "c"]
    draft = [rng.choice(words) for _ in range(rng.randint(0, 5))]
    # Mostly the draft's own words, so that long prefixes pass too.
    choices = [word if rng.random() < 0.7 else rng.choice(words) for word in draft]
    return draft, [*choices, rng.choice(words)]


def some_prices(rng: Random) -> tuple[list[float], list[float], float]:
    k = rng.randint(2, 6)
    survival = sorted((round(rng.uniform(0.05, 0.95), 3) for _ in range(k)), reverse=True)
    forward = [round(rng.uniform(15, 30), 1)]
    for _ in range(k):
        forward.append(round(forward[-1] + rng.uniform(0, 6), 1))
    return survival, forward, round(rng.uniform(0, 5), 2)


def matches(draft: Sequence[str], choices: Sequence[str]) -> list[str]:
    return [token for token, choice in zip(draft, choices, strict=False) if token == choice]


def fastest_with(
    survival: Probabilities, forward_ms: Probabilities, draft_ms: float, **change: int
) -> tuple[int, float]:
    """`fastest_k` with one mistake, for the misconceptions."""
    speedups = {0: 1.0}
    for k in range(1, len(survival) + 1):
        tokens = change.get("own", 1) + sum(survival[:k])
        price = forward_ms[k - change.get("short", 0)] + (k if change.get("per_token", 1) else 1) * draft_ms
        price += change.get("second", 0) * (1 - survival[k - 1]) * forward_ms[0]
        speedups[k] = tokens * forward_ms[0] / price
    best = max(speedups, key=speedups.__getitem__)
    return best, speedups[best]


def longest_draft(survival: Probabilities, forward_ms: Probabilities, draft_ms: float) -> tuple[int, float]:
    k = len(survival)
    return k, (1 + sum(survival)) * forward_ms[0] / (forward_ms[k] + k * draft_ms)
