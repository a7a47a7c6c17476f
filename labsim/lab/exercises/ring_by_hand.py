"""Ring attention on paper: the right rules of notebook 10, inputs for its exercises, and mistakes people make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

NOTHING, TRIANGLE, SQUARE = "nothing", "triangle", "square"
Wrong = dict[str, list[bool]]
Shards = Sequence[Sequence[int]]


def at_hop(ring: int, rank: int, hop: int) -> tuple[int, str]:
    """(whose keys a rank holds at a hop, what of them its queries see), contiguous and causal."""
    owner = (rank - hop) % ring
    return owner, seen(rank, owner)


def seen(rank: int, owner: int) -> str:
    """What queries of one contiguous chunk see of another chunk's keys."""
    return TRIANGLE if owner == rank else SQUARE if owner < rank else NOTHING


def hops(
    owner_of: Callable[[int, int, int], int], work: Callable[[int, int], str] = seen
) -> Callable[[int, int, int], tuple[int, str]]:
    """Another rule for the owner (ring, rank, hop), or for the work (rank, owner)."""

    def rule(ring: int, rank: int, hop: int) -> tuple[int, str]:
        owner = owner_of(ring, rank, hop)
        return owner, work(rank, owner)

    return rule


def right_owner(ring: int, rank: int, hop: int) -> int:
    return (rank - hop) % ring


def holder(position: int, length: int, ring: int) -> tuple[int, int]:
    """(rank that holds a position under zigzag, its place in that rank's shard)."""
    size = length // (2 * ring)
    chunk, inside = divmod(position, size)
    return (chunk, inside) if chunk < ring else (2 * ring - 1 - chunk, size + inside)


def held(rule: Callable[[int, int, int, int], tuple[int, int]]) -> Callable[[int, int, int], tuple[int, int]]:
    """Another rule of (chunk, place in the chunk, ring, chunk size)."""

    def place(position: int, length: int, ring: int) -> tuple[int, int]:
        size = length // (2 * ring)
        return rule(*divmod(position, size), ring, size)

    return place


def mirrored(chunk: int, ring: int) -> int:
    return min(chunk, 2 * ring - 1 - chunk)


def bytes_sent(
    ring: int, tokens: int, heads: int, kv_heads: int, head_dim: int, element: int, wide: int
) -> tuple[int, int]:
    """(forward, backward) bytes that one rank sends."""
    if ring == 1:
        return 0, 0
    pair = 2 * tokens // ring * kv_heads * head_dim
    forward = (ring - 1) * pair * element
    return forward, forward + ring * pair * wide


def diagnose(wrong: Wrong) -> str:
    """The fault behind a table of what is wrong on which rank (contiguous, causal, a ring of two or more)."""
    if any(wrong["out"]):
        return "merge"
    if any(wrong["dq"]):
        return "own lse" if wrong["dk"][-1] else "first keys"
    if any(wrong["dv"]):
        return "hop short"
    return "sum dropped" if any(wrong["dk"]) else "healthy"


def symptoms_of(fault: str, ring: int) -> Wrong:
    """What is wrong on which of `ring` ranks under a fault, as reasoning has it; `diagnose` undoes it."""
    none, every = [False] * ring, [True] * ring
    but_first, but_last = [False, *every[1:]], [*every[1:], False]
    rows = {
        "healthy": (none, none, none, none),
        "merge": (but_first, every, every, every),
        "hop short": (none, none, every, every),
        "sum dropped": (none, none, every, none),
        "first keys": (none, but_first, but_last, but_last),
        "own lse": (none, but_first, every, every),
    }[fault]
    return {name: list(row) for name, row in zip(("out", "dq", "dk", "dv"), rows, strict=True)}


def next_tokens(shards: Shards) -> list[list[int | None]]:
    """Each rank's next tokens, from all ranks' tokens under zigzag; None behind the end of the text."""
    text = unzigzag(shards)
    return zigzag([*text[1:], None], len(shards))


def zigzag(text: Sequence, ring: int) -> list[list]:
    """Cut into 2 R chunks; rank r holds chunks r and 2R - 1 - r."""
    size = len(text) // (2 * ring)
    chunks = [list(text[i : i + size]) for i in range(0, len(text), size)]
    return [chunks[rank] + chunks[2 * ring - 1 - rank] for rank in range(ring)]


def unzigzag(shards: Shards) -> list:
    """The text from its zigzag shards."""
    half = len(shards[0]) // 2
    return [x for shard in shards for x in shard[:half]] + [x for shard in reversed(shards) for x in shard[half:]]


