"""Quiz of notebook 05: what a draft reads, what it can say, and what hides a mistake."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="05.q1",
        title="one row of training",
        text="A draft trained with these rows guesses the target's next token rightly, and accepts next to nothing "
        "in serving. What is wrong with the rows?",
        code="x[t]     = concat(norm(embedding[token[t]]), norm(state[t]))\nlabel[t] = token[t + 1]",
        options=(
            Option(
                "The draft is never told which token was chosen: it should read t + 1 and guess t + 2.",
                "The last state already holds the next token, so these rows teach it the head that exists. Its job "
                "is the token after: 16 % right without being told, 23 % once told, for a mere linear probe.",
                right=True,
            ),
            Option(
                "The state should come from the layer before the last.",
                "Which layer is read matters less than what is asked. These rows ask for the token that the target "
                "has chosen already.",
            ),
            Option(
                "Embedding and state stand in the wrong order.",
                "The order is a convention between training and serving; here it is that of EAGLE-3. The positions "
                "are off.",
            ),
        ),
        numbers={
            "16 %": "probe_after_untold_from_last",
            "23 %": "probe_after_told_from_last",
        },
    ),
    Question(
        id="05.q2",
        title="two numberings",
        text="A draft's head has 8 tokens. It drafts number 5. Which token of the target is that?",
        code="d2t = [0, 0, 3, 3, 4, 37, 40, 41]",
        options=(
            Option(
                "5",
                "Only as long as the draft's vocabulary is the beginning of the target's; here d2t[5] is not 0.",
            ),
            Option(
                "37",
                "d2t holds offsets, not tokens: 5 + 37. Read as a token it raises no error and loses nearly every "
                "guess.",
            ),
            Option(
                "42",
                "d2t is an offset: draft id plus d2t[id], 5 + 37.",
                right=True,
            ),
        ),
    ),
    Question(
        id="05.q3",
        title="99 % covered",
        text="The head's words cover 99 % of the training answers' tokens. You serve chains of K = 5. Why is a "
        "perfect draft still short of 6 tokens per step?",
        options=(
            Option(
                "Because 0.99⁵ is 0.95, nearly nothing is lost; the rest must be a bug.",
                "Two things are wrong with the product: the served answers are not those of training (there these "
                "words cover 82 %), and rare words come in clusters.",
            ),
            Option(
                "A chain ends at the first word that the head cannot say, and served text has more of those.",
                "99 % in training is 82 % on held-out answers. On the page the chosen vocabulary caps chains of 5 "
                "at 4.52 tokens, the whole one at 5.86 (answers end).",
                right=True,
            ),
            Option(
                "A perfect draft is never short: the target fills in what the head cannot say.",
                "It does, and thereby ends the step: everything drafted behind that place is thrown away. The cap "
                "is 4.52.",
            ),
        ),
        numbers={
            "0.95": "0.99**5",
            "82 %": "their_coverage_of_held_out",
            "4.52": "cap_of_the_chosen_vocabulary",
            "5.86": "cap_of_the_whole_vocabulary",
        },
    ),
    Question(
        id="05.q4",
        title="after a deployment",
        text="Answers are word for word those of last week. Latency is up, nothing in the logs is red. Somebody "
        'says: "Answers are right, so the draft is wired rightly." Which of these is true?',
        options=(
            Option(
                "Only the acceptance length can tell: compare it with that of training, on known questions.",
                "The worst wiring on the page loses nearly all that the draft gains, with the same text. Lossless "
                "decoding hides a sick draft.",
                right=True,
            ),
            Option(
                "The draft is innocent: a wrong draft gives wrong answers.",
                "The target judges every token. Of all wrongly wired answers on the page, 0 changed.",
            ),
            Option(
                "Wrong wiring would have raised an error about shapes.",
                "Halves swapped, layers shifted, d2t ignored: all shapes fit, and no error comes.",
            ),
        ),
    ),
)
