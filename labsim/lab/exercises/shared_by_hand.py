"""A row of training-time test shared by ranks, on paper: the right rules of notebook 12, inputs, mistakes people make.

A row has positions 0 ... length - 1. Step k of the chain that starts at position t reads token t + 1 + k, and is judged
by the teacher's state at t + 1 + k. Ranks hold chunks of the row, contiguous or zigzag (notebook 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

KINDS = ("contiguous", "zigzag")
FAULTS = ("halo one short", "seam", "positions from zero", "branch stands still")
TRACES = ("healthy", "divided", "mean of means", "not reduced")
Trace = dict[str, list[float]]
Rule = Callable[[int], int]


def chunks(kind: str, length: int, ring: int, rank: int) -> list[range]:
    """The runs of positions that a rank holds; the length divides."""
    count = ring if kind == "contiguous" else 2 * ring
    size = length // count
    held = [rank] if kind == "contiguous" else [rank, 2 * ring - 1 - rank]
    return [range(at * size, (at + 1) * size) for at in held]


def own(kind: str, length: int, ring: int, rank: int) -> list[int]:
    """All positions of a rank, ascending."""
    return [position for chunk in chunks(kind, length, ring, rank) for position in chunk]


def holder(kind: str, position: int, length: int, ring: int) -> int:
    return next(rank for rank in range(ring) if position in own(kind, length, ring, rank))


# --- what a query sees ----------------------------------------------------------------------------------------------


def keys_seen(position: int, step: int, length: int, ring: int, kind: str = "zigzag") -> tuple[int, int, int]:
    """(keys of the text that lie at home, keys of the text that come by, keys of its own branch) of a query."""
    mine = set(own(kind, length, ring, holder(kind, position, length, ring)))
    home = sum(key in mine for key in range(position + 1))
    return home, position + 1 - home, step


def seen_otherwise(
    rule: Callable[[int, int, int, int, int], tuple[int, int, int]],
) -> Callable[[int, int, int, int], tuple[int, int, int]]:
    """Another rule of (home, others, branch, position, step)."""

    def answer(position: int, step: int, length: int, ring: int) -> tuple[int, int, int]:
        return rule(*keys_seen(position, step, length, ring), position, step)

    return answer


def one_chunk_is_home(position: int, step: int, length: int, ring: int) -> tuple[int, int, int]:
    """The rank's early chunk is taken for another rank's."""
    home = position % (length // (2 * ring)) + 1
    return home, position + 1 - home, step


# --- which tokens a rank must read ----------------------------------------------------------------------------------


def halo(kind: str, length: int, ring: int, rank: int, steps: int) -> list[int]:
    """Positions beyond its own whose tokens and teacher's states a rank needs for so many steps."""
    mine = own(kind, length, ring, rank)
    wanted = {position + ahead for position in mine for ahead in range(1, steps + 1)}
    return sorted(position for position in wanted - set(mine) if position < length)


def halo_of(reach: Rule) -> Callable[[str, int, int, int, int], list[int]]:
    """The halo for another number of positions ahead."""
    return lambda kind, length, ring, rank, steps: halo(kind, length, ring, rank, reach(steps))


def halo_behind_the_shard(kind: str, length: int, ring: int, rank: int, steps: int) -> list[int]:
    """Behind the last position only."""
    last = own(kind, length, ring, rank)[-1]
    return [position for position in range(last + 1, last + 1 + steps) if position < length]


def halo_of_the_next_rank(kind: str, length: int, ring: int, rank: int, steps: int) -> list[int]:
    """The next rank's first positions of each chunk, as if every chunk were followed by that rank's."""
    if rank + 1 == ring:
        return []
    found = [position for chunk in chunks(kind, length, ring, rank + 1) for position in chunk[:steps]]
    return sorted(found)


def halo_before(kind: str, length: int, ring: int, rank: int, steps: int) -> list[int]:
    """On the left of each chunk."""
    mine = own(kind, length, ring, rank)
    wanted = {position - back for position in mine for back in range(1, steps + 1)}
    return sorted(position for position in wanted - set(mine) if position >= 0)


def halo_and_own(kind: str, length: int, ring: int, rank: int, steps: int) -> list[int]:
    """Behind each chunk, whoever holds it."""
    found = {p for chunk in chunks(kind, length, ring, rank) for p in range(chunk.stop, chunk.stop + steps)}
    return sorted(position for position in found if position < length)


def halo_past_the_end(kind: str, length: int, ring: int, rank: int, steps: int) -> list[int]:
    mine = own(kind, length, ring, rank)
    return sorted({position + ahead for position in mine for ahead in range(1, steps + 1)} - set(mine))


# --- where they stand -----------------------------------------------------------------------------------------------


def turned(kind: str, length: int, ring: int, rank: int, step: int) -> tuple[list[int], list[list[int]]]:
    """(rotary position of each of the rank's queries at a step, those of the branch keys that each of them sees)."""
    return turned_by(lambda t, step: t + step, lambda t, made: t + made)(kind, length, ring, rank, step)


