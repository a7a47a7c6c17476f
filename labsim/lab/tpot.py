"""Time per output token of real requests, for several drafts of one target.

TPOT is one number per request: decode time over the tokens after the first. All arms answer the same prompts in turn,
so that a slow moment of the machine hits all; greedy answers are the same text whatever the draft, so they have the
same number of tokens. Intervals are paired bootstraps over requests.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from ..decode.generate import generate
from ..drafts.protocol import Drafter
from ..drafts.shape import Chain
from ..models.load import Target
from ..sim.intervals import Interval

DRAWS = 1000
FEWEST_TIMED = 20  # requests below which a bootstrap of times, and a P95, say nothing


@dataclass(frozen=True)
class Request:
    """One answered prompt under one draft.

    Attributes:
        tokens: the answer.
        runs: accepted drafted tokens of each verify step.
        tpot_ms: milliseconds per token after the first, the median over the rounds.
    """

    tokens: tuple[int, ...]
    runs: tuple[int, ...]
    tpot_ms: float


Requests = Mapping[str, Sequence[Request]]


def serve(
    target: Target,
    drafters: Mapping[str, Drafter | None],
    prompts: Sequence[Sequence[int]],
    *,
    k: int,
    max_new_tokens: int,
    rounds: int = 1,
) -> dict[str, list[Request]]:
    """Greedy answers to all prompts by every arm (None: no draft), one request at a time.

    Answers below two tokens have no TPOT and are left out, in all arms alike.
    """
    for drafter in drafters.values():  # threads, pages, kernels
        generate(target, prompts[0], drafter=drafter, shape=Chain(k), max_new_tokens=4)
    found: dict[str, list[Request]] = {name: [] for name in drafters}
    names = list(drafters)
    for number, prompt in enumerate(prompts):
        timed: dict[str, list[float]] = {name: [] for name in names}
        answers = {}
        for turn in range(rounds):
            first = (number + turn) % len(names)
            for name in names[first:] + names[:first]:
                one = generate(target, prompt, drafter=drafters[name], shape=Chain(k), max_new_tokens=max_new_tokens)
                timed[name].append(1e3 * one.seconds.decode / max(1, len(one.tokens) - 1))
                answers[name] = one
        if min(len(one.tokens) for one in answers.values()) < 2:
            continue
        for name, one in answers.items():
            runs = tuple(len(step.path) for step in one.steps)
            found[name].append(Request(tuple(one.tokens), runs, median(timed[name])))
    return found


def acceptance_length(requests: Sequence[Request]) -> float:
    """Tokens per verify step over all requests together."""
    steps = sum(len(one.runs) for one in requests)
    return 1 + sum(sum(one.runs) for one in requests) / steps if steps else 1.0


def mean_tpot(requests: Sequence[Request]) -> float:
    """Milliseconds, over requests."""
    return fmean(one.tpot_ms for one in requests)


def p95_tpot(requests: Sequence[Request]) -> float:
    """Milliseconds; of few requests it lies between the two slowest."""
    return float(np.percentile([one.tpot_ms for one in requests], 95))


def ratio_interval(
    requests: Sequence[Request],
    baseline: Sequence[Request],
    figure: Callable[[Sequence[Request]], float],
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[float, Interval]:
    """figure(requests) / figure(baseline), and its paired bootstrap interval. ValueError for unequal numbers."""
    if len(requests) != len(baseline) or not requests:
        raise ValueError(f"{len(requests)} and {len(baseline)} requests; a paired ratio needs the same prompts twice")
    rng, size, found = random.Random(seed), len(requests), []
    for _ in range(DRAWS):
        drawn = rng.choices(range(size), k=size)
        found.append(figure([requests[i] for i in drawn]) / figure([baseline[i] for i in drawn]))
    found.sort()
    edge = int((1 - confidence) / 2 * DRAWS)
    return figure(requests) / figure(baseline), Interval(found[edge], found[-1 - edge])


def survival(requests: Sequence[Request], depths: int) -> list[float]:
    """Share of verify steps that accepted at least 1, 2, ... drafted tokens."""
    runs = [run for one in requests for run in one.runs]
    return [sum(run > depth for run in runs) / len(runs) if runs else 0.0 for depth in range(depths)]
