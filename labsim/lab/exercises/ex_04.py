"""Exercises of notebook 04: one chain or many?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..check import Check, Misconception
from ..exercise import Exercise
from .tree_answers import (
    best_branch,
    judged,
    leaves,
    masked,
    right_position,
    right_sight,
    same_mask,
    same_paths,
    some_mask_input,
    some_prices,
    some_siblings,
    some_table,
    some_tree,
    whole_branches,
)
from .trees_by_hand import (
    Table,
    best_nodes,
    eagle2_tree,
    mask_and_positions,
    path_chances,
    sibling_chances,
    tokens_per_ms,
)


def tokens_per_step(parents: Sequence[int], chance: Sequence[float]) -> float:
    """One token of the target's own, and each node with the chance that its whole path is accepted."""
    return 1 + sum(path_chances(parents, chance))


def never_without(lengths: Sequence[float], fixed_ms: float, row_ms: float, batch: int) -> int:
    """The best of 1, 2, ... nodes."""
    return max(range(1, len(lengths)), key=lambda n: tokens_per_ms(lengths[n], n, fixed_ms, row_ms, batch))


def first_summit(lengths: Sequence[float], fixed_ms: float, row_ms: float, batch: int) -> int:
    """Climbs from 0 nodes and stays where the next step down begins."""
    rates = [tokens_per_ms(length, n, fixed_ms, row_ms, batch) for n, length in enumerate(lengths)]
    return next((n for n in range(len(rates) - 1) if rates[n + 1] < rates[n]), len(rates) - 1)


_TABLE: Table = {
    (): {"the": 0.6, "a": 0.3, "no": 0.1},
    ("the",): {"cat": 0.5, "dog": 0.4, "end": 0.1},
    ("a",): {"cat": 0.9, "dog": 0.06, "end": 0.04},
    ("no",): {"cat": 0.2, "dog": 0.2, "end": 0.6},
}


