"""Accept process: how many drafted tokens pass in each step of each request.

One survival vector says what happens on average. Users differ, and steps of one answer resemble each other:

- **Spread between requests.** A request has a luck a ~ N(0, 1). Position i survives when sqrt(w) a + sqrt(1 - w) e <
  z_i with e ~ N(0, 1) fresh per step and z_i = Phi^-1(s_i): a one-factor Gaussian copula (the credit-risk model of
  Vasicek). Given its luck a request has the survival

      s_i(a) = Phi((z_i - sqrt(w) a) / sqrt(1 - w))

  whose mean over a is s_i exactly, at every position, for any w in 0..1. w = 0: all alike.

- **Weights.** Engine counters sum over *steps*, and a request with low acceptance needs more of them: tokens / AL(a).
  The survival vector given here is the counters' one, so lucks are drawn with density phi(a) AL(a): per step that is
  phi(a) again. The plain mean over requests is therefore a little higher than the counters say.

- **Autocorrelation.** With chance r a step repeats the accept count of the step before, else it draws afresh (Jacobs
  and Lewis' discrete autoregression, 1978): the marginal stays what it was, and the correlation at lag j is r^j
  within a request.

`Replay` takes recorded accept counts instead, `Mixed` several kinds of traffic. All give the tokens of a step,
accepted + 1, from one target forward.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf, sqrt
from random import Random
from statistics import NormalDist
from typing import Protocol

from .acceptance import acceptance_length, accepted_variance, check_survival, convert_survival
from .errors import check_positive, check_whole, out_of_range

NORMAL = NormalDist()


class Sampler(Protocol):
    """Tokens per step of request `index`, at least `tokens` of them in total (the last step may run over)."""

    def steps(self, index: int, tokens: int) -> list[int]: ...


class AcceptProcess(Protocol):
    """What a simulation needs: mean tokens per step, and a sampler for K drafted tokens."""

    def acceptance_length(self, k: int) -> float: ...

    def sampler(self, k: int, seed: int) -> Sampler: ...


@dataclass(frozen=True)
class Acceptance:
    """A survival vector with spread and memory.

    `request_std`: standard deviation between requests of their acceptance length (tokens, at the vector's own K; the
    true one, without the noise of finite answers). `autocorrelation`: lag-1 correlation of the accept count within a
    request, 0 to below 1. ValueError for values out of range, and for a spread wider than the survival vector can
    carry.
    """

    survival: tuple[float, ...]
    request_std: float = 0.0
    autocorrelation: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "survival", check_survival(self.survival))
        check_positive("request_std", self.request_std, zero=True)
        if not 0 <= self.autocorrelation < 1:
            raise out_of_range("autocorrelation", self.autocorrelation, "0 to below 1")
        widest = _std_of_lucks(survival_by_luck(self.survival, WIDEST, 64))
        if self.request_std > widest:
            raise out_of_range("request_std", self.request_std, f"0 to {widest:.3f} for this survival vector")

    @classmethod
    def from_statistics(
        cls, survival: Sequence[float], request_std: float, pooled_lag1: float, steps_per_request: float
    ) -> Acceptance:
        """From what logs show: the standard deviation of per-request means, and the lag-1 correlation over all steps.

        Both mix two effects. The measured variance of request means holds sampling noise, var(n) / steps * (1 + r) /
        (1 - r); the pooled correlation holds the spread, (b^2 + r (v - b^2)) / v with b the true spread and v =
        var(n). Solved for b and r by iteration; either is 0 where noise explains all of it.
        """
        variance = accepted_variance(survival)
        check_positive("request_std", request_std, zero=True)
        check_positive("steps_per_request", steps_per_request)
        if not -1 < pooled_lag1 < 1:
            raise out_of_range("pooled_lag1", pooled_lag1, "above -1 and below 1")
        within = 0.0
        for _ in range(50):
            noise = (variance / steps_per_request) * (1 + within) / (1 - within)
            between = min(max(0.0, request_std**2 - noise), 0.99 * variance)
            within = min(max(0.0, (pooled_lag1 * variance - between) / (variance - between)), 0.99)
        return cls(tuple(survival), sqrt(between), within)

    def acceptance_length(self, k: int) -> float:
        return acceptance_length(convert_survival(self.survival, k))

    def sampler(self, k: int, seed: int) -> SyntheticSampler:
        return SyntheticSampler(convert_survival(self.survival, k), self._factor(), self.autocorrelation, seed)

    def _factor(self) -> float:
        """The w whose spread of acceptance lengths is `request_std` (bisection; the spread grows with w)."""
        if self.request_std == 0:
            return 0.0
        low, high = 0.0, WIDEST
        for _ in range(24):
            middle = (low + high) / 2
            if _std_of_lucks(survival_by_luck(self.survival, middle, 64)) < self.request_std:
                low = middle
            else:
                high = middle
        return (low + high) / 2


class SyntheticSampler:
    """Draws accept counts by inversion: n is how many s_i exceed one uniform number.

    Each request has its own generator, so more acceptance means more tokens in the very same steps, and a request is
    the same whatever the others do.
    """

    def __init__(self, survival: tuple[float, ...], factor: float, autocorrelation: float, seed: int) -> None:
        self._seed = seed
        self._repeat = autocorrelation
        lucks = survival_by_luck(survival, factor, 256) if factor > 0 else [survival]
        self._ascending = [values[::-1] for values in lucks]
        self._lengths = [1 + sum(values) for values in lucks]
        self._until = list(accumulate(self._lengths))

    def steps(self, index: int, tokens: int) -> list[int]:
        random = Random(f"accept {self._seed} {index}").random
        luck = bisect_right(self._until, random() * self._until[-1], hi=len(self._until) - 1)
        ascending, most, repeat = self._ascending[luck], len(self._ascending[luck]) + 1, self._repeat
        block = int(1.1 * tokens / self._lengths[luck]) + 8
        emitted: list[int] = []
        before = most - bisect_right(ascending, random())
        while True:
            if repeat:
                emitted += [
                    before := before if random() < repeat else most - bisect_right(ascending, random())
                    for _ in range(block)
                ]
            else:
                emitted += [most - bisect_right(ascending, random()) for _ in range(block)]
            total = list(accumulate(emitted))
            if total[-1] >= tokens:
                del emitted[bisect_left(total, tokens) + 1 :]
                return emitted


@dataclass(frozen=True)
class Replay:
    """Recorded accept counts: accepted[i] holds the n (0..K) of request i, step by step.

    More requests than recordings start again with the first, and a recording that ends early starts again from its
    own beginning. ValueError for an empty recording, or for a count above the K that is simulated.
    """

    accepted: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "accepted", tuple(tuple(one) for one in self.accepted))
        if not self.accepted:
            raise out_of_range("accepted", "empty", "at least one request")
        for i, one in enumerate(self.accepted):
            if not one:
                raise out_of_range(f"accepted[{i}]", "empty", "at least one step")
            worst = min(one)
            check_whole(f"accepted[{i}][{one.index(worst)}]", worst, 0)

    def acceptance_length(self, k: int) -> float:
        self._check(k)
        return 1 + sum(map(sum, self.accepted)) / sum(map(len, self.accepted))

    def sampler(self, k: int, seed: int) -> ReplaySampler:
        self._check(k)
        return ReplaySampler(self.accepted)

    def _check(self, k: int) -> None:
        for i, one in enumerate(self.accepted):
            most = max(one)
            if most > k:
                raise out_of_range(f"accepted[{i}][{one.index(most)}]", most, f"0 to k = {k}")


class ReplaySampler:
    """Reads recorded accept counts from the start."""

    def __init__(self, accepted: tuple[tuple[int, ...], ...]) -> None:
        self._emitted = [[n + 1 for n in one] for one in accepted]

    def steps(self, index: int, tokens: int) -> list[int]:
        recorded = self._emitted[index % len(self._emitted)]
        emitted = recorded * (tokens // sum(recorded) + 1)
        total = list(accumulate(emitted))
        return emitted[: bisect_left(total, tokens) + 1]


@dataclass(frozen=True)
class Mixed:
    """Traffic of several kinds: each request belongs to one part, by shares of *requests* (any positive numbers).

        Mixed(((0.7, Acceptance((0.7, 0.5))), (0.3, Acceptance((0.4, 0.2)))))

    Counters see less of the well accepted parts, since those need fewer steps per token. ValueError for no parts or a
    share that is not above 0.
    """

    parts: tuple[tuple[float, AcceptProcess], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple((share, as_accept_process(part)) for share, part in self.parts))
        if not self.parts:
            raise out_of_range("parts", "empty", "at least one (share, acceptance)")
        for i, (share, _) in enumerate(self.parts):
            check_positive(f"parts[{i}] share", share)

    def acceptance_length(self, k: int) -> float:
        """Tokens over steps when answers of all parts are equally long: a harmonic mean."""
        total = sum(share for share, _ in self.parts)
        return total / sum(share / part.acceptance_length(k) for share, part in self.parts)

    def sampler(self, k: int, seed: int) -> MixedSampler:
        shares = [share for share, _ in self.parts]
        return MixedSampler(shares, [part.sampler(k, seed) for _, part in self.parts], seed)


class MixedSampler:
    """Hands every request to the sampler of its part."""

    def __init__(self, shares: Sequence[float], samplers: Sequence[Sampler], seed: int) -> None:
        self._until, self._samplers, self._seed = list(accumulate(shares)), samplers, seed

    def part_of(self, index: int) -> int:
        """Which part request `index` belongs to."""
        point = Random(f"part {self._seed} {index}").random() * self._until[-1]
        return bisect_right(self._until, point, hi=len(self._until) - 1)

    def steps(self, index: int, tokens: int) -> list[int]:
        return self._samplers[self.part_of(index)].steps(index, tokens)


def as_accept_process(given: Sequence[float] | AcceptProcess) -> AcceptProcess:
    """A bare survival vector means no spread and no memory."""
    return given if hasattr(given, "sampler") else Acceptance(tuple(given))  # type: ignore[return-value, arg-type]


WIDEST = 0.999


def survival_by_luck(survival: tuple[float, ...], factor: float, classes: int) -> list[tuple[float, ...]]:
    """s(a) for `classes` equally likely lucks (midpoints of the normal quantiles), lucky requests first."""
    spread, rest = sqrt(factor), sqrt(1 - factor)
    quantiles = [_quantile(s) for s in survival]
    normal = NORMAL.cdf
    lucks = [NORMAL.inv_cdf((j + 0.5) / classes) for j in range(classes)]
    return [tuple(normal((z - spread * a) / rest) for z in quantiles) for a in lucks]


def _quantile(probability: float) -> float:
    if probability in (0.0, 1.0):
        return inf if probability else -inf
    return NORMAL.inv_cdf(probability)


def _std_of_lucks(lucks: list[tuple[float, ...]]) -> float:
    """Standard deviation over requests (density phi(a) AL(a)) of the acceptance length."""
    lengths = [1 + sum(values) for values in lucks]
    weight = sum(lengths)
    mean = sum(x * x for x in lengths) / weight
    return sqrt(max(0.0, sum(x**3 for x in lengths) / weight - mean * mean))
