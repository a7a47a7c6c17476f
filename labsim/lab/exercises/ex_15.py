"""Exercises of notebook 15: from an engine's logs to a decision."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from ..check import Check, Misconception
from ..exercise import Exercise

Counters = Mapping[str, int]


def alpha_between(before: Counters, after: Counters) -> tuple[float, float]:
    """(accepted/drafted, acceptance length) of what happened between two scrapes."""
    drafts, drafted, accepted = (after[name] - before[name] for name in ("drafts", "draft_tokens", "accepted_tokens"))
    return accepted / drafted, 1 + accepted / drafts


def draft_length(accept_len: float, accept_rate: float) -> int:
    """K from one SGLang line whose rate may or may not hold the bonus token."""
    with_bonus, without = accept_len / accept_rate - 1, (accept_len - 1) / accept_rate
    return round(min((with_bonus, without), key=lambda k: abs(k - round(k))))


def acceptance_length(mean_itl_ms: float, mean_tpot_ms: float) -> float:
    """Tokens per chunk."""
    return mean_itl_ms / mean_tpot_ms


def gate(
    alpha_lower: float,
    breakeven: float,
    tpot_p99_before: float,
    tpot_p99_after: float,
    gap_p99_before: float,
    gap_p99_after: float,
) -> str:
    """The course's gate with its default limits."""
    enough = alpha_lower >= max(0.55, breakeven + 0.05)
    return "go" if enough and tpot_p99_after <= tpot_p99_before and gap_p99_after <= 100 else "no-go"


