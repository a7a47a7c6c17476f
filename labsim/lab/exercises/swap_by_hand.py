"""The all-to-all on paper: the right rules of notebook 11's first half, inputs for its exercises, and mistakes people
make.

`held[u][h][t]` is what rank u has of head h at its token t, outside attention; `inside[u][h][t]` the same inside, where
h counts the rank's own heads and t all tokens of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

Held = Sequence[Sequence[Sequence[int]]]
Rows = list[list[list[int]]]
Seen = Sequence[tuple[int, int, str, bool]]
CONTIGUOUS, ZIGZAG = "contiguous", "zigzag"
FAULTS = ("healthy", "rotated twice", "counted from zero", "own positions inside", "zigzag forgotten")


def to_heads(held: Held) -> Rows:
    """Rank u gets head share u of everybody's tokens, in the order of ranks."""
    ranks = len(held)
    share = len(held[0]) // ranks
    return [[joined(held, u * share + h) for h in range(share)] for u in range(ranks)]


def joined(held: Held, head: int) -> list[int]:
    return [x for sender in held for x in sender[head]]


def to_tokens(inside: Held) -> Rows:
    """The inverse: rank u gets its own tokens of everybody's heads."""
    ranks = len(inside)
    size = len(inside[0][0]) // ranks
    return [[list(row[u * size : (u + 1) * size]) for sender in inside for row in sender] for u in range(ranks)]


def heads_like_cards(held: Held) -> Rows:
    ranks = len(held)
    return [[joined(held, head) for head in range(u, len(held[0]), ranks)] for u in range(ranks)]


def own_tokens_first(held: Held) -> Rows:
    ranks, share = len(held), len(held[0]) // len(held)
    order = [[u, *(v for v in range(ranks) if v != u)] for u in range(ranks)]
    return [
        [[x for v in order[u] for x in held[v][u * share + h]] for h in range(share)] for u in range(ranks)
    ]  # fmt: skip


def own_tokens_only(held: Held) -> Rows:
    share = len(held[0]) // len(held)
    return [[list(mine[u * share + h]) for h in range(share)] for u, mine in enumerate(held)]


def everything(held: Held) -> Rows:
    return [[joined(held, head) for head in range(len(held[0]))] for _ in held]


def token_by_token(held: Held) -> Rows:
    """Tokens of the ranks in turn, not rank after rank."""
    ranks, share, size = len(held), len(held[0]) // len(held), len(held[0][0])
    return [
        [[held[v][u * share + h][t] for t in range(size) for v in range(ranks)] for h in range(share)]
        for u in range(ranks)
    ]


def the_senders_share(held: Held) -> Rows:
    """Each rank sends its own share of heads to everybody, in place of the receiver's."""
    share = len(held[0]) // len(held)
    row = [[x for v, sender in enumerate(held) for x in sender[v * share + h]] for h in range(share)]
    return [[list(one) for one in row] for _ in held]


def tokens_like_cards(inside: Held) -> Rows:
    ranks = len(inside)
    return [[list(row[u::ranks]) for sender in inside for row in sender] for u in range(ranks)]


def heads_in_one_row(inside: Held) -> Rows:
    ranks, size = len(inside), len(inside[0][0]) // len(inside)
    return [
        [[x for sender in inside for x in sender[h][u * size : (u + 1) * size]] for h in range(len(inside[0]))]
        for u in range(ranks)
    ]


def own_heads_first(inside: Held) -> Rows:
    right, share = to_tokens(inside), len(inside[0])
    return [
        rows[u * share : (u + 1) * share] + rows[: u * share] + rows[(u + 1) * share :] for u, rows in enumerate(right)
    ]


def own_heads_only(inside: Held) -> Rows:
    right, share = to_tokens(inside), len(inside[0])
    return [rows[u * share : (u + 1) * share] for u, rows in enumerate(right)]


def heads_interleaved(inside: Held) -> Rows:
    """First heads of all ranks, then second heads: the order of heads dealt like cards."""
    right, share, ranks = to_tokens(inside), len(inside[0]), len(inside)
    return [[rows[v * share + h] for h in range(share) for v in range(ranks)] for rows in right]


def positions_inside(length: int, ring: int, ulysses: int, ring_rank: int, ulysses_rank: int, layout: str) -> list[int]:
    """Positions of what a rank has between the two swaps: those of its ring rank, whatever its Ulysses rank."""
    if layout == CONTIGUOUS:
        size = length // ring
        return list(range(ring_rank * size, (ring_rank + 1) * size))
    return pair_of_chunks(length, 2 * ring, ring_rank)


def pair_of_chunks(length: int, chunks: int, rank: int) -> list[int]:
    size = length // chunks
    return [chunk * size + i for chunk in (rank, chunks - 1 - rank) for i in range(size)]


def positions_outside(length: int, ring: int, ulysses: int, r: int, u: int, layout: str) -> list[int]:
    """The rank's own share of its ring rank's tokens."""
    size = length // (ring * ulysses)
    return positions_inside(length, ring, ulysses, r, u, layout)[u * size : (u + 1) * size]


