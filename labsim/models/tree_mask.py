"""Which key may each new token see? Positions and attention mask for chains, trees and ragged batches, in one place.

Token i of a draft sees every committed token, its own ancestors and itself, never a sibling: that is what makes one
forward over a whole tree equal to one forward per branch. Its position is the number of tokens it sees, less one.

Shapes: B rows, Q new tokens, S slots from the first committed to the last pending one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .cache import KVCache


@dataclass(frozen=True)
class Geometry:
    """Where the Q newest pending tokens of a cache stand.

    Attributes:
        positions_BQ: rotary positions, on the cache's device.
        slots: S, the number of leading slots that attention reads.
        starts: per row the slot of the first new token.
        mask_BQS: additive mask (0 or -inf) in the cache's dtype; None when `causal` or when nothing is hidden.
        causal: the new tokens are the whole sequence and form a chain.
        last_position: the largest of the positions.
    """

    positions_BQ: torch.Tensor
    last_position: int
    slots: int
    starts: tuple[int, ...]
    mask_BQS: torch.Tensor | None
    causal: bool


def newest(cache: KVCache, count: int) -> Geometry:
    """Geometry of the `count` newest pending tokens."""
    device = cache.kv.device
    first = cache.pending - count
    starts = tuple(length + first for length in cache.lengths)
    slots = max(starts) + count
    ragged = len(set(cache.lengths)) > 1
    chain = all(row == list(range(-1, cache.pending - 1)) for row in cache.parents)
    if chain:
        positions = (
            [[start + i for i in range(count)] for start in starts]
            if ragged
            else [list(range(starts[0], starts[0] + count))]
        )
        positions_BQ = torch.tensor(positions, device=device).expand(cache.batch_size, count)
        last = slots - 1
        if not ragged and count == 1:
            return Geometry(positions_BQ, last, slots, starts, None, False)
        if not ragged and starts[0] == 0:
            return Geometry(positions_BQ, last, slots, starts, None, True)
        # Token at position t sees the slots up to t: in a chain, slot and position are the same thing.
        visible_BQS = torch.arange(slots, device=device) <= positions_BQ[..., None]
    else:
        seen, positions = zip(*(ancestors(row) for row in cache.parents), strict=True)
        lengths_B1 = torch.tensor(cache.lengths, device=device)[:, None]
        positions_BQ = lengths_B1 + torch.tensor(positions, device=device)[:, first:]
        last = max(length + max(row) for length, row in zip(cache.lengths, positions, strict=True))
        visible_BQS = (torch.arange(slots, device=device) < lengths_B1)[:, None].repeat(1, count, 1)
        for row, length in enumerate(cache.lengths):
            own = torch.tensor(seen[row][first:], device=device)
            visible_BQS[row, :, length : length + cache.pending] = own
    if not ragged and chain:
        visible_BQS = visible_BQS[:1]
    mask_BQS = torch.zeros(visible_BQS.shape, device=device, dtype=cache.kv.dtype)
    return Geometry(positions_BQ, last, slots, starts, mask_BQS.masked_fill_(~visible_BQS, float("-inf")), False)


def ancestors(parents: list[int]) -> tuple[list[list[bool]], list[int]]:
    """For each token of a tree the tokens it may see (itself and its ancestors), and its depth from 0.

    >>> ancestors([-1, -1, 0])
    ([[True, False, False], [False, True, False], [True, False, True]], [0, 0, 1])
    """
    seen: list[list[bool]] = []
    depths: list[int] = []
    for index, parent in enumerate(parents):
        row = list(seen[parent]) if parent >= 0 else [False] * len(parents)
        row[index] = True
        seen.append(row)
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    return seen, depths
