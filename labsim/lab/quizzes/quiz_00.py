"""Quiz of notebook 00: one step, one log, one draft."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="00.q1",
        title="six steps",
        text="A draft of four tokens per step. Accepted in six steps: `3 0 1 4 0 2`. How many tokens did these six "
        "forwards of the target emit?",
        options=(
            Option(
                "10",
                "That is what was accepted. Each step also emits one token of the target's own: 10 + 6 = 16.",
            ),
            Option(
                "11",
                "10 accepted and one bonus, for the step in which all four passed. But every step emits a token of "
                "the target's own: a bonus there, a correction in the other five. 10 + 6 = 16.",
            ),
            Option(
                "16",
                "10 accepted and one of the target's own per step. Without a draft: 16 forwards.",
                right=True,
            ),
            Option(
                "24",
                "That is what was drafted, 6 times 4. Drafted tokens count only as far as they are accepted.",
            ),
        ),
    ),
    Question(
        id="00.q2",
        title="three chances",
        text="P(at least 1, 2, 3 drafted tokens accepted) is 0.622, 0.381, 0.252. What does one forward of the "
        "target emit on average?",
        options=(
            Option(
                "2.26 tokens",
                "The sum of the three is the mean number accepted, 1.255; the target's own token makes it 2.255.",
                right=True,
            ),
            Option(
                "1.26 tokens",
                "That is the mean number accepted. A step never emits fewer than one token: add the target's own, "
                "2.255.",
            ),
            Option(
                "0.42 tokens",
                "1.255 accepted of 3 drafted is 0.42: an acceptance rate, not a number of tokens. Engines print it, "
                "too; notebook 01 keeps the two apart.",
            ),
        ),
        numbers={
            "1.255": "acceptance_length_chat - 1",
            "2.255": "acceptance_length_chat",
            "0.42": "(acceptance_length_chat - 1) / 3",
        },
    ),
    Question(
        id="00.q3",
        title="a hopeless draft",
        text="In the decode above you replace the draft by one that is never right. What happens to the answer?",
        options=(
            Option(
                "The text gets worse.",
                "The target judges every token, and what it rejects it replaces by its own. The page compared the "
                "tokens: with a draft they are the same.",
            ),
            Option(
                "The same text, with one forward of the target for each token.",
                "Each step accepts nothing and emits the target's own token. The draft's work and the extra rows of "
                "the forward are lost, nothing else.",
                right=True,
            ),
            Option(
                "The same text, with two forwards of the target for each token.",
                "The token that replaces a rejected one comes from the same forward that rejected it. So it is one "
                "forward per token, as without a draft.",
            ),
        ),
    ),
)
