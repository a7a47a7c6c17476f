"""Copies of key heads whose gradients go wrong: USP with one line changed, to learn a fault by its symptom.

Where Ulysses has more ranks than there are key heads, each head exists several times, and each copy serves other query
heads. Its gradient is the sum over the copies. Only a mesh with copies can show whether that sum is taken.
"""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from ..attention import usp
from ..attention.ulysses import repeat_kv
from ..attention.usp import USP
from ..sim.errors import unknown_name

HEALTHY_LINE = "repeat_kv(x, heads, group.size)"


class ScaledBackward(torch.autograd.Function):
    """The identity, whose gradient is multiplied."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad * ctx.factor, None


def averaged(x: torch.Tensor, heads: int, size: int) -> torch.Tensor:
    """Each head's gradient is the mean over its copies."""
    repeated = repeat_kv(x, heads, size)
    return ScaledBackward.apply(repeated, x.shape[1] / repeated.shape[1])


def counted_twice(x: torch.Tensor, heads: int, size: int) -> torch.Tensor:
    """The sum over a head's copies is put on every copy, and these are summed."""
    repeated = repeat_kv(x, heads, size)
    return ScaledBackward.apply(repeated, repeated.shape[1] / x.shape[1])


def one_copy(x: torch.Tensor, heads: int, size: int) -> torch.Tensor:
    """Only the first copy of a head hands its gradient back."""
    times = repeat_kv(x, heads, size).shape[1] // x.shape[1]
    return torch.stack([x, *[x.detach()] * (times - 1)], dim=2).flatten(1, 2)


def strided(x: torch.Tensor, heads: int, size: int) -> torch.Tensor:
    """Copies dealt in turn, so that query heads read another head's keys."""
    times = repeat_kv(x, heads, size).shape[1] // x.shape[1]
    return x.repeat(1, times, 1, 1)


@dataclass(frozen=True)
class PlantedCopies:
    """`line` stands in USP.enter_kv in place of `HEALTHY_LINE`; `what` says what that means."""

    line: str
    what: str


FAULTS = {
    "averaged": PlantedCopies("averaged(x, heads, group.size)", "copies are averaged, as data-parallel replicas are"),
    "counted twice": PlantedCopies(
        "counted_twice(x, heads, group.size)", "the sum is put on every copy, and summed again"
    ),
    "one copy": PlantedCopies("one_copy(x, heads, group.size)", "one copy's gradient is kept, the others' dropped"),
    "strided heads": PlantedCopies(
        "strided(x, heads, group.size)", "heads are repeated in turn: query head h reads key head h % K"
    ),
}


@cache
def planted(name: str) -> type[USP]:
    """USP with this fault. ValueError for an unknown name, or when the line is not there exactly once."""
    if name not in FAULTS:
        raise unknown_name("fault", name, FAULTS)
    source = textwrap.dedent(inspect.getsource(USP.enter_kv))
    if (count := source.count(HEALTHY_LINE)) != 1:
        raise ValueError(f"{name}: USP.enter_kv holds {HEALTHY_LINE!r} {count} times, not once")
    helpers: dict[str, Any] = {one.__name__: one for one in (averaged, counted_twice, one_copy, strided)}
    scope = vars(usp) | helpers
    exec(compile(source.replace(HEALTHY_LINE, FAULTS[name].line), f"<USP with fault: {name}>", "exec"), scope)
    return type(f"USPWithFault_{name.replace(' ', '_')}", (USP,), {"enter_kv": scope["enter_kv"]})


def against(found: torch.Tensor, right: torch.Tensor) -> tuple[float, float]:
    """(slope, rest): found = slope x right + rest, by least squares; rest relative to right."""
    slope = float((found * right).sum() / (right * right).sum())
    return slope, float((found - slope * right).norm() / right.norm())
