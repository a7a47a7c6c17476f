"""Degrees, groups, bytes and time of a ring x Ulysses mesh on paper: the right rules of notebook 11's second half,
inputs for its exercises, and mistakes people make.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, lcm
from random import Random

Meshes = list[tuple[int, int, int]]
FAULTS = ("healthy", "strided heads", "one copy", "averaged", "counted twice")
NOTHING = "nothing to see"
TINY = 1e-6


def copies_of(kv_heads: int, ulysses: int) -> int:
    """How often a key head is repeated until the heads divide among the ranks."""
    return ulysses // gcd(kv_heads, ulysses)


def meshes(world: int, heads: int, kv_heads: int) -> Meshes:
    """Every legal (ring, ulysses, copies of a key head), the smallest Ulysses degree first."""
    return [(world // u, u, copies_of(kv_heads, u)) for u in divisors(world) if heads % u == 0]


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def legal_if(
    allowed: Callable[[int, int, int], bool], count: Callable[[int, int, int], int] = lambda u, h, k: copies_of(k, u)
) -> Callable[[int, int, int], Meshes]:
    """Another rule for the degree (ulysses, heads, kv_heads), or for the copies."""

    def rule(world: int, heads: int, kv_heads: int) -> Meshes:
        return [
            (world // u, u, count(u, heads, kv_heads)) for u in divisors(world) if allowed(u, heads, kv_heads)
        ]  # fmt: skip

    return rule


def heads_divide(ulysses: int, heads: int, kv_heads: int) -> bool:
    return heads % ulysses == 0


def diagnose(copies: int, out_wrong: bool, slope: float, rest: float) -> str:
    """The fault of `copies` copies of a key head, from dk = slope x right + rest (rest relative to right)."""
    if copies == 1:
        return NOTHING
    if out_wrong:
        return "strided heads"
    if rest > TINY:
        return "one copy"
    if abs(slope - 1) < TINY:
        return "healthy"
    return "averaged" if slope < 1 else "counted twice"


def symptoms_of(fault: str, copies: int, slope: float = 0.5, rest: float = 0.7) -> tuple[int, bool, float, float]:
    """(copies, output wrong, slope, rest) of a fault; `slope` and `rest` where reasoning leaves them open."""
    if copies == 1:
        return 1, False, 1.0, 0.0
    return {
        "healthy": (copies, False, 1.0, 0.0),
        "strided heads": (copies, True, slope, rest),
        "one copy": (copies, False, slope, rest),
        "averaged": (copies, False, 1 / copies, 0.0),
        "counted twice": (copies, False, float(copies), 0.0),
    }[fault]


def by_size_alone(copies: int, out_wrong: bool, slope: float, rest: float) -> str:
    found = diagnose(copies, out_wrong, slope, rest)
    return "one copy" if found == "averaged" else found


def direction_is_all(copies: int, out_wrong: bool, slope: float, rest: float) -> str:
    found = diagnose(copies, out_wrong, slope, rest)
    return "healthy" if found in ("averaged", "counted twice") else found


def output_is_all(copies: int, out_wrong: bool, slope: float, rest: float) -> str:
    return NOTHING if copies == 1 else "strided heads" if out_wrong else "healthy"


def without_copies(copies: int, out_wrong: bool, slope: float, rest: float) -> str:
    return "healthy" if copies == 1 else diagnose(copies, out_wrong, slope, rest)


def gradients_first(copies: int, out_wrong: bool, slope: float, rest: float) -> str:
    return diagnose(copies, False, slope, rest)


def exchanged(copies: int, out_wrong: bool, slope: float, rest: float) -> str:
    found = diagnose(copies, out_wrong, slope, rest)
    return {"averaged": "counted twice", "counted twice": "averaged"}.get(found, found)


def peers(rank: int, ring: int, ulysses: int) -> tuple[list[int], list[int]]:
    """(ring group, Ulysses group) of a world rank, both ascending, itself included."""
    r, u = divmod(rank, ulysses)
    return [v * ulysses + u for v in range(ring)], [r * ulysses + v for v in range(ulysses)]


def ring_inside(rank: int, ring: int, ulysses: int) -> tuple[list[int], list[int]]:
    """The order the other way round: neighbours in one ring."""
    u, r = divmod(rank, ring)
    return [u * ring + v for v in range(ring)], [v * ring + r for v in range(ulysses)]


def without_itself(rank: int, ring: int, ulysses: int) -> tuple[list[int], list[int]]:
    one, other = peers(rank, ring, ulysses)
    return [x for x in one if x != rank], [x for x in other if x != rank]


def groups_exchanged(rank: int, ring: int, ulysses: int) -> tuple[list[int], list[int]]:
    one, other = peers(rank, ring, ulysses)
    return other, one


def wrong_stride(rank: int, ring: int, ulysses: int) -> tuple[list[int], list[int]]:
    """The ring in steps of the ring's size."""
    r, u = divmod(rank, ulysses)
    return [v * ring + u for v in range(ring)], [r * ulysses + v for v in range(ulysses)]


