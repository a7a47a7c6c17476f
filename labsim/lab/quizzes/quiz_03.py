"""Quiz of notebook 03: what keeps the text, and what a forward costs."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="03.q1",
        title="a review",
        text="The target says yes, no, maybe with `p = 0.6, 0.3, 0.1`, the draft with `q = 0.2, 0.2, 0.6`. You "
        "review this code. What comes out of it?",
        code="if random() < min(1, p[word] / q[word]):\n    emit(word)\nelse:\n    emit(sample(p))",
        options=(
            Option(
                "Too little of what the draft proposes too seldom: yes comes out with 0.50.",
                "Kept: 0.2 of yes. Rejected: half of the time, and then 0.6 of that: 0.2 + 0.5 · 0.6 = 0.50. "
                "Redrawing from `max(p - q, 0)`, normalised, gives exactly 0.60.",
                right=True,
            ),
            Option(
                "The target's own distribution: both branches use p.",
                "The first branch already emits `min(p, q)`. What is missing from p after that is the residual, not "
                "p again: yes comes out with 0.50 instead of 0.60.",
            ),
            Option(
                "The draft's distribution, since the draft proposes first.",
                "What it proposes too often is kept only now and then. The result lies between the two: maybe with "
                "0.15, where q says 0.6 and p says 0.1.",
            ),
        ),
        numbers={
            "0.50": "toy_yes_redrawn_from_p",
            "0.60": "0.6",
            "0.5": "1 - (min(0.6, 0.2) + min(0.3, 0.2) + min(0.1, 0.6))",
            "0.15": "0.1 + 0.5 * 0.1",
        },
    ),
    Question(
        id="03.q2",
        title="token 57",
        text="Greedy, in float32, with and without a draft: the answers part at token 57. There the target's two best "
        "logits are `17.203414` and `17.203411`. Which report do you write?",
        options=(
            Option(
                "Speculation changes the text: a bug in the acceptance rule.",
                "A faulty rule does not wait for a tie. Look at the gap first: 0.000003, far below what rounding "
                "moves.",
            ),
            Option(
                "A tie: one forward over five rows rounds differently from one over a single row.",
                "The target itself does not know better there. In float32 the page lets a gap below 0.0001 pass, and "
                "stops for anything larger; in bfloat16 such logits come in steps of 0.125, and a gap of that size is "
                "a tie too.",
                right=True,
            ),
            Option(
                "The temperature was not zero.",
                "Then the answers would part early and everywhere, not at the one place where two logits are equal "
                "to seven digits.",
            ),
        ),
        numbers={
            "0.000003": "17.203414 - 17.203411",
            "0.0001": "1e-4",
            "0.125": "16 * 2**-7",
        },
    ),
    Question(
        id="03.q3",
        title="one drafted token",
        text="One row takes 43 ms through this kernel, two rows 75 ms. The draft needs 1 ms for its one token, "
        "which is accepted in 7 of 10 steps. What is the speedup?",
        options=(
            Option(
                "1.70x: so many tokens per forward",
                "That is the gain side, AL. A speculative step takes 75 + 1 ms where a plain one takes 43: 1.7 · 43 "
                "/ 76 = 0.96x.",
            ),
            Option(
                "about 1.66x: decoding is bound by memory, so two rows cost what one does, plus the draft",
                "A hope about the kernel. The measured two rows cost 75 ms, not 43; with that it is 0.96x.",
            ),
            Option(
                "0.96x: a loss",
                "1.7 tokens in 76 ms against one in 43. On the packed kernel of the page, 19 and 17 ms, the same "
                "draft gives 1.79x: memory-bound is a property of the kernel, too.",
                right=True,
            ),
        ),
        numbers={
            "0.96": "kernel_speedup_k1_F_linear",
            "1.79": "kernel_speedup_k1_packed",
            "1.7": "1 + 0.7",
        },
    ),
    Question(
        id="03.q4",
        title="would a test notice?",
        text="A sampler draws its replacement from p instead of the residual. With which draft will a test of the "
        "*output* notice soonest?",
        options=(
            Option(
                "With a very good draft: it is used most.",
                "A good draft is rejected seldom, and only rejections take the wrong branch. It hides the bug.",
            ),
            Option(
                "With a draft that is far from the target.",
                "The wrong branch runs as often as something is rejected, 1 minus the overlap: half of the time in "
                "the toy case. Test a sampler with a poor draft.",
                right=True,
            ),
            Option(
                "It does not matter: the bug is in the sampler, not in the draft.",
                "The bug is always there; how often it speaks is the draft's doing. At an overlap of 1 it never does.",
            ),
        ),
    ),
)
