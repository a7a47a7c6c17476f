"""Exercises of notebook 07: what does EAGLE-3.1 mend?"""

from __future__ import annotations

import math

from ..check import Check, Misconception, value_check
from ..exercise import Exercise
from .drift_by_hand import (
    CAUSES,
    CURVES,
    MORE_CAUSES,
    MORE_CURVES,
    TRAINING_CAUSES,
    TRAINING_CURVES,
    centred,
    fused_input,
    handed_on,
    norm_over_all,
    rms,
    rms_norm,
    shares,
    some_layers,
    some_output,
    some_state,
    some_weights,
    unit_length,
    with_eps,
)

_RIGHT = dict(CURVES)


def _swapped(one: str, other: str) -> dict[str, str]:
    return _RIGHT | {one: _RIGHT[other], other: _RIGHT[one]}


def _more(**named: str) -> dict[str, str]:
    """The right answer of 07.6 with some faults in other faults' places, exchanged where both have a letter."""
    answer = dict(MORE_CURVES)
    for right, said in named.items():
        right, said = right.replace("_", "-"), said.replace("_", "-")
        at = {fault: letter for letter, fault in MORE_CURVES.items()}
        answer[at[right]] = said
        if said in at:
            answer[at[said]] = right
    return answer


def _training(**named: str) -> dict[str, str]:
    """The right answer of 07.7 with faults that have no letter in the place of others."""
    other = {right.replace("_", "-"): said for right, said in named.items()}
    return {letter: other.get(fault, fault) for letter, fault in TRAINING_CURVES.items()}


