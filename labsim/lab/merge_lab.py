"""Attention cut into blocks of keys, forward and backward, right and wrong on purpose, beside one softmax over all.

The exact side is `dense`: one softmax in float64, differentiated by autograd. The cut side runs the package's kernels
and its merge; what is wrong on purpose is named by `ways`.

Shapes: B rows, H heads, S queries, T keys, D head dimension, N branch steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import torch

from ..attention import kernels
from ..attention.kernels import Kernel
from ..attention.lse import merge
from ..attention.ttt import branch_logits, ttt_attention
from .merge_forms import Part, accumulated
from .naive_attention import naive_attention

Tensors = Sequence[torch.Tensor]
# What a block's backward is fed with: (its own output?, its own log-sum-exp?)
WAYS = {
    "merged output, merged LSE": (False, False),
    "own output, merged LSE": (True, False),
    "merged output, own LSE": (False, True),
    "own output, own LSE": (True, True),
}


def drawn(*shapes: Sequence[int], seed: int) -> list[torch.Tensor]:
    """Normal numbers in float64."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


def qkv(keys: int, seed: int, *, queries: int = 16, heads: int = 2, width: int = 16) -> list[torch.Tensor]:
    """q (1, H, S, D), k and v (1, H, T, D)."""
    shapes = [(1, heads, count, width) for count in (queries, keys, keys)]
    return drawn(*shapes, seed=seed)


def parts_of(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, blocks: int, kernel: Kernel = "auto") -> list[Part]:
    """(out, lse) of each block of keys. ValueError when the keys do not divide into so many blocks."""
    if k.shape[2] % blocks:
        raise ValueError(f"{k.shape[2]} keys do not divide into {blocks} blocks")
    pairs = zip(k.chunk(blocks, 2), v.chunk(blocks, 2), strict=True)
    return [kernels.forward(q, *pair, causal=False, kernel=kernel) for pair in pairs]


