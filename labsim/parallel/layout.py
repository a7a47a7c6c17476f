"""Which tokens a rank holds, and which blocks of the attention matrix it computes at each hop of the ring.

The sequence is cut into chunks, and a ring rank holds one or two of them:

    contiguous   rank r of R holds chunk r of R. In causal attention rank 0 soon has nothing to do, the last all.
    zigzag       rank r holds chunks r and 2R-1-r of 2R: an early and a late one, the same work for every rank.

A ring rank's tokens, in ascending order, are then split over its U Ulysses ranks. Lengths that do not divide are padded
at the end of the sequence; padding belongs to no document, so that no query reads it and it reads nothing.

Positions travel with the tokens: whoever rotates keys by position must take them from here, not count from zero.

Shapes: S tokens in truth, S' padded, R ring ranks, U Ulysses ranks, L = S' / (R U) tokens of a rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

Kind = Literal["contiguous", "zigzag"]


@dataclass(frozen=True)
class Layout:
    """How S tokens are dealt to ring x ulysses ranks.

    Attributes:
        documents: lengths of the documents that are packed into the sequence; empty for one.

    Raises:
        ValueError: no tokens, an unknown kind, degrees below one, or documents that do not add up to the length.
    """

    length: int
    ring: int = 1
    ulysses: int = 1
    kind: Kind = "zigzag"
    documents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in ("contiguous", "zigzag"):
            raise ValueError(f"layout {self.kind!r} is unknown; right is 'contiguous' or 'zigzag'")
        for name, value in (("length", self.length), ("ring", self.ring), ("ulysses", self.ulysses)):
            if value < 1:
                raise ValueError(f"{name} is {value}; right is at least 1")
        if self.documents and (sum(self.documents) != self.length or min(self.documents) < 0):
            raise ValueError(f"documents of {list(self.documents)} tokens do not make up a sequence of {self.length}")

    @property
    def chunk_count(self) -> int:
        return self.ring if self.kind == "contiguous" else 2 * self.ring

    @property
    def padded(self) -> int:
        """S': the next length that divides among chunks and ranks."""
        unit = math.lcm(self.chunk_count, self.ring * self.ulysses)
        return -(-self.length // unit) * unit

    @property
    def local_length(self) -> int:
        """L, tokens of one rank."""
        return self.padded // (self.ring * self.ulysses)

    def chunks(self, ring_rank: int) -> list[range]:
        """Ranges of positions that a ring rank holds, ascending; padding included."""
        size = self.padded // self.chunk_count
        held = [ring_rank] if self.kind == "contiguous" else [ring_rank, 2 * self.ring - 1 - ring_rank]
        return [range(index * size, (index + 1) * size) for index in held]

    def ring_positions(self, ring_rank: int) -> torch.Tensor:
        """Positions of all tokens of a ring rank, which its Ulysses ranks share (L U,)."""
        return torch.cat([torch.arange(chunk.start, chunk.stop) for chunk in self.chunks(ring_rank)])

    def positions(self, ring_rank: int, ulysses_rank: int = 0) -> torch.Tensor:
        """Positions of one rank's tokens (L,)."""
        return self.ring_positions(ring_rank).chunk(self.ulysses)[ulysses_rank]

    def cut(self, tensor: torch.Tensor, dim: int, ring_rank: int, ulysses_rank: int = 0) -> torch.Tensor:
        """A rank's part of a whole tensor, zeros where it is padded. Contiguous, as senders need it.

        Raises:
            ValueError: a tensor of another length.
        """
        if tensor.shape[dim] != self.length:
            raise ValueError(
                f"a tensor of {tensor.shape[dim]} positions in dimension {dim}; the layout has {self.length}"
            )
        wanted = self.positions(ring_rank, ulysses_rank).to(tensor.device)
        part = tensor.index_select(dim, wanted.clamp(max=self.length - 1))
        beyond = (wanted >= self.length).reshape(
            [-1 if axis == dim % tensor.ndim else 1 for axis in range(tensor.ndim)]
        )
        return part.masked_fill(beyond, 0) if bool(beyond.any()) else part

    def join(self, parts: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
        """The whole tensor from the parts of all ranks, in order of world rank; the inverse of `cut`."""
        held = [self.positions(rank // self.ulysses, rank % self.ulysses) for rank in range(len(parts))]
        return self._ordered(parts, held, dim)

    def join_rings(self, parts: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
        """The whole from what each ring rank holds of all its tokens, in order of ring rank."""
        return self._ordered(parts, [self.ring_positions(rank) for rank in range(len(parts))], dim)

    def _ordered(self, parts: Sequence[torch.Tensor], held: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
        order = torch.cat(list(held)).argsort().to(parts[0].device)
        return torch.cat(list(parts), dim=dim).index_select(dim, order).narrow(dim, 0, self.length)


@dataclass(frozen=True)
class Block:
    """A rectangle of the attention matrix, in places of the two ring ranks' shards.

    `causal` means the triangle of a square whose queries and keys stand at the same positions.
    """

    queries: slice
    keys: slice
    causal: bool

    @property
    def pairs(self) -> int:
        """Query-key pairs that are computed."""
        rows, columns = self.queries.stop - self.queries.start, self.keys.stop - self.keys.start
        return rows * (rows + 1) // 2 if self.causal else rows * columns


def blocks(layout: Layout, query_rank: int, key_rank: int, *, causal: bool = True) -> list[Block]:
    """What queries of one ring rank compute against the keys of another. Empty where they see nothing of it."""
    ends, found = borders(layout), []
    for q_start, q_chunk in placed(layout.chunks(query_rank)):
        for k_start, k_chunk in placed(layout.chunks(key_rank)):
            if causal and k_chunk.start > q_chunk.start:
                continue
            for first, last in ends:
                q = overlap(q_chunk, first, last, q_start)
                k = overlap(k_chunk, first, last, k_start)
                if q.start < q.stop and k.start < k.stop:
                    found.append(Block(q, k, causal and q_chunk == k_chunk))
    return coalesce(found)


def borders(layout: Layout) -> list[tuple[int, int]]:
    """First position and end of each document."""
    ends, at = [], 0
    for length in layout.documents or (layout.length,):
        ends.append((at, at + length))
        at += length
    return ends


def placed(chunks: Sequence[range]) -> list[tuple[int, range]]:
    """Each chunk with the place in the shard where it begins."""
    found, at = [], 0
    for chunk in chunks:
        found.append((at, chunk))
        at += len(chunk)
    return found


def overlap(chunk: range, first: int, last: int, place: int) -> slice:
    """The places of a chunk whose positions lie in [first, last); the chunk begins at `place`."""
    start, stop = max(chunk.start, first), min(chunk.stop, last)
    return slice(place + start - chunk.start, place + stop - chunk.start)


def coalesce(found: Sequence[Block]) -> list[Block]:
    """The same pairs in fewer, larger rectangles: a zigzag hop is one kernel call, not two."""
    merged: list[Block] = []
    for block in found:
        last = merged[-1] if merged else None
        if last and not (last.causal or block.causal):
            if last.keys == block.keys and last.queries.stop == block.queries.start:
                merged[-1] = Block(slice(last.queries.start, block.queries.stop), block.keys, False)
                continue
            if last.queries == block.queries and last.keys.stop == block.keys.start:
                merged[-1] = Block(block.queries, slice(last.keys.start, block.keys.stop), False)
                continue
        merged.append(block)
    return merged
