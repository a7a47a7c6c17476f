"""From conversations to rows of tokens.

Training reads shards. A shard is a pure function of (seed, number, row length): conversations are drawn by domain
share, rendered in one of the two templates, shuffled, joined end to end and cut into rows. So a run that resumes at
step n needs no reader state: it computes the shard that step n reads.
"""

from __future__ import annotations

import random

import numpy as np
from tokenizers import Tokenizer

from .corpus import DOMAINS, MIX, texts
from .corpus.side import Side
from .templates import BOS, END_OF_TEXT, render

CHATML_SHARE = 0.65
WORDS_PER_TOKEN = 0.6


def as_text(text: list[dict[str, str]] | str, rng: random.Random) -> str:
    """A conversation in a template drawn at random, or plain source between its marks."""
    if isinstance(text, str):
        return f"{BOS}{text}{END_OF_TEXT}"
    return render(text, "chatml" if rng.random() < CHATML_SHARE else "headers")


def tokens_of(tokenizer: Tokenizer, domain: str, side: Side, count: int, max_words: int) -> list[list[int]]:
    """Token lists of one domain with at least `count` tokens together."""
    found: list[list[int]] = []
    stream = texts(domain, side, max_words=max_words)
    total = 0
    while total < count:
        batch = [as_text(next(stream), side.rng) for _ in range(32)]
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
            if total < count:
                found.append(encoding.ids)
                total += len(encoding.ids)
    return found


def shard(tokenizer: Tokenizer, seed: int, number: int, rows: int, length: int) -> np.ndarray:
    """Training rows, (rows, length) uint16. A document fits the row, with room for the questions about it."""
    size = rows * length
    max_words = max(40, int(length * WORDS_PER_TOKEN * 0.75))
    pieces: list[list[int]] = []
    for domain in DOMAINS:
        side = Side(False, f"shard/{domain}/{seed}/{number}")
        pieces += tokens_of(tokenizer, domain, side, int(size * MIX[domain]) + 1, max_words)
    random.Random(f"shuffle/{seed}/{number}").shuffle(pieces)
    flat = np.fromiter((token for piece in pieces for token in piece), np.uint16)
    return flat[:size].reshape(rows, length)


def held_out_rows(tokenizer: Tokenizer, domain: str, seed: int, rows: int, length: int) -> np.ndarray:
    """Held-out rows of one domain, (rows, length) uint16."""
    return evaluation_rows(tokenizer, domain, seed, rows, length, held_out=True)


def evaluation_rows(
    tokenizer: Tokenizer, domain: str, seed: int, rows: int, length: int, *, held_out: bool
) -> np.ndarray:
    """Rows of one domain that no shard contains, (rows, length) uint16.

    With `held_out`, sentences, names and modules are new. Without, the training side's are put together anew.
    """
    side = Side(held_out, f"held out/{domain}/{seed}")
    pieces = tokens_of(tokenizer, domain, side, rows * length, max(40, int(length * WORDS_PER_TOKEN * 0.75)))
    flat = np.fromiter((token for piece in pieces for token in piece), np.uint16)
    return flat[: rows * length].reshape(rows, length)
