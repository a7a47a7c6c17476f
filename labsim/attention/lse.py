"""Merging softmaxes: attention over two sets of keys from the attention over each.

A block returns its normalised output o_b and l_b = log sum_j exp(s_j) over its keys. Two blocks merge exactly:

    l = logaddexp(l_a, l_b)          o = o_a exp(l_a - l) + o_b exp(l_b - l)

(Online softmax, Milakov & Gimelshein, arXiv 1805.02867; blockwise attention, Liu et al., arXiv 2310.01889.)

An empty block has l = -inf and weighs nothing; of two empty blocks the merge is empty again, which the formula alone
would turn into NaN. The sums run in float32 or better whatever the precision of the outputs: a bfloat16 log-sum-exp
is off by several per cent.

Shapes: B rows, H heads, S queries, D head dimension.
"""

from __future__ import annotations

import torch


def merge(
    out_a_BHSD: torch.Tensor, lse_a_BHS: torch.Tensor, out_b_BHSD: torch.Tensor, lse_b_BHS: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) over the union of two disjoint sets of keys, differentiable through all four inputs.

    Outputs have the precision of the log-sum-exps, at least float32.
    """
    lse_a, lse_b = at_least_float32(lse_a_BHS), at_least_float32(lse_b_BHS)
    top = torch.maximum(lse_a, lse_b)
    empty = top == float("-inf")
    # Subtracting a finite top keeps (-inf) - (-inf) from being NaN, forward and backward.
    top = torch.where(empty, torch.zeros_like(top), top).detach()
    weight_a, weight_b = (lse_a - top).exp(), (lse_b - top).exp()
    total = weight_a + weight_b
    safe = torch.where(empty, torch.ones_like(total), total)
    out = (out_a_BHSD * weight_a[..., None] + out_b_BHSD * weight_b[..., None]) / safe[..., None]
    lse = torch.where(empty, torch.full_like(top, float("-inf")), top + safe.log())
    return out, lse


def at_least_float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()
