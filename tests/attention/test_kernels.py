"""Kernels and merge against dense float64 autograd that shares no code with them."""

from __future__ import annotations

import math

import pytest
import torch

from labsim.attention import kernels
from labsim.attention.lse import merge

TOLERANCE = {torch.float64: 1e-12, torch.float32: 5e-6}


def tensors(seed: int, *shapes: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def dense(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax attention by the definition, in float64, heads repeated one by one."""
    groups = q.shape[1] // k.shape[1]
    k, v = (torch.cat([x[:, h : h + 1] for h in range(x.shape[1]) for _ in range(groups)], dim=1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores + torch.full(scores.shape[-2:], float("-inf"), dtype=q.dtype).triu(1)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def error(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours.double() - theirs.double()).detach().abs().max())


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kernel", ["reference", "cpu_flash"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (8, 2), (3, 1)])
@pytest.mark.parametrize(
    ("queries", "keys", "causal"), [(17, 17, True), (17, 17, False), (5, 23, False), (1, 9, False)]
)
def test_out_lse_and_gradients(
    dtype: torch.dtype, kernel: str, heads: int, kv_heads: int, queries: int, keys: int, causal: bool
) -> None:
    q, k, v, dout = tensors(
        1,
        (2, heads, queries, 24),
        (2, kv_heads, keys, 24),
        (2, kv_heads, keys, 24),
        (2, heads, queries, 24),
        dtype=dtype,
    )
    exact = [x.double().requires_grad_() for x in (q, k, v)]
    expected, expected_lse = dense(*exact, causal)
    expected.backward(dout.double())
    out, lse = kernels.forward(q, k, v, causal=causal, kernel=kernel)
    grads = kernels.backward(dout, q, k, v, out, lse, causal=causal, kernel=kernel)
    assert lse.is_contiguous()
    assert error(out, expected) < TOLERANCE[dtype]
    assert error(lse, expected_lse) < TOLERANCE[dtype]
    for ours, theirs in zip(grads, exact, strict=True):
        assert theirs.grad.abs().max() > 0.1
        assert error(ours, theirs.grad) < TOLERANCE[dtype]


@pytest.mark.parametrize("kernel", ["reference", "cpu_flash"])
def test_two_blocks_merge_to_the_whole_with_gradients(kernel: str) -> None:
    q, k, v, dout = tensors(2, (1, 4, 6, 16), (1, 2, 11, 16), (1, 2, 11, 16), (1, 4, 6, 16), dtype=torch.float64)
    exact = [x.clone().requires_grad_() for x in (q, k, v)]
    expected, expected_lse = dense(*exact, causal=False)
    expected.backward(dout)
    blocks = [(k[:, :, :4], v[:, :, :4]), (k[:, :, 4:], v[:, :, 4:])]
    parts = [kernels.forward(q, *block, causal=False, kernel=kernel) for block in blocks]
    out, lse = merge(*parts[0], *parts[1])
    assert max(error(out, expected), error(lse, expected_lse)) < 1e-12
    shares = [kernels.backward(dout, q, *block, out, lse, causal=False, kernel=kernel) for block in blocks]
    assert error(shares[0][0] + shares[1][0], exact[0].grad) < 1e-12
    for index in (1, 2):
        assert error(torch.cat([share[index] for share in shares], dim=2), exact[index].grad) < 1e-12


@pytest.mark.parametrize("kernel", ["reference", "cpu_flash"])
def test_a_blocks_own_lse_would_give_a_wrong_gradient(kernel: str) -> None:
    """The fault that the contract guards against does show."""
    q, k, v, dout = tensors(2, (1, 4, 6, 16), (1, 2, 11, 16), (1, 2, 11, 16), (1, 4, 6, 16), dtype=torch.float64)
    exact = [x.clone().requires_grad_() for x in (q, k, v)]
    dense(*exact, causal=False)[0].backward(dout)
    own = kernels.forward(q, k[:, :, :4], v[:, :, :4], causal=False, kernel=kernel)
    share = kernels.backward(dout, q, k[:, :, :4], v[:, :, :4], *own, causal=False, kernel=kernel)
    assert error(share[1], exact[1].grad[:, :, :4]) > 0.05


def test_an_empty_block_is_nothing() -> None:
    q, k, v = tensors(3, (1, 2, 5, 8), (1, 2, 0, 8), (1, 2, 0, 8), dtype=torch.float32)
    out, lse = kernels.forward(q, k, v, causal=False)
    assert float(out.abs().max()) == 0
    assert bool((lse == float("-inf")).all())
    grads = kernels.backward(torch.ones_like(out), q, k, v, out, lse, causal=False)
    assert [tuple(g.shape) for g in grads] == [(1, 2, 5, 8), (1, 2, 0, 8), (1, 2, 0, 8)]


@pytest.mark.parametrize(
    ("lse_a", "lse_b", "out", "lse"),
    [
        (0.0, 100.0, 3.0, 100.0),
        (100.0, 0.0, 1.0, 100.0),
        (float("-inf"), 0.0, 3.0, 0.0),
        (0.0, float("-inf"), 1.0, 0.0),
        (float("-inf"), float("-inf"), 0.0, float("-inf")),
        (1e4, 1e4, 2.0, 1e4 + math.log(2)),
    ],
)
def test_merge_at_the_edges_with_finite_gradients(lse_a: float, lse_b: float, out: float, lse: float) -> None:
    values = [
        torch.tensor([[[[1.0]]]]),
        torch.tensor([[[lse_a]]]),
        torch.tensor([[[[3.0]]]]),
        torch.tensor([[[lse_b]]]),
    ]
    values = [value.double().requires_grad_() for value in values]
    merged, merged_lse = merge(*values)
    assert float(merged) == pytest.approx(out)
    assert float(merged_lse) == pytest.approx(lse)
    merged.sum().backward()
    assert all(bool(torch.isfinite(value.grad).all()) for value in values)


def test_merge_is_differentiable_through_output_and_lse() -> None:
    inputs = tensors(4, (1, 2, 3, 4), (1, 2, 3), (1, 2, 3, 4), (1, 2, 3), dtype=torch.float64)
    assert torch.autograd.gradcheck(merge, [x.requires_grad_() for x in inputs])


@pytest.mark.parametrize(
    ("q", "k", "causal", "message"),
    [
        ((1, 3, 4, 8), (1, 2, 4, 8), False, "3 query heads do not divide among 2"),
        ((1, 2, 4, 8), (1, 2, 5, 8), True, "causal attention of 4 queries over 5 keys"),
        ((1, 2, 4, 8), (1, 2, 4, 6), False, "do not fit"),
    ],
)
def test_wrong_shapes_are_named(q: tuple[int, ...], k: tuple[int, ...], causal: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernels.forward(torch.zeros(q), torch.zeros(k), torch.zeros(k), causal=causal)
    with pytest.raises(ValueError, match="kernel 'flush' is unknown"):
        kernels.choose(torch.zeros(1), "flush")
