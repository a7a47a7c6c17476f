"""Quiz of notebook 01: which alpha, at which K, and how sure."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="01.q1",
        title="read a log",
        text="Two drafted tokens of this engine have just passed. What is the chance that the third one passes, too?",
        code="SpecDecoding metrics: Mean acceptance length: 2.26,\n"
        "Per-position acceptance rate: 0.622, 0.381, 0.252, Avg Draft acceptance rate: 41.8%",
        options=(
            Option(
                "0.66",
                "Per-position rates are survival. Given that two have passed: 0.252 / 0.381 = 0.66.",
                right=True,
            ),
            Option(
                "0.25",
                "0.252 is the chance that *all three* pass, counted over all drafts. You already know that two have.",
            ),
            Option(
                "0.42",
                "That is accepted/drafted, the mean of the three rates: it mixes all positions and is conditional "
                "on nothing.",
            ),
            Option(
                "0.02",
                "Nobody multiplies twice: 0.252 already holds the first two tokens.",
            ),
        ),
        numbers={
            "0.66": "0.252 / 0.381",
        },
    ),
    Question(
        id="01.q2",
        title="a promise",
        text='A vendor: "alpha is 0.7, so at K = 5 you get 4.5 tokens per forward." Their paper\'s alpha is per '
        "token: the chance that a token passes, given that all before it have. What will you measure?",
        options=(
            Option(
                "4.5 tokens",
                "1 + K·alpha is exact for accepted/drafted. For that to be 0.7 at K = 5, each token would have to "
                "pass with 0.883.",
            ),
            Option(
                "3.5 tokens",
                "5 times 0.7 lets every position pass with 0.7, whether or not the one before it did, and forgets "
                "the target's own token.",
            ),
            Option(
                "about 2.9 tokens",
                "Position i is reached only through all before it: 1 + 0.7 + 0.7² + ... + 0.7⁵ = 2.94. Closed form "
                "and Monte Carlo agree on the page.",
                right=True,
            ),
        ),
        numbers={
            "0.883": "per_token_alpha_behind_07",
            "2.94": "tokens_if_per_token",
        },
    ),
    Question(
        id="01.q3",
        title="one head, another K",
        text="A head has accepted/drafted 0.46 at K = 3. You set K = 5 and read 0.35. What happened to the head?",
        options=(
            Option(
                "It got worse: the traffic must have drifted.",
                "Convert before you compare: 0.46 at K = 3 is 0.34 at K = 5 for the same head. 0.35 is what it "
                "should read.",
            ),
            Option(
                "Nothing: deeper tokens need every earlier one, so the mean over five positions is lower.",
                "The same head converted from K = 3 reads 0.34 at K = 5, with one per-token alpha behind both. A "
                "number without its K says little.",
                right=True,
            ),
            Option(
                "It got better: more tokens are drafted per step.",
                "More are drafted, and more are accepted per step, but the *rate* falls because the added positions "
                "are the hardest to reach.",
            ),
        ),
        numbers={
            "0.34": "convert_draft_acceptance_rate(0.46, 3, 5)",
        },
    ),
    Question(
        id="01.q4",
        title="does it pay?",
        text="Draft and verify add 15 % to a step, K is 5, accepted/drafted is 0.2. Does speculation pay?",
        options=(
            Option(
                "No, 0.2 is far below any sensible threshold.",
                "A threshold for alpha without overhead and K is a habit. Here break-even is overhead / K = 0.03.",
            ),
            Option(
                "Yes, about 1.7 times as fast.",
                "1 + 5 · 0.2 = 2 tokens for the price of 1.15 steps: 1.74x. (On an idle GPU. Notebook 02 shows the "
                "overhead growing with load.)",
                right=True,
            ),
            Option(
                "Just about: break-even is 0.15.",
                "The overhead is per step and alpha is per drafted token. Five of them share the price: 0.15 / 5 = "
                "0.03.",
            ),
        ),
        numbers={
            "0.03": "alpha_breakeven_bare",
            "1.15": "1 + 0.15",
            "1.74": "speedup(1 + 5 * 0.2, 0.15)",
        },
    ),
    Question(
        id="01.q5",
        title="two short logs",
        text="Two heads, 100 drafts of three tokens each: 0.42 and 0.36 accepted/drafted. Which head is better?",
        options=(
            Option(
                "The first: 300 tokens were judged for each.",
                "Token 2 needs token 1, so 300 tokens carry less than 300 trials. 100 drafts leave plus or minus 0.08.",
            ),
            Option(
                "The first: it is ahead by a sixth.",
                "A ratio says nothing about its own uncertainty: each of the two readings moves by 0.08 from log to "
                "log.",
            ),
            Option(
                "One cannot tell yet.",
                "From 100 drafts alpha is known to plus or minus 0.08, and the tokens of a draft are not "
                "independent. The difference is inside that.",
                right=True,
            ),
        ),
        numbers={
            "0.08": "half_width_100_drafts",
        },
    ),
)
