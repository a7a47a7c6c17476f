"""Sequence parallelism on logical ranks against dense float64 attention: output, log-sum-exp and every gradient."""

from __future__ import annotations

import pytest
import torch

from labsim.parallel import logical
from labsim.parallel.layout import Layout
from tests.attention.ranks import attention_on_a_rank, ttt_on_a_rank
from tests.attention.sequence_reference import draws, expected, ttt_inputs

FACTORS = [(r, u) for world in (1, 2, 3, 4) for r in range(1, world + 1) for u in [world // r] if r * u == world]


def compare(
    layout: Layout, steps: int, heads: int, kv_heads: int, dtype: torch.dtype, tolerance: float, kernel: str
) -> None:
    given = ttt_inputs(steps, heads, kv_heads, layout.length)
    dout = draws([given[0].shape], seed=8)[0]
    out, lse, gradients = expected(given, dout, layout.documents)
    narrow = [x.to(dtype) for x in given]
    parts = logical.run(ttt_on_a_rank, layout, narrow, dout.to(dtype), kernel, ring=layout.ring, ulysses=layout.ulysses)
    assert worst(layout.join([part[0] for part in parts], 2), out) < tolerance
    assert worst(joined_lse(layout, [part[2] for part in parts]), lse) < tolerance
    for index, gradient in enumerate(gradients):
        assert float(gradient.abs().max()) > 0.01, "a zero gradient proves nothing"
        assert worst(layout.join([part[1][index] for part in parts], 2), gradient) < tolerance


def joined_lse(layout: Layout, parts: list[torch.Tensor]) -> torch.Tensor:
    """The whole log-sum-exp: it stays inside, as H/U heads of the ring rank's tokens."""
    rings = [torch.cat(parts[at : at + layout.ulysses], dim=1) for at in range(0, len(parts), layout.ulysses)]
    return layout.join_rings(rings, 2)


def worst(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Largest error, in units of the exact value's own largest entry: a small gradient cannot hide."""
    return float((found.double() - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize(("ring", "ulysses"), FACTORS)
@pytest.mark.parametrize("kind", ["contiguous", "zigzag"])
@pytest.mark.parametrize("steps", [0, 1, 3, 7])
def test_every_factorisation(ring: int, ulysses: int, kind: str, steps: int) -> None:
    heads, kv_heads = (12, 3) if ulysses == 3 else (8, 2)
    layout = Layout(41, ring, ulysses, kind)
    compare(layout, steps, heads, kv_heads, torch.float64, 1e-12, "cpu_flash")


@pytest.mark.parametrize("kernel", ["reference", "cpu_flash"])
@pytest.mark.parametrize("steps", range(8))
def test_every_depth_on_a_mesh_of_four(steps: int, kernel: str) -> None:
    compare(Layout(37, 2, 2, "zigzag"), steps, 8, 2, torch.float64, 1e-12, kernel)


@pytest.mark.parametrize("length", [1, 2, 7, 16, 31])
@pytest.mark.parametrize("kind", ["contiguous", "zigzag"])
def test_lengths_that_do_not_divide(length: int, kind: str) -> None:
    """A sequence shorter than the chunks leaves whole ranks without a token."""
    compare(Layout(length, 3, 1, kind), 2, 4, 2, torch.float64, 1e-12, "cpu_flash")


@pytest.mark.parametrize("kind", ["contiguous", "zigzag"])
@pytest.mark.parametrize("documents", [(40,), (1, 25, 14), (9, 0, 20, 11), (10, 10, 10, 10)])
@pytest.mark.parametrize(("ring", "ulysses"), [(1, 1), (2, 2), (4, 1)])
def test_packed_documents_stay_apart(kind: str, documents: tuple[int, ...], ring: int, ulysses: int) -> None:
    compare(Layout(40, ring, ulysses, kind, documents), 2, 8, 2, torch.float64, 1e-12, "cpu_flash")


@pytest.mark.parametrize(("ring", "ulysses"), FACTORS)
@pytest.mark.parametrize("kind", ["contiguous", "zigzag"])
@pytest.mark.parametrize("steps", [0, 3, 7])
def test_single_precision(ring: int, ulysses: int, kind: str, steps: int) -> None:
    heads, kv_heads = (12, 3) if ulysses == 3 else (8, 2)
    compare(Layout(63, ring, ulysses, kind), steps, heads, kv_heads, torch.float32, 5e-6, "cpu_flash")


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", ["contiguous", "zigzag"])
@pytest.mark.parametrize(("ring", "ulysses"), FACTORS)
def test_attention_alone_with_its_log_sum_exp(causal: bool, kind: str, ring: int, ulysses: int) -> None:
    heads, kv_heads = (12, 3) if ulysses == 3 else (8, 2)
    layout = Layout(29, ring, ulysses, kind)
    given = ttt_inputs(0, heads, kv_heads, 29)
    dout = draws([given[0].shape], seed=8)[0]
    out, lse, gradients = expected(given, dout, causal=causal)
    parts = logical.run(attention_on_a_rank, layout, given, dout, causal, ring=ring, ulysses=ulysses)
    assert worst(layout.join([part[0] for part in parts], 2), out) < 1e-12
    for index, gradient in enumerate(gradients):
        assert worst(layout.join([part[2][index] for part in parts], 2), gradient) < 1e-12
    assert worst(joined_lse(layout, [part[1] for part in parts]), lse) < 1e-12
