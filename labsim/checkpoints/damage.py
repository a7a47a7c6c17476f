"""Parts of a weight that no training leaves so: rows of one value, and numbers far out of the tensor's own scale.

A file that was written over in part, or copied with flipped bits, has all its tensors in the right shapes. What the
damage leaves is local: rows that hold one value throughout (zeros from a hole in the file), and single numbers that are
orders of magnitude larger than the rest (a bit of an exponent).
"""

from __future__ import annotations

import torch

from ..models.weights import WEIGHT_TYPES
from .check import Check, fault, listed, ok, warning
from .on_disk import OnDisk
from .tensors import MAPPING, OWN_EMBEDDING

HEAD = "lm_head.weight"
OUTLIER = 1000.0  # times the median row's size; trained weights stay below 100
LARGEST, SMALLEST = 10.0, 1e-5  # root mean square of a matrix; trained ones lie near 0.02


def damage_checks(disk: OnDisk) -> list[Check]:
    """Tensors that are not numbers, or nothing but zeros, are left to `tensors.value_checks`."""
    flat, head, odd = {}, 0, []
    for name, tensor in disk.tensors.items():
        if name in (*MAPPING, OWN_EMBEDDING) or tensor.dtype not in WEIGHT_TYPES or tensor.numel() < 2:
            continue
        weight = tensor.float()
        if not bool(torch.isfinite(weight).all()) or not bool(weight.any()) or weight.ndim not in (1, 2):
            continue
        if weight.ndim == 2 and weight.shape[1] > 1:
            rows = int((weight == weight[:, :1]).all(dim=1).sum())
            if rows and name == HEAD:
                head = rows
            elif rows:
                flat[name] = rows
        if found := scale_of(weight):
            odd.append(f"{name} {found}")
    checks = []
    if flat:
        checks.append(
            fault(
                "values: rows of one value",
                listed(f"{name} ({rows} of {len(disk.tensors[name])} rows)" for name, rows in flat.items()),
                "a part of the layer says nothing: acceptance lower, and no error",
                "written over or copied in part: fetch or export the file again",
            )
        )
    if head:
        checks.append(
            warning(
                "values: rows of one value in the head",
                f"{head} of {len(disk.tensors[HEAD])} rows of {HEAD}",
                "those tokens are never drafted",
                "padding of a vocabulary is meant so; anything else is damage: fetch or export the file again",
            )
        )
    if odd:
        checks.append(
            fault(
                "values: scale",
                listed(odd),
                "one unit drowns the others, or overflows in float16: acceptance lower, and no error",
                "flipped bits or a wrong cast: fetch or export the file again",
            )
        )
    return checks or [ok("rows and scale", "no row of one value, no number out of its tensor's scale")]


def scale_of(weight: torch.Tensor) -> str:
    """What is absurd about the size of a tensor; empty where nothing is."""
    size = (weight if weight.ndim == 2 else weight[:, None]).square().mean(dim=1).sqrt()
    usual, largest = float(size[size > 0].median()), float(weight.abs().max())
    if largest > OUTLIER * usual:
        return f"holds {largest:.3g} among rows of size {usual:.3g}"
    if weight.ndim == 2 and not SMALLEST <= usual <= LARGEST:
        return f"has rows of size {usual:.3g}"
    return ""
