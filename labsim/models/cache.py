"""The KV cache of a decoder that guesses: what is committed, what is only pending, and how a rejection is undone.

A verify pass writes keys and values for every drafted token, and most drafts are partly wrong. So the tokens of a
forward are *pending* until `keep` says which of them stay. Committed tokens lie at slots 0 .. lengths[b]-1 of row b,
pending ones directly behind them; dropping a rejected token is no work at all, because the next forward overwrites
its slot.

Pending tokens form a tree: `parents[b][i]` is the pending token that token i follows, -1 for a child of the last
committed token. A chain is the tree -1, 0, 1, ... Rows of a batch keep different numbers, so every row has a length
of its own.

Shapes: B rows, H_kv key/value heads, C slots, D head dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


def each_once(texts: Sequence[Sequence[int]]) -> tuple[list[tuple[int, ...]], list[int]]:
    """The different texts, and for each row which of them is its own: what rows share is run once (`copy_rows`)."""
    number: dict[tuple[int, ...], int] = {}
    of_row = [number.setdefault(tuple(text), len(number)) for text in texts]
    return list(number), of_row


class KVCache:
    """Preallocated keys and values of all layers.

    Attributes:
        kv: (num_layers, 2, B, H_kv, C, D), keys at index 0 of the second axis, values at 1.
        lengths: committed tokens per row.
        parents: per row, the parent of each pending token.
    """

    def __init__(
        self,
        num_layers: int,
        batch_size: int,
        num_kv_heads: int,
        capacity: int,
        head_dim: int,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if batch_size < 1 or capacity < 1:
            raise ValueError(f"a cache needs a batch and a capacity of at least 1, not {batch_size} and {capacity}")
        # Zeros, not empty: masked slots still enter 0 * value, and uninitialised memory may hold NaN.
        self.kv = torch.zeros(num_layers, 2, batch_size, num_kv_heads, capacity, head_dim, device=device, dtype=dtype)
        self.lengths = [0] * batch_size
        self.parents: list[list[int]] = [[] for _ in range(batch_size)]

    @property
    def batch_size(self) -> int:
        return len(self.lengths)

    @property
    def capacity(self) -> int:
        return self.kv.shape[4]

    @property
    def pending(self) -> int:
        """Tokens that were run but not yet kept; the same number in every row."""
        return len(self.parents[0])

    def extend(self, count: int, parents: Sequence[Sequence[int]] | None = None) -> None:
        """Announce `count` more pending tokens per row; without `parents` each follows the one before it.

        Raises ValueError when they do not fit or when a parent comes after its child.
        """
        first = self.pending
        longest = max(self.lengths) + first + count
        if longest > self.capacity:
            raise ValueError(f"the cache has {self.capacity} slots per row and would need {longest}")
        if parents is None:
            parents = [range(first - 1, first - 1 + count)] * self.batch_size
        if len(parents) != self.batch_size or any(len(row) != count for row in parents):
            raise ValueError(f"parents must name {count} tokens in each of {self.batch_size} rows")
        for row in parents:
            for index, parent in enumerate(row, first):
                if not -1 <= parent < index:
                    raise ValueError(f"pending token {index} cannot follow {parent}: a parent comes before its child")
        for own, more in zip(self.parents, parents, strict=True):
            own.extend(more)

    def keep(self, paths: Sequence[Sequence[int]]) -> None:
        """Commit the pending tokens on one path per row, in path order, and forget the others.

        Raises ValueError unless each path starts below the committed tokens and follows parent to child.
        """
        if len(paths) != self.batch_size:
            raise ValueError(f"keep needs one path per row: {self.batch_size}, not {len(paths)}")
        for row, path in enumerate(paths):
            before = -1
            for node in path:
                if not 0 <= node < self.pending or self.parents[row][node] != before:
                    raise ValueError(f"row {row}: {list(path)} is not a path from the last committed token")
                before = node
        for row, path in enumerate(paths):
            start, count = self.lengths[row], len(path)
            if list(path) != list(range(count)):
                slots = torch.tensor(path, device=self.kv.device) + start
                self.kv[:, :, row, :, start : start + count] = self.kv[:, :, row, :, slots]
            self.lengths[row] += count
        self.forget_pending()

    def cut(self, lengths: Sequence[int]) -> None:
        """Cut every row back to that many committed tokens; pending ones go too."""
        if len(lengths) != self.batch_size:
            raise ValueError(f"cut needs one length per row: {self.batch_size}, not {len(lengths)}")
        for row, (new, old) in enumerate(zip(lengths, self.lengths, strict=True)):
            if not 0 <= new <= old:
                raise ValueError(f"row {row} holds {old} tokens and cannot be cut to {new}")
        self.lengths = list(lengths)
        self.forget_pending()

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these rows only, in this order. A finished answer leaves the batch this way."""
        if list(rows) != list(range(self.batch_size)):
            self.kv = self.kv[:, :, list(rows)]
            self.lengths = [self.lengths[row] for row in rows]
            self.parents = [self.parents[row] for row in rows]

    def copy_rows(self, other: KVCache, rows: Sequence[int]) -> None:
        """Let row b begin with what row `rows[b]` of `other` has committed; whatever was here is dropped.

        Raises ValueError unless there is a row for each of these, and room for the longest.
        """
        if len(rows) != self.batch_size:
            raise ValueError(f"copy_rows needs one row for each of {self.batch_size}, not {len(rows)}")
        lengths = [other.lengths[row] for row in rows]
        longest = max(lengths)
        if longest > self.capacity:
            raise ValueError(f"the cache has {self.capacity} slots per row and would need {longest}")
        self.kv[..., :longest, :] = other.kv[:, :, list(rows), :, :longest]
        self.lengths = lengths
        self.forget_pending()

    def forget_pending(self) -> None:
        self.parents = [[] for _ in self.lengths]
