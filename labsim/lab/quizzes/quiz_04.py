"""Quiz of notebook 04: what a tree is worth, and what it costs."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="04.q1",
        title="a small tree",
        text="At the root two guesses, accepted with 0.6 and 0.25; below the first one more, accepted with 0.5 if "
        "its parent was. How many tokens does a step emit on average?",
        options=(
            Option(
                "2.35",
                "1 plus the three chances. But 0.5 holds only if the parent was accepted: the node is reached with "
                "0.6 · 0.5 = 0.30.",
            ),
            Option(
                "1.55",
                "That counts the leaves only, 0.25 and 0.30. An accepted inner node is a token, too.",
            ),
            Option(
                "2.15",
                "1 for the target's own token, 0.6 and 0.25 at the root, and 0.6 · 0.5 = 0.30 below: each node adds "
                "its own path chance.",
                right=True,
            ),
        ),
        numbers={
            "0.30": "0.6 * 0.5",
        },
    ),
    Question(
        id="04.q2",
        title="alpha has halved",
        text="You replace a chain of 4 by a dynamic tree of 16 nodes. The dashboard's accepted/drafted falls from "
        "0.14 to 0.07. What do you do?",
        options=(
            Option(
                "Look at tokens per step, and at what a step costs.",
                "1.56 before, 2.15 after. Whether that pays depends on the price of 16 rows per request, which "
                "alpha does not tell.",
                right=True,
            ),
            Option(
                "Roll back: the draft accepts half as much.",
                "It accepts *more*: tokens per step rose from 1.56 to 2.15. Most nodes of a tree are alternatives "
                "to one another, so accepted/drafted falls with every node.",
            ),
            Option(
                "Compare alpha with the threshold for trees, half of that for chains.",
                "There is no such factor: it depends on the number of nodes and on the shape. Compare tokens per step.",
            ),
        ),
        numbers={
            "1.56": "tokens_per_step_chain_4",
            "2.15": "tokens_per_step_dynamic_16",
        },
    ),
    Question(
        id="04.q3",
        title="sixty nodes for everybody",
        text="A tree of 60 nodes gives 2.4x for one request on this H100. With 64 requests of 1,000 tokens at once it "
        "breaks even at 9.3 tokens per step, and its longest path has 7 tokens with the target's own. What helps?",
        options=(
            Option(
                "A better draft.",
                "A perfect one emits 7 tokens per step, and 9.3 are needed. No draft can pay for these rows: 0.47x "
                "is what the page's draft makes of them.",
            ),
            Option(
                "Fewer nodes per request.",
                "A node is one row per request. With 64 short requests rows are arithmetic that the GPU has to do; "
                "what remains is a short chain of the same head. (Reading long caches hides rows: with 4,000 tokens "
                "each it breaks even at 5.9.)",
                right=True,
            ),
            Option(
                "A larger batch, to use the GPU better.",
                "It is used: the tree of every request brings 61 rows. More requests of this length raise break-even "
                "further; with one it is 1.8 tokens.",
            ),
        ),
        numbers={
            "9.3": "eagle2_break_even_tokens_batch_64",
            "5.9": "eagle2_break_even_tokens_batch_64_context_4000",
            "0.47": "eagle2_speedup_batch_64",
            "1.8": "eagle2_break_even_tokens_batch_1",
        },
    ),
    Question(
        id="04.q4",
        title="the second sibling",
        text="Sampling with a tree. The first of two siblings was judged by the target's p and rejected. By which "
        "distribution is the second one judged?",
        options=(
            Option(
                "By p again: each sibling deserves a fair trial.",
                "Then the first one's failure is forgotten, and what it stood for comes out too rarely or too "
                "often: the page's tree is off by up to 0.057.",
            ),
            Option(
                "By what the first trial left of p, normalised.",
                "As after a rejection in a chain: max(p - q, 0), normalised, takes the place of p. Enumerated, the "
                "law is the target's to the last digits.",
                right=True,
            ),
            Option(
                "By q: the draft proposed it.",
                "The draft's opinion enters as the denominator. What judges is always something made of the "
                "target's p.",
            ),
        ),
        numbers={
            "0.057": "law_error_if_siblings_forget",
        },
    ),
)
