"""How many bytes a rank sends for attention, from the shapes alone.

With N = B S' K' D elements of all keys (K' heads after repetition), M = B S' H D of all queries, R ring and U Ulysses
ranks, b bytes an element and w of a gradient's accumulator, each rank sends per attention call

    ring      forward (R-1) 2N/(R U) b        backward (R-1) 2N/(R U) b + R 2N/(R U) w    (nothing when R = 1)
    Ulysses   forward and backward each (U-1)/U (2M + 2N)/(R U) b

The ring's forward traffic stays as it is while R grows, Ulysses' falls. A branch of training-time test adds its
queries, keys, values and outputs to the swaps, and to the ring only the history's hops once more per step: its own keys
stay where they are, zero bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..parallel.layout import Layout


@dataclass(frozen=True)
class AttentionShape:
    """What is attended to.

    Attributes:
        layout: tokens and ranks; padding is sent too.
        element_bytes: of queries, keys, values and their gradients. `wide_bytes`: of accumulators, 8 for float64.
        steps: calls that share their history, 1 for ordinary attention, k for training-time test.
    """

    layout: Layout
    heads: int
    kv_heads: int
    head_dim: int
    batch: int = 1
    element_bytes: int = 4
    wide_bytes: int = 4
    steps: int = 1

    @property
    def sent_kv_heads(self) -> int:
        """K', key/value heads after repeating them until they divide among the Ulysses ranks."""
        return math.lcm(self.kv_heads, self.layout.ulysses)

    def local_elements(self, heads: int) -> int:
        """Elements of one rank's part of a tensor with so many heads, the same outside and inside attention."""
        return self.batch * heads * self.layout.local_length * self.head_dim

    @property
    def ring_forward(self) -> int:
        pair = 2 * self.local_elements(self.sent_kv_heads)
        return self.steps * (self.layout.ring - 1) * pair * self.element_bytes

    @property
    def ring_backward(self) -> int:
        if self.layout.ring == 1:
            return 0
        pair = 2 * self.local_elements(self.sent_kv_heads)
        return self.ring_forward + self.steps * self.layout.ring * pair * self.wide_bytes

    @property
    def ulysses_forward(self) -> int:
        swapped = 2 * self.local_elements(self.heads) + 2 * self.local_elements(self.sent_kv_heads)
        return self.steps * swapped * self.element_bytes * (self.layout.ulysses - 1) // self.layout.ulysses

    @property
    def ulysses_backward(self) -> int:
        return self.ulysses_forward

    @property
    def forward(self) -> int:
        return self.ring_forward + self.ulysses_forward

    @property
    def backward(self) -> int:
        return self.ring_backward + self.ulysses_backward
