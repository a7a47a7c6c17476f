"""The mesh of USP: rings of Ulysses groups.

    world rank = r * U + u          r of R ring ranks, u of U Ulysses ranks

so that the ranks of a Ulysses group, whose all-to-all is the heavier talk, are neighbours on the fastest link. With
U = 1 this is ring attention, with R = 1 it is Ulysses (USP, Fang & Zhao, arXiv 2405.07719).
"""

from __future__ import annotations

from dataclasses import dataclass

from .group import Alone, Group


@dataclass(frozen=True)
class Mesh:
    """A rank's three groups. `world.rank == ring.rank * ulysses.size + ulysses.rank`."""

    ring: Group
    ulysses: Group
    world: Group

    @classmethod
    def alone(cls) -> Mesh:
        """One rank."""
        return cls(Alone(), Alone(), Alone())

    @property
    def size(self) -> int:
        return self.world.size

    @property
    def bytes_sent(self) -> dict[str, int]:
        """Bytes that this rank has sent so far, by operation, over all three groups."""
        found: dict[str, int] = {}
        for group in (self.ring, self.ulysses, self.world):
            for name, count in group.traffic.bytes.items():
                found[name] = found.get(name, 0) + count
        return found


def check_degrees(world: int, ring: int, ulysses: int) -> None:
    """ValueError unless the two degrees are whole, positive and multiply to the world."""
    for name, degree in (("ring", ring), ("ulysses", ulysses)):
        if degree < 1:
            raise ValueError(f"{name} is {degree}; right is at least 1")
    if ring * ulysses != world:
        raise ValueError(
            f"ring {ring} x ulysses {ulysses} makes {ring * ulysses} ranks, and there are {world}: "
            f"choose two degrees whose product is {world}"
        )


def ranks_of(ring: int, ulysses: int) -> tuple[list[list[int]], list[list[int]]]:
    """(ring groups, Ulysses groups) as lists of world ranks.

    >>> ranks_of(2, 2)
    ([[0, 2], [1, 3]], [[0, 1], [2, 3]])
    """
    rings = [[r * ulysses + u for r in range(ring)] for u in range(ulysses)]
    return rings, [[r * ulysses + u for u in range(ulysses)] for r in range(ring)]
