"""Quiz of notebook 12: history, branch, borders and means."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="12.q1",
        title="what travels?",
        text="A draft is unrolled for seven steps over a ring of four ranks. In step 7 a query sees the history and "
        "the keys that its own position made in earlier steps. What does the *branch* add to the ring's bytes?",
        options=(
            Option(
                "One hop per step: each step has new keys.",
                "It has, but no other position ever looks at them. The counter shows 0 bytes more.",
            ),
            Option(
                "Nothing.",
                "A branch key belongs to its own position and lies where the query lies: one dot product, no "
                "message. The history's keys pass by as they do in any step.",
                right=True,
            ),
            Option(
                "Seven times the history's bytes.",
                "The history is passed round once per step, and that is the history's part. The branch adds 0.",
            ),
        ),
    ),
    Question(
        id="12.q2",
        title="from which step on?",
        text="The history's backward is fed with the output and log-sum-exp that came out of the ring, *before* the "
        "branch was merged. The loss of the first update is right. Which gradients are not?",
        options=(
            Option(
                "All of them, from step 0 on.",
                "In step 0 there is no branch, so the ring's own pair is the merged pair: exact.",
            ),
            Option(
                "None: the forward was merged rightly.",
                "Forward and loss are. In backward `exp(score - LSE)` has to be the key's share of the *whole* "
                "softmax, branch included.",
            ),
            Option(
                "The history's, from the first step with a branch on.",
                "Each history key takes a share of a softmax that forgets the branch, and the more branch keys, the "
                "more. Merge first, then run the history's backward with the merged pair.",
                right=True,
            ),
        ),
    ),
    Question(
        id="12.q3",
        title="a mean of means",
        text="Two ranks share a row. Rank 0 has 100 answer tokens with mean loss 2.0, rank 1 has 300 with 4.0. What "
        "is the loss that one rank alone would report?",
        options=(
            Option(
                "3.5",
                "(100 · 2.0 + 300 · 4.0) / 400: sum losses and counts over the ranks, and divide once.",
                right=True,
            ),
            Option(
                "3.0",
                "The mean of the two means gives a token of rank 0 three times the weight of one of rank 1.",
            ),
            Option(
                "6.0",
                "That is the sum of the means. Divide sums by counts.",
            ),
        ),
        numbers={
            "3.5": "(100 * 2.0 + 300 * 4.0) / 400",
        },
    ),
    Question(
        id="12.q4",
        title="divided once too often",
        text="On four ranks every gradient comes out a quarter of what it should be. The loss is reported rightly, "
        "the optimizer is AdamW, the clip is rarely reached. Where do you see it?",
        options=(
            Option(
                "In the loss curve: it falls four times as slowly.",
                "AdamW divides a gradient by its own typical size, so a constant factor nearly cancels. The curve "
                "looks right.",
            ),
            Option(
                "In the gradient's norm, beside that of one rank.",
                "It is a quarter. A trainer that reports the norm shows the fault in its first line.",
                right=True,
            ),
            Option(
                "Nowhere: it makes no difference.",
                "To AdamW's step hardly. To the clip it does, and to every optimizer that does not divide by the "
                "gradient's size.",
            ),
        ),
    ),
)
