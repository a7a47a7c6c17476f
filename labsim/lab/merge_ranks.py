"""Keys on several ranks, queries on all: each rank attends to its own keys, and the log-sum-exps put it together.

The smallest attention that needs other ranks at all (serving engines split a long cache this way): one all-gather of
(out, lse) forward, one sum of dq backward. Keys, values and their gradients never travel. A module, because real ranks
import what they run.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..attention import kernels
from ..attention.lse import merge
from ..parallel.mesh import Mesh


def attend_to_own_keys(mesh: Mesh, given: Sequence[torch.Tensor], dout: torch.Tensor) -> tuple[list[torch.Tensor], int]:
    """([out, lse, dq, dk, dv], bytes sent): dk and dv are those of this rank's keys, the rest is whole.

    Args:
        given: q, k, v whole; this rank takes its part of the keys.
    """
    world = mesh.world
    q, k, v = given[0], *(x.chunk(world.size, 2)[world.rank].contiguous() for x in given[1:])
    own_out, own_lse = kernels.forward(q, k, v, causal=False)
    outs, lses = world.all_gather(own_out, "outputs"), world.all_gather(own_lse, "log-sum-exps")
    out, lse = outs[0], lses[0]
    for rank in range(1, world.size):
        out, lse = merge(out, lse, outs[rank], lses[rank])
    dq, dk, dv = kernels.backward(dout, q, k, v, out, lse, causal=False)
    return [out, lse, world.all_reduce(dq.contiguous(), "dq"), dk, dv], mesh.bytes_sent
