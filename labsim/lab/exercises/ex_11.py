"""Exercises of notebook 11: heads or tokens? The swap and its positions; those of the mesh are in `mesh_11`."""

from __future__ import annotations

from ..check import Check, Misconception
from ..exercise import Exercise
from .mesh_11 import MESH_EXERCISES
from .swap_by_hand import (
    CONTIGUOUS,
    ZIGZAG,
    always_contiguous,
    any_zigzag_is_zigzag,
    chunks_of_the_world,
    counted_from_zero,
    diagnose,
    everything,
    exchanged,
    heads_in_one_row,
    heads_interleaved,
    heads_like_cards,
    late_chunk_first,
    meshes_that_tell,
    numbered,
    only_where,
    own_heads_first,
    own_heads_only,
    own_repeated,
    own_tokens_first,
    own_tokens_only,
    positions_inside,
    positions_outside,
    some_held,
    some_inside,
    some_place,
    some_symptoms,
    symptoms_of,
    the_senders_share,
    the_swap_is_to_blame,
    to_heads,
    to_tokens,
    token_by_token,
    tokens_like_cards,
)

EXERCISES = (
    Exercise(
        id="11.1",
        title="Tokens for heads",
        minutes=8,
        difficulty="medium",
        prompt=(
            "Do the all-to-all by hand. `held[u][h][t]` is what rank `u` has of head `h` at its own token `t`: all "
            "heads, few tokens. Return `inside[u][h][t]`: rank `u` has the `u`-th share of the heads, in order, and "
            "of each head everybody's tokens, in the order of ranks. (The number of heads divides.)"
        ),
        hints=(
            "With two ranks and four heads, rank 0 ends with heads 0 and 1. Which two parcels make up its head 0?",
            "Rank `u`'s share begins at head `u * share`. Its head `h` is the concatenation, over all senders, of "
            "`sender[u * share + h]`.",
            "`[[[x for sender in held for x in sender[u * share + h]] for h in range(share)] for u in range(ranks)]`",
        ),
        check=Check(
            reference=to_heads,
            cases=[(numbered(2, 2, 2),), (numbered(3, 1, 2),)],
            random_cases=some_held,
            misconceptions=[
                Misconception(
                    "heads dealt like cards",
                    "A rank's heads are neighbours: share after share. Query heads that read the same key head must "
                    "land where that key head lands.",
                    wrong=heads_like_cards,
                ),
                Misconception(
                    "own tokens first",
                    "Parts are joined in the order of ranks, one's own in its place. Otherwise every rank has "
                    "another order, and the causal mask means something else on each.",
                    wrong=own_tokens_first,
                ),
                Misconception(
                    "nothing was exchanged",
                    "That is a rank's share of the heads for its own tokens. The others' tokens are missing.",
                    wrong=own_tokens_only,
                ),
                Misconception(
                    "everything to everybody",
                    "That is an all-gather: each rank has everything, and nothing has become smaller.",
                    wrong=everything,
                ),
                Misconception(
                    "tokens in turn",
                    "A rank's tokens stay together: first all of rank 0's, then all of rank 1's.",
                    wrong=token_by_token,
                ),
                Misconception(
                    "the sender's share",
                    "What a rank sends depends on who receives it: the receiver's heads, not its own.",
                    wrong=the_senders_share,
                ),
            ],
        ),
        takeaway="Each rank sends every other one a different parcel, of one rank's heads and one rank's tokens.",
    ),
    Exercise(
        id="11.2",
        title="Heads for tokens",
        minutes=5,
        difficulty="easy",
        prompt=(
            "And back, for attention's output. `inside[u][h][t]`: rank `u` has its share of the heads for all tokens "
            "of the group. Return `held[u][h][t]`: all heads, in order, for the rank's own tokens. It undoes 11.1."
        ),
        hints=(
            "Now tokens are cut and heads are joined. Which tokens are rank `u`'s own?",
            "Cut every row into as many pieces as there are ranks: piece `u` is rank `u`'s. Rows of rank 0 come "
            "first, then those of rank 1.",
            "`[[row[u * size : (u + 1) * size] for sender in inside for row in sender] for u in range(ranks)]`",
        ),
        check=Check(
            reference=to_tokens,
            cases=[(to_heads(numbered(2, 2, 2)),), (to_heads(numbered(3, 1, 2)),)],
            random_cases=some_inside,
            misconceptions=[
                Misconception(
                    "tokens dealt like cards",
                    "A rank's tokens stand together in each row.",
                    wrong=tokens_like_cards,
                ),
                Misconception(
                    "heads in one row",
                    "Two heads of one token are two entries, not two tokens: the senders' rows stand below each "
                    "other, not behind each other.",
                    wrong=heads_in_one_row,
                ),
                Misconception(
                    "own heads first",
                    "Heads go back into their order, one's own in its place. The output projection multiplies head "
                    "by head: another order on each rank is another model on each rank.",
                    wrong=own_heads_first,
                ),
                Misconception(
                    "own heads only",
                    "The heads that others computed for these tokens are missing.",
                    wrong=own_heads_only,
                ),
                Misconception(
                    "heads in turn",
                    "A rank's heads are neighbours: all rows of rank 0, then all of rank 1.",
                    wrong=heads_interleaved,
                ),
            ],
        ),
        takeaway="The swap is a permutation: backward is the other swap, and nothing is lost or summed on the way.",
    ),
    Exercise(
        id="11.3",
        title="Positions between the swaps",
        minutes=8,
        difficulty="medium",
        prompt=(
            "A mesh of `ring` x `ulysses` ranks. The text of `length` tokens (it divides) is dealt to ring ranks, "
            '`"contiguous"` or `"zigzag"` (ring rank `r` of R holds chunks `r` and `2R - 1 - r` of 2R, the early one '
            "first), and each ring rank's tokens are split over its Ulysses ranks. Rank `(ring_rank, ulysses_rank)` "
            "applies rotary positions after the all-to-all. Return the list of positions it must use, row by row."
        ),
        hints=(
            "After the all-to-all a rank has more rows than before. Whose tokens are these?",
            "All tokens of its ring rank, in the order of its Ulysses ranks, which is ascending in the shard. Which "
            "of the arguments do not matter, then?",
            "Contiguous: `range(ring_rank * size, (ring_rank + 1) * size)` with `size = length // ring`. Zigzag: the "
            "two chunks of size `length // (2 * ring)`.",
        ),
        check=Check(
            reference=positions_inside,
            cases=[(8, 1, 2, 0, 1, CONTIGUOUS), (16, 2, 2, 1, 0, ZIGZAG), (12, 3, 2, 2, 1, CONTIGUOUS)],
            random_cases=some_place,
            misconceptions=[
                Misconception(
                    "positions from before the swap",
                    "Those are the rank's own tokens. Between the swaps it has the tokens of its whole Ulysses group.",
                    wrong=positions_outside,
                ),
                Misconception(
                    "own positions repeated",
                    "As many positions as rows, but they are this rank's, again and again. Rows of other ranks have "
                    "other positions. (SpecForge had this for a while.)",
                    wrong=own_repeated,
                ),
                Misconception(
                    "counted from zero",
                    "A ring rank does not begin at position 0, except the first.",
                    wrong=counted_from_zero,
                ),
                Misconception(
                    "zigzag forgotten",
                    "Under zigzag a ring rank holds an early and a late chunk; between them lies half the text or "
                    "more that it does not hold.",
                    wrong=always_contiguous,
                ),
                Misconception(
                    "zigzag over all ranks",
                    "Chunks are dealt to ring ranks: 2R of them, whatever the Ulysses degree. The split over Ulysses "
                    "ranks comes afterwards.",
                    wrong=chunks_of_the_world,
                ),
                Misconception(
                    "late chunk first",
                    "A shard is in ascending order: the early chunk comes first.",
                    wrong=late_chunk_first,
                ),
            ],
        ),
        takeaway="Before the swap: the rank's own positions. After it: its ring rank's. `Layout` knows both.",
    ),
    Exercise(
        id="11.4",
        title="The fault by where it shows",
        minutes=10,
        difficulty="hard",
        prompt=(
            "Rotary positions have at most one fault. `seen` is a list of `(ring, ulysses, layout, wrong)`: on that "
            "mesh the output was wrong, or not. It holds 1 x 1, R x 1, 1 x U and R x U, each in both layouts. Return "
            '`"healthy"`; `"rotated twice"` (before the swap and after it); `"counted from zero"` (each rank, before '
            'the swap); `"own positions inside"` (after the swap, the rank\'s own positions again and again); or '
            '`"zigzag forgotten"` (positions of a contiguous layout). Remember: attention sees only differences of '
            "positions."
        ),
        hints=(
            "For each fault, ask on which meshes it changes nothing. What does a ring rank of one Ulysses rank have "
            "inside that it does not have outside?",
            "Rotated twice shows even on one rank. Counted from zero shows on any two. Own positions inside needs "
            "U > 1, forgotten zigzag needs R > 1 and zigzag.",
            "Ask the meshes in an order in which each next one shows one fault more: the smallest first, contiguous "
            "before zigzag. The first mesh that is wrong names the fault.",
        ),
        check=Check(
            reference=diagnose,
            cases=[
                (symptoms_of("own positions inside", meshes_that_tell()),),
                (symptoms_of("zigzag forgotten", meshes_that_tell()),),
                (symptoms_of("counted from zero", meshes_that_tell()),),
                (symptoms_of("rotated twice", meshes_that_tell()),),
                (symptoms_of("healthy", meshes_that_tell()),),
            ],
            random_cases=some_symptoms,
            misconceptions=[
                Misconception(
                    "the ring is not tested",
                    "On 1 x U alone, ranks that count from zero look like ranks that use their own positions inside, "
                    "and zigzag of a ring of one is no zigzag. Look at meshes with a ring, too.",
                    wrong=only_where(lambda ring, ulysses, layout: ring == 1),
                ),
                Misconception(
                    "the swap is not tested",
                    "Without a Ulysses rank beside it, a rank has inside what it had outside: there the fault of the "
                    "swap does not exist. Look at meshes with U > 1, too.",
                    wrong=only_where(lambda ring, ulysses, layout: ulysses == 1),
                ),
                Misconception(
                    "one rank is not tested",
                    "One rank needs no swap, but it rotates: what is wrong there has nothing to do with ranks.",
                    wrong=only_where(lambda ring, ulysses, layout: ring * ulysses > 1),
                ),
                Misconception(
                    "every wrong zigzag is a forgotten zigzag",
                    "The other faults spoil zigzag, too. It is forgotten only where every contiguous mesh is right.",
                    wrong=any_zigzag_is_zigzag,
                ),
                Misconception(
                    "the swap is always to blame",
                    "A mesh with U > 1 shows every other fault as well. Is R x 1 right?",
                    wrong=the_swap_is_to_blame,
                ),
                Misconception(
                    "counting and own positions confused",
                    "Ranks that count from zero are wrong without any Ulysses rank. Own positions inside are the "
                    "right ones there.",
                    wrong=exchanged,
                ),
            ],
        ),
        takeaway="Four meshes, both layouts: fewer cannot tell these apart, and most test suites have one.",
    ),
    *MESH_EXERCISES,
)