def turned_by(
    query: Callable[[int, int], int], key: Callable[[int, int], int]
) -> Callable[[str, int, int, int, int], tuple[list[int], list[list[int]]]]:
    """Other positions of a query (t, step) and of a branch key (t, the step that made it)."""

    def answer(kind: str, length: int, ring: int, rank: int, step: int) -> tuple[list[int], list[list[int]]]:
        mine = own(kind, length, ring, rank)
        return [query(t, step) for t in mine], [[key(t, made) for made in range(1, step + 1)] for t in mine]

    return answer


def turned_with_the_query(kind: str, length: int, ring: int, rank: int, step: int) -> tuple[list[int], list[list[int]]]:
    """All branch keys at the query's own position, as if they were turned anew in each step."""
    mine = own(kind, length, ring, rank)
    return [t + step for t in mine], [[t + step] * step for t in mine]


def turned_from_zero(kind: str, length: int, ring: int, rank: int, step: int) -> tuple[list[int], list[list[int]]]:
    """Places of the shard in place of positions of the row."""
    places = range(len(own(kind, length, ring, rank)))
    return [t + step for t in places], [[t + made for made in range(1, step + 1)] for t in places]


def turned_contiguous(kind: str, length: int, ring: int, rank: int, step: int) -> tuple[list[int], list[list[int]]]:
    """The positions of a contiguous shard, whatever the layout."""
    return turned("contiguous", length, ring, rank, step)


def turned_without_the_newest(
    kind: str, length: int, ring: int, rank: int, step: int
) -> tuple[list[int], list[list[int]]]:
    queries, keys = turned(kind, length, ring, rank, step)
    return queries, [one[:-1] for one in keys]


# --- the fault at the border ----------------------------------------------------------------------------------------


def counted(length: int, step: int) -> list[int]:
    """Positions whose guess counts, in a row that is one document with an answer from its second token on."""
    return list(range(length - 2 - step))


def symptoms_of(fault: str, kind: str, length: int, ring: int, steps: int) -> list[list[int]]:
    """Where the loss is wrong, by step, as reasoning has it; `diagnose` undoes it. Rings of two or more."""
    size = length // (ring if kind == "contiguous" else 2 * ring)
    ends = [t for rank in range(ring) for t in own(kind, length, ring, rank) if holds_end(kind, length, ring, rank, t)]
    rules: dict[str, Callable[[int, int], bool]] = {
        "healthy": lambda t, step: False,
        "halo one short": lambda t, step: step == steps - 1 and t in ends,
        # The wrong token's key is part of the history, which all later queries see; each step reaches one further in.
        "seam": lambda t, step: t >= size - 1 - step,
        "positions from zero": lambda t, step: t >= size,
        "branch stands still": lambda t, step: step > 0,
    }
    return [[t for t in counted(length, step) if rules[fault](t, step)] for step in range(steps)]


def holds_end(kind: str, length: int, ring: int, rank: int, position: int) -> bool:
    """Whether the rank's run ends here."""
    mine = own(kind, length, ring, rank)
    return position in mine and position + 1 not in mine


def diagnose(wrong: Sequence[Sequence[int]], chunk: int) -> str:
    """The fault behind the positions at which each step's loss is wrong; three steps or more."""
    if not any(wrong):
        return "healthy"
    if not wrong[0]:
        return "branch stands still" if wrong[1] else "halo one short"
    return "seam" if min(wrong[0]) % chunk == chunk - 1 else "positions from zero"


def renamed(names: dict[str, str]) -> Callable[[Sequence[Sequence[int]], int], str]:
    """The right diagnosis, some names taken for others."""
    return lambda wrong, chunk: names.get(diagnose(wrong, chunk), diagnose(wrong, chunk))


# --- losses and their norms -----------------------------------------------------------------------------------------


def mean_of_means(sums: Sequence[float], counts: Sequence[int]) -> float:
    """What comes out where each rank divides by its own guesses; a rank without any reports 0."""
    return sum(total / max(1, count) for total, count in zip(sums, counts, strict=True)) / len(sums)


def reduced(sums: Sequence[float], counts: Sequence[int]) -> tuple[float, float]:
    """(the mean over all guesses, by which share the mean of the ranks' means is off)."""
    right = sum(sums) / sum(counts)
    return right, mean_of_means(sums, counts) / right - 1


def trace_fault(alone: Trace, shared: Trace, ranks: int) -> str:
    """What is wrong with a shared training, from its losses and gradient norms beside those of one rank."""
    if not math.isclose(alone["loss"][0], shared["loss"][0], rel_tol=1e-6):
        return "mean of means"
    ratio = shared["norm"][0] / alone["norm"][0]
    if math.isclose(ratio, 1, rel_tol=1e-6):
        return "healthy"
    return "divided" if math.isclose(ratio, 1 / ranks, rel_tol=1e-6) else "not reduced"