EXERCISES = (
    Exercise(
        id="07.1",
        title="The size of a state",
        minutes=3,
        difficulty="warm-up",
        prompt=(
            "`x` is a state, a list of numbers. Return its root mean square: the size that all probes of this page "
            "print, and that does not depend on how wide the model is."
        ),
        hints=(
            "Read the name backwards: square, mean, root.",
            "Square every entry, take the mean of the squares, then the square root.",
            "`sum(v * v for v in x)` is the sum of the squares. Two of the three words are left.",
        ),
        check=Check(
            reference=rms,
            cases=[([3.0, -4.0],), ([2.0, 2.0, 2.0, 2.0],)],
            random_cases=lambda rng: (some_state(rng),),
            misconceptions=[
                Misconception(
                    "the length of the vector",
                    "That is |x|, which grows with the width: a state four times as wide would look twice as large. "
                    "Divide the sum of squares by the number of entries first.",
                    wrong=lambda x: math.sqrt(sum(value * value for value in x)),
                ),
                Misconception(
                    "no root",
                    "That is the mean square. Twice the state would look four times as large: take the root.",
                    wrong=lambda x: sum(value * value for value in x) / len(x),
                ),
                Misconception(
                    "the mean of absolute values",
                    "The mean of |x_i| is another size, never above the root mean square. Norms divide by the latter.",
                    wrong=lambda x: sum(map(abs, x)) / len(x),
                ),
                Misconception(
                    "the standard deviation",
                    "That takes the mean off first, as LayerNorm does. RMSNorm, and this probe, do not.",
                    wrong=lambda x: math.sqrt(sum((v - sum(x) / len(x)) ** 2 for v in x) / len(x)),
                ),
            ],
        ),
        takeaway="|x| / sqrt(d): comparable between widths, and exactly 1 after an RMSNorm with weights of 1.",
    ),
    Exercise(
        id="07.2",
        title="Three layers of one size",
        minutes=6,
        difficulty="easy",
        prompt=(
            "`low`, `middle` and `high` are the target's states after three layers at one position; `high` is much "
            "the largest. Return the list that `fc` reads in EAGLE-3.1: the `fc_norm`s applied, all their weights 1 "
            "and eps 0, then concatenated."
        ),
        hints=(
            "EAGLE-3.1 has three `fc_norm`s, one per layer, each as wide as the target. What sizes come out of them?",
            "Each layer is divided by its *own* root mean square. Then the three stand one behind the other.",
            "`[v / rms(part) for part in (low, middle, high) for v in part]`",
        ),
        check=Check(
            reference=fused_input,
            cases=[([0.3, -0.4], [3.0, 4.0], [50.0, -10.0])],
            random_cases=some_layers,
            misconceptions=[
                Misconception(
                    "one norm over all three",
                    "That is `norm_before_fc`, which gpt-oss drafts have. It keeps the proportions: the high layer is "
                    "as dominant as before. 3.1 norms each layer by itself.",
                    wrong=norm_over_all,
                ),
                Misconception(
                    "no norm at all",
                    "That is what EAGLE-3 reads. The largest layer then dominates whatever `fc` starts from.",
                    wrong=lambda low, middle, high: [*low, *middle, *high],
                ),
                Misconception(
                    "unit length in place of unit size",
                    "Each part has length 1 now, so its entries shrink with the width. RMSNorm makes the root mean "
                    "square 1.",
                    wrong=lambda low, middle, high: [v for part in (low, middle, high) for v in unit_length(part)],
                ),
                Misconception(
                    "LayerNorm",
                    "RMSNorm does not take the mean off.",
                    wrong=lambda low, middle, high: [v for part in (low, middle, high) for v in centred(part)],
                ),
                Misconception(
                    "an eps put in",
                    "A norm in a model adds an eps of 1e-5 or so under the root. Here it is 0, as the text says: each "
                    "part then has a size of exactly 1.",
                    wrong=lambda low, middle, high: with_eps(low, middle, high, 1e-5),
                ),
                Misconception(
                    "a small eps put in",
                    "That is nearly it: an eps of 1e-6 stands under the root. Here it is 0, as the text says.",
                    wrong=lambda low, middle, high: with_eps(low, middle, high, 1e-6),
                ),
                Misconception(
                    "only the high layer is normed",
                    "The others keep their own sizes then, and those differ too. Each layer has its norm.",
                    wrong=lambda low, middle, high: [*low, *middle, *rms_norm(high, [1.0] * len(high))],
                ),
            ],
        ),
        takeaway="After fc_norm all three layers enter at one size, whatever the target made of them.",
    ),
    Exercise(
        id="07.3",
        title="What is handed on",
        minutes=6,
        difficulty="medium",
        prompt=(
            "`raw` is what a draft's decoder layer puts out, `weight` the final norm's weight (eps 0). Return the pair "
            "`(head, state)`: what the head reads, and what the next depth consumes. `norm_output` is the config's "
            "flag: true for EAGLE-3.1, false for EAGLE-3."
        ),
        hints=(
            "The head reads the same thing in both. Only one of the two results depends on the flag.",
            "`head` is the normed state: raw / rms(raw), times the weight entry by entry. 3.1 hands on *that*; EAGLE-3 "
            "hands on `raw` as it is.",
            "`normed = [v / rms(raw) * w for v, w in zip(raw, weight)]`, then `normed, normed if norm_output else raw`",
        ),
        check=Check(
            reference=handed_on,
            cases=[([3.0, -4.0], [1.0, 2.0], True), ([3.0, -4.0], [1.0, 2.0], False)],
            random_cases=some_output,
            random_count=16,
            misconceptions=[
                Misconception(
                    "raw feedback in both",
                    "The flag changes nothing in your function. A released trainer had exactly this: drafts right at "
                    "depth 1 and off from depth 2 on.",
                    wrong=lambda raw, weight, norm_output: (rms_norm(raw, weight), list(raw)),
                ),
                Misconception(
                    "the flag taken for the head's norm",
                    "`norm_output` is about what the next depth consumes. The head reads the normed state in both "
                    "generations.",
                    wrong=lambda raw, weight, norm_output: (
                        rms_norm(raw, weight) if norm_output else list(raw),
                        list(raw),
                    ),
                ),
                Misconception(
                    "normed twice",
                    "The head sees the very state that is handed on, normed once. Norming it again undoes the weight.",
                    wrong=lambda raw, weight, norm_output: (
                        (rms_norm(rms_norm(raw, weight), weight), rms_norm(raw, weight))
                        if norm_output
                        else handed_on(raw, weight, False)
                    ),
                ),
                Misconception(
                    "the weight forgotten",
                    "An RMSNorm ends with a weight per entry; without it the state that is handed on is another one.",
                    wrong=lambda raw, weight, norm_output: handed_on(raw, [1.0] * len(raw), norm_output),
                ),
                Misconception(
                    "the flag upside down",
                    "`norm_output` true means: hand on the *normed* state.",
                    wrong=lambda raw, weight, norm_output: handed_on(raw, weight, not norm_output),
                ),
                Misconception(
                    "always normed",
                    "That is 3.1. EAGLE-3, with the flag off, hands on the raw state.",
                    wrong=lambda raw, weight, norm_output: handed_on(raw, weight, True),
                ),
            ],
        ),
        takeaway="One line of code is the whole of 3.1's feedback, and depth 1 cannot show whether it is right.",
    ),
    Exercise(
        id="07.4",
        title="Where the attention goes",
        minutes=8,
        difficulty="medium",
        prompt=(
            "`weights` is the attention of one query of a chain: the prefix's keys from the text's beginning, then "
            "the `steps` keys of its own branch, the query's own key last. They stand at consecutive positions. Return "
            "`(sink, recent, own)`: the share of the token at position `sink`, of the last `window` positions, the "
            "query's own among them, and of the whole own branch."
        ),
        hints=(
            "All keys of one query lie in one row: prefix and branch are consecutive positions. Where does the row "
            "end?",
            "`own` is the last `steps` weights. `recent` is the last `window` weights, wherever the prefix ends. "
            "`sink` is one weight.",
            "From the end a slice needs a minus: `weights[-steps:]`. Three numbers, two of them sums.",
        ),
        check=Check(
            reference=shares,
            cases=[([0.4, 0.1, 0.1, 0.1, 0.2, 0.1], 2, 3, 0), ([0.1, 0.5, 0.1, 0.1, 0.1, 0.05, 0.05], 3, 2, 1)],
            random_cases=some_weights,
            misconceptions=[
                Misconception(
                    "recent means recent in the prefix",
                    "The draft's own tokens are the most recent ones there are. The window ends at the query, not "
                    "where the prefix ends.",
                    wrong=lambda weights, steps, window, sink: (
                        weights[sink],
                        sum(weights[: len(weights) - steps][-window:]),
                        sum(weights[-steps:]),
                    ),
                ),
                Misconception(
                    "the window is put before the branch",
                    "That counts `window` prefix tokens *and* the branch. The window is measured from the query.",
                    wrong=lambda weights, steps, window, sink: (
                        weights[sink],
                        sum(weights[-steps - window :]),
                        sum(weights[-steps:]),
                    ),
                ),
                Misconception(
                    "the query itself does not count",
                    "The query's own key is the last of the `window`; you left it out of the window.",
                    wrong=lambda weights, steps, window, sink: (
                        weights[sink],
                        sum(weights[-window - 1 : -1]),
                        sum(weights[-steps:]),
                    ),
                ),
                Misconception(
                    "only its own key",
                    "A branch is everything this chain has drafted so far, not the last token alone.",
                    wrong=lambda weights, steps, window, sink: (weights[sink], sum(weights[-window:]), weights[-1]),
                ),
                Misconception(
                    "the sink is the largest weight",
                    "The sink is a place, found once on the target. A large weight elsewhere is no sink.",
                    wrong=lambda weights, steps, window, sink: (
                        max(weights),
                        sum(weights[-window:]),
                        sum(weights[-steps:]),
                    ),
                ),
                Misconception(
                    "the sink is always the first token",
                    "In Qwen it is the second. Take the place that you are given.",
                    wrong=lambda weights, steps, window, sink: (
                        weights[0],
                        sum(weights[-window:]),
                        sum(weights[-steps:]),
                    ),
                ),
            ],
        ),
        takeaway="Shares overlap: as the branch grows it fills the window, so compare drafts at the same depth.",
    ),
    Exercise(
        id="07.5",
        title="Find the fault",
        minutes=10,
        difficulty="hard",
        prompt=(
            "Three copies of one EAGLE-3.1 draft, A, B and C, each with one fault planted; their curves are above. "
            "Which is which? Give a dictionary such as {'A': ..., 'B': ..., 'C': ...}. The candidates: "
            + "; ".join(f"`{name}` ({cause})" for name, cause in CAUSES.items())
            + "."
        ),
        hints=(
            "Look at depth 1 first. Which faults can spoil the very first guess, and which cannot, because it reads "
            "the target's true states?",
            "Nothing at any depth: the guesses name the wrong tokens. Right at depth 1 and worse at each depth behind "
            "it: what depth 1 hands on is wrong. Lower everywhere but alive: what the draft reads is wrong, but not "
            "absurd.",
            "A zero curve is a mapping fault; a curve that is healthy at depth 1 alone is a feedback fault; the "
            "remaining one misses the norms before `fc`.",
        ),
        check=value_check(
            _RIGHT,
            {
                "feedback and fusion exchanged": (
                    _swapped(*sorted(k for k, v in CURVES.items() if v in ("feedback-flag", "fc-norm-flag-off"))),
                    "Without `fc_norm` the very first guess already reads something else than in training. A feedback "
                    "fault leaves depth 1 exactly as it was: compare the first points with the healthy draft's.",
                ),
                "feedback and mapping exchanged": (
                    _swapped(*sorted(k for k, v in CURVES.items() if v in ("feedback-flag", "d2t-zeros"))),
                    "With zeros in d2t every draft id names the wrong token, at depth 1 as well: nothing is accepted.",
                ),
                "fusion and mapping exchanged": (
                    _swapped(*sorted(k for k, v in CURVES.items() if v in ("d2t-zeros", "fc-norm-flag-off"))),
                    "A missing norm blurs what the draft reads; it still guesses. Wrong ids leave nothing.",
                ),
                "layers one off": (
                    _RIGHT | {next(k for k, v in CURVES.items() if v == "fc-norm-flag-off"): "layers-one-off"},
                    "Neighbouring layers are so alike that this fault hardly shows on this draft; the missing norms "
                    "cost far more.",
                ),
            },
        ),
        takeaway="Depth 1 tells input faults from feedback faults; a flat zero is a mapping. Then ask the doctor.",
    ),
    Exercise(
        id="07.6",
        title="Five more",
        minutes=8,
        difficulty="hard",
        prompt=(
            "Five copies of the EAGLE-3 draft, D to H, their curves and first guesses above. Give a dictionary from "
            "letter to fault. Two candidates fit no letter: "
            + "; ".join(f"`{name}` ({cause})" for name, cause in MORE_CAUSES.items())
            + "."
        ),
        hints=(
            "Sort first: which curve is the healthy one to the last digit, which are lower and alive, which are dead?",
            "Not a single guess has changed: nothing that computes has. Dead with a guess right by luck, or dead with "
            "a part right at depth 1: one says wrong words, the other reads its input in the wrong places.",
            "Two are lower and alive. Divide each point by the one before it: what is read of the target is read once, "
            "at depth 1; what lies inside the layer is used at every depth.",
        ),
        check=value_check(
            dict(MORE_CURVES),
            {
                "residual and layers exchanged": (
                    _more(residual_flag="layers-one-off"),
                    "The target's layers are read once, at depth 1, and neighbouring ones are nearly alike: a little "
                    "is lost, and behind it the chain holds nearly as well as the healthy one's. The residual is what "
                    "the layer adds to: spoilt, it costs at the next depth again.",
                ),
                "zeros in place of a stale mapping": (
                    _more(d2t_stale="d2t-zeros"),
                    "All zeros leaves nothing at all. Here a few guesses are right: some rows still have their token.",
                ),
                "mapping and input exchanged": (
                    _more(d2t_stale="halves-swapped"),
                    "A wrong mapping says wrong words at once. With the halves exchanged a part of the first guesses "
                    "is still right, and what is handed on is worse each time.",
                ),
                "a feedback fault in place of the halves": (
                    _more(halves_swapped="feedback-flag"),
                    "A feedback fault leaves depth 1 as it was. This draft has lost most of its first guesses.",
                ),
                "template and layers exchanged": (
                    _more(template_differs="layers-one-off"),
                    "A template beside the weights changes no computation: not one guess can differ.",
                ),
            },
        ),
        takeaway="A curve names faults that cost; one that costs little, or lies outside the weights, needs the files.",
    ),
    Exercise(
        id="07.7",
        title="Two wrong losses",
        minutes=6,
        difficulty="medium",
        prompt=(
            "J and K are losses with one fault each; their gradients are above, beside the right one's. Give a "
            "dictionary from letter to fault. Three candidates fit no letter: "
            + "; ".join(f"`{name}` ({cause})" for name, cause in TRAINING_CAUSES.items())
            + "."
        ),
        hints=(
            "Which letter lacks one place and is nearly right at all others? Which one is smaller at every place, and "
            "the smaller the longer the row?",
            "A gradient of exactly 0 is a guess that the loss leaves out. A gradient that is too small everywhere, by "
            "a factor that depends on nothing but the row's length, is a sum divided by the wrong number.",
            "Place -1 is the prompt's last token. Its own token is prompt, the next one is answer: which mask counts "
            "it, and which does not? And what grows with every prompt in a row, though not one guess more counts?",
        ),
        check=value_check(
            dict(TRAINING_CURVES),
            {
                "mask and mean exchanged": (
                    dict(zip(TRAINING_CURVES, reversed(TRAINING_CURVES.values()), strict=True)),
                    "A mask decides which places count: it takes one of them away. Dividing by too large a number "
                    "makes all of them smaller, and takes none away.",
                ),
                "features in place of the mask": (
                    _training(mask_of_x_t="features-one-late"),
                    "Both are one token off. States that come one place late are wrong at every place, and every "
                    "place still counts; here one place has no gradient at all.",
                ),
                "feedback in place of the mask": (
                    _training(mask_of_x_t="pre-norm-feedback"),
                    "A feedback fault spares depth 1. Here one guess of depth 1 does not train.",
                ),
                "teacher in place of the mean": (
                    _training(loss_mean_diluted="teacher-norm-twice"),
                    "Another teacher changes what a guess is pulled to. It knows nothing of what else is in the row.",
                ),
            },
        ),
        takeaway="Put prompts beside an answer: its gradient must stay. Look at its first guess: there must be one.",
    ),
)
