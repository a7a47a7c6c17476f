"""Mixed traffic: which average of alpha is meant?

70 % chat at 0.7 and 30 % code at 0.4 has no single alpha before one says 70 % *of what*. A draft that fails often
needs more steps for the same text, so code holds a larger share of the drafts than of the tokens, and engine counters
(accepted / drafted, summed over everything) weigh by drafts.

- shares of **drafts**: the counter is the plain average, 0.61.
- shares of **output tokens**: drafts_i ~ tokens_i / AL_i; the counter reads lower than 0.61.
- shares of **requests**: tokens_i ~ requests_i * length_i first.

Time is what the user feels, and it adds per step: the mixture's acceptance length is total tokens over total drafts,
a harmonic mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .acceptance import acceptance_length, check_survival, convert_survival, draft_acceptance_rate
from .errors import check_positive, out_of_range, unknown_name

ShareOf = Literal["drafts", "tokens", "requests"]


@dataclass(frozen=True)
class TrafficPart:
    """One kind of traffic: its share (of what, `mix` is told), survival vector and mean output length in tokens."""

    name: str
    share: float
    survival: tuple[float, ...]
    output_tokens: float = 256.0


@dataclass(frozen=True)
class Mixture:
    """What counters and users see of mixed traffic.

    `draft_acceptance_rate` is the engine's counter (weighted by drafts), `token_weighted` and `request_weighted` are
    the averages of the parts' rates over output tokens and over requests.
    """

    survival: tuple[float, ...]
    draft_shares: tuple[float, ...]
    draft_acceptance_rate: float
    acceptance_length: float
    token_weighted: float
    request_weighted: float


def mix(parts: Sequence[TrafficPart], share_of: ShareOf = "tokens") -> Mixture:
    """Combine `parts` at their common draft length; shares are normalised. ValueError for none, negative or all-zero
    shares.
    """
    if share_of not in ("drafts", "tokens", "requests"):
        raise unknown_name("share_of", share_of, ("drafts", "tokens", "requests"))
    if not parts:
        raise out_of_range("parts", "empty", "at least one TrafficPart")
    shares = [check_positive(f"share of {p.name}", p.share, zero=True) for p in parts]
    if sum(shares) == 0:
        raise out_of_range("shares", shares, "at least one above 0")
    k = max(len(check_survival(p.survival, f"survival of {p.name}")) for p in parts)
    survivals = [convert_survival(p.survival, k) for p in parts]
    lengths = [acceptance_length(s) for s in survivals]
    outputs = [check_positive(f"output_tokens of {p.name}", p.output_tokens) for p in parts]

    tokens_per_share = {
        "drafts": lengths,
        "tokens": [1.0] * len(parts),
        "requests": outputs,
    }[share_of]
    tokens = _normalised([share * per for share, per in zip(shares, tokens_per_share, strict=True)])
    drafts = _normalised([t / length for t, length in zip(tokens, lengths, strict=True)])
    requests = _normalised([t / out for t, out in zip(tokens, outputs, strict=True)])

    pooled = tuple(sum(w * s[i] for w, s in zip(drafts, survivals, strict=True)) for i in range(k))
    rates = [draft_acceptance_rate(s) for s in survivals]
    return Mixture(
        survival=pooled,
        draft_shares=tuple(drafts),
        draft_acceptance_rate=draft_acceptance_rate(pooled),
        acceptance_length=acceptance_length(pooled),
        token_weighted=sum(w * r for w, r in zip(tokens, rates, strict=True)),
        request_weighted=sum(w * r for w, r in zip(requests, rates, strict=True)),
    )


def _normalised(values: Sequence[float]) -> list[float]:
    total = sum(values)
    return [v / total for v in values]
