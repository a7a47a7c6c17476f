"""Exercises of notebook 05: what does the draft see?"""

from __future__ import annotations

from ..check import Check, Misconception
from ..exercise import Exercise
from .draft_by_hand import (
    entry,
    entry_like,
    hook_ids,
    hooked,
    perfect_length,
    right_back,
    right_row,
    right_there,
    rows_by,
    same_entry,
    same_translation,
    share_known,
    skipping_unknown,
    some_answer,
    some_entry,
    some_vocabulary,
    training_rows,
    translate,
    translated,
    without_the_targets_token,
)

_D2T, _T2D = [1, 1, 3, 4], [False, True, True, False, False, True, False, True]

EXERCISES = (
    Exercise(
        id="05.1",
        title="Two numberings of one layer",
        minutes=4,
        difficulty="warm-up",
        prompt=(
            "`layers` names states of a target with `num_layers` layers the way this course, EAGLE and Hugging Face's "
            "`hidden_states[i]` do: `i` is the state after `i` layers. Return the ids of the layers whose outputs "
            "these are (for forward hooks; layers count from 0), in the same order. `hidden_states[0]` is the "
            "embedding, and `hidden_states[num_layers]` has gone through the final norm: no layer puts these out, so "
            "raise ValueError for them (and for anything outside)."
        ),
        hints=(
            "Which layer ran last when `i` layers have run, if the first one is called 0?",
            "The state after i layers is the output of layer i - 1. And which i are left without such a layer?",
            "`if any(not 1 <= i < num_layers for i in layers): raise ValueError(...)`, then "
            "`return [i - 1 for i in layers]`",
        ),
        check=Check(
            reference=hook_ids,
            cases=[([2, 16, 29], 32), ([2, 18, 33], 36), ([2, 4, 5], 8), ([2, 4, 8], 8), ([0, 4, 5], 8)],
            random_cases=lambda rng: (sorted(rng.sample(range(0, 13), 3)), 12),
            misconceptions=[
                Misconception(
                    "the same numbers in both",
                    "Half of the public code counts outputs, half counts inputs: equal numbers name neighbouring "
                    "layers. Such a draft trains normally and accepts less.",
                    wrong=hooked(0),
                ),
                Misconception(
                    "one too high",
                    "The state after i layers is the input of layer i, so the output of the one before it.",
                    wrong=hooked(1),
                ),
                Misconception(
                    "the embedding and the normed state are layers too",
                    "The renumbering is right. But state 0 comes before any layer, and the last entry is normed: a "
                    "hook on the last layer returns another tensor.",
                    wrong=hooked(-1),
                ),
                Misconception(
                    "the last state is a layer's output",
                    "`hidden_states[num_layers]` is already normed. A teacher made from a hook on the last layer lacks "
                    "the final norm.",
                    wrong=lambda layers, num_layers: hook_ids(layers, num_layers + 1),
                ),
            ],
        ),
        takeaway="EAGLE's 2, 16, 29 and SpecForge's 1, 15, 28 are the same three tensors of a 32-layer target.",
    ),
    Exercise(
        id="05.2",
        title="Which state, which token, which target",
        minutes=8,
        difficulty="medium",
        prompt=(
            "A conversation has tokens 0 to `length - 1`; the answer begins at token `answer_start` (at least 1). In "
            "serving, a draft joins the newest known state with the token that has just been decided, and guesses "
            "the next one; its first job is after the prompt, when the target has chosen the answer's first token. "
            "Return all training rows of depth 1 as `(state, token, guessed)`, three positions each, in order."
        ),
        hints=(
            "The target has just chosen token i. Has it been through the target already? Up to which position are "
            "states known?",
            "States are known up to i - 1. So a row is (t, t + 1, t + 2). The first has t + 1 = answer_start; the "
            "last one's guess must still exist.",
            "A list of `(t, t + 1, t + 2)` over a `range` of t: it begins where t + 1 is `answer_start`, and "
            "`t + 2` must be below `length`.",
        ),
        check=Check(
            reference=training_rows,
            cases=[(8, 4), (6, 1), (5, 2)],
            random_cases=lambda rng: (rng.randint(9, 16), rng.randint(2, 6)),
            misconceptions=[
                Misconception(
                    "features one position late",
                    "The state at t + 1 needs token t + 1 to go through the target: that is the forward which the "
                    "draft is to spare. Trained so, a draft is served states that it has never seen.",
                    wrong=rows_by(lambda s: s - 1, lambda n: n - 3, lambda t: (t + 1, t + 1, t + 2)),
                ),
                Misconception(
                    "the mask of x_t",
                    "By asking whether token t belongs to the answer you never train the first guess after the prompt: "
                    "ask it of the token that is read, t + 1.",
                    wrong=rows_by(lambda s: s, lambda n: n - 3, right_row),
                ),
                Misconception(
                    "guessing the token that is read",
                    "Token t + 1 is an input. Here the target's own head would have done; the draft's job is the token "
                    "after it.",
                    wrong=rows_by(lambda s: s - 1, lambda n: n - 3, lambda t: (t, t + 1, t + 1)),
                ),
                Misconception(
                    "the token of the state itself",
                    "The state at t has token t in it already. The news is token t + 1: the state knows only how "
                    "likely it was, not that it was chosen.",
                    wrong=rows_by(lambda s: s - 1, lambda n: n - 3, lambda t: (t, t, t + 1)),
                ),
                Misconception(
                    "the prompt is trained too",
                    "Nobody drafts a prompt. Its rows teach the user's words and use up the draft's few weights.",
                    wrong=rows_by(lambda s: 0, lambda n: n - 3, right_row),
                ),
                Misconception(
                    "a row past the end",
                    "The last row's guess must exist: t + 2 is at most length - 1.",
                    wrong=rows_by(lambda s: s - 1, lambda n: n - 2, right_row),
                ),
            ],
        ),
        takeaway="State t, token t + 1, guess t + 2; masked by the token that is read.",
    ),
    Exercise(
        id="05.3",
        title="The entry of EAGLE-3",
        minutes=8,
        difficulty="medium",
        prompt=(
            "Write what EAGLE-3's one layer is fed with at one position. `embedding` (H) is the token's, `states` the "
            "target's three (low, middle, high; H each), `fc` the fusion (H x 3H, no bias), `embed_norm` and "
            "`state_norm` (H) are weights of RMS norms (eps 1e-6). Return `(x, residual)`: the 2H wide input of the "
            "attention, and the H wide start of the residual stream. numpy is at hand as `np`."
        ),
        hints=(
            "First fuse: `g = fc @ np.concatenate(states)`. Embedding and g differ in size by orders of magnitude. "
            "What makes them comparable?",
            "Each is normed on its own, with its own weight, then they are concatenated, the embedding first. The "
            "residual stream starts at g as it was before its norm.",
            "With `norm = lambda x, w: x / np.sqrt(np.mean(x**2) + 1e-6) * w`: "
            "`x = np.concatenate([norm(embedding, embed_norm), norm(g, state_norm)])`, and return `x, g`",
        ),
        check=Check(
            reference=entry,
            cases=[
                (
                    [0.3, 0.4],
                    [[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]],
                    [[1, 0, 0, 0, 1, 0], [0, 0, 0, 1, 0, 2]],
                    [1.0, 1.0],
                    [1.0, 0.5],
                ),
            ],
            random_cases=some_entry,
            compare=same_entry,
            misconceptions=[
                Misconception(
                    "state first, embedding second",
                    "All weights of q, k and v would meet the wrong half. A public checkpoint loaded so is a random "
                    "draft, without any error.",
                    wrong=entry_like(order="state first"),
                ),
                Misconception(
                    "the residual starts at the normed state",
                    "That is another switch of the public configs (`norm_before_residual`), off in EAGLE-3.",
                    wrong=entry_like(start="normed"),
                ),
                Misconception(
                    "the residual starts at the embedding",
                    "In a language model it does. Here the stream carries what the target thinks: g.",
                    wrong=entry_like(start="embedding"),
                ),
                Misconception(
                    "one norm over both",
                    "Then the large state decides the scale and the embedding vanishes. Each half has its own norm.",
                    wrong=entry_like(order="one norm over both"),
                ),
                Misconception(
                    "the state is not normed",
                    "g's size is the target's habit, not information for the attention: `hidden_norm` takes it away.",
                    wrong=entry_like(order="raw state"),
                ),
                Misconception(
                    "added instead of concatenated",
                    "x is 2H wide: q, k and v have weights of their own for token and state.",
                    wrong=entry_like(order="added"),
                ),
                Misconception(
                    "high before low",
                    "The columns of fc belong to low, middle, high, in this order.",
                    wrong=entry_like(fuse="high to low"),
                ),
                Misconception(
                    "the three states are averaged",
                    "fc weighs every channel of every layer; a mean mixes what the target keeps apart.",
                    wrong=entry_like(fuse="mean"),
                ),
                Misconception(
                    "eps left out",
                    "All is right but the 1e-6 under the root, beside the mean square. A small embedding feels it.",
                    wrong=entry_like(eps=0.0),
                ),
            ],
        ),
        takeaway="x = [norm(embedding); norm(g)], residual from g itself. Only depth 1 has a g; later the draft's own.",
    ),
    Exercise(
        id="05.4",
        title="d2t and t2d",
        minutes=6,
        difficulty="easy",
        prompt=(
            "A checkpoint stores its draft vocabulary as `d2t` (one number per draft id) and `t2d` (one bool per "
            "target id). `d2t[i]` is an offset: how far target id and draft id are apart. `t2d` says which target "
            "ids have a draft id, both in ascending order. Return the pair: target ids of the draft ids in `drafted`, "
            "and draft ids of the target ids in `said`, -1 for a token that the draft cannot say."
        ),
        hints=(
            "Draft id 0 with d2t[0] = 5 stands for target id 5; draft id 3 with d2t[3] = 9 for ...?",
            "Target id = i + d2t[i]. For the way back: how many target ids below this one have a draft id?",
            "Two lists: `i + d2t[i]` for each drafted i; for each v of `said`, `sum(t2d[:v])` counts the ids "
            "below it, and `t2d[v]` says whether it has one.",
        ),
        check=Check(
            reference=translate,
            cases=[([0, 1, 2, 3], _D2T, [1, 2, 5, 7, 0, 3], _T2D)],
            random_cases=some_vocabulary,
            compare=same_translation,
            misconceptions=[
                Misconception(
                    "d2t taken for absolute ids",
                    "It is an offset: add the draft id. Taken as ids it drafts wrong tokens, stays lossless, raises no "
                    "error and accepts next to nothing.",
                    wrong=translated(lambda i, d2t: d2t[i], right_back),
                ),
                Misconception(
                    "draft ids are target ids",
                    "Only for tokens below the first gap. This is what an all-zero d2t does.",
                    wrong=translated(lambda i, d2t: i, right_back),
                ),
                Misconception(
                    "t2d taken for an index",
                    "It says whether, not where: a bool read as a number sends every token to draft id 1.",
                    wrong=translated(right_there, lambda v, d2t, t2d: int(t2d[v]) if t2d[v] else -1),
                ),
                Misconception(
                    "counted from one",
                    "Count the sayable tokens below: the first one has draft id 0.",
                    wrong=translated(right_there, lambda v, d2t, t2d: sum(map(bool, t2d[: v + 1])) if t2d[v] else -1),
                ),
                Misconception(
                    "outsiders get a neighbour's id",
                    "A token outside the draft vocabulary has none: it counts as wrong, and a chain ends there.",
                    wrong=translated(right_there, lambda v, d2t, t2d: sum(map(bool, t2d[:v]))),
                ),
                Misconception(
                    "the offset subtracted the wrong way",
                    "d2t is indexed by draft ids. For the way back search for v among the i + d2t[i].",
                    wrong=translated(right_there, lambda v, d2t, t2d: v - d2t[min(v, len(d2t) - 1)] if t2d[v] else -1),
                ),
            ],
        ),
        takeaway="d2t never falls and t2d is true exactly at i + d2t[i]: two cheap checks before a draft is served.",
    ),
    Exercise(
        id="05.5",
        title="A perfect draft with a small mouth",
        minutes=8,
        difficulty="medium",
        prompt=(
            "A draft guesses every token right, but can say only tokens in the set `known`. It drafts chains of `k`; "
            "each verify step emits the accepted run and one token of the target's own. Return the tokens per step "
            "over the whole `answer` (the last step may be short)."
        ),
        hints=(
            "Walk over the answer. How far does the first chain get, and where does the second one begin?",
            "The run ends after k tokens or before the first unknown one. Either way the target adds the next token "
            "itself, known or not.",
            "`while at < len(answer): run = 0; while run < k and at + run < len(answer) and answer[at + run] in known: "
            "run += 1; at += run + 1; steps += 1`",
        ),
        check=Check(
            reference=perfect_length,
            cases=[([1, 2, 9, 1, 1, 2, 2, 9, 9, 1], {1, 2}, 3), ([1, 1, 1, 1, 1, 1], {1}, 2)],
            random_cases=some_answer,
            misconceptions=[
                Misconception(
                    "unknown tokens are jumped over",
                    "The draft cannot skip a token: what it cannot say breaks the chain, and the rest is thrown away.",
                    wrong=skipping_unknown,
                ),
                Misconception(
                    "no token of the target's own",
                    "Every step also emits the target's token; where the draft is mute it is the one that helps on.",
                    wrong=without_the_targets_token,
                ),
                Misconception(
                    "1 + k times the coverage",
                    "Coverage is per token, and a chain needs all tokens before. Unknown words also come in clusters.",
                    wrong=lambda answer, known, k: 1 + k * share_known(answer, known),
                ),
                Misconception(
                    "coverage multiplied along the chain",
                    "That assumes that each token is unknown independently of the last, and that chains start "
                    "anywhere. After an unknown token the target's own one has already passed it.",
                    wrong=lambda answer, known, k: 1 + sum(share_known(answer, known) ** i for i in range(1, k + 1)),
                ),
                Misconception(
                    "always k + 1",
                    "It would be, with the whole vocabulary.",
                    wrong=lambda answer, known, k: k + 1,
                ),
            ],
        ),
        takeaway="N caps the acceptance length of every draft, however well it is trained. It never changes the text.",
    ),
)