def _some_scrapes(rng: Random) -> tuple[Counters, Counters]:
    k = rng.randint(2, 6)
    totals = {"drafts": rng.randint(500, 5000)}
    before = totals | {"draft_tokens": k * totals["drafts"], "accepted_tokens": rng.randint(100, totals["drafts"])}
    drafts = rng.randint(200, 3000)
    accepted = rng.randint(drafts // 2, (k - 1) * drafts)
    after = {
        "drafts": before["drafts"] + drafts,
        "draft_tokens": before["draft_tokens"] + k * drafts,
        "accepted_tokens": before["accepted_tokens"] + accepted,
    }
    return before, after


def _some_line(rng: Random) -> tuple[float, float]:
    """A printed line whose two readings give clearly different draft lengths."""
    while True:
        k, inside = rng.randint(2, 7), rng.random() < 0.5
        length = round(1 + k * rng.uniform(0.2, 0.8), 4)
        rate = round(length / (k + 1) if inside else (length - 1) / k, 4)
        other = (length - 1) / rate if inside else length / rate - 1
        if abs(other - round(other)) > 0.1:
            return length, rate


def _some_candidate(rng: Random) -> tuple[float, float, float, float, float, float]:
    before = round(rng.uniform(8, 30), 2)
    return (
        round(rng.uniform(0.4, 0.8), 3),
        round(rng.uniform(0.1, 0.7), 3),
        before,
        round(before * rng.uniform(0.7, 1.3), 2),
        round(rng.uniform(10, 60), 1),
        round(rng.uniform(20, 140), 1),
    )


def _verdict(passed: bool) -> str:
    return "go" if passed else "no-go"


EXERCISES = (
    Exercise(
        id="15.1",
        title="Alpha between two scrapes",
        minutes=6,
        difficulty="easy",
        prompt=(
            "`before` and `after` are two scrapes of vLLM's counters, each a dict with `drafts`, `draft_tokens` and "
            "`accepted_tokens`. Return `(alpha, acceptance_length)` of the traffic between them, alpha being "
            "accepted/drafted."
        ),
        hints=(
            "Counters run since the engine started. What happened in between is a difference.",
            "alpha: accepted over drafted tokens. Acceptance length: accepted over drafts, and the target's own token.",
            "`d = {name: after[name] - before[name] for name in after}` holds the differences; alpha and "
            "length are two fractions of them.",
        ),
        check=Check(
            reference=alpha_between,
            cases=[
                (
                    {"drafts": 1000, "draft_tokens": 3000, "accepted_tokens": 600},
                    {"drafts": 3000, "draft_tokens": 9000, "accepted_tokens": 3400},
                )
            ],
            random_cases=_some_scrapes,
            misconceptions=[
                Misconception(
                    "the second scrape alone",
                    "That is the average since the engine started: an old workload, warm-up and tests included.",
                    wrong=lambda before, after: alpha_between(dict.fromkeys(after, 0), after),
                ),
                Misconception(
                    "a difference of rates",
                    "Subtract the counters first; the difference of two averages is not the average of the difference.",
                    wrong=lambda before, after: (
                        after["accepted_tokens"] / after["draft_tokens"]
                        - before["accepted_tokens"] / before["draft_tokens"],
                        1 + after["accepted_tokens"] / after["drafts"] - before["accepted_tokens"] / before["drafts"],
                    ),
                ),
                Misconception(
                    "accepted per draft taken for alpha",
                    "Accepted over *drafts* is the acceptance length without the target's token; alpha divides by "
                    "drafted tokens.",
                    wrong=lambda before, after: (
                        alpha_between(before, after)[1] - 1,
                        alpha_between(before, after)[1],
                    ),
                ),
                Misconception(
                    "the target's own token is missing",
                    "Every draft ends with one token of the target.",
                    wrong=lambda before, after: (
                        alpha_between(before, after)[0],
                        alpha_between(before, after)[1] - 1,
                    ),
                ),
            ],
        ),
        takeaway="Two scrapes, three subtractions: the right alpha of exactly the traffic you care about.",
    ),
    Exercise(
        id="15.2",
        title="Is the bonus inside the rate?",
        minutes=10,
        difficulty="hard",
        prompt=(
            "SGLang prints `accept len: 2.17, accept rate: 0.54`. In some versions the rate is accepted/drafted, "
            "(len - 1)/K; in others it is len/(K + 1), the bonus token inside. Return K, the drafted tokens per step: "
            "of the two readings take the one that gives a whole number more nearly."
        ),
        hints=(
            "Solve both readings for K.",
            "K = (len - 1)/rate, or K = len/rate - 1. One of them is close to a whole number.",
            "`min((len / rate - 1, (len - 1) / rate), key=lambda k: abs(k - round(k)))`, rounded.",
        ),
        check=Check(
            reference=draft_length,
            cases=[(2.17, 0.54), (3.95, 0.4214), (2.77, 0.69)],
            random_cases=_some_line,
            misconceptions=[
                Misconception(
                    "always without the bonus",
                    "(len - 1)/rate is right for newer versions only.",
                    wrong=lambda accept_len, accept_rate: round((accept_len - 1) / accept_rate),
                ),
                Misconception(
                    "always with the bonus",
                    "len/rate - 1 is right for versions that count the bonus token.",
                    wrong=lambda accept_len, accept_rate: round(accept_len / accept_rate - 1),
                ),
                Misconception(
                    "the number of verified tokens",
                    "len/rate counts the bonus position too: K drafted tokens make K + 1 verified ones.",
                    wrong=lambda accept_len, accept_rate: draft_length(accept_len, accept_rate) + 1,
                ),
                Misconception(
                    "not rounded",
                    "K is a whole number; the printed figures are rounded, so K comes out nearly whole.",
                    wrong=lambda accept_len, accept_rate: min(
                        (accept_len / accept_rate - 1, (accept_len - 1) / accept_rate),
                        key=lambda k: abs(k - round(k)),
                    ),
                ),
            ],
        ),
        takeaway="The numbers on a line mostly tell which version wrote it; where they do not, `labsim alpha` says so.",
    ),
    Exercise(
        id="15.3",
        title="Acceptance from latencies alone",
        minutes=3,
        difficulty="easy",
        prompt=(
            "A client benchmark prints mean ITL (the gap between stream chunks) and mean TPOT, nothing about "
            "speculation. Return the acceptance length."
        ),
        hints=(
            "With speculation a chunk is a step.",
            "A step takes one ITL and emits that many tokens; TPOT is the time per token.",
            "Tokens of a step = time of a step over time of a token.",
        ),
        check=Check(
            reference=acceptance_length,
            cases=[(57.98, 35.39), (12.15, 5.36), (8.0, 8.0)],
            random_cases=lambda rng: (round(rng.uniform(5, 60), 2), round(rng.uniform(3, 30), 2)),
            misconceptions=[
                Misconception(
                    "upside down",
                    "That is steps per token, below 1. Tokens per step is its inverse.",
                    wrong=lambda mean_itl_ms, mean_tpot_ms: mean_tpot_ms / mean_itl_ms,
                ),
                Misconception(
                    "a difference",
                    "Milliseconds cannot be a number of tokens; a ratio can.",
                    wrong=lambda mean_itl_ms, mean_tpot_ms: mean_itl_ms - mean_tpot_ms,
                ),
                Misconception(
                    "the accepted tokens only",
                    "A chunk holds the accepted tokens and the target's own; you subtracted the latter.",
                    wrong=lambda mean_itl_ms, mean_tpot_ms: mean_itl_ms / mean_tpot_ms - 1,
                ),
                Misconception(
                    "one token too many",
                    "The chunk already holds the target's own token.",
                    wrong=lambda mean_itl_ms, mean_tpot_ms: mean_itl_ms / mean_tpot_ms + 1,
                ),
            ],
        ),
        takeaway="Nearly an identity (ITL averages over chunks, TPOT over requests). Far off, ITL is something else.",
    ),
    Exercise(
        id="15.4",
        title="The gate",
        minutes=10,
        difficulty="medium",
        prompt=(
            "Return `'go'` or `'no-go'`. Go needs all three: `alpha_lower` (the lower end of alpha's interval) "
            "at least "
            "the higher of the policy 0.55 and `breakeven` + 0.05; P99 TPOT not worse than before; and the P99 "
            "chunk gap "
            "after at most 100 ms. (The gap before is there to tempt you.)"
        ),
        hints=(
            "Three conditions, all of them.",
            "Chunk gaps grow with speculation by design, since a chunk is a step: only an absolute limit makes sense.",
            "`alpha_lower >= max(0.55, breakeven + 0.05) and tpot_p99_after <= tpot_p99_before and gap_p99_after "
            "<= 100`",
        ),
        check=Check(
            reference=gate,
            cases=[
                (0.62, 0.30, 12.0, 11.0, 20.0, 40.0),
                (0.50, 0.30, 12.0, 11.0, 20.0, 40.0),
                (0.62, 0.60, 12.0, 11.0, 20.0, 40.0),
                (0.58, 0.66, 12.0, 11.0, 20.0, 40.0),
                (0.62, 0.30, 12.0, 13.0, 20.0, 40.0),
                (0.62, 0.30, 12.0, 11.0, 60.0, 120.0),
                (0.62, 0.30, 12.0, 11.0, 20.0, 10.0),
            ],
            random_cases=_some_candidate,
            random_count=120,
            misconceptions=[
                Misconception(
                    "the policy alone",
                    "0.55 says nothing about your GPU: where break-even is higher, 0.55 loses.",
                    wrong=lambda a, b, t0, t1, g0, g1: _verdict(a >= 0.55 and t1 <= t0 and g1 <= 100),
                ),
                Misconception(
                    "break-even alone",
                    "The rule here takes the higher of the two. (Whether the policy should govern is a choice; see "
                    "the plan's `--rule`.)",
                    wrong=lambda a, b, t0, t1, g0, g1: _verdict(a >= b + 0.05 and t1 <= t0 and g1 <= 100),
                ),
                Misconception(
                    "the lower of the two limits",
                    "A draft must clear both, so the higher one governs.",
                    wrong=lambda a, b, t0, t1, g0, g1: _verdict(a >= min(0.55, b + 0.05) and t1 <= t0 and g1 <= 100),
                ),
                Misconception(
                    "a ratio of chunk gaps",
                    "The gap between chunks always grows: a chunk is a whole step. Compare it with what a user "
                    "notices.",
                    wrong=lambda a, b, t0, t1, g0, g1: _verdict(a >= max(0.55, b + 0.05) and t1 <= t0 and g1 <= g0),
                ),
                Misconception(
                    "no margin",
                    "At break-even exactly, nothing is gained.",
                    wrong=lambda a, b, t0, t1, g0, g1: _verdict(a >= max(0.55, b) and t1 <= t0 and g1 <= 100),
                ),
                Misconception(
                    "the tail is not looked at",
                    "A better mean with a worse P99 TPOT means that some users got slower.",
                    wrong=lambda a, b, t0, t1, g0, g1: _verdict(a >= max(0.55, b + 0.05) and g1 <= 100),
                ),
            ],
        ),
        takeaway="`labsim plan` applies these gates and names the file behind every number.",
    ),
)