def own_repeated(length: int, ring: int, ulysses: int, r: int, u: int, layout: str) -> list[int]:
    return positions_outside(length, ring, ulysses, r, u, layout) * ulysses


def counted_from_zero(length: int, ring: int, ulysses: int, r: int, u: int, layout: str) -> list[int]:
    return list(range(length // ring))


def always_contiguous(length: int, ring: int, ulysses: int, r: int, u: int, layout: str) -> list[int]:
    return positions_inside(length, ring, ulysses, r, u, CONTIGUOUS)


def chunks_of_the_world(length: int, ring: int, ulysses: int, r: int, u: int, layout: str) -> list[int]:
    """Zigzag over all ranks, each one's pair of chunks one after the other."""
    if layout == CONTIGUOUS:
        return positions_inside(length, ring, ulysses, r, u, layout)
    world = ring * ulysses
    return [p for v in range(ulysses) for p in pair_of_chunks(length, 2 * world, r * ulysses + v)]


def late_chunk_first(length: int, ring: int, ulysses: int, r: int, u: int, layout: str) -> list[int]:
    right = positions_inside(length, ring, ulysses, r, u, layout)
    half = len(right) // 2
    return right if layout == CONTIGUOUS else right[half:] + right[:half]


def is_wrong(fault: str, ring: int, ulysses: int, layout: str) -> bool:
    """Whether outputs are wrong on a mesh, as reasoning has it. Only differences of positions count."""
    return {
        "healthy": False,
        "rotated twice": True,
        "counted from zero": ring * ulysses > 1,
        "own positions inside": ulysses > 1,
        "zigzag forgotten": ring > 1 and layout == ZIGZAG,
    }[fault]


def diagnose(seen: Seen) -> str:
    """The fault behind a list of (ring, ulysses, layout, output wrong)."""
    wrong = [(ring, ulysses, layout) for ring, ulysses, layout, bad in seen if bad]
    if not wrong:
        return "healthy"
    if any(ring * ulysses == 1 for ring, ulysses, _ in wrong):
        return "rotated twice"
    if any(ulysses == 1 and layout == CONTIGUOUS for _, ulysses, layout in wrong):
        return "counted from zero"
    return "own positions inside" if any(layout == CONTIGUOUS for *_, layout in wrong) else "zigzag forgotten"


def symptoms_of(fault: str, meshes: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str, bool]]:
    return [(ring, ulysses, layout, is_wrong(fault, ring, ulysses, layout)) for ring, ulysses, layout in meshes]


def meshes_that_tell(ring: int = 2, ulysses: int = 2) -> list[tuple[int, int, str]]:
    """Enough meshes to tell all faults apart."""
    degrees = [(1, 1), (ring, 1), (1, ulysses), (ring, ulysses)]
    return [(r, u, layout) for r, u in degrees for layout in (CONTIGUOUS, ZIGZAG)]


def only_where(keep: Callable[[int, int, str], bool]) -> Callable[[Seen], str]:
    """The right reasoning from some of the meshes only."""
    return lambda seen: diagnose([one for one in seen if keep(*one[:3])])


def any_zigzag_is_zigzag(seen: Seen) -> str:
    found = diagnose(seen)
    return "zigzag forgotten" if any(bad for _, _, layout, bad in seen if layout == ZIGZAG) else found


def the_swap_is_to_blame(seen: Seen) -> str:
    found = diagnose(seen)
    return "own positions inside" if any(bad for _, ulysses, _, bad in seen if ulysses > 1) else found


def exchanged(seen: Seen) -> str:
    one, other = "counted from zero", "own positions inside"
    found = diagnose(seen)
    return {one: other, other: one}.get(found, found)


def some_held(rng: Random) -> tuple[Rows]:
    ranks, share, size = rng.randint(2, 4), rng.randint(1, 3), rng.randint(1, 3)
    return (numbered(ranks, share, size),)


def numbered(ranks: int, share: int, size: int) -> Rows:
    """Every entry 100 x head + position, so that it says where it belongs."""
    return [[[100 * h + u * size + t for t in range(size)] for h in range(ranks * share)] for u in range(ranks)]


def some_inside(rng: Random) -> tuple[Rows]:
    return (to_heads(some_held(rng)[0]),)


def some_place(rng: Random) -> tuple[int, int, int, int, int, str]:
    ring, ulysses = rng.randint(1, 4), rng.randint(1, 3)
    length = 2 * ring * ulysses * rng.randint(1, 4)
    return length, ring, ulysses, rng.randrange(ring), rng.randrange(ulysses), rng.choice([CONTIGUOUS, ZIGZAG])


def some_symptoms(rng: Random) -> tuple[list[tuple[int, int, str, bool]]]:
    meshes = meshes_that_tell(rng.randint(2, 4), rng.choice([2, 4]))
    rng.shuffle(meshes)
    return (symptoms_of(rng.choice(FAULTS), meshes),)
