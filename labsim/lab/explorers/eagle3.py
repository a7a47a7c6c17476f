"""Explorer of notebook 05: what a draft vocabulary of N tokens costs in acceptance and saves in weights.

The answers are real ones. A draft that guesses a sayable token right with a given chance walks over them: chains of K,
a token outside the vocabulary breaks a chain, the target adds one token per step. With chance 1 that is the cap for
every draft. Expected values are exact, by the chances of where a step begins.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...drafts.vocabulary import count_tokens, coverage, most_frequent
from ..explorer import Explorer, Frame, Series, Slider, explore

CHAINS = (1, 3, 5, 7)
CHANCES = (0.6, 0.8, 1.0)


def sizes_up_to(vocab_size: int, smallest: int = 16) -> tuple[int, ...]:
    """Powers of two from `smallest` up, and the whole vocabulary.

    >>> sizes_up_to(100)
    (16, 32, 64, 100)
    """
    found = [smallest]
    while found[-1] * 2 < vocab_size:
        found.append(found[-1] * 2)
    return (*found, vocab_size)


def expected_length(sayable: Sequence[Sequence[bool]], chance: float, k: int) -> float:
    """Tokens per verify step over several answers; `sayable[a][i]` is whether the draft can say token i of answer a."""
    tokens, steps = 0, 0.0
    for answer in sayable:
        begins = [0.0] * (len(answer) + k + 2)
        begins[0] = 1.0
        for at in range(len(answer)):
            here = begins[at]
            if here:
                steps += here
                alive = here
                for run in range(k + 1):
                    right = chance if run < k and at + run < len(answer) and answer[at + run] else 0.0
                    begins[at + run + 1] += alive * (1 - right)
                    alive *= right
                    if not alive:
                        break
        tokens += len(answer)
    return tokens / steps


def sized(
    training: Sequence[Sequence[int]], held_out: Sequence[Sequence[int]], vocab_size: int, hidden_size: int
) -> Explorer:
    """Acceptance length over N; sliders for N, the draft's chance and K.

    Args:
        training: answers that the vocabulary is counted on.
        held_out: answers that it is tried on.
    """
    counts_V, theirs_V = count_tokens(training, vocab_size), count_tokens(held_out, vocab_size)
    sizes = sizes_up_to(vocab_size)
    known = {size: most_frequent(counts_V, size) for size in sizes}
    covered = {size: coverage(theirs_V, one) for size, one in known.items()}
    sayable = {
        size: [one.t2d[torch.tensor(list(answer))].tolist() for answer in held_out] for size, one in known.items()
    }
    lengths = {
        (size, chance, k): expected_length(sayable[size], chance, k)
        for size in sizes
        for chance in CHANCES
        for k in CHAINS
    }

    def frame(size: int, chance: float, k: int) -> Frame:
        here, cap, whole = lengths[size, chance, k], lengths[size, 1.0, k], lengths[sizes[-1], chance, k]
        text = (
            f"N = {size}: {covered[size]:.1%} of the held-out tokens can be said, by a head of "
            f"{size * hidden_size / 1e6:.2f} M weights. Chains of {k}, sayable tokens right in {chance:.0%}: "
            f"{here:.2f} tokens per step, {whole - here:.2f} below the whole vocabulary. "
            f"No draft of this N exceeds {cap:.2f}."
        )
        return Frame(
            [
                Series("cap: never wrong", sizes, [lengths[n, 1.0, k] for n in sizes]),
                Series("this draft", sizes, [lengths[n, chance, k] for n in sizes]),
                Series("chosen N", [size], [here], kind="points"),
            ],
            text=text,
            alt=f"Two curves of tokens per step that rise over the vocabulary size and level off. {text}",
            mark=(size, f"N = {size}"),
        )

    middle = sizes[len(sizes) // 2]
    return explore(
        frame,
        {
            "size": Slider("draft vocabulary N", sizes, value=middle, unit="tokens"),
            "chance": Slider("sayable tokens guessed right", CHANCES, value=0.8),
            "k": Slider("draft length K", CHAINS, value=5, unit="tokens"),
        },
        title="How many words does a draft need?",
        x_label="draft vocabulary N (tokens)",
        y_label="tokens per step",
        x_scale="log2",
    )
