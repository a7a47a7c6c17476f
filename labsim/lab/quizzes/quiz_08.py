"""Quiz of notebook 08: a sum, what dominates it, and what to do first."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="08.q1",
        title="seven steps",
        text="One row of 131,072 tokens, an 8B target's draft. You go from one unrolled step to seven. By what "
        "factor does the memory of a training step grow?",
        options=(
            Option(
                "7: memory is L times k times layers.",
                "It is linear in k, but a sum: taps and teacher come once, whatever k. The page computes 3.0.",
            ),
            Option(
                "about 3",
                "Once: the three layers that are read, and the teacher. Per step: the draft's layer and its logits. "
                "Together 3.0 times.",
                right=True,
            ),
            Option(
                "It does not grow: steps run one after the other.",
                "The forward does, and keeps what backward needs of every step until the end: 3.0 times.",
            ),
        ),
        numbers={
            "3.0": "seven_steps_over_one",
        },
    ),
    Question(
        id="08.q2",
        title="128K does not start",
        text="A draft of 1.4 B parameters, one row of 128K tokens, out of memory on one H100. What is not weights "
        "takes 33 times what they take. What do you try first?",
        options=(
            Option(
                "Shard weights and optimizer over more GPUs.",
                "That divides the small part of a row this long; on rows of some thousand tokens it is worth doing. "
                "The large one, activations and logits, stays where it is.",
            ),
            Option(
                "Sequence parallelism over 16 GPUs.",
                "It works, and is the dearest remedy: for an 8B target's draft 16 H100 with it alone, 2 with the "
                "cheaper ones first.",
            ),
            Option(
                "Chunked logits and checkpointing.",
                "On the measured step the two together leave a quarter (4.0 times less), with the same loss and "
                "gradients, at the cost of two head products and one forward more. Then more ranks.",
                right=True,
            ),
        ),
        numbers={
            "4.0": "times_less_both",
            "33": "activations_over_weights_128k",
            "16": "h100s_with_sp_alone",
        },
    ),
    Question(
        id="08.q3",
        title="faster than linear",
        text="Peak memory by row length: what do you look for in this trainer?",
        code="tokens     256    512   1,024   2,048\nMB          60    109     282     930",
        options=(
            Option(
                "Score matrices that somebody writes down.",
                "Each doubling adds 3.5 times and more what the last one added: 49, 173, 648. With fused attention "
                "it adds 2.0 times as much, linear in the length; a naive one tends to 4.",
                right=True,
            ),
            Option(
                "A leak: memory that is not freed between steps.",
                "A leak grows with the number of steps, not with the length of a row.",
            ),
            Option(
                "Nothing: attention is quadratic.",
                "Its arithmetic is. Its *memory* is quadratic only if scores or masks of L by L are kept: on the "
                "page each doubling adds 2.0 times as much with fused attention, 3.5 times with naive.",
            ),
        ),
        numbers={
            "3.5": "doubling_adds_naive",
            "2.0": "doubling_adds_fused",
        },
    ),
    Question(
        id="08.q4",
        title="a deeper target",
        text="Same hidden size, same vocabulary, the target now has 80 layers instead of 8, its states come from "
        "disk. By how much does the draft's training step grow?",
        options=(
            Option(
                "Ten times: ten times the feature layers.",
                "EAGLE-3 reads three of them, whatever the target's depth.",
            ),
            Option(
                "Not at all.",
                "Three taps enter, the same number as before. The page runs both: 0 bytes apart.",
                right=True,
            ),
            Option(
                "A little: the teacher's distribution is wider.",
                "Its width is the vocabulary, and that did not change.",
            ),
        ),
    ),
)
