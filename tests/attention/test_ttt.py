"""Attention of training-time test against a dense mask in float64, and its memory against the sequence length."""

from __future__ import annotations

import math

import pytest
import torch

from labsim.attention.ttt import ttt_attention


def dense(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, branch: list[tuple[torch.Tensor, torch.Tensor]]
) -> torch.Tensor:
    """One softmax over all (1 + N) L keys with the mask written out: history causal, branch only on its diagonal."""
    groups, length = q.shape[1] // k.shape[1], q.shape[2]
    keys = torch.cat([k, *(pair[0] for pair in branch)], dim=2).repeat_interleave(groups, dim=1)
    values = torch.cat([v, *(pair[1] for pair in branch)], dim=2).repeat_interleave(groups, dim=1)
    t = torch.arange(length)
    seen = [t[:, None] >= t[None, :], *[t[:, None] == t[None, :]] * len(branch)]
    scores = q @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return scores.masked_fill(~torch.cat(seen, dim=1), float("-inf")).softmax(-1) @ values


def inputs(steps: int, heads: int, kv_heads: int, length: int, dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    shapes = [(2, heads, length, 16)] + [(2, kv_heads, length, 16)] * (2 + 2 * steps)
    return [1.5 * torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 5e-6)])
@pytest.mark.parametrize("kernel", ["reference", "cpu_flash"])
@pytest.mark.parametrize("steps", [0, 1, 2, 7])
@pytest.mark.parametrize(("heads", "kv_heads", "length"), [(4, 4, 19), (8, 2, 33)])
def test_output_and_every_gradient(
    dtype: torch.dtype, tolerance: float, kernel: str, steps: int, heads: int, kv_heads: int, length: int
) -> None:
    given = inputs(steps, heads, kv_heads, length, dtype)
    ours = [x.clone().requires_grad_() for x in given]
    exact = [x.double().requires_grad_() for x in given]
    pairs = [list(zip(x[3::2], x[4::2], strict=True)) for x in (ours, exact)]
    out = ttt_attention(*ours[:3], pairs[0], kernel=kernel)
    expected = dense(*exact[:3], pairs[1])
    dout = torch.randn(out.shape, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    out.backward(dout.to(dtype))
    expected.backward(dout)
    assert float((out.double() - expected).abs().max()) < tolerance
    for mine, theirs in zip(ours, exact, strict=True):
        assert float(theirs.grad.abs().max()) > 0.01, "a zero gradient proves nothing"
        assert float((mine.grad.double() - theirs.grad).abs().max() / theirs.grad.abs().max()) < tolerance


@pytest.mark.parametrize("kernel", ["reference", "cpu_flash"])
@pytest.mark.parametrize("documents", [(33,), (1, 20, 12), (16, 0, 17)])
def test_packed_documents_do_not_see_each_other(kernel: str, documents: tuple[int, ...]) -> None:
    given = inputs(2, 8, 2, 33, torch.float64)
    ours, exact = ([x.clone().requires_grad_() for x in given] for _ in range(2))
    pairs = [list(zip(x[3::2], x[4::2], strict=True)) for x in (ours, exact)]
    out = ttt_attention(*ours[:3], pairs[0], kernel=kernel, documents=documents)
    parts, start = [], 0
    for length in documents:
        cut = slice(start, start := start + length)
        own = [(k[:, :, cut], v[:, :, cut]) for k, v in pairs[1]]
        parts.append(dense(*(x[:, :, cut] for x in exact[:3]), own))
    expected = torch.cat(parts, dim=2)
    dout = torch.randn(out.shape, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    out.backward(dout)
    expected.backward(dout)
    assert float((out - expected).abs().max()) < 1e-12
    for mine, theirs in zip(ours, exact, strict=True):
        assert float((mine.grad - theirs.grad).abs().max()) < 1e-12


def test_document_lengths_must_add_up() -> None:
    q, k, v = inputs(0, 4, 4, 19, torch.float64)
    with pytest.raises(ValueError, match=r"\[10, 10\] positions do not make up a row of 19"):
        ttt_attention(q, k, v, documents=(10, 10))


def test_saved_memory_is_linear_in_the_length() -> None:
    """Bytes kept for backward, counted; a score matrix would grow with the square."""

    def saved(length: int) -> int:
        given = [x.requires_grad_() for x in inputs(3, 4, 2, length, torch.float32)]
        total = 0

        def count(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal total
            total += tensor.numel() * tensor.element_size()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            ttt_attention(*given[:3], list(zip(given[3::2], given[4::2], strict=True)))
        return total

    assert saved(1024) == pytest.approx(4 * saved(256), rel=0.01)