def next_and_own(rank: int, ring: int, ulysses: int) -> tuple[list[int], list[int]]:
    """The ring taken for the two that one talks to."""
    one, other = peers(rank, ring, ulysses)
    at = one.index(rank)
    return sorted({rank, one[(at + 1) % ring], one[(at - 1) % ring]}), other


def sent_forward(
    ring: int, ulysses: int, tokens: int, heads: int, kv_heads: int, head_dim: int, element: int
) -> tuple[int, int]:
    """(bytes into the ring, bytes into the all-to-alls) of one rank's forward."""
    mine, sent_kv = tokens // (ring * ulysses), lcm(kv_heads, ulysses)
    hops = (ring - 1) * 2 * sent_kv * mine * head_dim * element
    return hops, (2 * heads + 2 * sent_kv) * mine * head_dim * element * (ulysses - 1) // ulysses


def own_part_too(r: int, u: int, t: int, h: int, k: int, d: int, b: int) -> tuple[int, int]:
    hops, swaps = sent_forward(r, u, t, h, k, d, b)
    return hops, 0 if u == 1 else swaps * u // (u - 1)


def output_stays(r: int, u: int, t: int, h: int, k: int, d: int, b: int) -> tuple[int, int]:
    hops, _ = sent_forward(r, u, t, h, k, d, b)
    return hops, (h + 2 * lcm(k, u)) * (t // (r * u)) * d * b * (u - 1) // u


def copies_are_free(r: int, u: int, t: int, h: int, k: int, d: int, b: int) -> tuple[float, float]:
    """Key heads counted as if each were sent once."""
    mine = t // (r * u)
    return (r - 1) * 2 * k * mine * d * b, (2 * h + 2 * k) * mine * d * b * (u - 1) / u


def all_heads_alike(r: int, u: int, t: int, h: int, k: int, d: int, b: int) -> tuple[int, int]:
    return sent_forward(r, u, t, h, h, d, b)


def ring_as_if_alone(r: int, u: int, t: int, h: int, k: int, d: int, b: int) -> tuple[int, int]:
    """Inside, a ring rank has U times the tokens: taken with all the heads."""
    hops, swaps = sent_forward(r, u, t, h, k, d, b)
    return hops * u, swaps


def all_to_everybody(r: int, u: int, t: int, h: int, k: int, d: int, b: int) -> tuple[int, int]:
    hops, swaps = sent_forward(r, u, t, h, k, d, b)
    return hops, swaps * u


def keys_come_home(r: int, u: int, t: int, h: int, k: int, d: int, b: int) -> tuple[int, int]:
    hops, swaps = sent_forward(r, u, t, h, k, d, b)
    return 0 if r == 1 else hops * r // (r - 1), swaps


def tokens_to_hide(heads: int, kv_heads: int, element: int, flops: float, bandwidth: float) -> float:
    """Tokens of a ring rank from which on a zigzag hop computes as long as the next keys travel.

    2 x T K D b bytes over the bandwidth against 2 products x 2 x T^2/2 H D operations over the rate.
    """
    return kv_heads / heads * element * flops / bandwidth


def some_world(rng: Random) -> tuple[int, int, int]:
    kv_heads = rng.choice([1, 2, 3, 4, 8])
    return rng.choice([2, 4, 6, 8, 12, 16, 24]), kv_heads * rng.choice([1, 2, 3, 4, 6]), kv_heads


def some_gradient(rng: Random) -> tuple[int, bool, float, float]:
    return symptoms_of(rng.choice(FAULTS), rng.choice([1, 2, 3, 4, 8]), rng.uniform(0.1, 0.9), rng.uniform(0.1, 0.9))


def some_rank(rng: Random) -> tuple[int, int, int]:
    ring, ulysses = rng.randint(1, 5), rng.randint(1, 4)
    return rng.randrange(ring * ulysses), ring, ulysses


def some_sizes(rng: Random) -> tuple[int, int, int, int, int, int, int]:
    ring, kv_heads = rng.randint(1, 4), rng.randint(1, 4)
    heads = kv_heads * rng.choice([2, 3, 4, 6, 8])
    ulysses = rng.choice([u for u in divisors(heads) if u <= 8])
    tokens, head_dim, element = 2 * ring * ulysses * rng.randint(1, 8), rng.choice([64, 128]), rng.choice([2, 4])
    return ring, ulysses, tokens, heads, kv_heads, head_dim, element


def some_link(rng: Random) -> tuple[int, int, int, float, float]:
    kv_heads = rng.randint(1, 8)
    rate, bandwidth = rng.uniform(1e14, 1e15), rng.choice([25e9, 50e9, 450e9])
    return kv_heads * rng.randint(2, 8), kv_heads, rng.choice([2, 4]), rate, bandwidth
