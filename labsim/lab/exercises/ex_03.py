"""Exercises of notebook 03: rejection sampling by hand, the greedy walk, and the price of a step."""

from __future__ import annotations

from collections.abc import Sequence

from ..check import Check, Misconception
from ..exercise import Exercise
from .by_hand import (
    accept_chance,
    acceptance,
    emitted,
    fastest_k,
    fastest_with,
    first_choice,
    greedy_step,
    longest_draft,
    matches,
    normalised,
    residual,
    some_chances,
    some_pair,
    some_prices,
    some_triple,
    some_words,
)

P, Q = [0.6, 0.3, 0.1], [0.3, 0.3, 0.4]


def best_word(q: Sequence[float]) -> int:
    return max(range(len(q)), key=q.__getitem__)


EXERCISES = (
    Exercise(
        id="03.1",
        title="Keep the drafted token?",
        minutes=3,
        difficulty="warm-up",
        prompt=(
            "The draft drew a token that it gives probability `q` (above 0); the target gives the same token "
            "probability `p`: two numbers, for this one token. Return the chance with which speculative sampling "
            "keeps it."
        ),
        hints=(
            "If the draft proposes the token less often than the target wants it, every proposal is welcome.",
            "If the draft proposes it twice as often as the target wants it, keep every second one.",
            "The chance is `p / q` where that is below 1. Where it is above, `min` helps.",
        ),
        check=Check(
            reference=accept_chance,
            cases=[(0.1, 0.4), (0.6, 0.3), (0.3, 0.3), (0.0, 0.5)],
            random_cases=some_chances,
            misconceptions=[
                Misconception(
                    "the ratio is upside down",
                    "min(1, q/p) keeps what the draft likes too much and drops what it likes too little.",
                    wrong=lambda p, q: min(1.0, q / p) if p else 1.0,
                ),
                Misconception(
                    "accept if and only if p >= q",
                    "A token that the draft proposes too often must be kept *sometimes*, p/q of the time. Never "
                    "keeping it leaves too little of it.",
                    wrong=lambda p, q: float(p >= q),
                ),
                Misconception(
                    "the draft's probability is ignored",
                    "Keeping a token with chance p gives q * p in all. The draft has already made it rare once.",
                    wrong=lambda p, q: p,
                ),
                Misconception(
                    "a chance above 1",
                    "Where the target wants the token more than the draft, the chance is 1, and the rest of the "
                    "target's wish is met after rejections.",
                    wrong=lambda p, q: p / q,
                ),
            ],
        ),
        takeaway="Kept with min(1, p/q), a token that was drawn with q comes out with min(p, q): never too often.",
    ),
    Exercise(
        id="03.2",
        title="What to draw after a rejection",
        minutes=5,
        difficulty="easy",
        prompt=(
            "`p` and `q` are the target's and the draft's probabilities of the words of a small vocabulary, two lists "
            "(not the same). Return the distribution from which the corrected word is drawn after a rejection."
        ),
        hints=(
            "Accepted words come out with min(p, q) each. Which words are still short of p, and by how much?",
            "max(0, p - q) is what is missing. It is no distribution yet.",
            "`left = [max(0, a - b) for a, b in zip(p, q)]`, divided by `sum(left)`",
        ),
        check=Check(
            reference=residual,
            cases=[(P, Q), ([0.5, 0.5, 0.0], [0.2, 0.2, 0.6]), ([0.25, 0.25, 0.5], [0.1, 0.8, 0.1])],
            random_cases=some_pair,
            misconceptions=[
                Misconception(
                    "the residual is not renormalised",
                    "These are the missing amounts. A distribution sums to 1: divide by their sum.",
                    wrong=lambda p, q: [max(0.0, a - b) for a, b in zip(p, q, strict=True)],
                ),
                Misconception(
                    "redrawn from p",
                    "A fresh draw from the target looks innocent and is biased: words that the draft proposes often "
                    "get their chance twice.",
                    wrong=lambda p, q: list(p),
                ),
                Misconception(
                    "p and q are swapped",
                    "max(0, q - p) holds the words that have come out *too often* already.",
                    wrong=lambda p, q: residual(q, p),
                ),
                Misconception(
                    "absolute differences",
                    "A word that the draft proposes too often is not missing: its part of the residual is 0.",
                    wrong=lambda p, q: [
                        abs(a - b) / sum(abs(c - d) for c, d in zip(p, q, strict=True))
                        for a, b in zip(p, q, strict=True)
                    ],
                ),
                Misconception(
                    "redrawn from the draft",
                    "The draft was wrong about this position; another draw from it is wrong the same way.",
                    wrong=lambda p, q: list(q),
                ),
            ],
        ),
        takeaway=(
            "The sum that you divide by is the chance of a rejection: what is missing is exactly what was rejected."
        ),
    ),
    Exercise(
        id="03.3",
        title="What one step emits, exactly",
        minutes=8,
        difficulty="medium",
        prompt=(
            "A word is drawn from `q` and kept with the chance of 03.1. If it is rejected, another one is drawn from "
            "`r`. Return the distribution of the word that comes out: no random numbers, add up all ways. (`r` is "
            "any distribution; right engines use the residual.)"
        ),
        hints=(
            "Two ways lead to word x: drafted and kept, or something else was rejected and x was redrawn.",
            "Drafted and kept: q[x] * min(1, p[x]/q[x]), that is min(p[x], q[x]). Rejected at all: 1 minus the sum "
            "of these.",
            "`kept = [min(a, b) for a, b in zip(p, q)]`, then `kept[x] + (1 - sum(kept)) * r[x]`",
        ),
        check=Check(
            reference=emitted,
            cases=[(P, Q, residual(P, Q)), (P, Q, P), ([0.5, 0.5], [0.9, 0.1], [0.5, 0.5]), (P, P, Q)],
            random_cases=some_triple,
            misconceptions=[
                Misconception(
                    "it is always p",
                    "It is p when `r` is the residual. Redraw from anything else, and something else comes out.",
                    wrong=lambda p, q, r: list(p),
                ),
                Misconception(
                    "the redraw is not weighted",
                    "A redraw happens only after a rejection: weigh r with the chance of one.",
                    wrong=lambda p, q, r: [min(a, b) + x for a, b, x in zip(p, q, r, strict=True)],
                ),
                Misconception(
                    "rejected words vanish",
                    "These are the kept words only, and they do not sum to 1. After a rejection a word comes out too.",
                    wrong=lambda p, q, r: [min(a, b) for a, b in zip(p, q, strict=True)],
                ),
                Misconception(
                    "each word is replaced by itself",
                    "You weigh r[x] with the chance that *x* was rejected. Any rejected word can be replaced by x.",
                    wrong=lambda p, q, r: [min(a, b) + (b - min(a, b)) * x for a, b, x in zip(p, q, r, strict=True)],
                ),
                Misconception(
                    "kept only where p >= q",
                    "A word that is proposed too often is kept with chance p/q, not thrown away.",
                    wrong=lambda p, q, r: [
                        (b if a >= b else 0.0) + sum(d for c, d in zip(p, q, strict=True) if c < d) * x
                        for a, b, x in zip(p, q, r, strict=True)
                    ],
                ),
            ],
        ),
        takeaway=(
            "With the residual the two ways add up to p, word for word, whatever the draft says. That is the whole "
            "proof."
        ),
    ),
    Exercise(
        id="03.4",
        title="How often is a drafted token accepted?",
        minutes=4,
        difficulty="easy",
        prompt=(
            "Return the chance that a word drawn from `q` is accepted, before you know which word it is. `p` and `q` "
            "are lists."
        ),
        hints=(
            "Average the chance of 03.1 over the words. With which weights are they drawn?",
            "sum of q[x] * min(1, p[x]/q[x]), and q times that is min(p, q).",
            "`zip(p, q)` walks over the words; each one adds the smaller of its two.",
        ),
        check=Check(
            reference=acceptance,
            cases=[(P, Q), (P, P), ([1.0, 0.0], [0.0, 1.0]), ([0.25, 0.25, 0.5], [0.1, 0.8, 0.1])],
            random_cases=some_pair,
            misconceptions=[
                Misconception(
                    "both draw the same word by chance",
                    "sum p*q is the chance that two *independent* draws agree. Acceptance does not compare two "
                    "draws: with p = q it is 1.",
                    wrong=lambda p, q: sum(a * b for a, b in zip(p, q, strict=True)),
                ),
                Misconception(
                    "half of the difference is forgotten",
                    "The sum of |p - q| counts every shifted piece twice, once where it is missing and once where it "
                    "is too much.",
                    wrong=lambda p, q: 1 - sum(abs(a - b) for a, b in zip(p, q, strict=True)),
                ),
                Misconception(
                    "all words weigh the same",
                    "You average the chances over the vocabulary. Words come up as often as the draft draws them: "
                    "weigh with q.",
                    wrong=lambda p, q: sum(min(1.0, a / b) if b else 1.0 for a, b in zip(p, q, strict=True)) / len(p),
                ),
                Misconception(
                    "weighted with p",
                    "The word is drawn from the draft, so the weights are q.",
                    wrong=lambda p, q: sum(a * (min(1.0, a / b) if b else 1.0) for a, b in zip(p, q, strict=True)),
                ),
                Misconception(
                    "this is the chance of a rejection",
                    "You return the total variation distance; acceptance is 1 minus it.",
                    wrong=lambda p, q: 1 - acceptance(p, q),
                ),
            ],
        ),
        takeaway=(
            "Acceptance of a drawn word is the overlap of two distributions, 1 - TV(p, q). It measures likeness, not "
            "how often argmaxes agree."
        ),
    ),
    Exercise(
        id="03.5",
        title="A draft that does not draw",
        minutes=6,
        difficulty="easy",
        prompt=(
            "The target samples from `p`. The draft does not draw: it always proposes its most likely word, the argmax "
            "of `q` (there are no ties). Return the pair `(chance, after)`: the chance with which this word is kept, "
            "and the distribution from which its replacement is drawn, so that exactly `p` comes out."
        ),
        hints=(
            "Which probability has the word, seen from outside, of being proposed here? That number is its q.",
            "The word comes every time: its q is 1, all others have 0. Put that into 03.1 and 03.2.",
            "`x = q.index(max(q))`; kept with `p[x]`; after that `p` without x, divided by `1 - p[x]`",
        ),
        check=Check(
            reference=first_choice,
            cases=[
                (P, Q),
                (P, [0.5, 0.3, 0.2]),
                ([0.5, 0.5, 0.0], [0.2, 0.2, 0.6]),
                ([0.2, 0.3, 0.5], [0.1, 0.8, 0.1]),
            ],
            random_cases=some_pair,
            misconceptions=[
                Misconception(
                    "judged as if it had been drawn",
                    "q[x] is how often a *draw* would bring the word. This draft proposes it every time, so its q is "
                    "1. With p/q and max(0, p - q) the word comes out too often.",
                    wrong=lambda p, q: (min(1.0, p[best_word(q)] / q[best_word(q)]), residual(p, q)),
                ),
                Misconception(
                    "the overlap of p and q",
                    "1 - TV(p, q) is the acceptance of a draft that draws. Here one word is proposed, always the same.",
                    wrong=lambda p, q: (acceptance(p, q), first_choice(p, q)[1]),
                ),
                Misconception(
                    "kept if the target likes it best",
                    "That is greedy decoding. This target samples: the word must come out with p of it, no more and "
                    "no less.",
                    wrong=lambda p, q: (float(best_word(p) == best_word(q)), first_choice(p, q)[1]),
                ),
                Misconception(
                    "redrawn from p",
                    "The rejected word would get its chance twice. After the rejection it is out.",
                    wrong=lambda p, q: (p[best_word(q)], list(p)),
                ),
                Misconception(
                    "redrawn from max(0, p - q)",
                    "That residual belongs to a draw from q. Here q is 1 at one word and 0 elsewhere: what is left of "
                    "p is all of it but that word.",
                    wrong=lambda p, q: (p[best_word(q)], residual(p, q)),
                ),
                Misconception(
                    "what is left is not renormalised",
                    "A distribution sums to 1: divide by 1 - p[x].",
                    wrong=lambda p, q: (p[best_word(q)], [0.0 if i == best_word(q) else a for i, a in enumerate(p)]),
                ),
                Misconception(
                    "the draft's word is dropped from q instead of p",
                    "The replacement is the target's: draw it from p without the word.",
                    wrong=lambda p, q: (
                        p[best_word(q)],
                        normalised([0.0 if i == best_word(q) else b for i, b in enumerate(q)]),
                    ),
                ),
            ],
        ),
        takeaway=(
            "A word proposed without chance is accepted with p of it: as lossless, but its acceptance is no overlap. "
            "With p = q a draw is always accepted, the first choice only with the largest p."
        ),
    ),
    Exercise(
        id="03.6",
        title="A greedy step",
        minutes=6,
        difficulty="medium",
        prompt=(
            "`draft` lists the drafted tokens. `choices` comes out of *one* target forward and is one longer: "
            "`choices[0]` is the target's most likely token after the text, `choices[i]` the one after `draft[i - 1]`. "
            "Return the list of tokens that the step emits."
        ),
        hints=(
            "Walk along the draft while it says what the target would have said.",
            "At the first difference the target's own token takes the place. If there is none, one more token is free.",
            "Count the equal tokens at the start: n. Emitted are `draft[:n]` and `choices[n]`.",
        ),
        check=Check(
            reference=greedy_step,
            cases=[
                (["the", "cat", "sat"], ["the", "cat", "ran", "fast"]),
                (["the", "cat", "sat"], ["the", "cat", "sat", "down"]),
                (["a", "b", "c"], ["x", "b", "c", "d"]),
                ([], ["once"]),
                (["a", "b", "c", "d"], ["a", "x", "c", "y", "z"]),
            ],
            random_cases=some_words,
            misconceptions=[
                Misconception(
                    "matches after a mismatch are kept",
                    "`choices[2]` is what follows draft[1]. Once draft[1] is wrong, everything behind it answers "
                    "another text.",
                    wrong=lambda draft, choices: [*matches(draft, choices), choices[len(matches(draft, choices))]],
                ),
                Misconception(
                    "the correction is missing",
                    "The step also emits the target's own token: it is there already, and without it a bad draft "
                    "stands still.",
                    wrong=lambda draft, choices: greedy_step(draft, choices)[:-1],
                ),
                Misconception(
                    "the last row instead of the row after the accepted tokens",
                    "The last row of `choices` follows the *whole* draft. After n accepted tokens the right row is "
                    "n: off by a few here means a token for another text.",
                    wrong=lambda draft, choices: [*greedy_step(draft, choices)[:-1], choices[-1]],
                ),
                Misconception(
                    "the row is off by one",
                    "`choices[n - 1]` is the target's word for the token just accepted, so that token comes out twice.",
                    wrong=lambda draft, choices: [
                        *greedy_step(draft, choices)[:-1],
                        choices[max(0, len(greedy_step(draft, choices)) - 2)],
                    ],
                ),
                Misconception(
                    "the draft is believed",
                    "Greedy means: a token is accepted only if it is the *target's* most likely one.",
                    wrong=lambda draft, choices: [*draft, choices[-1]],
                ),
                Misconception(
                    "no bonus token",
                    "When the whole draft matches, the row after its last token is there too, and its token is free.",
                    wrong=lambda draft, choices: greedy_step(draft, choices)[: max(1, len(draft))],
                ),
            ],
        ),
        takeaway=(
            "Every token is one that plain greedy decoding would have chosen. And one forward was enough, mismatch "
            "or not."
        ),
    ),
    Exercise(
        id="03.7",
        title="The best K, from measured times",
        minutes=8,
        difficulty="medium",
        prompt=(
            "`survival[i]` is the share of steps that accept more than i drafted tokens. `forward_ms[i]` is the "
            "measured time of one target forward over i + 1 tokens, and drafting costs `draft_ms` per token. Return "
            "`(k, speedup)` for the draft length k of 0 to `len(survival)` with the highest speedup over plain "
            "decoding; k = 0 has speedup 1."
        ),
        hints=(
            "A plain step emits 1 token in forward_ms[0]. What does a step with k drafted tokens emit, and what does "
            "it cost?",
            "Tokens: 1 + survival[0] + ... + survival[k-1]. Cost: forward_ms[k] + k * draft_ms.",
            "speedup(k) = tokens * forward_ms[0] / cost. Take the largest over k, with 1 for k = 0.",
        ),
        check=Check(
            reference=fastest_k,
            cases=[
                ([0.7, 0.5, 0.35, 0.2], [20.0, 20.5, 21.0, 21.5, 22.0], 1.0),
                ([0.7, 0.5, 0.35, 0.2], [43.0, 75.0, 95.0, 60.0, 54.0], 1.0),
                ([0.2, 0.05], [20.0, 26.0, 30.0], 4.0),
                ([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [20.0, 21.0, 22.0, 30.0, 38.0, 46.0, 54.0], 0.5),
            ],
            random_cases=some_prices,
            misconceptions=[
                Misconception(
                    "the target's own token is missing",
                    "Every step emits one token of the target's own besides the accepted ones.",
                    wrong=lambda *prices: fastest_with(*prices, own=0),
                ),
                Misconception(
                    "the verify pass is one token short",
                    "To verify k drafted tokens the forward runs over k + 1: the last token of the text is not in "
                    "the cache yet.",
                    wrong=lambda *prices: fastest_with(*prices, short=1),
                ),
                Misconception(
                    "the draft is paid once",
                    "`draft_ms` is the time per drafted token.",
                    wrong=lambda survival, forward_ms, draft_ms: fastest_with(
                        survival, forward_ms, draft_ms, per_token=0
                    ),
                ),
                Misconception(
                    "drafting is free",
                    "The draft's own time is part of the step.",
                    wrong=lambda survival, forward_ms, draft_ms: fastest_k(survival, forward_ms, 0.0),
                ),
                Misconception(
                    "a rejection is charged a second pass",
                    "One forward per step, rejected or not: the correction comes out of the same logits.",
                    wrong=lambda *prices: fastest_with(*prices, second=1),
                ),
                Misconception(
                    "the longest draft",
                    "More drafted tokens are not always faster: late ones are rarely accepted and always paid.",
                    wrong=longest_draft,
                ),
            ],
        ),
        takeaway=(
            "The same draft can gain or lose: the kernel's curve decides. Where two rows cost as much as eight, no "
            "short draft pays."
        ),
    ),
)
