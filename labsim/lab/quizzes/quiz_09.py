"""Quiz of notebook 09: how a merge breaks, and how one sees it."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="09.q1",
        title="NaN, one step late",
        text="The output after the first block is right, after the second it is NaN. The accumulator starts empty, "
        "and the merge is this:",
        code="out = out - sigmoid(lse_b - lse) * (out - out_b)\nlse = lse - logsigmoid(lse - lse_b)",
        options=(
            Option(
                "The second block holds NaN.",
                "Possible, but look at the first merge: its output was right, and its LSE already was not a number.",
            ),
            Option(
                "exp overflows in float32.",
                "That is the bare form, log(1 + exp(...)), beyond a difference of about 88. The sigmoid does not "
                "overflow.",
            ),
            Option(
                "With an empty accumulator, LSE -inf, this form returns the right output and an LSE of NaN.",
                "-inf minus (-inf) is not a number. The output dies one merge later, far from the cause: 2 of the "
                "page's corners break this form. Begin with the first block, or guard before the subtraction.",
                right=True,
            ),
        ),
    ),
    Question(
        id="09.q2",
        title="gradients that only look right",
        text="Two halves of the keys, merged, then `backward()`. Against a dense softmax: output 1e-14, dv 1e-14, "
        "dq off by 26 %, dk by 23 %. What is the cause?",
        options=(
            Option(
                "The kernel's LSE carries no gradient.",
                "The LSE decides how the blocks are weighed. Values have no part in the weights, so dv is exact; q "
                "and k have, and their share is missing.",
                right=True,
            ),
            Option(
                "The two halves were merged in the wrong order.",
                "Order does not matter: 120 orders of five blocks agree to the last digits. And then dv would be "
                "wrong.",
            ),
            Option(
                "Each block's backward ran with its own output and LSE.",
                "Then every block takes itself for the whole, and dv is wrong, too: by 280 % on the page.",
            ),
        ),
        numbers={
            "280 %": "own_pair_dv_off",
        },
    ),
    Question(
        id="09.q3",
        title="an empty row",
        text="For a query whose keys are all masked a kernel returns output 0 and LSE 0. You merge it with a block "
        "of LSE 4.7. What do you get?",
        options=(
            Option(
                "The other block's output: zeros add nothing.",
                "LSE 0 is the weight of one key with score 0. That key takes 0.9 % of the softmax, for an output of "
                "zeros.",
            ),
            Option(
                "The other block's output, 0.9 % too small.",
                "Empty is -inf, not 0. Nothing is NaN, and no test with a tolerance of a per cent fails.",
                right=True,
            ),
            Option(
                "NaN.",
                "That would be the lucky case: somebody would notice.",
            ),
        ),
        numbers={
            "0.9 %": "masked_row_leak",
        },
    ),
    Question(
        id="09.q4",
        title="what may be short?",
        text="To save memory in a ring of 64 blocks, one of three may be kept in bfloat16. Which one costs least?",
        options=(
            Option(
                "Each block's output: it is rounded once.",
                "0.17 %, what bfloat16 costs anyway, if accumulator and LSE stay in float32.",
                right=True,
            ),
            Option(
                "The LSE: it is one number per query, the smallest tensor.",
                "It stands in an exponent, and next to a typical LSE bfloat16 has coarse steps: the largest error "
                "of the three, 2.7 %, for the fewest bytes.",
            ),
            Option(
                "The accumulator: it is merged only once per block.",
                "Once per block is 64 roundings of the same number: 0.8 %.",
            ),
        ),
        numbers={
            "2.7 %": "error_64_blocks_bfloat16_LSE",
            "0.8 %": "error_64_blocks_bfloat16_accumulator",
            "0.17 %": "error_64_blocks_bfloat16_outputs",
        },
    ),
)
