"""Answers to the exercises of notebook 15."""

from tests.mutants.harness import Answers, Wrong

# 15.1 alpha between two scrapes


def by_differences(before, after):
    d = {name: after[name] - before[name] for name in after}
    return d["accepted_tokens"] / d["draft_tokens"], 1 + d["accepted_tokens"] / d["drafts"]


def as_a_list(before, after):
    drafts, tokens, accepted = [after[n] - before[n] for n in ("drafts", "draft_tokens", "accepted_tokens")]
    return [accepted / tokens, (accepted + drafts) / drafts]


def since_the_start(before, after):
    return after["accepted_tokens"] / after["draft_tokens"], 1 + after["accepted_tokens"] / after["drafts"]


def of_rates(before, after):
    return tuple(
        offset + after["accepted_tokens"] / after[name] - before["accepted_tokens"] / before[name]
        for name, offset in (("draft_tokens", 0), ("drafts", 1))
    )


def per_draft(before, after):
    length = by_differences(before, after)[1]
    return length - 1, length


def no_own_token(before, after):
    alpha, length = by_differences(before, after)
    return alpha, length - 1


def mean_of_both(before, after):
    return tuple(
        (a + b) / 2 for a, b in zip(since_the_start(before, before), since_the_start(after, after), strict=True)
    )


def swapped(before, after):
    return by_differences(before, after)[::-1]


# 15.2 the bonus token


def nearest(accept_len, accept_rate):
    readings = (accept_len / accept_rate - 1, (accept_len - 1) / accept_rate)
    return round(min(readings, key=lambda k: abs(k - round(k))))


def by_trying_each(accept_len, accept_rate):
    errors = {}
    for k in range(1, 17):
        inside, outside = accept_len / (k + 1), (accept_len - 1) / k
        errors[k] = min(abs(inside - accept_rate) * (k + 1) / accept_rate, abs(outside - accept_rate) * k / accept_rate)
    return min(errors, key=errors.get)


def outside(accept_len, accept_rate):
    return round((accept_len - 1) / accept_rate)


def inside(accept_len, accept_rate):
    return round(accept_len / accept_rate - 1)


def verified(accept_len, accept_rate):
    return nearest(accept_len, accept_rate) + 1


def unrounded(accept_len, accept_rate):
    readings = (accept_len / accept_rate - 1, (accept_len - 1) / accept_rate)
    return min(readings, key=lambda k: abs(k - round(k)))


def always_three(accept_len, accept_rate):
    return 3


def truncated(accept_len, accept_rate):
    return int(unrounded(accept_len, accept_rate))


# 15.3 acceptance from latencies


def ratio(mean_itl_ms, mean_tpot_ms):
    return mean_itl_ms / mean_tpot_ms


def by_rates(mean_itl_ms, mean_tpot_ms):
    tokens_per_second, chunks_per_second = 1000 / mean_tpot_ms, 1000 / mean_itl_ms
    return tokens_per_second / chunks_per_second


# 15.4 the gate


def all_three(alpha_lower, breakeven, tpot_before, tpot_after, gap_before, gap_after):
    conditions = [
        alpha_lower >= 0.55 and alpha_lower >= breakeven + 0.05,
        tpot_after <= tpot_before,
        gap_after <= 100,
    ]
    return "go" if all(conditions) else "no-go"


def early_returns(alpha_lower, breakeven, tpot_before, tpot_after, gap_before, gap_after):
    if alpha_lower < 0.55 or alpha_lower < breakeven + 0.05:
        return "no-go"
    if tpot_after > tpot_before or gap_after > 100:
        return "no-go"
    return "go"


def verdict(passed):
    return "go" if passed else "no-go"


ANSWERS = {
    "15.1": Answers(
        right=(by_differences, as_a_list),
        wrong=(
            Wrong(since_the_start, "the second scrape alone"),
            Wrong(of_rates, "a difference of rates"),
            Wrong(per_draft, "accepted per draft taken for alpha"),
            Wrong(no_own_token, "the target's own token is missing"),
            Wrong(mean_of_both),
            Wrong(swapped),
        ),
    ),
    "15.2": Answers(
        right=(nearest, by_trying_each),
        wrong=(
            Wrong(outside, "always without the bonus"),
            Wrong(inside, "always with the bonus"),
            Wrong(verified, "the number of verified tokens"),
            Wrong(unrounded, "not rounded"),
            Wrong(always_three),
            Wrong(truncated),
        ),
    ),
    "15.3": Answers(
        right=(ratio, by_rates),
        wrong=(
            Wrong(lambda mean_itl_ms, mean_tpot_ms: mean_tpot_ms / mean_itl_ms, "upside down"),
            Wrong(lambda mean_itl_ms, mean_tpot_ms: mean_itl_ms - mean_tpot_ms, "a difference"),
            Wrong(lambda mean_itl_ms, mean_tpot_ms: mean_itl_ms / mean_tpot_ms - 1, "the accepted tokens only"),
            Wrong(lambda mean_itl_ms, mean_tpot_ms: mean_itl_ms / mean_tpot_ms + 1, "one token too many"),
            Wrong(lambda mean_itl_ms, mean_tpot_ms: round(mean_itl_ms / mean_tpot_ms)),
        ),
    ),
    "15.4": Answers(
        right=(all_three, early_returns),
        wrong=(
            Wrong(lambda a, b, t0, t1, g0, g1: verdict(a >= 0.55 and t1 <= t0 and g1 <= 100), "the policy alone"),
            Wrong(lambda a, b, t0, t1, g0, g1: verdict(a >= b + 0.05 and t1 <= t0 and g1 <= 100), "break-even alone"),
            Wrong(
                lambda a, b, t0, t1, g0, g1: verdict((a >= 0.55 or a >= b + 0.05) and t1 <= t0 and g1 <= 100),
                "the lower of the two limits",
            ),
            Wrong(
                lambda a, b, t0, t1, g0, g1: verdict(a >= max(0.55, b + 0.05) and t1 <= t0 and g1 <= g0),
                "a ratio of chunk gaps",
            ),
            Wrong(lambda a, b, t0, t1, g0, g1: verdict(a >= max(0.55, b) and t1 <= t0 and g1 <= 100), "no margin"),
            Wrong(
                lambda a, b, t0, t1, g0, g1: verdict(a >= max(0.55, b + 0.05) and g1 <= 100),
                "the tail is not looked at",
            ),
            Wrong(lambda a, b, t0, t1, g0, g1: "go"),
            Wrong(lambda a, b, t0, t1, g0, g1: "no-go"),
            Wrong(lambda a, b, t0, t1, g0, g1: a >= max(0.55, b + 0.05) and t1 <= t0 and g1 <= 100),
        ),
    ),
}
