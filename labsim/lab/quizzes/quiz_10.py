"""Quiz of notebook 10: who waits, what is sent, and faults by their symptoms."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="10.q1",
        title="idle ranks",
        text="A causal ring over eight GPUs. The profiler shows each GPU computing in 53 % of the time on average; "
        "sending is hidden. What do you change?",
        options=(
            Option(
                "The link: the keys arrive too late.",
                "Sending is hidden. Count pairs: contiguous shards give rank 0 one block of work and the last rank "
                "eight, a balance of 0.53.",
            ),
            Option(
                "The number of ranks: eight are too many for this length.",
                "The share does not depend on the length: contiguous causal shards tend to one half with any large "
                "ring.",
            ),
            Option(
                "The layout: deal the text out in zigzag.",
                "An early and a late chunk for each rank make every rank's work equal: balance 1.00 instead of "
                "0.53. The bytes stay the same.",
                right=True,
            ),
        ),
        numbers={
            "0.53": "balance_contiguous_8",
            "1.00": "balance_zigzag_8",
        },
    ),
    Question(
        id="10.q2",
        title="twice the ring",
        text="The same text on 8 ranks instead of 4. What happens to the bytes that *each rank* sends forward?",
        options=(
            Option(
                "They halve: each rank holds half as much.",
                "A message is half as long, and there are 7 hops instead of 3: 7/8 against 3/4 of all keys and values.",
            ),
            Option(
                "They rise by a sixth.",
                "(R - 1)/R of all keys and values pass each rank: 7/8 against 3/4, 1.17 times. Meanwhile each rank "
                "has half as much to compute, so from some size on the transfer no longer hides.",
                right=True,
            ),
            Option(
                "They double: twice the hops.",
                "Seven hops instead of three, but of messages half as long: 1.17 times.",
            ),
        ),
        numbers={
            "1.17": "(7 / 8) / (3 / 4)",
        },
    ),
    Question(
        id="10.q3",
        title="the fault by its symptom",
        text="Output, loss and dq are right on all ranks. dk and dv of every rank are complete, exact, and those of "
        "its neighbour. What happened?",
        options=(
            Option(
                "The gradients made one hop too few.",
                "A key's gradient travels behind its key and needs R hops, one more than the keys, to be home. The "
                "last one is easily forgotten, and the loss does not show it.",
                right=True,
            ),
            Option(
                "The backward used each block's own LSE.",
                "Then the numbers themselves would be wrong, and dq with them.",
            ),
            Option(
                "The keys of step 0 were used at every step of backward.",
                "Then each rank would add shares that belong to other keys: dk and dv would be wrong numbers, not "
                "the neighbour's right ones.",
            ),
        ),
    ),
    Question(
        id="10.q4",
        title="neighbours",
        text="A trainer shifts the labels by one *inside* each rank's zigzag shard. 4,096 tokens, 4 ranks. Which "
        "statements are true?",
        options=(
            Option(
                "The loss curve shows it at once.",
                "6 labels of some 4,000 are wrong. Count them, or compare with one rank; do not wait for a curve.",
            ),
            Option(
                "A handful of labels is wrong: those at the seams.",
                "6 on the page. Behind the last token of a chunk the next one lies on another rank.",
                right=True,
            ),
            Option(
                "Taking every token by its position, which the layout gives, mends it.",
                "So the trainer does it, and rotary embeddings take their angle from the same place.",
                right=True,
            ),
            Option(
                "It is right as long as the layout is contiguous.",
                "Contiguous shards have seams as well, one per rank instead of two.",
            ),
        ),
    ),
    Question(
        id="10.q5",
        title="keys and their gradients exchanged",
        text="A hand-written backward, everything in float32. At each hop a rank sends the keys on, and the gradients "
        "dk behind them. On one rank the two sends stand in the other order. Messages have no names. What do you see?",
        options=(
            Option(
                "The job hangs.",
                "Every message meets a receiver, in the order of posting. Nobody waits for ever; a hang needs ranks "
                "that wait for each other.",
            ),
            Option(
                "An error: a tensor that nobody asked for.",
                "Keys and dk have one shape and one type, so a receiver cannot tell them apart. In bfloat16 dk would "
                "be wider, and only then might somebody complain.",
            ),
            Option(
                "A loss that explodes at the first step.",
                "The forward is not touched: output and loss of this step are exact. What a wrong gradient does "
                "to later steps is another matter.",
            ),
            Option(
                "Output and loss are right. dq, dk and dv are wrong, and nothing is said.",
                "The next rank computes its hop against gradients, takes keys for gradients, and passes both on. "
                "Compare every gradient with dense attention, or name each message and agree on the name.",
                right=True,
            ),
        ),
    ),
)
