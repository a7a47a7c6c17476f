"""A race between plain decoding and drafts, and what `labsim.sim` predicts for it from measured parts.

    speedup = AL / R,    R = time of a speculative step / time of a plain step

The race gives the speedup by the clock. What goes into the prediction: from the race itself the acceptance of the
tokens and the times of drafting and judging per step; timed apart from it the verify cost curve
(`labsim.decode.verify_cost`), which stands for the target in a plain and in a speculative step. So what is tested is
that a forward in the loop costs what it costs alone, and that a step is draft + verify + judge and nothing else. If the
two agree, the formula has the whole story; if not, time goes somewhere that it does not know.

All arms run in turn within a round, and so do the curve's widths: a slow moment of the machine hits both sides. Figures
are medians over the rounds of ratios *within* a round.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..decode.generate import generate
from ..decode.result import GenerationResult
from ..decode.verify_cost import VerifyCost, measure_verify_cost
from ..drafts.protocol import Drafter
from ..drafts.shape import Chain
from ..models.load import Target
from ..sim.acceptance import survival_from_histogram
from ..sim.speedup import Prediction, predict

PLAIN = "plain"


@dataclass(frozen=True)
class MeasuredCost:
    """Two step times from a machine, in the form that `labsim.sim` takes: seconds of a plain step and of one with k
    drafted tokens, for one request.
    """

    k: int
    plain_s: float
    speculative_s: float

    def step_seconds(self, batch: int, num_speculative_tokens: int, kv_tokens: int, prefill_tokens: int = 0) -> float:
        """Seconds of one step. ValueError for anything that was not measured."""
        if batch != 1 or prefill_tokens or num_speculative_tokens not in (0, self.k):
            raise ValueError(
                f"step of batch {batch}, K {num_speculative_tokens}, prefill {prefill_tokens}; measured: batch 1, K 0 "
                f"or {self.k}, no prefill"
            )
        return self.speculative_s if num_speculative_tokens else self.plain_s


@dataclass(frozen=True)
class Round:
    """One round: the answers of each arm to every prompt, and the curve measured beside them."""

    answers: Mapping[str, tuple[GenerationResult, ...]]
    curve: VerifyCost


@dataclass(frozen=True)
class Race:
    """All rounds of a race with chains of `k`."""

    k: int
    rounds: tuple[Round, ...]

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the drafts that ran against plain decoding."""
        return tuple(name for name in self.rounds[0].answers if name != PLAIN)

    def speedups(self, arm: str) -> list[float]:
        """Speedup of an arm over plain decoding in each round: time per token against time per token."""
        return [seconds_per_token(one.answers[PLAIN]) / seconds_per_token(one.answers[arm]) for one in self.rounds]

    def speedup(self, arm: str) -> float:
        """Median over the rounds."""
        return statistics.median(self.speedups(arm))

    def predictions(self, arm: str) -> list[Prediction]:
        """`labsim.sim`'s prediction in each round, from that round's parts."""
        return [predicted(one, arm, self.k) for one in self.rounds]

    def prediction(self, arm: str) -> float:
        """Median predicted speedup."""
        return statistics.median(one.speedup for one in self.predictions(arm))

    def middle(self, arm: str) -> tuple[float, float]:
        """(predicted, measured) speedup of the round with the median error: two figures that belong together."""
        guesses = [one.speedup for one in self.predictions(arm)]
        pairs = sorted(zip(guesses, self.speedups(arm), strict=True), key=lambda pair: pair[0] / pair[1])
        return pairs[(len(pairs) - 1) // 2]

    def error(self, arm: str) -> float:
        """Relative error of the prediction: median over the rounds of predicted over measured, minus 1."""
        guess, measured = self.middle(arm)
        return guess / measured - 1

    def survival(self, arm: str) -> tuple[float, ...]:
        """P(at least i accepted), i = 1..k, over all steps of the first round (the others repeat it)."""
        return pooled_survival(self.rounds[0].answers[arm], self.k)


def race(
    target: Target,
    drafters: Mapping[str, Drafter],
    prompts: Sequence[Sequence[int]],
    *,
    k: int = 4,
    max_new_tokens: int = 64,
    rounds: int = 3,
) -> Race:
    """Greedy answers of `max_new_tokens` tokens to every prompt, by every arm, `rounds` times.

    Stop tokens are ignored, so that every arm and every machine runs the same number of tokens.
    """
    arms: dict[str, Drafter | None] = {PLAIN: None, **drafters}
    context = round(statistics.fmean(map(len, prompts))) + max_new_tokens // 2
    for drafter in arms.values():  # threads, pages, kernels
        answer(target, prompts[0], drafter, k, 8)
    run = []
    for number in range(rounds):
        names = list(arms)
        order = names[number % len(names) :] + names[: number % len(names)]
        found: dict[str, list[GenerationResult]] = {name: [] for name in names}
        for prompt in prompts:
            for name in order:
                found[name].append(answer(target, prompt, arms[name], k, max_new_tokens))
        curve = measure_verify_cost(target.model, widths=range(1, k + 2), context=context, rounds=7)
        run.append(Round({name: tuple(answers) for name, answers in found.items()}, curve))
    return Race(k, tuple(run))


def answer(
    target: Target, prompt: Sequence[int], drafter: Drafter | None, k: int, max_new_tokens: int
) -> GenerationResult:
    """One greedy answer of exactly that many tokens."""
    return generate(
        target, prompt, drafter=drafter, shape=Chain(k), max_new_tokens=max_new_tokens, stop_ids=frozenset()
    )


def predicted(one: Round, arm: str, k: int) -> Prediction:
    """AL / R with R from the round's curve, the draft's time per step and the time of judging."""
    plain, drafted = one.answers[PLAIN], one.answers[arm]
    widths = Counter(1 + len(step.tokens) for answer in drafted for step in answer.steps)
    steps = widths.total()
    # An n-gram draft is often shorter than k: each step pays for the width it had.
    verify = sum(count * one.curve.median(width) for width, count in widths.items()) / steps
    propose = sum(answer.seconds.propose for answer in drafted) / steps
    judge = sum(answer.seconds.accept for answer in drafted) / steps
    judge_plain = sum(answer.seconds.accept for answer in plain) / sum(len(answer.steps) for answer in plain)
    cost = MeasuredCost(k, one.curve.median(1) + judge_plain, verify + propose + judge)
    return predict(cost, pooled_survival(drafted, k), 1, one.curve.context)


def seconds_per_token(answers: Sequence[GenerationResult]) -> float:
    """Decode time per token, the prompt's forward and its token left out."""
    return sum(one.seconds.decode for one in answers) / sum(len(one.tokens) - 1 for one in answers)


def pooled_survival(answers: Sequence[GenerationResult], k: int) -> tuple[float, ...]:
    """Survival over the steps of several answers together."""
    accepted = Counter(len(step.path) for answer in answers for step in answer.steps)
    return survival_from_histogram([accepted[n] for n in range(k + 1)])