def dense(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Part:
    """One softmax over all keys."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def off(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Length of the error, relative to the length of what is right."""
    return float((found.double() - exact).norm() / exact.norm())


def worst(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Largest error of an entry."""
    return float((found.double() - exact).abs().max())


def through_the_merge(given: Tensors, dout: torch.Tensor, blocks: int, kernel: Kernel) -> dict[str, float]:
    """Relative errors of out, dq, dk and dv when autograd walks back through merge and kernel.

    The reference kernel's log-sum-exp carries a gradient, a flash kernel's does not.
    """
    leaves = [x.clone().requires_grad_() for x in given]
    out, _ = accumulated(parts_of(*leaves, blocks, kernel))[-1]
    return errors(given, dout, out, torch.autograd.grad(out, leaves, dout))


def block_by_block(given: Tensors, dout: torch.Tensor, blocks: int, way: str) -> dict[str, float]:
    """The same errors when each block's ordinary flash backward is fed with one of `WAYS`.

    ValueError for another way.
    """
    if way not in WAYS:
        raise ValueError(f"way is {way!r}; allowed: {', '.join(WAYS)}")
    own_out, own_lse = WAYS[way]
    q, k, v = given
    parts = parts_of(q, k, v, blocks)
    whole = accumulated(parts)[-1]
    dq, dks, dvs = torch.zeros_like(q), [], []
    for own, k_b, v_b in zip(parts, k.chunk(blocks, 2), v.chunk(blocks, 2), strict=True):
        out, lse = own[0] if own_out else whole[0], own[1] if own_lse else whole[1]
        dq_b, dk_b, dv_b = kernels.backward(dout, q, k_b, v_b, out, lse, causal=False)
        dq += dq_b
        dks.append(dk_b)
        dvs.append(dv_b)
    return errors(given, dout, whole[0], [dq, torch.cat(dks, 2), torch.cat(dvs, 2)])


def errors(given: Tensors, dout: torch.Tensor, out: torch.Tensor, gradients: Tensors) -> dict[str, float]:
    """Relative errors against one dense softmax."""
    leaves = [x.clone().requires_grad_() for x in given]
    exact, _ = dense(*leaves)
    right = torch.autograd.grad(exact, leaves, dout)
    named = zip(("dq", "dk", "dv"), gradients, right, strict=True)
    return {"out": off(out.detach(), exact.detach())} | {name: off(a, b) for name, a, b in named}


def order_spread(parts: Sequence[Part]) -> float:
    """Largest difference of any output number between all orders of merging."""
    outs = torch.stack([accumulated(order)[-1][0] for order in permutations(parts)])
    return float((outs.amax(0) - outs.amin(0)).max())


def masked_row() -> tuple[float, float, float]:
    """A row whose keys are all masked, as torch's CPU kernel answers it: (its output's largest entry, its log-sum-exp,
    weight that it takes when merged with a block of log-sum-exp 4.7)."""
    q, k, v = (x.float() for x in qkv(8, seed=0, queries=2, heads=1))
    mask = torch.zeros(2, 8)
    mask[0] = float("-inf")
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, False, attn_mask=mask)
    row = lse[0, 0, 0]
    _, total = merge(torch.zeros(1), row, torch.zeros(1), torch.tensor(4.7))
    return float(out[0, 0, 0].abs().max()), float(row), float((row - total).exp())


def branch_inputs(steps: int, seed: int, length: int = 24) -> list[torch.Tensor]:
    """q, k, v of the history, then k and v of each branch step: all (1, 2, L, 16)."""
    return drawn(*[(1, 2, length, 16)] * (3 + 2 * steps), seed=seed)


def paired(flat: Tensors) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return list(zip(flat[0::2], flat[1::2], strict=True))


def branch_parity(steps: int, seed: int) -> dict[str, float]:
    """Largest error of any entry of `ttt_attention`, forward and backward, against one softmax under a dense mask."""
    given = branch_inputs(steps, seed)
    [dout] = drawn(given[0].shape, seed=seed + 1)
    results = []
    for attention in (ttt_attention, naive_attention):
        leaves = [x.clone().requires_grad_() for x in given]
        out = attention(*leaves[:3], paired(leaves[3:]))
        results.append([out.detach(), *torch.autograd.grad(out, leaves, dout)])
    ours, exact = results
    if min(float(x.abs().max()) for x in exact) < 1e-3:
        raise AssertionError("a gradient of zeros proves nothing")
    found = [worst(a, b) for a, b in zip(ours, exact, strict=True)]
    named = dict(zip(("out", "dq", "dk", "dv"), found, strict=False))
    return named | ({"branch": max(found[4:])} if steps else {})


def branch_weight(steps: int, seed: int) -> float:
    """Mean share of the softmax that the branch holds."""
    q, k, v, *branch = branch_inputs(steps, seed)
    _, lse = kernels.forward(q, k, v, causal=True)
    own = branch_logits(q, branch[0::2], q.shape[-1] ** -0.5).logsumexp(-1).flatten(1, 2)
    return float(torch.sigmoid(own - lse).mean())


def history_backward(steps: int, seed: int, *, merged: bool) -> dict[str, float]:
    """Relative errors of dk and dv of the history, whose backward gets the merged output and LSE, or its own."""
    given = branch_inputs(steps, seed)
    [dout] = drawn(given[0].shape, seed=seed + 1)
    leaves = [x.clone().requires_grad_() for x in given]
    exact = torch.autograd.grad(naive_attention(*leaves[:3], paired(leaves[3:])), leaves[1:3], dout)
    q, k, v, *branch = given
    out, lse = kernels.forward(q, k, v, causal=True)
    if merged:
        for k_n, v_n in paired(branch):
            out, lse = merge(out, lse, v_n, (q * k_n).sum(-1) * q.shape[-1] ** -0.5)
    _, dk, dv = kernels.backward(dout, q, k, v, out, lse, causal=True)
    return {"dk": off(dk, exact[0]), "dv": off(dv, exact[1])}
