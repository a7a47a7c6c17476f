"""Workload: who asks what, and when.

Lengths are in tokens. A *closed loop* has C users who each send the next request as soon as the last one is answered
(a load test at fixed concurrency). An *open loop* sends requests at random moments, `arrival_rate` per second on
average (Poisson), whether or not the engine keeps up.

    Workload(prompt=LogNormal(355, 1.1), output=LogNormal(740, 1.0))                 # closed loop
    Workload(prompt=512, output=Empirical([90, 200, 1100]), arrival_rate=4.0)        # open loop

Request number i is the same for every draft length and seed-equal run: comparing with and without speculation
compares the same requests (common random numbers), so the difference is not blurred by luck.

The measured window. With `steady=True` C users join one by one over the time that one request takes (otherwise
requests of equal length stay in lockstep for ever), the first 2C requests and the last C are simulated but not
measured, and step statistics stop when the last request arrives. In an open loop the first and last tenth of the
requests are left out. With `steady=False` all users start at once and everything counts, as benchmark clients do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from random import Random
from typing import Protocol

from .errors import check_positive, check_whole, out_of_range


class Lengths(Protocol):
    """A distribution of token counts; every draw is at least 1."""

    @property
    def mean(self) -> float: ...

    def draw(self, rng: Random, index: int) -> int: ...


@dataclass(frozen=True)
class Constant:
    """Every length is `tokens`."""

    tokens: int

    def __post_init__(self) -> None:
        check_whole("tokens", self.tokens)

    @property
    def mean(self) -> float:
        return float(self.tokens)

    def draw(self, rng: Random, index: int) -> int:
        return self.tokens


@dataclass(frozen=True)
class LogNormal:
    """Lognormal lengths with mean `average` before rounding and clipping to 1..`longest`; `sigma` is the standard
    deviation of the logarithm (about 0.3 for GSM8K answers, 1.0 for open chat).
    """

    average: float
    sigma: float
    longest: int = 8192

    def __post_init__(self) -> None:
        check_positive("average", self.average)
        check_positive("sigma", self.sigma, zero=True)
        check_whole("longest", self.longest)
        if not 1 <= self.average <= self.longest:
            raise out_of_range("average", self.average, f"1 to longest = {self.longest}")

    @property
    def mean(self) -> float:
        return self.average

    def draw(self, rng: Random, index: int) -> int:
        # E[exp(N(mu, sigma))] = exp(mu + sigma^2 / 2)
        mu = log(self.average) - self.sigma**2 / 2
        return min(max(round(exp(rng.gauss(mu, self.sigma))), 1), self.longest)


@dataclass(frozen=True)
class Empirical:
    """Lengths drawn from a recorded list; with `in_order`, request i gets entry i (from the start again at the end),
    which keeps prompt, output and replayed acceptance of one recorded request together.
    """

    tokens: tuple[int, ...]
    in_order: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        if not self.tokens:
            raise out_of_range("tokens", "empty", "at least one length")
        for i, value in enumerate(self.tokens):
            check_whole(f"tokens[{i}]", value)

    @property
    def mean(self) -> float:
        return sum(self.tokens) / len(self.tokens)

    def draw(self, rng: Random, index: int) -> int:
        return self.tokens[index % len(self.tokens)] if self.in_order else rng.choice(self.tokens)


@dataclass(frozen=True)
class Workload:
    """Traffic of one simulation; lengths may be given as plain ints. The default is chat of medium length.

    `requests` defaults to 300, or 8 per user where that is more. ValueError for values out of range.
    """

    prompt: Lengths = field(default_factory=lambda: LogNormal(272, 0.8))
    output: Lengths = field(default_factory=lambda: LogNormal(256, 0.6))
    requests: int | None = None
    arrival_rate: float | None = None
    steady: bool = True

    def __post_init__(self) -> None:
        for name in ("prompt", "output"):
            given = getattr(self, name)
            if isinstance(given, int | float):
                object.__setattr__(self, name, Constant(check_whole(name, given)))
            elif not hasattr(given, "draw"):
                raise out_of_range(name, repr(given), "a whole number or Constant, LogNormal, Empirical")
        if self.requests is not None:
            check_whole("requests", self.requests)
        if self.arrival_rate is not None:
            check_positive("arrival_rate", self.arrival_rate)

    def request_count(self, concurrency: int | None) -> int:
        """How many requests a run simulates; ValueError when they are too few to leave a measured window."""
        if self.requests is None:
            return max(300, 8 * (concurrency or 0))
        if self.steady and concurrency is not None and self.requests < 4 * concurrency:
            raise out_of_range(
                "requests",
                self.requests,
                f"at least 4 per user, {4 * concurrency} (or steady=False to measure start and end as well)",
            )
        if self.steady and concurrency is None and self.requests < 10:
            raise out_of_range("requests", self.requests, "at least 10 (or steady=False)")
        return self.requests

    def coarse(self, concurrency: int | None = None) -> Workload:
        """The same traffic with as few requests as leave a measured window: for sliders, not for figures."""
        return replace(self, requests=max(60, 4 * (concurrency or 0)))

    def measured(self, count: int, concurrency: int | None) -> range:
        """Indices, in order of arrival, of the requests that the report counts."""
        if not self.steady:
            return range(count)
        if concurrency is None:
            return range(count // 10, count - count // 10)
        return range(2 * concurrency, count - concurrency)

    def draw(self, count: int, seed: int) -> tuple[list[int], list[int]]:
        """(prompt lengths, output lengths) of `count` requests."""
        prompt_rng, output_rng = Random(f"prompt {seed}"), Random(f"output {seed}")
        prompts = [self.prompt.draw(prompt_rng, i) for i in range(count)]
        return prompts, [self.output.draw(output_rng, i) for i in range(count)]

    def poisson_arrivals(self, count: int, seed: int) -> list[float]:
        """Arrival times in seconds of an open loop, ascending."""
        if self.arrival_rate is None:
            raise out_of_range("arrival_rate", None, "requests per second")
        rng, now, times = Random(f"arrivals {seed}"), 0.0, []
        for _ in range(count):
            now += rng.expovariate(self.arrival_rate)
            times.append(now)
        return times


def ramp(users: int, seconds: float) -> Sequence[float]:
    """Moments at which `users` join, evenly over `seconds`."""
    return [seconds * i / users for i in range(users)]
