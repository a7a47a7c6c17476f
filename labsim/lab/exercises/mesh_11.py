"""Exercises of notebook 11 about a mesh: degrees, copies of key heads, groups, bytes, time."""

from __future__ import annotations

from ..check import Check, Misconception
from ..exercise import Exercise
from .mesh_by_hand import (
    NOTHING,
    all_heads_alike,
    all_to_everybody,
    by_size_alone,
    copies_are_free,
    diagnose,
    direction_is_all,
    exchanged,
    gradients_first,
    groups_exchanged,
    heads_divide,
    keys_come_home,
    legal_if,
    meshes,
    next_and_own,
    output_is_all,
    output_stays,
    own_part_too,
    peers,
    ring_as_if_alone,
    ring_inside,
    sent_forward,
    some_gradient,
    some_link,
    some_rank,
    some_sizes,
    some_world,
    symptoms_of,
    tokens_to_hide,
    without_copies,
    without_itself,
    wrong_stride,
)

MESH_EXERCISES = (
    Exercise(
        id="11.5",
        title="Which meshes are legal",
        minutes=8,
        difficulty="medium",
        prompt=(
            "A model has `heads` query heads and `kv_heads` key/value heads, and there are `world` ranks. Query heads "
            "must divide among the Ulysses ranks; key heads are repeated until they do: as rarely as possible, each "
            "one equally often. Return all legal `(ring, ulysses, copies)` with `ring * ulysses == world`, the "
            "smallest `ulysses` first; `copies` says how often each key head then exists."
        ),
        hints=(
            "Two conditions on the Ulysses degree: it divides the world, and it divides something else.",
            "8 key heads on 12 ranks: 24 is the first number that both divide, so 3 copies. In general "
            "`lcm(kv_heads, ulysses) / kv_heads`.",
            "A list over `u in range(1, world + 1)` with two conditions on u. `lcm(kv_heads, u) / kv_heads` "
            "is also `u // gcd(kv_heads, u)`.",
        ),
        check=Check(
            reference=meshes,
            cases=[(16, 32, 8), (8, 9, 3), (8, 16, 1), (12, 24, 8)],
            random_cases=some_world,
            misconceptions=[
                Misconception(
                    "key heads must divide",
                    "They need not: too few of them are repeated, at the price of sending them more than once.",
                    wrong=legal_if(lambda u, h, k: h % u == 0 and k % u == 0),
                ),
                Misconception(
                    "any degree goes",
                    "A query head lives on one rank. Heads that do not divide would leave ranks with nothing to do, "
                    "or with a part of a head.",
                    wrong=legal_if(lambda u, h, k: True),
                ),
                Misconception(
                    "not more ranks than heads",
                    "Fewer ranks than heads is not enough: the heads must divide evenly.",
                    wrong=legal_if(lambda u, h, k: u <= h),
                ),
                Misconception(
                    "copies are U over K",
                    "Right where one divides the other. With 8 key heads and 12 ranks, 12 // 8 is 1, and 8 heads do "
                    "not divide among 12 ranks.",
                    wrong=legal_if(heads_divide, lambda u, h, k: max(1, u // k)),
                ),
                Misconception(
                    "a copy for every query head",
                    "Repeating key heads up to the number of query heads gives up all that grouping saves.",
                    wrong=legal_if(heads_divide, lambda u, h, k: 1 if k % u == 0 else h // k),
                ),
                Misconception(
                    "a copy for every rank",
                    "A rank needs the key heads that its own query heads read, not all of them.",
                    wrong=legal_if(heads_divide, lambda u, h, k: u),
                ),
            ],
        ),
        takeaway="Query heads bound the Ulysses degree, key heads set its price. The ring knows no such bound.",
    ),
    Exercise(
        id="11.6",
        title="The gradient of a copied head",
        minutes=10,
        difficulty="hard",
        prompt=(
            "A key head with `copies` copies has one gradient. Compared with the right dk, yours is `slope` times it "
            "plus a remainder of relative size `rest`; `out_wrong` says whether the output differs. Return "
            f'`"{NOTHING}"` where one copy cannot tell; else `"healthy"`; `"strided heads"` (query heads read the '
            'wrong copies); `"one copy"` (only one copy\'s gradient is kept); `"averaged"` (copies are averaged, as '
            'data-parallel replicas are); or `"counted twice"` (their sum is put on every copy, and then summed). '
            "What is below 1e-6 is rounding."
        ),
        hints=(
            "Each copy serves other query heads, so each copy's gradient is a different part. What is right: one of "
            "them, their mean, their sum?",
            "The sum. A mean is the sum divided by `copies`: the same direction. One part alone points elsewhere: a "
            "remainder. A sum of sums is `copies` times the sum.",
            "Ask in this order: can it be seen at all, is the output right, is there a remainder, and which way is "
            "the slope off? Each question but the last leaves one name.",
        ),
        check=Check(
            reference=diagnose,
            cases=[
                symptoms_of("averaged", 2),
                symptoms_of("one copy", 2, 0.5, 0.7),
                symptoms_of("counted twice", 4),
                symptoms_of("strided heads", 2, 0.3, 0.8),
                symptoms_of("healthy", 4),
                symptoms_of("averaged", 1),
            ],
            random_cases=some_gradient,
            misconceptions=[
                Misconception(
                    "half is one of two",
                    "A slope of 1/2 without a remainder is exactly proportional to the right gradient. One copy's "
                    "part alone would not be: other query heads read it.",
                    wrong=by_size_alone,
                ),
                Misconception(
                    "direction is enough",
                    "A cosine of 1 does not see a wrong factor. dq and dv next to it have another factor, so the "
                    "direction of the whole update is wrong.",
                    wrong=direction_is_all,
                ),
                Misconception(
                    "a right output is health",
                    "Three of these faults live in backward only.",
                    wrong=output_is_all,
                ),
                Misconception(
                    "a test without copies",
                    "With one copy per key head there is nothing to sum, and every one of these programs is right. "
                    "Such a test has shown nothing.",
                    wrong=without_copies,
                ),
                Misconception(
                    "gradients before the output",
                    "With a wrong output no gradient can be right: look for the fault in the forward first.",
                    wrong=gradients_first,
                ),
                Misconception(
                    "mean and double sum confused",
                    "A mean is too small, a sum of sums too large.",
                    wrong=exchanged,
                ),
            ],
        ),
        takeaway="A copy is no replica: each has its own queries. Their gradients add, once.",
    ),
    Exercise(
        id="11.7",
        title="Who talks to whom",
        minutes=5,
        difficulty="easy",
        prompt=(
            "Ranks of a `ring` x `ulysses` mesh are numbered `r * ulysses + u`: the Ulysses dimension is the inner "
            "one. Return `(ring_group, ulysses_group)` of a `rank`: two ascending lists of ranks, each with the rank "
            "itself."
        ),
        hints=(
            "Which r and u does this rank have? `divmod` gives both.",
            "Its ring group shares its u, its Ulysses group shares its r.",
            "`r, u = divmod(rank, ulysses)`, and back: rank = `r * ulysses + u`. In each group one of the two "
            "runs and the other stays.",
        ),
        check=Check(
            reference=peers,
            cases=[(0, 2, 2), (5, 2, 4), (4, 3, 2)],
            random_cases=some_rank,
            misconceptions=[
                Misconception(
                    "ring inside",
                    "That is the other order: neighbours in a ring. Here neighbours share a Ulysses group.",
                    wrong=ring_inside,
                ),
                Misconception("itself left out", "A rank belongs to both of its groups.", wrong=without_itself),
                Misconception("groups exchanged", "First the ring, then the Ulysses group.", wrong=groups_exchanged),
                Misconception(
                    "the ring's own stride",
                    "From one ring rank to the next it is `ulysses` ranks, not `ring`.",
                    wrong=wrong_stride,
                ),
                Misconception(
                    "only its neighbours",
                    "A rank sends to the next one only, but its group is the whole ring: all keys come by.",
                    wrong=next_and_own,
                ),
            ],
        ),
        takeaway="Every rank is in exactly two groups, and they meet in that rank alone.",
    ),
    Exercise(
        id="11.8",
        title="The bytes of a mesh",
        minutes=10,
        difficulty="medium",
        prompt=(
            "How many bytes does one rank send in one forward of attention? Return `(ring_bytes, swap_bytes)`. "
            "`tokens` divide among `ring * ulysses` ranks; `heads` query heads, `kv_heads` key/value heads (repeated "
            "until they divide, as in 11.5), `head_dim` numbers each, `element` bytes a number. The all-to-alls carry "
            "q, k, v in and the output back; a rank's own part stays. The ring then carries keys and values on, "
            "`ring - 1` hops."
        ),
        hints=(
            "Outside, a rank has `tokens / (ring * ulysses)` tokens with all heads; inside as many numbers, in "
            "another shape. So a tensor has the same size in both places.",
            "An all-to-all keeps 1 part of `ulysses`. Four tensors: two with `heads`, two with the repeated key heads "
            "`lcm(kv_heads, ulysses)`. The ring's keys are the repeated ones, too.",
            "With `mine = tokens // (ring * ulysses)` and `sent = lcm(kv_heads, ulysses)`: a hop carries keys "
            "and values, `2 * sent * mine * head_dim * element` bytes. How many hops are there? The "
            "all-to-all: `(ulysses - 1) / ulysses` of four tensors.",
        ),
        check=Check(
            reference=sent_forward,
            cases=[(2, 4, 4096, 32, 8, 128, 2), (1, 8, 4096, 16, 2, 64, 2), (4, 1, 4096, 32, 8, 128, 2)],
            random_cases=some_sizes,
            misconceptions=[
                Misconception(
                    "own part is sent",
                    "Of `ulysses` parts one stays where it is: (U - 1) / U of the tensor leaves.",
                    wrong=own_part_too,
                ),
                Misconception("three swaps", "The output has to go back, too: a fourth tensor.", wrong=output_stays),
                Misconception(
                    "copies are free",
                    "Repeated key heads are sent once per copy, in the all-to-alls and around the ring.",
                    wrong=copies_are_free,
                ),
                Misconception(
                    "all heads alike",
                    "Keys and values have `kv_heads`, repeated only as far as the degree asks.",
                    wrong=all_heads_alike,
                ),
                Misconception(
                    "a ring of all heads",
                    "Inside, a rank has `ulysses` times the tokens but only a share of the heads: the same size.",
                    wrong=ring_as_if_alone,
                ),
                Misconception(
                    "everything to everybody",
                    "That is an all-gather. In an all-to-all each other rank gets 1 part of `ulysses`.",
                    wrong=all_to_everybody,
                ),
                Misconception(
                    "keys come home",
                    "Forward, `ring - 1` hops are enough: the last one would bring the keys home.",
                    wrong=keys_come_home,
                ),
            ],
        ),
        takeaway="The ring's bytes grow towards all keys and values; those of the swaps fall with the number of ranks.",
    ),
    Exercise(
        id="11.9",
        title="When the ring hides",
        minutes=10,
        difficulty="hard",
        prompt=(
            "While a rank computes one hop, the next keys travel. How many tokens T must a ring rank hold so that "
            "computing a hop takes as long as the transfer? Zigzag, causal: from the second hop on a rank computes "
            "half of all T x T pairs. A pair costs two products of `head_dim` numbers per query head (scores and "
            "values), a product 2 operations per number; `flops` operations a second. Keys and values: `kv_heads`, "
            "`element` bytes a number, `bandwidth` bytes a second. Latency is neglected. Return T, not rounded."
        ),
        hints=(
            "Write both times as formulas of T. One grows with T, the other with T squared.",
            "Transfer: `2 * T * kv_heads * head_dim * element / bandwidth`. Computing: `T * T / 2` pairs, `4 * "
            "head_dim * heads` operations each, over `flops`.",
            "Set them equal, cancel one T and `head_dim`, and solve for the other T.",
        ),
        check=Check(
            reference=tokens_to_hide,
            cases=[(32, 8, 2, 5e14, 450e9), (32, 8, 2, 5e14, 50e9), (32, 32, 2, 5e14, 450e9)],
            random_cases=some_link,
            misconceptions=[
                Misconception(
                    "all T x T pairs",
                    "Under zigzag every rank computes half a square at a hop. (Contiguous: a whole one, or nothing.)",
                    wrong=lambda h, k, b, f, w: tokens_to_hide(h, k, b, f, w) / 2,
                ),
                Misconception(
                    "half of the arithmetic",
                    "Two products per pair and head, scores and values, and 2 operations a number, multiply and add.",
                    wrong=lambda h, k, b, f, w: 2 * tokens_to_hide(h, k, b, f, w),
                ),
                Misconception(
                    "every query head has its own keys",
                    "Only `kv_heads` travel, while all `heads` compute: grouping makes the ring easier to hide.",
                    wrong=lambda h, k, b, f, w: tokens_to_hide(h, h, b, f, w),
                ),
                Misconception(
                    "grouping the wrong way round",
                    "Fewer key heads mean fewer bytes for the same work: T falls with `kv_heads / heads`.",
                    wrong=lambda h, k, b, f, w: tokens_to_hide(k, h, b, f, w),
                ),
                Misconception(
                    "numbers instead of bytes",
                    "The link counts bytes: `element` for each number.",
                    wrong=lambda h, k, b, f, w: tokens_to_hide(h, k, 1, f, w),
                ),
                Misconception(
                    "bits for bytes",
                    "`bandwidth` is in bytes a second already.",
                    wrong=lambda h, k, b, f, w: 8 * tokens_to_hide(h, k, b, f, w),
                ),
            ],
        ),
        takeaway="It is tokens per ring rank that count, not the length of the text: more ranks hide less.",
    ),
)
