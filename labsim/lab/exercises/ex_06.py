"""Exercises of notebook 06: why do deep drafts die?"""

from __future__ import annotations

from ..check import Check, Misconception
from ..exercise import Exercise
from .tree_answers import same_mask
from .ttt_by_hand import (
    averaged,
    best_look,
    chosen,
    conditional,
    figures,
    marginal,
    merged,
    merged_naively,
    product_of_marginals,
    same_figures,
    same_merge,
    sees,
    some_chains,
    some_length,
    some_looks,
    some_parts,
    some_text,
    survival,
    trained_places,
    unrolled,
    who_sees_whom,
)

_CHAINS = [[True, True, False], [True, False, True], [False, True, True], [True, True, True], [False, False, True]]
_LOOKS = [
    (100, 2.9, [0.50, 0.20, 0.05]),
    (200, 2.5, [0.58, 0.31, 0.15]),
    (300, 2.3, [0.61, 0.28, 0.10]),
    (400, 2.4, [0.57, 0.27, 0.12]),
]


EXERCISES = (
    Exercise(
        id="06.1",
        title="Who sees whom",
        minutes=10,
        difficulty="medium",
        prompt=(
            "A text of `length` positions is unrolled. Step 0 made one key per position, so did step 1, and so on up "
            "to this `step`. Return the pair `(mask, positions)` for the queries of this `step`: `mask[t][b * length + "
            "j]` says whether query `t` may attend to the key that position `j` made in step `b` (so a row has "
            "`(1 + step) * length` entries), and `positions[t]` is the rotary position at which query `t` stands. It "
            "must be what drafting does: query `t` is the chain's guess number `step + 1` after the prefix 0 to `t`."
        ),
        hints=(
            "Which entries lie in the draft's cache when it makes its guess number `step + 1` after the prefix `t`? "
            "The prefix, and what this chain itself has drafted.",
            "Keys of step 0 are the prefix: seen up to `t`. Keys of a later step at position `j` belong to the chain "
            "that started at `j`: seen only where `j == t`. Each drafted token stands one position further on.",
            "`sees = (j <= t) if b == 0 else (j == t)`, and `positions = [t + step for t in range(length)]`",
        ),
        check=Check(
            reference=who_sees_whom,
            cases=[(4, 2), (3, 1), (3, 0)],
            random_cases=some_length,
            random_count=16,
            compare=same_mask,
            misconceptions=[
                Misconception(
                    "branch keys of other positions are seen",
                    "The key that position j made in step 1 belongs to the chain that started at j. Another chain "
                    "never has it in its cache. (This leak makes the training loss look better.)",
                    wrong=unrolled(lambda t, b, j, step: j <= t),
                ),
                Misconception(
                    "positions are not advanced",
                    "The mask is right, but a token drafted `step` places after the prefix stands at `t + step`.",
                    wrong=unrolled(sees, lambda t, step: t),
                ),
                Misconception(
                    "only the keys of its own step",
                    "A step that looks at its own keys alone forgets the true history. No cache holds such a thing.",
                    wrong=unrolled(lambda t, b, j, step: b == step and j <= t),
                ),
                Misconception(
                    "the public MTP form",
                    "Own step's keys only, and positions that stand still: so are public MTP modules unrolled, and it "
                    "is not what serving computes.",
                    wrong=unrolled(lambda t, b, j, step: b == step and j <= t, lambda t, step: t),
                ),
                Misconception(
                    "the branch is left out",
                    "The chain has drafted tokens of its own, and their keys lie in the cache.",
                    wrong=unrolled(lambda t, b, j, step: b == 0 and j <= t),
                ),
                Misconception(
                    "the prefix is left out",
                    "Besides its own branch a chain sees everything up to where it started: keys of step 0, j <= t.",
                    wrong=unrolled(lambda t, b, j, step: j == t),
                ),
                Misconception(
                    "true states from the future",
                    "The key of step 0 at position t + 1 holds a state that the target has not computed yet when the "
                    "chain is drafted. The history ends at t.",
                    wrong=unrolled(lambda t, b, j, step: j <= t + step if b == 0 else j == t),
                ),
            ],
        ),
        takeaway="The prefix with true states, and one own key per step: exactly the cache of a drafted chain.",
    ),
    Exercise(
        id="06.2",
        title="Which places train",
        minutes=6,
        difficulty="easy",
        prompt=(
            "Of a text of `length` tokens the first `answer_start` are the prompt, the rest is the answer. Step `step` "
            "at position `t` reads token `t + 1 + step` and guesses token `t + 2 + step`. It counts when its chain "
            "could be drafted in serving, where the first token that a chain reads (token `t + 1`) belongs to the "
            "answer, and when the guessed token still exists. Return the list of positions that count."
        ),
        hints=(
            "In serving the first chain of an answer reads the answer's first token, which the prompt's own forward "
            "gave. At which position does it stand?",
            "At `answer_start - 1`, the prompt's last one. So the condition is on `t + 1`, at every step. The end "
            "moves with the step.",
            "A list of the t in `range(length)` with two conditions: `t + 1 >= answer_start`, and the guess "
            "at `t + 2 + step` must exist.",
        ),
        check=Check(
            reference=trained_places,
            cases=[(10, 4, 0), (10, 4, 2)],
            random_cases=some_text,
            misconceptions=[
                Misconception(
                    "the mask of x_t",
                    "That leaves out the prompt's last position, from which the first guess of every answer is "
                    "drafted: it is never trained. Ask whether token t + 1 belongs to the answer.",
                    wrong=chosen(lambda t, n, start, k: t >= start and t + 2 + k < n),
                ),
                Misconception(
                    "the same places at every step",
                    "Near the end a deep guess has no token to be compared with: the last place moves with the step.",
                    wrong=chosen(lambda t, n, start, k: t + 1 >= start and t + 2 < n),
                ),
                Misconception(
                    "a place too many at the end",
                    "The token that is read exists, but the one that is guessed, t + 2 + step, does not.",
                    wrong=chosen(lambda t, n, start, k: t + 1 >= start and t + 1 + k < n),
                ),
                Misconception(
                    "chains that start in the prompt",
                    "Where only the token read in this step belongs to the answer, the chain began inside the prompt. "
                    "Serving drafts no such chain.",
                    wrong=chosen(lambda t, n, start, k: t + 1 + k >= start and t + 2 + k < n),
                ),
                Misconception(
                    "the prompt is trained too",
                    "Nobody drafts a prompt. Its tokens would fill the draft with other people's style.",
                    wrong=chosen(lambda t, n, start, k: t + 2 + k < n),
                ),
            ],
        ),
        takeaway="Place t trains if token t + 1 is the answer's: the first guess after the prompt is among them.",
    ),
    Exercise(
        id="06.3",
        title="Two softmaxes, one result",
        minutes=8,
        difficulty="medium",
        prompt=(
            "Attention over the history gave the output `out_a` (a list) and `lse_a`, the logarithm of the sum of its "
            "exponentiated scores. Attention over the own branch gave `out_b` and `lse_b`. Return the pair `(out, "
            "lse)` of attention over all keys together. Scores may be large."
        ),
        hints=(
            "`exp(lse_a)` is the denominator of the first softmax, and `out_a` times it the numerator. What are "
            "numerator and denominator over all keys?",
            "They add: `out = (exp(lse_a) out_a + exp(lse_b) out_b) / (exp(lse_a) + exp(lse_b))`, and `lse` is the "
            "logarithm of that denominator. Subtract the larger lse first, or `exp` overflows.",
            "`top = max(lse_a, lse_b)`; `a, b = exp(lse_a - top), exp(lse_b - top)`; `out = [(a*x + b*y) / (a + b) "
            "...]`, `lse = top + log(a + b)`",
        ),
        check=Check(
            reference=merged,
            cases=[
                ([1.0, 0.0], 0.5, [0.0, 1.0], 1.5),
                ([0.2, -1.0], 1000.0, [2.0, 3.0], 999.0),
                ([1.0], 0.0, [3.0], 0.0),
            ],
            random_cases=some_parts,
            compare=same_merge,
            misconceptions=[
                Misconception(
                    "a plain average",
                    "That holds only if both parts carry the same mass. Weigh by exp(lse).",
                    wrong=lambda out_a, lse_a, out_b, lse_b: (
                        averaged(out_a, out_b, 0.5, 0.5),
                        merged(out_a, lse_a, out_b, lse_b)[1],
                    ),
                ),
                Misconception(
                    "the outputs are added",
                    "Each output is already normalised over its own keys; their sum has weight 2.",
                    wrong=lambda out_a, lse_a, out_b, lse_b: (
                        averaged(out_a, out_b, 1, 1),
                        merged(out_a, lse_a, out_b, lse_b)[1],
                    ),
                ),
                Misconception(
                    "log-sum-exps are added",
                    "Sums of exponentials add, their logarithms do not: log(exp(a) + exp(b)).",
                    wrong=lambda out_a, lse_a, out_b, lse_b: (merged(out_a, lse_a, out_b, lse_b)[0], lse_a + lse_b),
                ),
                Misconception(
                    "the larger log-sum-exp is kept",
                    "The maximum is taken out for safety only; log(a + b) has to be added back.",
                    wrong=lambda out_a, lse_a, out_b, lse_b: (
                        merged(out_a, lse_a, out_b, lse_b)[0],
                        max(lse_a, lse_b),
                    ),
                ),
                Misconception(
                    "the two weights are exchanged",
                    "The part with the larger lse has more mass, so it weighs more.",
                    wrong=lambda out_a, lse_a, out_b, lse_b: (
                        merged(out_b, lse_a, out_a, lse_b)[0],
                        merged(out_a, lse_a, out_b, lse_b)[1],
                    ),
                ),
                Misconception(
                    "exponentials overflow",
                    "The formula is right, and `exp(1000)` is no number. Subtract the larger lse from both first.",
                    wrong=merged_naively,
                ),
            ],
        ),
        takeaway="That is how the history can go through a flash kernel and the branch through a few dot products.",
    ),
    Exercise(
        id="06.4",
        title="Three accuracies",
        minutes=8,
        difficulty="medium",
        prompt=(
            "`chains[i][d]` says whether guess `d + 1` of chain `i` is the target's token. All chains were drafted to "
            "the end, also behind a wrong guess. Return the pair `(conditional, acceptance_length)`: for each depth "
            "the share of the chains still alive that survive it (0 where none is alive), and the number of tokens "
            "that a verify step emits on average, if these chains are the ones that serving starts."
        ),
        hints=(
            "A chain is alive as long as all its guesses were right. What is a right guess behind a wrong one worth?",
            "Nothing: it is thrown away. Count the chains alive at each depth (the survival); conditional is one "
            "survival over the one before, acceptance length is 1 + their sum.",
            "`alive = [all(c[:d + 1]) for c in chains]` for each depth `d`; `s_d = sum(alive) / len(chains)`; "
            "`conditional = s_d / s_(d-1)` with `s_(-1) = 1`",
        ),
        check=Check(
            reference=figures,
            cases=[(_CHAINS,), ([[False, True], [False, False]],)],
            random_cases=some_chains,
            compare=same_figures,
            misconceptions=[
                Misconception(
                    "marginal for conditional",
                    "The share of right guesses over all chains counts those behind a wrong one, too. Divide by the "
                    "chains still alive.",
                    wrong=lambda chains: (marginal(chains), 1 + sum(survival(chains))),
                ),
                Misconception(
                    "a product of marginals",
                    "Guesses of one chain go together: easy places are easy at every depth. Their product forgets that "
                    "and is usually too low. Count whole chains.",
                    wrong=lambda chains: (conditional(chains), 1 + product_of_marginals(chains)),
                ),
                Misconception(
                    "marginals throughout",
                    "Both figures have to be counted over chains that are still alive; marginal accuracy counts "
                    "guesses that are thrown away.",
                    wrong=lambda chains: (marginal(chains), 1 + product_of_marginals(chains)),
                ),
                Misconception(
                    "survival for conditional",
                    "That is the share of all chains that reach this depth. Divide by the one before.",
                    wrong=lambda chains: (survival(chains), 1 + sum(survival(chains))),
                ),
                Misconception(
                    "no token of the target's own",
                    "Every step also emits the correction or the bonus token: + 1.",
                    wrong=lambda chains: (conditional(chains), sum(survival(chains))),
                ),
                Misconception(
                    "every right guess is emitted",
                    "Behind the first wrong guess nothing is kept, right or not.",
                    wrong=lambda chains: (conditional(chains), 1 + sum(marginal(chains))),
                ),
            ],
        ),
        takeaway="Conditional = survival over the one before; acceptance length = 1 + the sum of survival, over the "
        "chains that serving starts.",
    ),
    Exercise(
        id="06.5",
        title="Which checkpoint to serve",
        minutes=4,
        difficulty="easy",
        prompt=(
            "`looks` is a list of `(step, loss, survival)`: the training loss and the survival by depth on held-out "
            "answers at several steps of one training. Return the step whose draft you would serve."
        ),
        hints=(
            "What does the user feel: the loss, or the number of tokens per verify step?",
            "Acceptance length, 1 + the sum of the survival. Take the look where it is longest.",
            "`max` with a `key`. A look holds its survival in `look[2]`; what is asked for is its step, `look[0]`.",
        ),
        check=Check(
            reference=best_look,
            cases=[(_LOOKS,)],
            random_cases=some_looks,
            misconceptions=[
                Misconception(
                    "the lowest loss",
                    "Public runs lost acceptance while their loss still fell (3.34 to 3.18 tokens in one). Choose by "
                    "what is served.",
                    wrong=lambda looks: min(looks, key=lambda look: look[1])[0],
                ),
                Misconception(
                    "the last one",
                    "More steps are not always better; that is why one looks.",
                    wrong=lambda looks: looks[-1][0],
                ),
                Misconception(
                    "the best first guess",
                    "Depth 1 is one term of the sum. Deep drafts die at depth 2 and later.",
                    wrong=lambda looks: max(looks, key=lambda look: look[2][0])[0],
                ),
                Misconception(
                    "the deepest guess decides",
                    "The last depth is the rarest; the sum over all depths is what a step emits.",
                    wrong=lambda looks: max(looks, key=lambda look: look[2][-1])[0],
                ),
            ],
        ),
        takeaway="`labsim train` keeps the draft with the longest held-out acceptance, not that with the lowest loss.",
    ),
)
