"""Bytes at the collective calls against the formula, for logical and for real ranks; and against published sizes."""

from __future__ import annotations

import pytest
import torch

from labsim.attention.bytes_sent import AttentionShape
from labsim.parallel import logical
from labsim.parallel.layout import Layout
from labsim.parallel.mesh import Mesh
from tests.attention.ranks import ttt_on_a_rank
from tests.attention.sequence_reference import draws, ttt_inputs


def counted(mesh: Mesh, layout: Layout, given: list[torch.Tensor], dout: torch.Tensor) -> dict[str, int]:
    ttt_on_a_rank(mesh, layout, given, dout, "cpu_flash")
    return mesh.bytes_sent


@pytest.mark.parametrize(("dtype", "element", "wide"), [(torch.float64, 8, 8), (torch.float32, 4, 4)])
@pytest.mark.parametrize("kind", ["contiguous", "zigzag"])
@pytest.mark.parametrize("extra", [0, 1, 3])
@pytest.mark.parametrize(("ring", "ulysses"), [(1, 1), (2, 1), (1, 2), (4, 1), (2, 2), (1, 4), (3, 1), (2, 4)])
def test_every_rank_sends_what_the_formula_says(
    dtype: torch.dtype, element: int, wide: int, kind: str, extra: int, ring: int, ulysses: int
) -> None:
    layout = Layout(33, ring, ulysses, kind)
    given = [x.to(dtype) for x in ttt_inputs(extra, 8, 2, 33)]
    dout = draws([given[0].shape])[0].to(dtype)
    shape = AttentionShape(layout, 8, 2, 16, 2, element, wide, steps=1)
    swaps = AttentionShape(layout, 8, 2, 16, 2, element, wide)
    branch_swaps = extra * (swaps.ulysses_forward - 2 * swaps.local_elements(8) * element * (ulysses - 1) // ulysses)
    for sent in logical.run(counted, layout, given, dout, ring=ring, ulysses=ulysses):
        ring_bytes = sum(count for name, count in sent.items() if name.startswith("ring"))
        swapped = sum(count for name, count in sent.items() if name.startswith("ulysses"))
        assert ring_bytes == shape.ring_forward + shape.ring_backward
        # Here one call takes all the branch's pairs, so its queries and outputs are swapped once.
        assert swapped == 2 * shape.ulysses_forward + 2 * branch_swaps
        assert set(sent) <= {
            "ring: keys and values",
            "ring: gradients of keys and values",
            "ulysses: heads for tokens",
            "ulysses: tokens for heads",
        }


@pytest.mark.parametrize(
    ("ring", "ulysses", "ring_mib", "ulysses_mib"),
    [(2, 1, 32, 0), (1, 2, 0, 16), (4, 1, 40, 0), (1, 4, 0, 12), (2, 2, 16, 8)],
)
def test_the_sizes_of_a_published_measurement(ring: int, ulysses: int, ring_mib: int, ulysses_mib: int) -> None:
    """4,096 tokens, 8 heads of 64, no grouping, float32, forward and backward together."""
    shape = AttentionShape(Layout(4096, ring, ulysses), 8, 8, 64)
    assert (shape.ring_forward + shape.ring_backward) / 2**20 == ring_mib
    assert (shape.ulysses_forward + shape.ulysses_backward) / 2**20 == ulysses_mib
