"""Answers to the exercises of notebook 00."""

from statistics import fmean

from tests.mutants.harness import Answers, Wrong


def by_loop(accepted):
    tokens = 0
    for n in accepted:
        tokens += n
        tokens += 1
    return tokens / len(accepted)


def by_histogram(accepted):
    from collections import Counter

    counts = Counter(accepted)
    return 1 + sum(n * times for n, times in counts.items()) / counts.total()


def by_numpy(accepted):
    import numpy as np

    return np.mean(np.asarray(accepted) + 1)


def forgot_the_own_token(accepted):
    total = 0
    for n in accepted:
        total += n
    return total / len(accepted)


def one_own_token_per_run(accepted):
    return (1 + sum(accepted)) / len(accepted)


def bonus_only_when_full(accepted):
    k = max(accepted)
    return fmean(n + 1 if n == k else n for n in accepted)


def total(accepted):
    return sum(n + 1 for n in accepted)


def divided_by_k(accepted):
    return 1 + sum(accepted) / max(accepted)


def skips_empty_steps(accepted):
    steps = [n for n in accepted if n > 0]
    return fmean(steps) + 1


def median_instead_of_mean(accepted):
    return sorted(accepted)[len(accepted) // 2] + 1


def whole_division(accepted):
    return sum(accepted) // len(accepted) + 1


def as_text(accepted):
    return f"{fmean(accepted) + 1:.2f}"


def one_per_step(accepted):
    return [n + 1 for n in accepted]


def forgets_to_return(accepted):
    _ = fmean(accepted) + 1


def eats_its_input(accepted):
    steps, tokens = len(accepted), 0
    while accepted:
        tokens += accepted.pop() + 1
    return tokens / steps


ANSWERS = {
    "00.1": Answers(
        right=(by_loop, by_histogram, by_numpy),
        wrong=(
            Wrong(forgot_the_own_token, "the target's own token is missing"),
            Wrong(one_own_token_per_run, "the target's own token is counted once"),
            Wrong(bonus_only_when_full, "the bonus token is counted in full steps only"),
            Wrong(total, "a total, not a mean"),
            Wrong(divided_by_k, "divided by the longest step"),
            Wrong(skips_empty_steps, "steps that accept nothing are left out"),
            Wrong(median_instead_of_mean),
            Wrong(whole_division),
            Wrong(as_text),
            Wrong(one_per_step),
            Wrong(forgets_to_return),
            Wrong(eats_its_input),
        ),
    ),
}