EXERCISES = (
    Exercise(
        id="04.1",
        title="What a tree is worth",
        minutes=5,
        difficulty="easy",
        prompt=(
            "Node `i` of a draft tree follows node `parents[i]` (-1: the text's last token; parents come before their "
            "children). `chance[i]` is the chance that it is accepted given that its parent is. Return the expected "
            "number of tokens that one verify step emits."
        ),
        hints=(
            "How often is a node accepted? Only when its parent is, and its parent's parent, and so on.",
            "The chance of a node is the product of `chance` along its path. Each accepted node is one token, "
            "whether or not something below it is accepted too.",
            "`path = []`, then for each node `path.append(chance[i] * (path[parents[i]] if parents[i] >= 0 else 1))`; "
            "the answer is `1 + sum(path)`",
        ),
        check=Check(
            reference=tokens_per_step,
            cases=[([-1, 0, 1], [0.8, 0.7, 0.5]), ([-1, -1, 0, 0], [0.6, 0.25, 0.5, 0.3])],
            random_cases=some_tree,
            misconceptions=[
                Misconception(
                    "only the leaves are counted",
                    "A branch that fails halfway still gives the tokens before the failure: inner nodes count too.",
                    wrong=lambda parents, chance: 1 + sum(path_chances(parents, chance)[i] for i in leaves(parents)),
                ),
                Misconception(
                    "all or nothing per branch",
                    "Depth times the leaf's chance counts a branch only when it is accepted to its end.",
                    wrong=whole_branches,
                ),
                Misconception(
                    "chances added without their parents",
                    "`chance` holds only if the parent was accepted; multiply along the path.",
                    wrong=lambda parents, chance: 1 + sum(chance),
                ),
                Misconception(
                    "no token of the target's own",
                    "Every step also emits the correction or the bonus token.",
                    wrong=lambda parents, chance: sum(path_chances(parents, chance)),
                ),
                Misconception(
                    "the best branch only",
                    "That is the chain inside the tree. The other branches are what the tree adds: they win when it "
                    "fails.",
                    wrong=best_branch,
                ),
                Misconception(
                    "every node is emitted",
                    "Verifying a node is no acceptance: of siblings at most one survives.",
                    wrong=lambda parents, chance: 1 + len(parents),
                ),
            ],
        ),
        takeaway="Tokens per step = 1 + the sum of path chances over all nodes. A chain is the case without siblings.",
    ),
    Exercise(
        id="04.2",
        title="Who sees whom",
        minutes=8,
        difficulty="medium",
        prompt=(
            "A text of `length` tokens stands in the cache at positions 0 to `length - 1`; the draft tree below it "
            "goes through the target in one forward. Return the pair `(mask, positions)`: `mask[i][j]` says "
            "whether node `i` may attend to node `j`, and `positions[i]` is the position at which node `i` stands. "
            "(All nodes see the text.)"
        ),
        hints=(
            "If this node's branch were the only draft, which tokens would come before it, and at which position "
            "would it be?",
            "A node sees itself and its ancestors. Its mask row is its parent's row with one more True. Its "
            "position is the number of tokens it sees, less one.",
            "`row = list(mask[p]) if p >= 0 else [False] * n; row[i] = True`, and "
            "`positions.append(length + sum(row) - 1)`",
        ),
        check=Check(
            reference=mask_and_positions,
            cases=[([-1, 0, 1], 5), ([-1, -1, 0, 1], 3)],
            random_cases=some_mask_input,
            compare=same_mask,
            misconceptions=[
                Misconception(
                    "a causal mask",
                    "In a chain every earlier token is an ancestor. In a tree it may be on another branch, which "
                    "must stay unseen.",
                    wrong=masked(lambda i, j, line, parents: j <= i, right_position),
                ),
                Misconception(
                    "parent and itself only",
                    "Grandparents belong to the branch too.",
                    wrong=masked(lambda i, j, line, parents: j in (i, parents[i]), right_position),
                ),
                Misconception(
                    "a node does not see itself",
                    "In attention a token always sees its own key.",
                    wrong=masked(lambda i, j, line, parents: j in line and j != i, right_position),
                ),
                Misconception(
                    "siblings see each other",
                    "Siblings are alternatives for one position: in no text do both occur.",
                    wrong=masked(
                        lambda i, j, line, parents: j in line or (parents[i] == parents[j] and j < i), right_position
                    ),
                ),
                Misconception(
                    "positions count nodes",
                    "Siblings stand at the same position; only depth moves it.",
                    wrong=masked(right_sight, lambda i, depth, length: length + i),
                ),
                Misconception(
                    "positions start at 0",
                    "The tree hangs below `length` tokens of text.",
                    wrong=masked(right_sight, lambda i, depth, length: depth - 1),
                ),
                Misconception(
                    "positions are one too large",
                    "The text ends at position length - 1, so its first continuation stands at `length`.",
                    wrong=masked(right_sight, lambda i, depth, length: length + depth),
                ),
            ],
        ),
        takeaway="That is the whole trick: one forward over the tree equals one forward per branch.",
    ),
    Exercise(
        id="04.3",
        title="The second sibling's trial",
        minutes=10,
        difficulty="medium",
        prompt=(
            "`siblings` were drawn from the draft's distribution `q` one after another, without replacement, and "
            "are tried in that order against the target's `p`. Return for each the chance that it is accepted when "
            "it is reached, so that the token finally emitted has exactly the distribution `p`."
        ),
        hints=(
            "The first one is judged as in a chain: `min(1, p[x] / q[x])`. What is still owed to p after its "
            "rejection?",
            "After a rejection the residual `max(0, p - q)`, renormalised, takes the place of p. And the second "
            "sibling was drawn from q without the first, renormalised.",
            "In a loop: `chance = min(1, p[x] / q[x])`; `p = normalised(max(0, p - q))`; then `q[x] = 0`; "
            "`q = normalised(q)`",
        ),
        check=Check(
            reference=sibling_chances,
            cases=[
                ([0.5, 0.3, 0.2], [0.2, 0.7, 0.1], [1, 0]),
                ([0.1, 0.35, 0.3, 0.25], [0.5, 0.25, 0.15, 0.1], [0, 1, 2]),
            ],
            random_cases=some_siblings,
            misconceptions=[
                Misconception(
                    "every sibling is judged by p itself",
                    "The first trial has already given p part of its due. Judging again by the same p emits "
                    "favourites twice as often.",
                    wrong=judged(update_p="kept"),
                ),
                Misconception(
                    "the residual is not renormalised",
                    "After a rejection what is left has to be a distribution again: divide by its sum.",
                    wrong=judged(update_p="not renormalised"),
                ),
                Misconception(
                    "q is left as it was",
                    "The second sibling cannot be the first again: its q is q without the first, renormalised.",
                    wrong=judged(update_q="kept"),
                ),
                Misconception(
                    "p without the first sibling",
                    "That is the rule for a token chosen without chance, where q is all on one token, as in a dynamic "
                    "tree. These were drawn: the residual is max(0, p - q).",
                    wrong=judged(update_p="without"),
                ),
                Misconception(
                    "q over p",
                    "A token that the draft likes too much must be accepted less often: p / q.",
                    wrong=judged(ratio="q/p"),
                ),
            ],
        ),
        takeaway=(
            "Rejected siblings make the residual; the next one is tried against it. So a tree is as lossless as a "
            "chain."
        ),
    ),
    Exercise(
        id="04.4",
        title="EAGLE-2: expand, then re-rank",
        minutes=12,
        difficulty="hard",
        prompt=(
            "`table[path]` gives the draft's chances of the next word after a path, `()` being the root. At each "
            "depth take the `top_k` likeliest words after every node of the level, as candidates; of these new "
            "candidates the `top_k` with the likeliest paths are the next level. After `depth` levels return the "
            "`nodes` likeliest paths of all candidates, as tuples, in any order."
        ),
        hints=(
            "Keep a dict from path to the product of chances along it. What is the value of a child, given its "
            "parent's?",
            "Per depth: children of the level (top_k words each) go into the dict; the level becomes the top_k best "
            "of these children. At the end sort the whole dict.",
            "`for path in level: for word in sorted(table[path], key=table[path].get)[-top_k:]: "
            "worth[*path, word] = worth[path] * table[path][word]`, with `worth = {(): 1}`; drop `()` at the end",
        ),
        check=Check(
            reference=eagle2_tree,
            cases=[(_TABLE, 2, 2, 4), (_TABLE, 2, 1, 2)],
            random_cases=some_table,
            compare=same_paths,
            misconceptions=[
                Misconception(
                    "ranked by a node's own chance",
                    "A sure word below an unlikely one is unlikely to be reached. Rank by the product along the "
                    "path, then parents always come with their children.",
                    wrong=partial(eagle2_tree, value="own"),
                ),
                Misconception(
                    "chances along a path are added",
                    "Sums grow with depth, so long paths win whatever they are worth. Multiply (or add logarithms).",
                    wrong=partial(eagle2_tree, value="sum"),
                ),
                Misconception(
                    "only expanded nodes are kept",
                    "A candidate that was not expanded is still a good guess: a leaf. Re-rank all candidates.",
                    wrong=partial(eagle2_tree, pool="expanded"),
                ),
                Misconception(
                    "the last level only",
                    "Those are the leaves of the longest paths, without their parents. Candidates of all depths "
                    "compete.",
                    wrong=partial(eagle2_tree, pool="last"),
                ),
                Misconception(
                    "everything is expanded",
                    "Only `top_k` nodes per depth go through the draft again; otherwise each depth costs top_k "
                    "times the last.",
                    wrong=partial(eagle2_tree, beam="all"),
                ),
                Misconception(
                    "shallow nodes first",
                    "Taking candidates level by level fills the budget with unlikely siblings. Sort all by path.",
                    wrong=partial(eagle2_tree, pool="in order"),
                ),
            ],
        ),
        takeaway=(
            "EAGLE-2 changes no weight of the draft: it spends the same nodes where the draft itself is confident."
        ),
    ),
    Exercise(
        id="04.5",
        title="How many nodes at this batch?",
        minutes=5,
        difficulty="easy",
        prompt=(
            "`lengths[n]` is the number of tokens per step with `n` drafted nodes (`lengths[0]` is 1: plain "
            "decoding). A step takes `fixed_ms` plus `row_ms` for every row of the verify pass, and `batch` "
            "requests are verified together, each with its nodes and its last token. Return the `n` with the most "
            "tokens per second."
        ),
        hints=(
            "How many rows does the verify pass have with n nodes and `batch` requests?",
            "batch * (n + 1) rows. Compare tokens per step over milliseconds per step, for every n.",
            "`max(range(len(lengths)), key=...)`: the key of n is its tokens over `fixed_ms + row_ms * batch "
            "* (n + 1)`.",
        ),
        check=Check(
            reference=best_nodes,
            cases=[
                ([1, 1.7, 2.2, 2.5, 2.7, 2.8, 2.85], 7.0, 0.02, 1),
                ([1, 1.7, 2.2, 2.5, 2.7, 2.8, 2.85], 7.0, 0.02, 64),
                ([1, 1.2, 1.3], 7.0, 0.5, 128),
                ([1, 1.05, 1.3, 2.0, 2.1], 1.0, 0.2, 8),
                ([1, 1.1, 1.2, 1.9, 2.4, 2.5], 7.0, 0.02, 64),
            ],
            random_cases=some_prices,
            misconceptions=[
                Misconception(
                    "the longest acceptance wins",
                    "Tokens per step always grow with the tree. Divide by the time of the step.",
                    wrong=lambda lengths, fixed_ms, row_ms, batch: max(range(len(lengths)), key=lambda n: lengths[n]),
                ),
                Misconception(
                    "the batch is left out",
                    "Every request brings its own tree: the verify pass has batch * (n + 1) rows.",
                    wrong=lambda lengths, fixed_ms, row_ms, batch: best_nodes(lengths, fixed_ms, row_ms, 1),
                ),
                Misconception(
                    "the last token rides for free",
                    "Besides its n nodes each request verifies its last token: n + 1 rows.",
                    wrong=lambda lengths, fixed_ms, row_ms, batch: best_nodes(
                        lengths, fixed_ms - row_ms * batch, row_ms, batch
                    ),
                ),
                Misconception(
                    "not drafting is no choice",
                    "`lengths[0]` belongs to the choice. Where rows are dear the best draft is none: an engine must "
                    "be able to stop speculating.",
                    wrong=never_without,
                ),
                Misconception(
                    "stops at the first dip",
                    "Tokens per second may fall and rise again: a few nodes can cost more than they give where many "
                    "pay. Look at every n.",
                    wrong=first_summit,
                ),
                Misconception(
                    "the shortest step wins",
                    "That is always plain decoding. Count tokens per second, not steps.",
                    wrong=lambda lengths, fixed_ms, row_ms, batch: 0,
                ),
            ],
        ),
        takeaway=(
            "One request can afford dozens of nodes; at 64 requests every node costs 64 rows, and where rows fill "
            "the step the tree shrinks to a stub, or to nothing."
        ),
    ),
)
