"""Exercises of notebook 08: why does training run out of memory?"""

from __future__ import annotations

from random import Random

from ..check import Check, Misconception
from ..exercise import Exercise

Named = list[tuple[str, float]]


def score_bytes(heads: int, length: int, step: int, width: int) -> int:
    """Bytes of the score matrix of TTT step `step`: each head scores L queries against (step + 1) L keys."""
    return heads * length * (step + 1) * length * width


def step_bytes(length: int, steps: int, taps: int, teacher: int, layer: int, logits: int) -> int:
    """The additive formula: taps and teacher once, layer and logits in every step."""
    return length * (taps + teacher + steps * (layer + logits))


def crossover(parameters: int, per_token: int) -> int:
    """The shortest row whose activations outweigh the 16 bytes that AdamW training keeps of each parameter."""
    return 16 * parameters // per_token + 1


def first_that_fits(tried: Named, memory: float, reserve: float) -> str:
    """Name of the first remedy that leaves the reserve free; "none" where there is none."""
    return next((name for name, amount in tried if amount <= (1 - reserve) * memory), "none")


def longest_row(memory: int, fixed: int, per_token: int, ranks: int) -> int:
    """Tokens of the longest row that `ranks` GPUs hold: what is fixed lies on each of them."""
    return max(0, (memory - fixed) // per_token) * ranks


def some_scores(rng: Random) -> tuple[int, int, int, int]:
    return rng.choice((4, 8, 32)), rng.randint(10, 4000), rng.randint(0, 6), rng.choice((2, 4))


def some_parts(rng: Random) -> tuple[int, ...]:
    return rng.randint(100, 9000), rng.randint(1, 7), *(rng.randint(100, 90_000) for _ in range(4))


def some_draft(rng: Random) -> tuple[int, int]:
    # Rows come out even in half of the cases, where "larger" and "as large" differ.
    per_token = rng.choice((512, 4096, 1 << 16))
    return per_token * rng.randint(1, 900) // rng.choice((16, 3)), per_token


def some_remedies(rng: Random) -> tuple[Named, float, float]:
    names = ["as it is", "chunked logits", "checkpointing", "2 ranks"]
    memory, reserve = float(rng.choice((60, 80, 100))), rng.choice((0.05, 0.1, 0.2))
    # Half of the sizes lie about the line, where (1 - reserve) * memory and memory / (1 + reserve) differ.
    sizes = [
        round((1 - reserve) * memory * rng.uniform(0.99, 1.05), 2) if rng.random() < 0.5 else rng.uniform(40, 120)
        for _ in names
    ]
    return list(zip(names, sizes, strict=True)), memory, reserve


def some_gpu(rng: Random) -> tuple[int, int, int, int]:
    return (
        rng.randint(40, 150) * 10**9,
        rng.randint(5, 45) * 10**9,
        rng.randint(300_000, 3_000_000),
        rng.choice((1, 2, 4, 8)),
    )


EXERCISES = (
    Exercise(
        id="08.1",
        title="A sum or a product?",
        minutes=6,
        difficulty="medium",
        prompt=(
            "A row of `length` tokens is unrolled `steps` times. Per token the step keeps `taps` bytes of target "
            "states, "
            "`teacher` bytes of the target's distribution (the teacher of every step is read off the same one), and "
            "*in "
            "each unrolled step* `layer` bytes of the draft's layer and `logits` bytes of its log-softmax. Return the "
            "bytes kept when the forward ends."
        ),
        hints=(
            "Which of the four does an unrolled step make anew, and which lie there already?",
            "Only layer and logits come with each step. States and teacher come once, however often the draft is "
            "unrolled.",
            "One token takes `taps + teacher` once, and `layer + logits` as often as there are steps.",
        ),
        check=Check(
            reference=step_bytes,
            cases=[(1000, 7, 24, 128, 100, 128), (1000, 1, 24, 128, 100, 128)],
            random_cases=some_parts,
            misconceptions=[
                Misconception(
                    "everything times k",
                    "The product L x k x (all of it) pays states and teacher again in each step. They are shared.",
                    wrong=lambda length, steps, taps, teacher, layer, logits: (
                        length * steps * (taps + teacher + layer + logits)
                    ),
                ),
                Misconception(
                    "a product of taps and layer",
                    "The taps are read once, before step 0. What they cost is added to what the layers cost.",
                    wrong=lambda length, steps, taps, teacher, layer, logits: (
                        length * (teacher + steps * (layer * taps + logits))
                    ),
                ),
                Misconception(
                    "logits of one step",
                    "Each step's log-softmax is kept until its own backward: k of them.",
                    wrong=lambda length, steps, taps, teacher, layer, logits: (
                        length * (taps + teacher + steps * layer + logits)
                    ),
                ),
                Misconception(
                    "a teacher for each step",
                    "Step k at position t is taught by the distribution at t + 1 + k. It is the same table, read "
                    "elsewhere.",
                    wrong=lambda length, steps, taps, teacher, layer, logits: (
                        length * (taps + steps * (teacher + layer + logits))
                    ),
                ),
                Misconception(
                    "taps for each step",
                    "Only step 0 reads the target's states. Later steps feed on the draft's own.",
                    wrong=lambda length, steps, taps, teacher, layer, logits: (
                        length * (teacher + steps * (taps + layer + logits))
                    ),
                ),
                Misconception(
                    "steps that leave nothing behind",
                    "Backward goes through all steps, so all of them are kept.",
                    wrong=lambda length, steps, taps, teacher, layer, logits: (
                        length * (taps + teacher + layer + logits)
                    ),
                ),
            ],
        ),
        takeaway="Once: taps, teacher. Times k: layer, logits. A sum, linear in each.",
    ),
    Exercise(
        id="08.2",
        title="Activations or parameters?",
        minutes=5,
        difficulty="medium",
        prompt=(
            "Training with AdamW in float32 keeps, of each of the draft's `parameters`, the weight, its gradient and "
            "two "
            "moments. A step's activations take `per_token` bytes per token of the row. From which row length on (a "
            "whole "
            "number of tokens) do the activations take *more* than the parameters with all that belongs to them?"
        ),
        hints=(
            "Four float32 values per parameter. How many bytes are that?",
            "16. The two are equal at `16 * parameters / per_token` tokens; you want the first whole number above.",
            "`//` rounds down. At the whole number that it gives, activations are not above yet.",
        ),
        check=Check(
            reference=crossover,
            cases=[(1_000_000, 64_000), (1_000, 7), (1_000, 16)],
            random_cases=some_draft,
            misconceptions=[
                Misconception(
                    "weights alone",
                    "Beside each weight lie its gradient and two moments: 16 bytes, not 4.",
                    wrong=lambda parameters, per_token: 4 * parameters // per_token + 1,
                ),
                Misconception(
                    "no gradients",
                    "AdamW's moments and the weight are 12 bytes; the gradient takes 4 more.",
                    wrong=lambda parameters, per_token: 12 * parameters // per_token + 1,
                ),
                Misconception(
                    "half precision",
                    "In training the weights, gradients and moments are float32, even where products are bfloat16.",
                    wrong=lambda parameters, per_token: 8 * parameters // per_token + 1,
                ),
                Misconception(
                    "as many is not more",
                    "Where the division comes out even, that row takes as much as the parameters. The next one takes "
                    "more.",
                    wrong=lambda parameters, per_token: -(-16 * parameters // per_token),
                ),
                Misconception(
                    "rounded down",
                    "At that length the activations do not yet take more.",
                    wrong=lambda parameters, per_token: 16 * parameters // per_token,
                ),
            ],
        ),
        takeaway="Parameters are a fixed sum; every token of the row adds.",
    ),
    Exercise(
        id="08.3",
        title="One score matrix",
        minutes=5,
        difficulty="easy",
        prompt=(
            "Attention without a flash kernel writes its scores down and keeps them for the backward. In TTT step "
            "`step` "
            "(0, 1, ...) the keys of all steps so far lie side by side, those of this step included. Return the "
            "bytes of "
            "the score matrix of this one step, for `heads` heads, a row of `length` tokens and `width` bytes per "
            "score."
        ),
        hints=(
            "How many queries does a head have, and how many keys do they meet?",
            "`length` queries, and one block of `length` keys per step up to and with this one: `(step + 1) * length`.",
            "`length * (step + 1) * length` scores for each head. What does one score take, and how many "
            "heads are there?",
        ),
        check=Check(
            reference=score_bytes,
            cases=[(32, 1000, 0, 2), (8, 512, 3, 4)],
            random_cases=some_scores,
            misconceptions=[
                Misconception(
                    "the history only",
                    "Later steps look at the keys of the branch, too, and a dense matrix has a column for each of "
                    "them.",
                    wrong=lambda heads, length, step, width: heads * length * length * width,
                ),
                Misconception(
                    "steps counted from 1",
                    "Step 0 has one block of keys already: `step + 1` blocks.",
                    wrong=lambda heads, length, step, width: heads * length * step * length * width,
                ),
                Misconception(
                    "one matrix for all heads",
                    "Each head scores for itself.",
                    wrong=lambda heads, length, step, width: length * (step + 1) * length * width,
                ),
                Misconception(
                    "queries grow as well",
                    "A step has `length` queries, whatever came before. Only the keys pile up.",
                    wrong=lambda heads, length, step, width: heads * ((step + 1) * length) ** 2 * width,
                ),
                Misconception(
                    "linear in the length",
                    "Every query meets every key: the length stands in it twice.",
                    wrong=lambda heads, length, step, width: heads * length * (step + 1) * width,
                ),
                Misconception(
                    "scores, not bytes",
                    "That is their number. Each takes `width` bytes.",
                    wrong=lambda heads, length, step, width: heads * length * (step + 1) * length,
                ),
            ],
        ),
        takeaway="A score matrix is quadratic in the length, and step j's is j + 1 times that of step 0.",
    ),
    Exercise(
        id="08.4",
        title="The cheapest remedy",
        minutes=4,
        difficulty="easy",
        prompt=(
            "`tried` is a list of `(name, bytes)`: a training step as it is, then with one remedy after the other, the "
            "cheapest first. A GPU has `memory` bytes, of which the share `reserve` must stay free for what nobody "
            "counts "
            "(context, fragments, buffers of collectives). Return the name to choose, or `'none'`."
        ),
        hints=(
            "The order is the price list. What do you look for in it?",
            "The first entry that fits beside the reserve: `bytes <= (1 - reserve) * memory`.",
            "`next((... for name, size in tried if ...), 'none')` takes the first that meets a condition, and "
            "'none' where there is none.",
        ),
        check=Check(
            reference=first_that_fits,
            cases=[
                ([("as it is", 90.0), ("chunked logits", 75.0), ("checkpointing", 30.0), ("2 ranks", 20.0)], 80.0, 0.1),
                ([("as it is", 90.0), ("chunked logits", 70.0), ("checkpointing", 30.0)], 80.0, 0.1),
                ([("as it is", 20.0), ("chunked logits", 15.0)], 80.0, 0.1),
                ([("as it is", 200.0), ("chunked logits", 150.0)], 80.0, 0.1),
                ([("as it is", 82.0), ("chunked logits", 65.0), ("checkpointing", 30.0)], 80.0, 0.2),
            ],
            random_cases=some_remedies,
            misconceptions=[
                Misconception(
                    "the smallest of all",
                    "It costs the most. Take the first that fits, not the one that saves the most.",
                    wrong=lambda tried, memory, reserve: (
                        min(tried, key=lambda one: one[1])[0]
                        if min(one[1] for one in tried) <= (1 - reserve) * memory
                        else "none"
                    ),
                ),
                Misconception(
                    "no reserve",
                    "A GPU filled to the last byte runs out: fragments and buffers come on top.",
                    wrong=lambda tried, memory, reserve: next((name for name, b in tried if b <= memory), "none"),
                ),
                Misconception(
                    "the reserve is a share of the step",
                    "The reserve is a share of the GPU's memory, whatever the step takes: `(1 - reserve) * memory`, "
                    "not `memory / (1 + reserve)`.",
                    wrong=lambda tried, memory, reserve: next(
                        (name for name, b in tried if b <= memory / (1 + reserve)), "none"
                    ),
                ),
                Misconception(
                    "the last that fits",
                    "Later entries cost more. The first one that fits is enough.",
                    wrong=lambda tried, memory, reserve: next(
                        (name for name, b in reversed(tried) if b <= (1 - reserve) * memory), "none"
                    ),
                ),
                Misconception(
                    "more GPUs at once",
                    "Sequence parallelism is one remedy among several, and the most expensive one.",
                    wrong=lambda tried, memory, reserve: tried[-1][0],
                ),
                Misconception(
                    "a remedy where none is needed",
                    "The first entry is the step as it is: if that fits, nothing needs to be done.",
                    wrong=lambda tried, memory, reserve: next(
                        (name for name, b in tried[1:] if b <= (1 - reserve) * memory), "none"
                    ),
                ),
            ],
        ),
        takeaway="Go down the price list and stop at the first that fits.",
    ),
    Exercise(
        id="08.5",
        title="How long a row?",
        minutes=5,
        difficulty="medium",
        prompt=(
            "Weights, gradients, moments and the target take `fixed` bytes on each GPU of `memory` bytes. A token of "
            "the "
            "row takes `per_token` bytes. `ranks` GPUs share a row by sequence parallelism. How many tokens has the "
            "longest row that fits, when each rank holds the same whole number of tokens? (0 if nothing fits.)"
        ),
        hints=(
            "What is divided among the ranks, and what lies on each of them in full?",
            "The row is divided, the weights are not. One rank holds `(memory - fixed) // per_token` tokens.",
            "Two things are left: the ranks, and a GPU whose `fixed` is already more than its `memory`.",
        ),
        check=Check(
            reference=longest_row,
            cases=[(80, 20, 7, 4), (80, 20, 7, 1), (80, 90, 7, 2)],
            random_cases=some_gpu,
            misconceptions=[
                Misconception(
                    "weights divided as well",
                    "Sequence parallelism divides the row. Every rank has all weights (sharding them is another "
                    "technique).",
                    wrong=lambda memory, fixed, per_token, ranks: max(0, (memory * ranks - fixed) // per_token),
                ),
                Misconception(
                    "an empty GPU",
                    "What is fixed lies there before the first token.",
                    wrong=lambda memory, fixed, per_token, ranks: memory // per_token * ranks,
                ),
                Misconception(
                    "one rank's share",
                    "That is what one rank holds. The row is as long as all shards together.",
                    wrong=lambda memory, fixed, per_token, ranks: max(0, (memory - fixed) // per_token),
                ),
                Misconception(
                    "rounded up",
                    "The last token would not fit any more.",
                    wrong=lambda memory, fixed, per_token, ranks: max(0, -(-(memory - fixed) // per_token)) * ranks,
                ),
                Misconception(
                    "shards of broken tokens",
                    "A rank holds whole tokens: round down first, then multiply.",
                    wrong=lambda memory, fixed, per_token, ranks: max(0, (memory - fixed) * ranks // per_token),
                ),
            ],
        ),
        takeaway="Ranks multiply the row, not the room for weights.",
    ),
)