def trace_renamed(names: dict[str, str]) -> Callable[[Trace, Trace, int], str]:
    """The right diagnosis, some names taken for others."""
    return lambda alone, shared, ranks: names.get(trace_fault(alone, shared, ranks), trace_fault(alone, shared, ranks))


def trace_at_the_end(alone: Trace, shared: Trace, ranks: int) -> str:
    """The last step in place of the first, where a training that drifted has another loss too."""
    return trace_fault(
        *({name: list(reversed(values)) for name, values in one.items()} for one in (alone, shared)), ranks
    )


# --- work and room --------------------------------------------------------------------------------------------------


def pairs(kind: str, length: int, ring: int, rank: int, steps: int) -> int:
    """Query-key pairs that a rank computes in all steps of training-time test."""
    mine = own(kind, length, ring, rank)
    return steps * sum(t + 1 for t in mine) + len(mine) * steps * (steps - 1) // 2


def pairs_by(
    rule: Callable[[int, int, int, int], int],
) -> Callable[[str, int, int, int, int], int]:
    """Another sum of (pairs with the text in one step, positions of the rank, steps, length)."""

    def answer(kind: str, length: int, ring: int, rank: int, steps: int) -> int:
        mine = own(kind, length, ring, rank)
        return rule(sum(t + 1 for t in mine), len(mine), steps, length)

    return answer


def ranks_needed(length: int, memory: float, usable: float, fixed: float, per_token: float) -> int:
    """The smallest power of two of ranks, up to 64, on which the row fits; 0 where none is enough."""
    return needed(lambda n: fixed + per_token * math.ceil(length / n), usable * memory)


def needed(bytes_of: Callable[[int], float], room: float, tried: Sequence[int] = (1, 2, 4, 8, 16, 32, 64)) -> int:
    return next((n for n in tried if bytes_of(n) <= room), 0)


# --- inputs ---------------------------------------------------------------------------------------------------------


def some_query(rng: Random) -> tuple[int, int, int, int]:
    ring = rng.randint(2, 4)
    length = 2 * ring * rng.randint(2, 6)
    return rng.randrange(length), rng.randint(0, 6), length, ring


def some_part(rng: Random) -> tuple[str, int, int, int, int]:
    """Chunks may be shorter than the number of steps."""
    kind, ring = rng.choice(KINDS), rng.randint(2, 4)
    return kind, 2 * ring * rng.randint(2, 6), ring, rng.randrange(ring), rng.randint(1, 4)


def some_symptoms(rng: Random) -> tuple[list[list[int]], int]:
    kind, ring, steps = rng.choice(KINDS), rng.randint(2, 3), rng.randint(3, 4)
    length = 2 * ring * rng.randint(steps + 1, 7)
    wrong = symptoms_of(rng.choice(("healthy", *FAULTS)), kind, length, ring, steps)
    return wrong, length // (ring if kind == "contiguous" else 2 * ring)


def some_losses(rng: Random) -> tuple[list[float], list[int]]:
    """Ranks with many guesses, with few, and sometimes with none."""
    counts = [rng.choice((0, rng.randint(1, 9), rng.randint(20, 200))) for _ in range(rng.randint(2, 5))]
    counts[0] = counts[0] or 7
    return [round(count * rng.uniform(0.5, 6), 3) for count in counts], counts


def some_trace(rng: Random) -> tuple[Trace, Trace, int]:
    return trace_of(rng.choice(TRACES), rng)


def trace_of(fault: str, rng: Random) -> tuple[Trace, Trace, int]:
    """(a training alone, the same shared with a fault, ranks), made up."""
    ranks, steps = rng.choice((2, 4, 8)), rng.randint(3, 5)
    alone = {
        "loss": [round(5 - 0.2 * step + rng.uniform(0, 0.1), 4) for step in range(steps)],
        "norm": [round(rng.uniform(1, 3), 4) for _ in range(steps)],
    }
    wobble = [rng.uniform(1.05, 1.3) for _ in range(steps)]
    shared = {name: list(values) for name, values in alone.items()}
    if fault == "divided":
        shared["norm"] = [norm / ranks for norm in alone["norm"]]
    elif fault == "mean of means":
        shared = {name: [a * b for a, b in zip(values, wobble, strict=True)] for name, values in alone.items()}
    elif fault == "not reduced":
        shared["norm"] = [norm * rng.uniform(0.55, 0.95) for norm in alone["norm"]]
        shared["loss"] = [loss * (wobble[step] if step else 1) for step, loss in enumerate(alone["loss"])]
    return alone, shared, ranks


def some_gpu(rng: Random) -> tuple[int, float, float, float, float]:
    length = rng.choice((32_768, 65_536, 100_000, 131_072))
    return length, rng.choice((80e9, 141e9)), 0.92, rng.choice((12e9, 40e9, 76e9)), rng.choice((4e5, 1e6, 3e6, 9e6))
