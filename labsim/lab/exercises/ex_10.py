"""Exercises of notebook 10: how do tokens meet?"""

from __future__ import annotations

from ..check import Check, Misconception
from ..exercise import Exercise
from .ring_by_hand import (
    NOTHING,
    SQUARE,
    TRIANGLE,
    around_the_end,
    at_hop,
    bytes_sent,
    diagnose,
    from_the_next_rank,
    held,
    holder,
    hops,
    inner_seam_only,
    inside_the_shard,
    landed,
    landed_by_name,
    landed_from_the_next,
    landed_in_the_own_order,
    landed_inside_out,
    landed_last_first,
    mirrored,
    next_tokens,
    outer_seam_only,
    right_owner,
    rolled_in_the_shard,
    some_hop,
    some_orders,
    some_position,
    some_shards,
    some_sizes,
    some_symptoms,
    symptoms_of,
    zigzag,
)

EXERCISES = (
    Exercise(
        id="10.1",
        title="Which block at which hop",
        minutes=6,
        difficulty="easy",
        prompt=(
            "Contiguous layout, causal attention: rank `r` of a `ring` holds chunk `r`, and at each hop every rank "
            "sends the keys that it has to the next rank. At hop 0 a rank has its own keys. Return the pair `(owner, "
            "work)` for a `rank` at a `hop`: whose keys it has, and what its queries compute with them: "
            f'`"{TRIANGLE}"` (the causal half of a square), `"{SQUARE}"` (all pairs) or `"{NOTHING}"`.'
        ),
        hints=(
            "Keys travel to the next rank. So from which side do a rank's keys come, and how far have they come "
            "after `hop` hops?",
            "From `hop` places before, around the ring: `(rank - hop) % ring`. A query sees no later key: compare the "
            "owner's chunk with its own.",
            f'`owner == rank`: "{TRIANGLE}"; `owner < rank`: "{SQUARE}"; `owner > rank`: "{NOTHING}"',
        ),
        check=Check(
            reference=at_hop,
            cases=[(4, 2, 1), (4, 1, 3), (4, 3, 0)],
            random_cases=some_hop,
            misconceptions=[
                Misconception(
                    "keys come from the rank ahead",
                    "Keys are sent to the next rank, so they arrive from the one before.",
                    wrong=hops(lambda ring, rank, hop: (rank + hop) % ring),
                ),
                Misconception(
                    "the ring does not close",
                    "Rank 0 receives from the last rank: take the difference modulo the ring.",
                    wrong=hops(lambda ring, rank, hop: rank - hop),
                ),
                Misconception(
                    "hops counted from one",
                    "At hop 0 a rank has its own keys, before anything has travelled.",
                    wrong=hops(lambda ring, rank, hop: (rank - hop - 1) % ring),
                ),
                Misconception(
                    "later keys are seen",
                    "Keys of a later chunk stand behind every query of this one. The rank lets them pass.",
                    wrong=hops(right_owner, lambda rank, owner: TRIANGLE if owner == rank else SQUARE),
                ),
                Misconception(
                    "the mask at every hop",
                    "The causal triangle belongs to the rank's own chunk. Every key of an earlier chunk stands before "
                    "every query: the whole square.",
                    wrong=hops(right_owner, lambda rank, owner: TRIANGLE if owner <= rank else NOTHING),
                ),
                Misconception(
                    "no mask on its own chunk",
                    "Within its own chunk a query must not look ahead: a triangle.",
                    wrong=hops(right_owner, lambda rank, owner: SQUARE if owner <= rank else NOTHING),
                ),
                Misconception(
                    "past and future exchanged",
                    "A query sees keys that stand before it: owners with a smaller number.",
                    wrong=hops(
                        right_owner,
                        lambda rank, owner: TRIANGLE if owner == rank else SQUARE if owner > rank else NOTHING,
                    ),
                ),
            ],
        ),
        takeaway="After hop 0 half of all turns have nothing to compute: rank 0 never has, the last rank always.",
    ),
    Exercise(
        id="10.2",
        title="Who holds the token",
        minutes=6,
        difficulty="easy",
        prompt=(
            "Zigzag: a text of `length` tokens is cut into `2 * ring` chunks (the length divides), and rank `r` holds "
            "chunk `r` and chunk `2 * ring - 1 - r`, the early one first. Return `(rank, place)` for the token at "
            "`position`: who holds it, and at which place of that rank's shard, counted from 0."
        ),
        hints=(
            "Which chunk is it, and where inside the chunk? `divmod` gives both.",
            "The first `ring` chunks go to the ranks in order, the others in reverse order. Behind an early chunk in "
            "the shard comes the late one.",
            "`chunk < ring`: `(chunk, inside)`, else `(2 * ring - 1 - chunk, size + inside)`",
        ),
        check=Check(
            reference=holder,
            cases=[(13, 16, 4), (3, 16, 2), (23, 24, 3)],
            random_cases=some_position,
            misconceptions=[
                Misconception(
                    "contiguous",
                    "That is one chunk per rank. Zigzag cuts twice as many.",
                    wrong=lambda position, length, ring: divmod(position, length // ring),
                ),
                Misconception(
                    "not mirrored",
                    "The late chunks go round backwards: rank 0 holds the last one. Dealt out in order again, the "
                    "last rank would have the most work in both halves.",
                    wrong=held(lambda chunk, inside, ring, size: (chunk % ring, inside + size * (chunk >= ring))),
                ),
                Misconception(
                    "striped",
                    "Token t on rank t mod R is another layout (striped attention). Zigzag deals chunks.",
                    wrong=lambda position, length, ring: (position % ring, position // ring),
                ),
                Misconception(
                    "place in the chunk",
                    "A shard holds two chunks. Tokens of the late one stand behind all of the early one.",
                    wrong=held(lambda chunk, inside, ring, size: (mirrored(chunk, ring), inside)),
                ),
                Misconception(
                    "the late chunk first",
                    "A shard is in ascending order: the early chunk comes first.",
                    wrong=held(
                        lambda chunk, inside, ring, size: (mirrored(chunk, ring), inside + size * (chunk < ring))
                    ),
                ),
                Misconception(
                    "the late chunk backwards",
                    "The order of the chunks is mirrored, not the tokens in them.",
                    wrong=held(
                        lambda chunk, inside, ring, size: (
                            (chunk, inside) if chunk < ring else (2 * ring - 1 - chunk, 2 * size - 1 - inside)
                        )
                    ),
                ),
            ],
        ),
        takeaway="An early chunk has few keys before it, its late partner many: together, every pair has the same.",
    ),
    Exercise(
        id="10.3",
        title="The bytes of a ring",
        minutes=8,
        difficulty="medium",
        prompt=(
            "How many bytes does one rank send? A text of `tokens` (they divide among the ranks), attention with "
            "`heads` query heads and `kv_heads` key/value heads of `head_dim`; keys and values take `element` bytes a "
            "number, gradients of keys and values travel in accumulators of `wide` bytes a number. Return `(forward, "
            "backward)`. A ring of one sends nothing."
        ),
        hints=(
            "What travels forward? Who needs it, and how many hops does it take until everybody has seen it? Does the "
            "last hop, home, have a use?",
            "Keys and values of one rank's tokens, `ring - 1` hops. Backward they go round again, and behind them "
            "their gradients, which must come home: `ring` hops.",
            "`pair = 2 * tokens // ring * kv_heads * head_dim`; forward `(ring - 1) * pair * element`; backward that, "
            "and `ring * pair * wide`",
        ),
        check=Check(
            reference=bytes_sent,
            cases=[(4, 4096, 32, 8, 128, 2, 4), (1, 1024, 8, 2, 64, 4, 4), (2, 64, 4, 2, 16, 8, 8)],
            random_cases=some_sizes,
            misconceptions=[
                Misconception(
                    "keys come home",
                    "After `ring - 1` hops every rank has seen every key. The last hop would bring them home, where "
                    "they already are.",
                    wrong=lambda r, t, h, n, d, b, w: (
                        (0, 0)
                        if r == 1
                        else (2 * t // r * n * d * r * b, 2 * t // r * n * d * r * b + 2 * t * n * d * w)
                    ),
                ),
                Misconception(
                    "gradients one hop short",
                    "The gradient of a key is complete when the last rank has added to it, and has to go one hop "
                    "further to be home: `ring` hops.",
                    wrong=lambda r, t, h, n, d, b, w: (
                        (r - 1) * 2 * t // r * n * d * b,
                        (r - 1) * (2 * t // r * n * d) * (b + w),
                    ),
                ),
                Misconception(
                    "keys without values",
                    "Keys and values travel: two tensors.",
                    wrong=lambda r, t, h, n, d, b, w: tuple(x // 2 for x in bytes_sent(r, t, h, n, d, b, w)),
                ),
                Misconception(
                    "query heads travel",
                    "Queries stay. What travels has `kv_heads`: with grouped heads a fraction of the queries'.",
                    wrong=lambda r, t, h, n, d, b, w: bytes_sent(r, t, h, h, d, b, w),
                ),
                Misconception(
                    "the whole text at each hop",
                    "A rank sends on one shard per hop, `tokens / ring`.",
                    wrong=lambda r, t, h, n, d, b, w: bytes_sent(r, r * t, h, n, d, b, w),
                ),
                Misconception(
                    "keys stay home in backward",
                    "Backward recomputes the scores, so it needs every key once more. (To keep them all would give "
                    "back the memory that the ring saves.)",
                    wrong=lambda r, t, h, n, d, b, w: (
                        bytes_sent(r, t, h, n, d, b, w)[0],
                        0 if r == 1 else r * (2 * t // r * n * d) * w,
                    ),
                ),
                Misconception(
                    "narrow gradients",
                    "A sum over many ranks is kept in an accumulator, `wide` bytes a number.",
                    wrong=lambda r, t, h, n, d, b, w: bytes_sent(r, t, h, n, d, b, b),
                ),
                Misconception(
                    "a ring of one sends to itself",
                    "With one rank there is nobody to send to, gradients included.",
                    wrong=lambda r, t, h, n, d, b, w: (
                        bytes_sent(r, t, h, n, d, b, w)[0],
                        (r - 1) * (2 * t // r * n * d) * b + r * (2 * t // r * n * d) * w,
                    ),
                ),
            ],
        ),
        takeaway="Forward it is (R-1)/R of all keys and values: half on two ranks, nearly all on many. It never falls.",
    ),
    Exercise(
        id="10.4",
        title="The fault by its symptom",
        minutes=12,
        difficulty="hard",
        prompt=(
            "A ring (contiguous, causal, two ranks or more) has at most one fault. `wrong` says what differs from "
            'dense attention: `wrong["dq"][r]` is True when rank `r`\'s part of dq is wrong, and so for `"out"`, '
            '`"dk"` and `"dv"`. Return the fault\'s name: `"healthy"`; `"merge"` (forward merges hops without their '
            'log-sum-exps); `"hop short"` (the last hop of dk and dv is not taken home); `"sum dropped"` (dk forgets '
            'what earlier ranks have added); `"first keys"` (backward uses the rank\'s own keys at every hop); '
            '`"own lse"` (backward normalises each block by its own log-sum-exp, not the merged one).'
        ),
        hints=(
            "Sort by stage: is the output right? Is dq right? dq is summed where the queries are, dk and dv travel.",
            "Two faults spoil dq and leave rank 0's alone (why?). They differ in the keys that are used at hop 0 "
            "only: those of the last rank.",
            "Go by stage and stop at the first one that is wrong: output, dq, what travels. Where dq is wrong, ask "
            "the last rank about its dk. Where only what travels is wrong: both tensors, or one of the two?",
        ),
        check=Check(
            reference=diagnose,
            cases=[
                (symptoms_of("own lse", 4),),
                (symptoms_of("first keys", 4),),
                (symptoms_of("hop short", 4),),
                (symptoms_of("sum dropped", 3),),
                (symptoms_of("merge", 2),),
                (symptoms_of("healthy", 2),),
            ],
            random_cases=some_symptoms,
            misconceptions=[
                Misconception(
                    "first keys and own lse confused",
                    "Keys of the last rank are seen by its own queries only, at hop 0. There a ring with stale keys is "
                    "still right; one that normalises by a block's own log-sum-exp is wrong at every hop.",
                    wrong=lambda wrong: {"first keys": "own lse", "own lse": "first keys"}.get(
                        diagnose(wrong), diagnose(wrong)
                    ),
                ),
                Misconception(
                    "every wrong dk is a hop short",
                    "Look at dq first. It never travels: when it is wrong, the fault is in what the blocks compute.",
                    wrong=lambda wrong: (
                        "merge"
                        if any(wrong["out"])
                        else "hop short"
                        if all(wrong["dk"]) and any(wrong["dv"])
                        else diagnose(wrong)
                    ),
                ),
                Misconception(
                    "dk without dv",
                    "A dk and a dv travel together. If only one of the two is wrong, the way was right and a sum was "
                    "not.",
                    wrong=lambda wrong: "hop short" if diagnose(wrong) == "sum dropped" else diagnose(wrong),
                ),
                Misconception(
                    "a right output is health",
                    "Four of these faults leave the output, and so the loss, exactly right. Look at the gradients.",
                    wrong=lambda wrong: "merge" if any(wrong["out"]) else "healthy",
                ),
                Misconception(
                    "gradients before the output",
                    "When the output is wrong already, no gradient can be right: the fault is in the forward.",
                    wrong=lambda wrong: "own lse" if diagnose(wrong) == "merge" else diagnose(wrong),
                ),
                Misconception(
                    "rank 0 speaks for all",
                    "Rank 0 computes at hop 0 only and misses what goes wrong in a second block. Look at all ranks.",
                    wrong=lambda wrong: diagnose({name: [row[0]] for name, row in wrong.items()}),
                ),
            ],
        ),
        takeaway="Test gradients, each of them, on every rank: forward and loss say nothing here.",
    ),
    Exercise(
        id="10.5",
        title="A shift over the seam",
        minutes=10,
        difficulty="medium",
        prompt=(
            "A draft learns to guess the next token. `shards[r]` are the tokens that rank `r` holds under zigzag: "
            "its early chunk, then its late one. Return, for every rank, the list of the tokens that follow each of "
            "them in the text; `None` behind the last token of the text."
        ),
        hints=(
            "Inside a chunk the next token is the neighbour. Where does a chunk end, and who holds what follows?",
            "Behind chunk `r` comes chunk `r + 1`: the next rank's early one, except for the last rank, which holds it "
            "itself. Behind chunk `2R - 1 - r` comes chunk `2R - r`: the late one of the rank before.",
            "Simplest: put the text together (early chunks in order, late ones in reverse), shift it, cut it again.",
        ),
        check=Check(
            reference=next_tokens,
            cases=[(zigzag(list(range(8)), 2),), (zigzag(list(range(10, 22)), 3),)],
            random_cases=some_shards,
            misconceptions=[
                Misconception(
                    "shifted inside the shard",
                    "At the seam inside a shard stands a stranger's token: the late chunk does not follow the early "
                    "one (but on the last rank). And the shard's end needs a token that another rank holds.",
                    wrong=inside_the_shard,
                ),
                Misconception(
                    "rolled inside the shard",
                    "A shard is no ring of tokens: its first token follows none of its own.",
                    wrong=rolled_in_the_shard,
                ),
                Misconception(
                    "the next rank's first token",
                    "That is right for contiguous shards. A zigzag shard has two chunks and so two seams.",
                    wrong=from_the_next_rank,
                ),
                Misconception(
                    "only the seam inside",
                    "The end of the shard has a successor, too: the first token of the next late chunk.",
                    wrong=inner_seam_only,
                ),
                Misconception(
                    "only the seam outside",
                    "At the end of the early chunk the next token is not the late chunk's first.",
                    wrong=outer_seam_only,
                ),
                Misconception(
                    "the text as a ring",
                    "Keys go round, the text does not: behind its last token comes nothing.",
                    wrong=around_the_end,
                ),
            ],
        ),
        takeaway="Take the token by its position, not by its place. One wrong token per seam hardly moves a loss.",
    ),
    Exercise(
        id="10.6",
        title="What lands where",
        minutes=5,
        difficulty="easy",
        prompt=(
            "Around a ring every rank posts to the next one the messages `sent[r]` (names, in the order of posting), "
            "and for those of the rank before it the buffers `expected[r]` (names, in order). All are of one shape and "
            "are matched as above: in order, unread. Return, by rank, the dictionary from buffer to the message that "
            "lands in it."
        ),
        hints=(
            "A line between two ranks is a queue. Who fills the queue from which rank `r` takes?",
            "The first buffer that rank `r` posts takes the first message that rank `r - 1` has posted, whatever their "
            "names.",
            "Pair `expected[r]` with `sent[r - 1]`, place by place; `r - 1` of rank 0 is the last rank.",
        ),
        check=Check(
            reference=landed,
            cases=[
                ([["keys", "dk"], ["dk", "keys"], ["keys", "dk"]], [["keys", "dk"]] * 3),
                ([["keys", "values"]] * 2, [["keys", "values"], ["values", "keys"]]),
            ],
            random_cases=some_orders,
            misconceptions=[
                Misconception(
                    "matched by name",
                    "The names are yours. The line hands over its oldest message, and what is of one shape fits any "
                    "buffer.",
                    wrong=landed_by_name,
                ),
                Misconception(
                    "from the next rank",
                    "Messages go to the next rank, so they come from the one before.",
                    wrong=landed_from_the_next,
                ),
                Misconception(
                    "the own order",
                    "What a rank posts itself goes away from it. Its buffers take what the rank before has posted, in "
                    "that one's order.",
                    wrong=landed_in_the_own_order,
                ),
                Misconception(
                    "last posted first",
                    "A line is a queue and no stack: what was posted first is taken first.",
                    wrong=landed_last_first,
                ),
                Misconception(
                    "from message to buffer",
                    "The other way round: each buffer says which message is in it.",
                    wrong=landed_inside_out,
                ),
            ],
        ),
        takeaway="One rank that posts dk before K gives the next one a gradient for a key, and no error.",
    ),
)
