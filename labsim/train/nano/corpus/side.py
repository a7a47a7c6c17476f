"""Two sides of one grammar: what training may say and what only the held-out set says.

A generated corpus leaks easily: the held-out set repeats the training set's sentences with other numbers, and its
perplexity measures memory. Here every word pool and every list of template sentences is cut in two, and a generator
asks its `Side` for both. It cannot reach the other side's half. `Side.said` records each template used, so a test
can prove that the halves never meet.

A template holds slots: `{city}` draws from the pool `city`, `{city1}` draws once and keeps the value in the given
context (so that a later sentence can repeat it), `{2..99}` draws a whole number.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import TypeVar

from .pools import POOLS

T = TypeVar("T")
HELD_OUT_EVERY = 5
SLOT = re.compile(r"(\b[Aa] )?\{(?:([a-z_]+)(\d?)|(\d+)\.\.(\d+))\}")
VOWEL = re.compile(r"(?!one\b|un[io]|us[eu]|eu)[aeiou]", re.IGNORECASE)


def half(pool: Sequence[T], held_out: bool) -> list[T]:
    """One side's part of a pool: every fifth entry, from the third on, is held out. ValueError for under 3 entries."""
    if len(pool) < 3:
        raise ValueError(f"a pool of {len(pool)} cannot be split (give it at least 3 entries): {pool!r}")
    return [entry for index, entry in enumerate(pool) if (index % HELD_OUT_EVERY == 2) == held_out]


class Side:
    """One side (training or held-out) with its own random stream."""

    def __init__(self, held_out: bool, seed: int | str) -> None:
        self.held_out = held_out
        self.rng = random.Random(f"{seed}/{'held out' if held_out else 'training'}")
        self.said: set[str] = set()
        self._halves: dict[int, tuple[Sequence[object], list[object]]] = {}

    def _half(self, pool: Sequence[T]) -> list[T]:
        # The pool itself is kept beside its half: an id is only unique while the object lives.
        if id(pool) not in self._halves:
            self._halves[id(pool)] = (pool, half(pool, self.held_out))
        return self._halves[id(pool)][1]

    def pick(self, pool: Sequence[T] | str) -> T | str:
        """One entry of this side's part of a pool (or of the named pool)."""
        return self.rng.choice(self._half(POOLS[pool] if isinstance(pool, str) else pool))

    def picks(self, pool: Sequence[T] | str, count: int) -> list[T]:
        """Several different entries (fewer if the part is smaller)."""
        entries = self._half(POOLS[pool] if isinstance(pool, str) else pool)
        return self.rng.sample(entries, min(count, len(entries)))

    def say(self, templates: Sequence[str], context: dict[str, object] | None = None) -> str:
        """One template of this side, its slots filled from the context, else from the pools."""
        return self.fill(self.pick(templates), context)

    def fill(self, template: str, context: dict[str, object] | None = None) -> str:
        """A template that was picked already (as a part of a larger entry), its slots filled."""
        self.said.add(template)
        context = {} if context is None else context

        def drawn(name: str, digit: str) -> str:
            if (key := name + digit) not in context:
                value = self.pick(name)
                if not digit:
                    return str(value)
                context[key] = value
            return str(context[key])

        def fill_slot(match: re.Match[str]) -> str:
            article, name, digit, low, high = match.groups()
            value = str(self.rng.randint(int(low), int(high))) if low else drawn(name, digit)
            if article and VOWEL.match(value):
                article = f"{article[0]}n "
            return (article or "") + value

        return SLOT.sub(fill_slot, template)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.rng.random() < probability
