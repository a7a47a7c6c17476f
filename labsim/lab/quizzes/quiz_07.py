"""Quiz of notebook 07: curves by depth, and what a norm can and cannot mend."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="07.q1",
        title="a curve",
        text="An EAGLE-3.1 draft in a new engine, beside the trainer's own figures. Which fault fits?",
        code="right guesses at depth    1     2     3\n"
        "trainer                 0.52  0.31  0.21\n"
        "engine                  0.52  0.13  0.03",
        options=(
            Option(
                "`fc_norm` is off in the engine: the layers enter without their norms.",
                "That changes what the draft reads of the target, so it spoils depth 1. Here depth 1 is untouched.",
            ),
            Option(
                "The engine feeds back the raw state where training fed back the normed one.",
                "Feedback begins at depth 2: depth 1 is the same to the last digit, and depth 2 loses more than "
                "half. The page plants this fault.",
                right=True,
            ),
            Option(
                "`d2t` is read as zeros.",
                "Then most guesses name a wrong token, and depth 1 falls first.",
            ),
            Option(
                "The draft was trained too short.",
                "Then the trainer's own figures would show it. They are fine.",
            ),
        ),
    ),
    Question(
        id="07.q2",
        title="a flat line",
        text='A slide shows the size of the state by depth: EAGLE-3 grows to 2.2 times, EAGLE-3.1 stays at 1.0. "So '
        '3.1 is better." What is missing?',
        options=(
            Option(
                "That drafts whose state grows have fewer right guesses left beyond the trained depth.",
                "They do, 0.23 against 0.75 of those at the trained depth. Two things that go together are no cause: "
                "with `fc_norm` alone the state grows to 3.55 times, and no more is lost.",
            ),
            Option(
                "An intervention: hold the size fixed and see whether guesses come back.",
                "Here few do: of the 0.25 tokens per step that 3.1 is ahead, a fixed size gives 0.02 back. Growth is "
                "a mark of the raw state. What helps is training on the state that the norm hands on.",
                right=True,
            ),
            Option(
                "Nothing: a growing state is an unstable state.",
                "The normed state has the size of its norm's weight at every depth, by construction. A flat line is "
                "no discovery, and growth alone is no harm.",
            ),
            Option(
                "Error bars over seeds.",
                "They are good to have, but no interval turns a size into an effect on acceptance.",
            ),
        ),
        numbers={
            "0.23": "left_beyond_training_eagle3",
            "0.75": "left_beyond_training_eagle3.1",
            "3.55": "growth_of_the_state_fc_norm",
            "0.25": "lead_of_31_undisturbed",
            "0.02": "pinning_gives_eagle3_back",
        },
    ),
    Question(
        id="07.q3",
        title="the template is gone",
        text="A client calls the raw completions endpoint, without the chat template. Acceptance collapses, already "
        "at the first guess. Will EAGLE-3.1 mend it?",
        options=(
            Option(
                "Yes: its norms make it steady under other templates.",
                "Only one of them, `fc_norm`, reaches the first guess. On the page it brings little back: 1.15 times "
                "as many first guesses in one situation, and in the others the intervals leave it open.",
            ),
            Option(
                "Only in long contexts.",
                "Length is another question (of accepted tokens 3.1 has 1.03 times as many there, and the sign is "
                "open). Where the first guess is gone there is nothing to be steady about.",
            ),
            Option(
                "Hardly: the first guess reads the target's true states, so no feedback can have spoilt it.",
                "Draft and target have met a text that training never showed. Train on such text, or keep the "
                "template.",
                right=True,
            ),
        ),
        numbers={
            "1.15": "first_guesses_31_over_3_neither",
            "1.03": "ratio_in_the_longest_context",
        },
    ),
    Question(
        id="07.q4",
        title="a null",
        text="You serve chat in the trained template with K no longer than training unrolled. You replace EAGLE-3 "
        "by EAGLE-3.1. Which gain do you promise?",
        options=(
            Option(
                "None: perhaps a little less.",
                "Within the trained depth the page finds -0.03 tokens; with chains of seven, beyond it, +0.23. The "
                "paper's own figure in distribution is a null, too.",
                right=True,
            ),
            Option(
                "Up to twice the acceptance length.",
                "That figure was published for situations off the training. Ask of every factor: against which "
                "draft, at which depth, and what is it in distribution?",
            ),
            Option(
                "About a quarter of a token per step.",
                "+0.23 is what chains of seven gain, which go beyond the trained depth. Yours do not: -0.03.",
            ),
        ),
        numbers={
            "0.03": "-gain_within_the_trained_depth",
            "0.23": "gain_of_chains_of_7",
        },
    ),
)
