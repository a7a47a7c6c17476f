"""Quiz of notebook 02: what a step costs, and which tail is meant."""

from ..questions import Option, Question

QUESTIONS = (
    Question(
        id="02.q1",
        title="the same head, a full GPU",
        text="An 8B model on one H100, K = 3, context 400, a head with accepted/drafted 0.35. It was tested with "
        "one user. Now 256 users decode at once. What do you expect?",
        options=(
            Option(
                "The same gain: the head still accepts 0.35.",
                "Acceptance is half of it. What a step costs has changed: break-even climbs from 0.10 with one user "
                "to 0.39 with 256.",
            ),
            Option(
                "A loss: at 256 users the head is below break-even.",
                "Break-even is 0.10 at 1 user, 0.17 at 32, 0.30 at 128 and 0.39 at 256: verifying four tokens for "
                "everybody is no longer free.",
                right=True,
            ),
            Option(
                "A larger gain: 256 users share one reading of the weights.",
                "They share it without speculation as well, and that is the point: the arithmetic that verification "
                "needs is then in use. Break-even is 0.39.",
            ),
        ),
        numbers={
            "0.10": "breakeven_8b_h100_c1",
            "0.17": "breakeven_8b_h100_c32",
            "0.30": "breakeven_8b_h100_c128",
            "0.39": "breakeven_8b_h100_c256",
        },
    ),
    Question(
        id="02.q2",
        title="long context",
        text="The same GPU, filled to the last request that fits, once with a context of 400 and once of 16,000 "
        "tokens. Acceptance is the same. Where does speculation gain more?",
        options=(
            Option(
                "At 16,000: most of the step is reading the cache, which four tokens share.",
                "1.96x against 1.10x. (Acceptance is another matter: a head trained on short text may accept less "
                "there.)",
                right=True,
            ),
            Option(
                "At 400: short contexts leave room for larger batches.",
                "Larger batches are what makes verifying dear. At 400 tokens the full GPU gains 1.10x.",
            ),
            Option(
                "No difference: the KV cache is read in both cases.",
                "It is, but its share of the step differs. Reading it costs the same for one token and for four, so "
                "the more of the step it is, the cheaper the extra rows: 1.10x against 1.96x.",
            ),
        ),
        numbers={
            "1.10": "speedup_at_largest_batch_context400",
            "1.96": "speedup_at_largest_batch_context16000",
        },
    ),
    Question(
        id="02.q3",
        title="an alarm",
        text="Speculation was switched on. Mean TPOT fell by 25 %, the P99 of the time between stream chunks rose "
        "by 15 %. What is the first explanation to check?",
        options=(
            Option(
                "Rejected drafts cost a second forward of the target.",
                "They do not: the page counts 0.44 target forwards per token with this draft, and 1.00 with one "
                "that is never right.",
            ),
            Option(
                "One in a hundred users became 15 % slower.",
                "That would be the P99 of TPOT, one average per request. A chunk gap belongs to a step, not to a user.",
            ),
            Option(
                "A chunk is a step, steps got longer, and a larger share of them carries a slice of a prompt.",
                "Fewer steps share the same prompts, and each verifies K + 1 tokens per user. The simulation of "
                "this load gives -25 % and +15 %.",
                right=True,
            ),
            Option(
                "The draft's acceptance drifted.",
                "Then the mean would have suffered first. It improved by 25 %.",
            ),
        ),
        numbers={
            "0.44": "forwards_per_token_chat_draft",
            "1.00": "forwards_per_token_useless_draft",
            "25 %": "-complaint_mean_tpot_change",
            "15 %": "complaint_chunk_gap_p99_change",
        },
    ),
    Question(
        id="02.q4",
        title="a mixture of experts",
        text="A step of a dense model reads all weights whatever the batch. In a mixture with 128 experts, 8 per "
        "token, one user verifies 4 tokens instead of 1. What happens to the bytes read?",
        options=(
            Option(
                "They grow, but by less than four times.",
                "Four tokens touch 29.1 experts instead of 8: some are shared. So the step ratio at 8 users is "
                "1.59, and 1.42 for a dense 8B on as many GPUs.",
                right=True,
            ),
            Option(
                "Nothing: decoding is bound by memory, so extra tokens ride along.",
                "They ride along on weights that are read anyway. Here four tokens choose 29 experts, one chooses "
                "8, so more weights are read.",
            ),
            Option(
                "They grow by four times.",
                "Only if no two tokens ever chose the same expert. Expected are 29.1 different ones, not 32; and "
                "attention weights are read once.",
            ),
        ),
        numbers={
            "29.1": "experts_touched_by_4_tokens",
            "1.59": "step_ratio_moe_c8",
            "1.42": "step_ratio_dense_c8",
        },
    ),
)