def inside_the_shard(shards: Shards) -> list[list[int | None]]:
    """Shifted within each shard: a stranger's token at the inner seam, none at the end."""
    return [[*shard[1:], None] for shard in shards]


def rolled_in_the_shard(shards: Shards) -> list[list[int | None]]:
    return [[*shard[1:], shard[0]] for shard in shards]


def from_the_next_rank(shards: Shards) -> list[list[int | None]]:
    """The next rank's first token at the end: right for contiguous shards only."""
    ends = [*(shard[0] for shard in shards[1:]), None]
    return [[*shard[1:], end] for shard, end in zip(shards, ends, strict=True)]


def inner_seam_only(shards: Shards) -> list[list[int | None]]:
    """The late chunk's end is left without its neighbour."""
    right, half = next_tokens(shards), len(shards[0]) // 2
    return [[*row[: 2 * half - 1], None] for row in right]


def around_the_end(shards: Shards) -> list[list[int | None]]:
    """The text's last token is followed by its first."""
    return [[shards[0][0] if token is None else token for token in row] for row in next_tokens(shards)]


def outer_seam_only(shards: Shards) -> list[list[int | None]]:
    """The end of the late chunk is right, the inner seam a stranger's."""
    right, half = next_tokens(shards), len(shards[0]) // 2
    return [[*row[: half - 1], shard[half], *row[half:]] for row, shard in zip(right, shards, strict=True)]


def some_hop(rng: Random) -> tuple[int, int, int]:
    ring = rng.randint(2, 8)
    return ring, rng.randrange(ring), rng.randrange(ring)


def some_position(rng: Random) -> tuple[int, int, int]:
    ring = rng.randint(2, 6)
    length = 2 * ring * rng.randint(1, 9)
    return rng.randrange(length), length, ring


def some_sizes(rng: Random) -> tuple[int, int, int, int, int, int, int]:
    ring, kv_heads = rng.randint(1, 8), rng.randint(1, 8)
    element = rng.choice([2, 4, 8])
    heads = kv_heads * rng.randint(2, 8)
    return ring, 2 * ring * rng.randint(1, 64), heads, kv_heads, rng.choice([16, 64, 128]), element, max(4, element)


def some_symptoms(rng: Random) -> tuple[Wrong]:
    fault = rng.choice(["healthy", "merge", "hop short", "sum dropped", "first keys", "own lse"])
    return (symptoms_of(fault, rng.randint(2, 6)),)


def some_shards(rng: Random) -> tuple[list[list[int]]]:
    ring = rng.randint(2, 4)
    return (zigzag(rng.sample(range(100, 999), 2 * ring * rng.randint(2, 4)), ring),)


MESSAGES = ("keys", "values", "dk", "dv")
Orders = Sequence[Sequence[str]]
Landed = list[dict[str, str]]


def landed(sent: Orders, expected: Orders) -> Landed:
    """By rank, which message lands in which buffer: a line between two ranks is a queue, and nobody reads names."""
    return [dict(zip(buffers, sent[rank - 1], strict=True)) for rank, buffers in enumerate(expected)]


def landed_by_name(sent: Orders, expected: Orders) -> Landed:
    return [{name: name for name in buffers} for buffers in expected]


def landed_from_the_next(sent: Orders, expected: Orders) -> Landed:
    return [dict(zip(buffers, sent[(rank + 1) % len(sent)], strict=True)) for rank, buffers in enumerate(expected)]


def landed_in_the_own_order(sent: Orders, expected: Orders) -> Landed:
    return [dict(zip(buffers, mine, strict=True)) for buffers, mine in zip(expected, sent, strict=True)]


def landed_last_first(sent: Orders, expected: Orders) -> Landed:
    return landed([order[::-1] for order in sent], expected)


def landed_inside_out(sent: Orders, expected: Orders) -> Landed:
    return [{message: buffer for buffer, message in one.items()} for one in landed(sent, expected)]


def some_orders(rng: Random) -> tuple[Orders, Orders]:
    """Orders of a ring of 2 to 5 ranks; most ranks post as the first one does."""
    names = list(MESSAGES[: rng.randint(2, 4)])

    def order() -> list[str]:
        return rng.sample(names, len(names)) if rng.random() < 0.4 else names

    ring = rng.randint(2, 5)
    return [order() for _ in range(ring)], [order() for _ in range(ring)]
