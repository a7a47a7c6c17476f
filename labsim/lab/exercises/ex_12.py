"""Exercises of notebook 12: how does a draft train at 128K?"""

from __future__ import annotations

from random import Random

from ..check import Check, Misconception
from ..compare import in_any_order
from ..exercise import Exercise
from . import shared_by_hand as hand

EXERCISES = (
    Exercise(
        id="12.1",
        title="Where its keys lie",
        minutes=5,
        difficulty="easy",
        prompt=(
            "Zigzag: a row of `length` tokens on a `ring` of ranks, rank `r` holds chunk `r` and chunk `2 * ring - 1 - "
            "r` of `2 * ring`. The query of `position` in TTT step `step` (0 is the plain one) attends. Return `(home, "
            "others, branch)`: keys of the text that lie on its own rank, keys of the text that come by from other "
            "ranks, and keys of its own branch."
        ),
        hints=(
            "The text first: the query sees keys 0 to `position`. Which of these does its rank hold?",
            "The rank has two chunks: the one the query stands in, up to the query, and perhaps an earlier one, whole. "
            "The branch has one key for each step from 1 on, its own step's included.",
            "With `mine` the positions of the rank: `home = sum(key in mine for key in range(position + 1))`, `others "
            "= position + 1 - home`, `branch = step`.",
        ),
        check=Check(
            reference=lambda position, step, length, ring: hand.keys_seen(position, step, length, ring),
            cases=[(13, 2, 16, 4), (3, 0, 16, 2), (22, 3, 24, 3)],
            random_cases=hand.some_query,
            misconceptions=[
                Misconception(
                    "the branch comes by",
                    "A branch key stands at the query's own position: it lies where the query lies. Nobody sends it.",
                    wrong=hand.seen_otherwise(lambda home, others, branch, t, step: (home, others + branch, 0)),
                ),
                Misconception(
                    "everybody's branches",
                    "Of a step a query sees the key at its own position only: rows do not look into each other's "
                    "drafts (notebook 06).",
                    wrong=hand.seen_otherwise(lambda home, others, branch, t, step: (home, others, step * (t + 1))),
                ),
                Misconception(
                    "step 0 counted twice",
                    "The keys of step 0 are the text. The branch begins with step 1.",
                    wrong=hand.seen_otherwise(lambda home, others, branch, t, step: (home, others, step + 1)),
                ),
                Misconception(
                    "without its own step",
                    "A query sees the key that its own step has just made, as every query of the text sees its own.",
                    wrong=hand.seen_otherwise(lambda home, others, branch, t, step: (home, others, max(0, step - 1))),
                ),
                Misconception(
                    "not its own key",
                    "Causal attention includes the query's own position: `position + 1` keys of the text.",
                    wrong=hand.seen_otherwise(lambda home, others, branch, t, step: (home - 1, others, step)),
                ),
                Misconception(
                    "one chunk is home",
                    "A zigzag rank holds two chunks. For a query of the late one the whole early one is at home.",
                    wrong=hand.one_chunk_is_home,
                ),
                Misconception(
                    "contiguous",
                    "That is where they lie under the contiguous layout. Zigzag deals two chunks to a rank.",
                    wrong=lambda position, step, length, ring: hand.keys_seen(
                        position, step, length, ring, "contiguous"
                    ),
                ),
            ],
        ),
        takeaway="Most of the text comes by, all of the branch is at home. So the branch adds work and no traffic.",
    ),
    Exercise(
        id="12.2",
        title="What a rank must read",
        minutes=8,
        difficulty="medium",
        prompt=(
            "The row is cut where it is read: a rank loads the tokens and states of its own positions. Step `k` at "
            "position `t` reads token `t + 1 + k`, and the teacher's state there judges it. For `steps` steps (k = 0 "
            "to `steps - 1`), which positions *beyond its own* must rank `rank` of a `ring` read? `kind` is "
            '`"contiguous"` (chunk `rank` of `ring`) or `"zigzag"` (chunks `rank` and `2 * ring - 1 - rank` of '
            "`2 * ring`). Return each of them once, in any order. `length` divides; behind it there is nothing."
        ),
        hints=(
            "Take one run of neighbouring positions. How far behind its end does the last step of its last position "
            "reach?",
            "`steps` positions behind each run. Under zigzag a rank has two runs, or one long one where they touch; a "
            "short chunk's halo may reach into positions that the rank holds itself.",
            "`wanted = {t + ahead for t in mine for ahead in range(1, steps + 1)}`; then without `mine`, and below "
            "`length`.",
        ),
        check=Check(
            reference=hand.halo,
            cases=[
                ("zigzag", 16, 2, 0, 2),
                ("contiguous", 16, 2, 0, 2),
                ("zigzag", 16, 2, 1, 3),
                ("zigzag", 8, 2, 0, 3),
            ],
            random_cases=hand.some_part,
            random_count=60,
            compare=in_any_order,
            misconceptions=[
                Misconception(
                    "one short",
                    "Step `steps - 1` at the last position `t` reads token `t + steps`: that many positions behind it.",
                    wrong=hand.halo_of(lambda steps: steps - 1),
                ),
                Misconception(
                    "one more",
                    "The last step guesses token `t + 1 + steps`, but nobody reads it: the label is the teacher's "
                    "distribution at `t + steps`.",
                    wrong=hand.halo_of(lambda steps: steps + 1),
                ),
                Misconception(
                    "one token per seam",
                    "That is the halo of plain next-token training. Every further step reaches one further.",
                    wrong=hand.halo_of(lambda steps: 1),
                ),
                Misconception(
                    "only behind the shard",
                    "A zigzag shard has a seam in the middle too: its early chunk ends somewhere in the row.",
                    wrong=hand.halo_behind_the_shard,
                ),
                Misconception(
                    "the next rank's first tokens",
                    "Under zigzag the late chunk is followed by the late chunk of the rank before, and the last rank's "
                    "early chunk by its own late one.",
                    wrong=hand.halo_of_the_next_rank,
                ),
                Misconception(
                    "on the left",
                    "What stands before a position comes through attention. Tokens and labels are ahead.",
                    wrong=hand.halo_before,
                ),
                Misconception(
                    "its own once more",
                    "Some of these the rank holds already: the last rank's two chunks touch, and a long halo behind a "
                    "short chunk may reach the other one.",
                    wrong=hand.halo_and_own,
                ),
                Misconception(
                    "past the end",
                    "Behind the row there is nothing to read: those guesses do not count.",
                    wrong=hand.halo_past_the_end,
                ),
            ],
        ),
        takeaway="`steps` positions per run. It does not shrink with the number of ranks, and hardly matters: at 128K "
        "it is a handful among thousands.",
    ),
    Exercise(
        id="12.3",
        title="Where they stand",
        minutes=6,
        difficulty="medium",
        prompt=(
            "Rotary positions in TTT step `step` on rank `rank` (`kind`, `length`, `ring` as before; a rank's "
            "positions in ascending order). A guess that is `step` steps ahead stands `step` positions further on, "
            "and so does the key it makes; a key is turned once, when it is made. Return `(queries, keys)`: "
            "the rotary position of each of the rank's queries, and for each query the list of those of its branch "
            "keys, oldest first."
        ),
        hints=(
            "Where in the *row* does the rank's first query stand? And its branch's guess?",
            "A query of position t stands at `t + step`. The keys of its branch were made in steps 1 to `step`.",
            "`[t + step for t in mine]` and `[[t + made for made in range(1, step + 1)] for t in mine]`",
        ),
        check=Check(
            reference=hand.turned,
            cases=[("zigzag", 8, 2, 1, 2), ("contiguous", 8, 2, 1, 1), ("zigzag", 8, 2, 0, 0), ("zigzag", 12, 3, 0, 3)],
            random_cases=lambda rng: (*hand.some_part(rng)[:4], rng.randint(0, 4)),
            misconceptions=[
                Misconception(
                    "counted from zero",
                    "Places in the shard are not positions in the row. A zigzag shard's two chunks stand far apart.",
                    wrong=hand.turned_from_zero,
                ),
                Misconception(
                    "the branch stands still",
                    "In serving the guess of depth `step + 1` stands `step` positions behind the prefix. So here.",
                    wrong=hand.turned_by(lambda t, step: t, lambda t, made: t),
                ),
                Misconception(
                    "the keys stand still",
                    "The queries move on and the keys they leave behind do too: step 2's key stands at `t + 2`.",
                    wrong=hand.turned_by(lambda t, step: t + step, lambda t, made: t),
                ),
                Misconception(
                    "keys move with the query",
                    "A key is turned when it is made, and stays. Else all keys of a branch would stand in one place.",
                    wrong=hand.turned_with_the_query,
                ),
                Misconception(
                    "keys one step behind",
                    "Step 1 makes a key at `t + 1`: at `t` stands the text's own.",
                    wrong=hand.turned_by(lambda t, step: t + step, lambda t, made: t + made - 1),
                ),
                Misconception(
                    "without the newest",
                    "A query sees the key of its own step too.",
                    wrong=hand.turned_without_the_newest,
                ),
                Misconception(
                    "contiguous positions",
                    "Position ids take the same permutation as the tokens. This rank's are not consecutive.",
                    wrong=hand.turned_contiguous,
                ),
            ],
        ),
        takeaway="One table of positions, from the layout, serves tokens, labels and rotations. Nobody counts places.",
    ),
    Exercise(
        id="12.4",
        title="The fault at the border",
        minutes=12,
        difficulty="hard",
        prompt=(
            "A shared row has at most one fault. `wrong[k]` are the positions whose loss in step `k` differs from one "
            "rank's (three steps or more; every guess counts), `chunk` is the number of positions of a chunk. Return "
            'the fault\'s name: `"healthy"`; `"halo one short"` (the last token of the halo is missing and read as 0); '
            '`"seam"` (tokens are shifted inside the shard); `"positions from zero"` (every rank counts rotary '
            'positions from 0); `"branch stands still"` (rotary positions do not advance with the steps).'
        ),
        hints=(
            "Which step sees it first? Whatever is right in step 0 is a matter of the branch or of the last tokens.",
            'Both "seam" and "positions from zero" spoil step 0, and by way of the history\'s keys everything behind. '
            "But where do they begin: at the last position of a chunk, or at the first of the next?",
            "Where step 0 is right, one fault shows in step 1 and one waits for the last step. Where it is not, "
            "compare the first wrong position with the border, a multiple of `chunk`: before it, or on it?",
        ),
        check=Check(
            reference=hand.diagnose,
            cases=[
                (hand.symptoms_of("halo one short", "zigzag", 24, 2, 3), 6),
                (hand.symptoms_of("seam", "zigzag", 24, 2, 3), 6),
                (hand.symptoms_of("positions from zero", "contiguous", 24, 2, 3), 12),
                (hand.symptoms_of("branch stands still", "zigzag", 24, 2, 4), 6),
                (hand.symptoms_of("healthy", "zigzag", 24, 2, 3), 6),
            ],
            random_cases=hand.some_symptoms,
            misconceptions=[
                Misconception(
                    "every border is a seam",
                    "A missing last token is met in the last step only. A token shifted inside the shard is wrong from "
                    "step 0 on.",
                    wrong=hand.renamed({"halo one short": "seam"}),
                ),
                Misconception(
                    "every late fault is the branch's",
                    "Rotations that stand still spoil *every* position of *every* step from 1 on. Look at step 1.",
                    wrong=hand.renamed({"halo one short": "branch stands still"}),
                ),
                Misconception(
                    "step 0 speaks for all",
                    "Step 0 has no branch and needs one token of the halo. Two faults leave it exactly right.",
                    wrong=hand.renamed({"halo one short": "healthy", "branch stands still": "healthy"}),
                ),
                Misconception(
                    "seam and positions confused",
                    "A wrong token is wrong *at* the last position before a border; wrong positions begin behind it.",
                    wrong=hand.renamed({"seam": "positions from zero", "positions from zero": "seam"}),
                ),
                Misconception(
                    "whatever spreads is positions",
                    "A wrong token spreads too: its key belongs to the history, and every later query sees it.",
                    wrong=hand.renamed({"seam": "positions from zero"}),
                ),
            ],
        ),
        takeaway="The mean over the row hides all of it. A map of positions and steps shows each at once.",
    ),
    Exercise(
        id="12.5",
        title="A mean over ranks",
        minutes=5,
        difficulty="easy",
        prompt=(
            "Rank `r` has `counts[r]` guesses that count, and the sum of their losses is `sums[r]`. Return `(loss, "
            "off)`: the mean loss over all guesses, and by which share the mean of the ranks' own means is off "
            "(`mean_of_means / loss - 1`). A rank without a guess reports 0 as its mean, and is averaged in."
        ),
        hints=(
            "One process would divide all losses by all guesses.",
            "For the other one: `sums[r] / max(1, counts[r])` on each rank, then the mean over ranks.",
            "`loss = sum(sums) / sum(counts)`; `off = mean([s / max(1, c) ...]) / loss - 1`",
        ),
        check=Check(
            reference=hand.reduced,
            cases=[([40.0, 300.0], [10, 100]), ([9.0, 0.0], [3, 0]), ([20.0, 20.0], [10, 10])],
            random_cases=hand.some_losses,
            misconceptions=[
                Misconception(
                    "the mean of means for the loss",
                    "A guess on a rank with few would weigh more than one on a rank with many. One process knows no "
                    "ranks: divide the sum of all by the count of all.",
                    wrong=lambda sums, counts: (hand.mean_of_means(sums, counts), 0.0),
                ),
                Misconception(
                    "empty ranks left out",
                    "Here a rank without a guess is averaged in with 0, as a plain all-reduce does it.",
                    wrong=lambda sums, counts: (
                        hand.reduced(sums, counts)[0],
                        sum(s / c for s, c in zip(sums, counts, strict=True) if c)
                        / sum(c > 0 for c in counts)
                        / hand.reduced(sums, counts)[0]
                        - 1,
                    ),
                ),
                Misconception(
                    "nats for a share",
                    "The difference in nats is not a share of the loss: divide by the right one.",
                    wrong=lambda sums, counts: (
                        hand.reduced(sums, counts)[0],
                        hand.mean_of_means(sums, counts) - hand.reduced(sums, counts)[0],
                    ),
                ),
                Misconception(
                    "upside down",
                    "How far is the wrong one off, measured by the right one: `mean_of_means / loss - 1`.",
                    wrong=lambda sums, counts: (
                        hand.reduced(sums, counts)[0],
                        hand.reduced(sums, counts)[0] / hand.mean_of_means(sums, counts) - 1,
                    ),
                ),
                Misconception(
                    "the sum of means",
                    "Means of ranks are averaged, not added: divide by the number of ranks.",
                    wrong=lambda sums, counts: (
                        hand.reduced(sums, counts)[0],
                        len(sums) * hand.mean_of_means(sums, counts) / hand.reduced(sums, counts)[0] - 1,
                    ),
                ),
                Misconception(
                    "divided by ranks",
                    "Sums over ranks are divided by the number of guesses, not by the number of ranks.",
                    wrong=lambda sums, counts: (
                        sum(sums) / len(sums),
                        hand.mean_of_means(sums, counts) / (sum(sums) / len(sums)) - 1,
                    ),
                ),
            ],
        ),
        takeaway="Answers lie unevenly in a row, so ranks' counts differ. Reduce sums and counts, then divide.",
    ),
    Exercise(
        id="12.6",
        title="What the loss does not say",
        minutes=8,
        difficulty="medium",
        prompt=(
            "The same training on one rank (`alone`) and on `ranks` ranks (`shared`). Each is a dict of two lists over "
            'the steps: `"loss"`, and `"norm"`, the gradient\'s norm before clipping. Name what is wrong with the '
            'shared one: `"healthy"`; `"divided"` (the sum of the ranks\' gradients is divided by their number); '
            '`"mean of means"` (each rank divides its loss by its own guesses); `"not reduced"` (every rank goes on '
            "with its own gradient). Agreement means: to a relative 1e-6."
        ),
        hints=(
            "At the first step both have the same weights. Which of the four changes the loss there already?",
            "Only another mean does. The others show in the norm of the first step: by a factor that says which.",
            "Take the first losses, then the ratio of the first norms. Which ratio does a sum of gradients leave, "
            "and which a mean of them? `math.isclose(a, b, rel_tol=1e-6)` compares.",
        ),
        check=Check(
            reference=hand.trace_fault,
            cases=[hand.trace_of(fault, Random(number)) for number, fault in enumerate(hand.TRACES)],
            random_cases=hand.some_trace,
            misconceptions=[
                Misconception(
                    "the loss decides",
                    "A gradient that is off by a factor gives the same losses: the clip makes its length the same, and "
                    "AdamW divides what is left of the factor out. Look at the norm.",
                    wrong=hand.trace_renamed({"divided": "healthy"}),
                ),
                Misconception(
                    "the first loss decides",
                    "Before the first update any gradient has the same loss. Look at the norm.",
                    wrong=hand.trace_renamed({"divided": "healthy", "not reduced": "healthy"}),
                ),
                Misconception(
                    "any smaller norm is a division",
                    "A division by the number of ranks leaves exactly `1 / ranks` of the norm. One rank's own gradient "
                    "is smaller too, by no such factor.",
                    wrong=hand.trace_renamed({"not reduced": "divided"}),
                ),
                Misconception(
                    "the last step decides",
                    "Trainings that have drifted apart differ in everything. At the first step the weights are equal.",
                    wrong=hand.trace_at_the_end,
                ),
                Misconception(
                    "another mean is no reduction",
                    "Its loss is wrong at the very first step: losses are added up wrongly, not gradients.",
                    wrong=hand.trace_renamed({"mean of means": "not reduced"}),
                ),
            ],
        ),
        takeaway="Log the gradient's norm, and compare the first steps with one rank's, in double precision.",
    ),
    Exercise(
        id="12.7",
        title="Work by rank",
        minutes=6,
        difficulty="medium",
        prompt=(
            "Query-key pairs that rank `rank` computes in all `steps` steps of training-time test together (`kind`, "
            "`length`, `ring` as before): in each step its queries attend to the text, causally; in step `j` each of "
            "them attends to `j` keys of its own branch besides."
        ),
        hints=(
            "Two sums: pairs with the text, and pairs with the branch. How often does each come?",
            "The text's keys are the same in every step, the queries are not: attention runs over them `steps` times.",
            "`steps * sum(t + 1 for t in mine) + len(mine) * steps * (steps - 1) // 2`",
        ),
        check=Check(
            reference=hand.pairs,
            cases=[("contiguous", 16, 2, 1, 3), ("zigzag", 16, 2, 0, 3), ("zigzag", 24, 3, 2, 1)],
            random_cases=lambda rng: (*hand.some_part(rng)[:4], rng.randint(1, 7)),
            misconceptions=[
                Misconception(
                    "the text once",
                    "Step j's queries are new ones, made from the draft's own states. They go over the text again.",
                    wrong=hand.pairs_by(lambda text, own, k, length: text + own * k * (k - 1) // 2),
                ),
                Misconception(
                    "without the branch",
                    "Few, but there: in step j each query has j keys of its own.",
                    wrong=hand.pairs_by(lambda text, own, k, length: k * text),
                ),
                Misconception(
                    "the branch as long as the text",
                    "Of a step a query sees one key, its own position's.",
                    wrong=hand.pairs_by(lambda text, own, k, length: k * text + text * k * (k - 1) // 2),
                ),
                Misconception(
                    "one key too many",
                    "Step 0 has no branch key, step j has j: 0 + 1 + ... + (steps - 1).",
                    wrong=hand.pairs_by(lambda text, own, k, length: k * text + own * k * (k + 1) // 2),
                ),
                Misconception(
                    "all branch keys in every step",
                    "In step j only the keys of steps 1 to j exist.",
                    wrong=hand.pairs_by(lambda text, own, k, length: k * text + own * k * (k - 1)),
                ),
                Misconception(
                    "no mask",
                    "Causal attention: the query at t sees t + 1 keys of the text, not all of them.",
                    wrong=hand.pairs_by(lambda text, own, k, length: k * own * length + own * k * (k - 1) // 2),
                ),
            ],
        ),
        takeaway="The branch is the same for every rank and tiny beside the text: what balances the text balances all.",
    ),
    Exercise(
        id="12.8",
        title="How many GPUs?",
        minutes=6,
        difficulty="medium",
        prompt=(
            "A row of `length` tokens. Each GPU has `memory` bytes, of which the share `usable` may be taken; `fixed` "
            "bytes lie on every rank (weights, gradients, moments), and each token costs `per_token` bytes on the rank "
            "that holds it. Return the smallest number of ranks among 1, 2, 4, ... 64 on which the row fits, or 0 "
            "when 64 are not enough."
        ),
        hints=(
            "What of it is divided by the number of ranks?",
            "A rank holds `ceil(length / n)` tokens, and all of what is fixed.",
            "the first `n` with `fixed + per_token * math.ceil(length / n) <= usable * memory`",
        ),
        check=Check(
            reference=hand.ranks_needed,
            cases=[
                (131_072, 80e9, 0.92, 20e9, 2e6),
                (32_768, 141e9, 0.92, 30e9, 1e6),
                (131_072, 80e9, 0.92, 76e9, 1e6),
                (131_072, 80e9, 0.92, 12e9, 9e6),
                (131_072, 80e9, 0.92, 12e9, 2.5e7),
            ],
            random_cases=hand.some_gpu,
            misconceptions=[
                Misconception(
                    "weights are shared, too",
                    "In this trainer every rank has all of the draft's weights, gradients and moments. (A sharded "
                    "optimizer would divide the moments.)",
                    wrong=lambda length, memory, usable, fixed, per_token: hand.needed(
                        lambda n: (fixed + per_token * length) / n, usable * memory
                    ),
                ),
                Misconception(
                    "no reserve",
                    "Context, fragments and buffers of collectives need room: take the share `usable` only.",
                    wrong=lambda length, memory, usable, fixed, per_token: hand.ranks_needed(
                        length, memory, 1.0, fixed, per_token
                    ),
                ),
                Misconception(
                    "any number of ranks",
                    "Heads and chunks want to be divided: powers of two.",
                    wrong=lambda length, memory, usable, fixed, per_token: hand.needed(
                        lambda n: fixed + per_token * length / n, usable * memory, range(1, 65)
                    ),
                ),
                Misconception(
                    "nothing is fixed",
                    "Weights, gradients and moments lie on every rank before the first token.",
                    wrong=lambda length, memory, usable, fixed, per_token: hand.ranks_needed(
                        length, memory, usable, 0.0, per_token
                    ),
                ),
                Misconception(
                    "no limit",
                    "From 64 ranks on the answer is 0: what is fixed alone may be too much, and no rank helps there.",
                    wrong=lambda length, memory, usable, fixed, per_token: (
                        hand.ranks_needed(length, memory, usable, fixed, per_token) or 128
                    ),
                ),
            ],
        ),
        takeaway="Ranks divide what grows with the row. What does not grow with it sets the floor.",
    ),
)
