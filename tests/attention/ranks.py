"""What tests let each rank do; a module, because real ranks import it."""

from __future__ import annotations

import torch

from labsim.attention.usp import USP, usp_attention
from labsim.parallel.layout import Layout
from labsim.parallel.mesh import Mesh


def ttt_on_a_rank(
    mesh: Mesh, layout: Layout, given: list[torch.Tensor], dout: torch.Tensor, kernel: str
) -> tuple[torch.Tensor, list[torch.Tensor], torch.Tensor]:
    """(this rank's output, gradients of its part of every input, log-sum-exp where it attended).

    Given whole are q, k, v and the branch's pairs.
    """
    place = mesh.ring.rank, mesh.ulysses.rank
    mine = [layout.cut(x, 2, *place).requires_grad_() for x in given]
    usp = USP(mesh, layout, kernel)
    out, lse = usp.with_lse(*entered(usp, mine))
    out.backward(layout.cut(dout, 2, *place))
    return out.detach(), [x.grad for x in mine], lse


def entered(usp: USP, mine: list[torch.Tensor]) -> list:
    """q, k, v and the branch where attention takes place. A branch pair goes in alone: no query goes with it twice."""
    pairs = [usp.enter_kv(mine[0].shape[1], *mine[i : i + 2]) for i in range(3, len(mine), 2)]
    return [*usp.enter(*mine[:3]), pairs]


def attention_on_a_rank(
    mesh: Mesh, layout: Layout, given: list[torch.Tensor], dout: torch.Tensor, causal: bool
) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    place = mesh.ring.rank, mesh.ulysses.rank
    mine = [layout.cut(x, 2, *place).requires_grad_() for x in given]
    out, lse = usp_attention(*mine, mesh, layout, causal=causal)
    out.backward(layout.cut(dout, 2, *place))
    return out.detach(), lse, [x.grad for x in mine]
