"""Rings with one fault each, to learn a fault by its symptom.

A faulty ring is the real one with one line of its text changed, compiled again into a class of its own; `Ring` itself
stays as it is. Where a fault has been shipped by somebody, its text says by whom.
"""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import dataclass
from functools import cache

from ..attention import ring
from ..attention.ring import Ring
from ..sim.errors import unknown_name


@dataclass(frozen=True)
class Planted:
    """`old` in the text of the method becomes `new`; `what` says what that means."""

    method: str
    old: str
    new: str
    what: str


FAULTS = {
    "merge": Planted(
        "forward",
        "merge(out[:, :, rows], lse[:, :, rows], *part)",
        "merge(out[:, :, rows], lse[:, :, rows], part[0], part[1] * 0)",
        "a kernel that returns no log-sum-exp weighs all hops alike (yunchang's torch kernels)",
    ),
    "hop short": Planted(
        "backward",
        "dk, dv = following.wait()",
        "following.wait()",
        "the last hop home is waited for and not taken",
    ),
    "sum dropped": Planted(
        "backward",
        "dk += before_k",
        "pass",
        "what earlier ranks have added to dk is forgotten",
    ),
    "first keys": Planted(
        "backward",
        "k, v = coming.wait()",
        "coming.wait()",
        "backward computes every hop on its own keys (diffusers issue 14265)",
    ),
    "own lse": Planted(
        "backward",
        "lse[:, :, rows].contiguous()",
        "kernels.forward(q[:, :, rows], k[:, :, columns], v[:, :, columns], causal=block.causal, scale=scale)[1]",
        "each block is normalised by its own log-sum-exp instead of the merged one",
    ),
}


@cache
def planted(name: str) -> type[Ring]:
    """A ring with this fault. ValueError for an unknown name, or when the text to change is not there exactly once."""
    if name not in FAULTS:
        raise unknown_name("fault", name, FAULTS)
    fault = FAULTS[name]
    source = textwrap.dedent(inspect.getsource(getattr(Ring, fault.method)))
    if (count := source.count(fault.old)) != 1:
        raise ValueError(f"{name}: Ring.{fault.method} holds {fault.old!r} {count} times, not once")
    scope: dict[str, object] = {}
    exec(compile(source.replace(fault.old, fault.new), f"<ring with fault: {name}>", "exec"), vars(ring), scope)
    return type(f"RingWithFault_{name.replace(' ', '_')}", (Ring,), {fault.method: scope[fault.method]})
