"""Quiz of notebook 11: heads or tokens, and which ranks are neighbours."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="11.q1",
        title="how many ranks?",
        text="32 query heads, 8 key/value heads. Up to which Ulysses degree does every rank get whole key/value "
        "heads of its own, without copies?",
        options=(
            Option(
                "8",
                "One key/value head per rank. Beyond that, heads are repeated, or the ring takes over.",
                right=True,
            ),
            Option(
                "32",
                "The query heads divide so far, but beyond 8 ranks several need the same key/value head. It has to "
                "be repeated, and the copies travel: four times the key bytes at 32.",
            ),
            Option(
                "4",
                "4 works, with two key/value heads per rank. It is not the limit.",
            ),
        ),
    ),
    Question(
        id="11.q2",
        title="who sends more?",
        text="Four ranks, 4,096 tokens, 8 heads and 8 key/value heads of 64, float32, forward and backward. The "
        "ring sends 40 MiB per rank. And Ulysses?",
        options=(
            Option(
                "40 MiB as well: every query has to meet every key.",
                "They meet in another way: each rank gets *some heads* of the whole text. What is held stays a "
                "quarter, and only that moves: 12 MiB.",
            ),
            Option(
                "160 MiB: an all-to-all talks to all four ranks.",
                "It sends a *different* part to each. Together that is three quarters of what the rank holds: 12 MiB.",
            ),
            Option(
                "12 MiB, and less with more ranks.",
                "q, k, v and the output, a quarter of the text each, three quarters of it to others: 6 MiB per "
                "direction. The ring's keys pass every rank, however many there are.",
                right=True,
            ),
        ),
        numbers={
            "40": "(AttentionShape(Layout(4096, 4), 8, 8, 64).forward + AttentionShape(Layout(4096, 4), 8, 8, "
            "64).backward) / 2**20",
            "12": "2 * AttentionShape(Layout(4096, 1, 4), 8, 8, 64).forward / 2**20",
            "6": "AttentionShape(Layout(4096, 1, 4), 8, 8, 64).forward / 2**20",
        },
    ),
    Question(
        id="11.q3",
        title="wrong only with Ulysses",
        text="A USP run on four ranks. Ring 4 x Ulysses 1 equals the dense attention, ring 2 x Ulysses 2 is off by "
        "a third. Rotary embeddings are applied after the all-to-all. What do you check first?",
        options=(
            Option(
                "The merge of the ring's blocks.",
                "With ring 4 it merges four blocks and is right.",
            ),
            Option(
                "The positions: after the all-to-all a rank holds the tokens of its whole Ulysses group.",
                "With the positions of its own shard, the tokens that came from the others get wrong angles. With "
                "Ulysses 1 there are none, so that case cannot show it.",
                right=True,
            ),
            Option(
                "The order of the heads on the way back.",
                "That would spoil the output as well, but also without rotary embeddings: switch them off and see. "
                "Positions are the cheaper guess.",
            ),
        ),
    ),
    Question(
        id="11.q4",
        title="which ranks on which link?",
        text="Two nodes of four GPUs, ranks numbered through, ring 2 x Ulysses 4, world rank = r · 4 + u. Which "
        "ranks form a Ulysses group?",
        options=(
            Option(
                "0, 1, 2, 3",
                "u runs fastest, so the all-to-all stays inside a node, and a ring such as 0 and 4 crosses between "
                "nodes, where a hop can hide behind computation.",
                right=True,
            ),
            Option(
                "0, 2, 4, 6",
                "That would be every second rank: no dimension of a 2 x 4 mesh looks like that.",
            ),
            Option(
                "0 and 4",
                "That is a ring: equal u, different r. It crosses the nodes, hop by hop.",
            ),
        ),
    ),
)
