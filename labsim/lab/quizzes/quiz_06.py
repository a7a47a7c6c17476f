"""Quiz of notebook 06: three accuracies, and the function that is served."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="06.q1",
        title="three accuracies",
        text="From one evaluation of the chains that serving started. How many tokens per step does it see, with "
        "chains of three?",
        code="depth                        1     2     3\n"
        "right at this depth        0.60  0.50  0.50\n"
        "right here and all before  0.60  0.40  0.30",
        options=(
            Option(
                "2.60",
                "1 plus the first row counts right guesses behind wrong ones. Serving throws those away: 2.30.",
            ),
            Option(
                "2.30",
                "1 + 0.60 + 0.40 + 0.30: only a guess whose predecessors are right as well is emitted.",
                right=True,
            ),
            Option(
                "2.05",
                "1 plus products of the first row, 0.60, 0.30 and 0.15, treats the guesses as independent. Easy "
                "places are easy at every depth, so the product is too low.",
            ),
        ),
        numbers={
            "0.15": "0.6 * 0.5 * 0.5",
            "0.30": "0.6 * 0.5",
        },
    ),
    Question(
        id="06.q2",
        title="two checkpoints",
        text="Trained on from the same draft, same rows, same steps. A: without unrolling, loss 2.1. B: unrolled "
        "four steps, loss 3.4. Which one do you serve?",
        options=(
            Option(
                "The one with the longer acceptance on held-out answers.",
                "That is what is served. On the page the copy without unrolling has the lower loss, and the other "
                "one gains 0.06 tokens per step on it.",
                right=True,
            ),
            Option(
                "A: the lower loss.",
                "A's loss is depth 1 alone, the easiest. B's is a mean over four depths. They are not means of the "
                "same thing.",
            ),
            Option(
                "B: unrolled drafts are better.",
                "Likely, since chained guesses are what it was trained for, but depth 1 pays for it. Measure: "
                "held-out acceptance decides.",
            ),
        ),
        numbers={
            "0.06": "gain_of_a_few_ttt_steps",
        },
    ),
    Question(
        id="06.q3",
        title="trained is not served",
        text="A trainer unrolls so that step k looks at its own step's keys, and positions stand still. Serving "
        "looks at the prefix plus one own key per step, at positions that move on. Which test finds this?",
        options=(
            Option(
                "The training loss: it will not fall.",
                "It falls well. The draft learns the function that it is trained on, and is served by another one.",
            ),
            Option(
                "Compare training's forward with cached drafting, logit by logit, at depth 1.",
                "At depth 1 both are the same function, to 1e-8 in double precision. The fault begins at depth 2.",
            ),
            Option(
                "The same comparison, from depth 2 on.",
                "Step k at position t must be guess k + 1 after the prefix: equal below 1e-8 where it is wired as "
                "served, and different at every depth from 2 on where it is not.",
                right=True,
            ),
            Option(
                "Whether answers change.",
                "They never do: the target judges each token. Only acceptance could show it, and even that may "
                "hardly move.",
            ),
        ),
    ),
    Question(
        id="06.q4",
        title="out of memory",
        text="Unrolling runs out of memory when rows grow from 4,096 to 8,192 tokens; attention's part grew 3.9 "
        "times. What is being kept?",
        options=(
            Option(
                "The draft's states of every step.",
                "Those grow with length and with steps, so they would double. 3.9 times is a square.",
            ),
            Option(
                "The history's keys and values.",
                "There are L of them. Twice the length, twice the keys: 2.0 times, not 3.9.",
            ),
            Option(
                "A dense mask, or scores, of L rows and (1 + k)·L columns.",
                "The page measures 3.9 times for twice the length with the dense mask, and 2.0 times with a flash "
                "kernel for the history and k dot products for the branch.",
                right=True,
            ),
        ),
        numbers={
            "3.9": "memory_growth_dense_mask",
            "2.0": "memory_growth_own_branch",
        },
    ),
)
