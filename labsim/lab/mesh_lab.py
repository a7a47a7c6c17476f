"""A ring x Ulysses mesh under the loupe: every factorisation, each engine alone, messages, crossings and memory.

Everything here lets `labsim.attention` compute, through `usp_run`; nothing of it is written again.

Shapes: S positions in all, L of a rank, H query heads, K key/value heads, D head dimension.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch

from ..attention.bytes_sent import AttentionShape
from ..attention.ring import ring_attention
from ..attention.ttt import ttt_attention
from ..attention.ulysses import gather_heads, gather_tokens, repeat_kv
from ..attention.usp import USP
from ..parallel import launch, logical
from ..parallel.layout import Kind, Layout
from ..parallel.mesh import Mesh
from .ring_lab import COUNTS, Echo
from .usp_run import Problem, Share, run_on_a_rank

GRADIENTS = ("dq", "dk", "dv")
Results = dict[str, torch.Tensor]


def factorisations(world: int, heads: int | None = None) -> list[tuple[int, int]]:
    """(ring, ulysses) of every mesh of `world` ranks, by Ulysses degree; with `heads`, the legal ones."""
    return [(world // u, u) for u in range(1, world + 1) if world % u == 0 and (heads is None or heads % u == 0)]


def on_logical_ranks(problem: Problem, usp: type[USP] = USP) -> list[Share]:
    """Every rank's results, computed by threads."""
    layout = problem.layout
    return logical.run(run_on_a_rank, problem, True, False, usp, ring=layout.ring, ulysses=layout.ulysses)


def cases_on_a_rank(mesh: Mesh, problems: Sequence[Problem]) -> list[Share]:
    """Several problems one after the other; the first again for its memory (see `ring_lab.COUNTS`)."""
    found = [run_on_a_rank(mesh, problem, True, False) for problem in problems]
    found[0] = replace(found[0], peak=min(run_on_a_rank(mesh, problems[0], False, True).peak for _ in range(COUNTS)))
    return found


def on_real_ranks(problems: Sequence[Problem], timeout_seconds: float = 60.0) -> list[list[Share]]:
    """By problem, every rank's results, by processes of their own; all problems in one set of processes.

    ValueError for problems of different meshes.
    """
    [(ring, ulysses)] = {(problem.layout.ring, problem.layout.ulysses) for problem in problems}
    ranks = launch.run(cases_on_a_rank, problems, ring=ring, ulysses=ulysses, timeout_seconds=timeout_seconds)
    return [[rank[index] for rank in ranks] for index in range(len(problems))]


def swapped(held: Sequence[Sequence[Sequence[int]]], to_heads: bool = True) -> list[list[list[int]]]:
    """The package's all-to-all on logical ranks, of the lists that the exercises swap by hand."""

    def work(mesh: Mesh) -> list[list[int]]:
        rows_BHLD = torch.tensor(held[mesh.ulysses.rank])[None, :, :, None]
        moved = (gather_tokens if to_heads else gather_heads)(rows_BHLD, mesh.ulysses)
        return moved[0, :, :, 0].tolist()

    return logical.run(work, ulysses=len(held))


def refusal(heads: int, kv_heads: int, ring: int, ulysses: int) -> str:
    """What USP says to heads that do not divide. RuntimeError where it accepts them."""
    try:
        on_logical_ranks(small(4 * ring * ulysses, ring, ulysses, heads, kv_heads))
    except ValueError as error:
        return str(error)
    raise RuntimeError(f"{heads} heads on {ulysses} Ulysses ranks were accepted")


def whole(problem: Problem, shares: Sequence[Share]) -> Results:
    """Output and gradients of the whole text, put together from all ranks."""
    parts = [plain(share) for share in shares]
    return {name: problem.layout.join([part[name] for part in parts], 2) for name in parts[0]}


def plain(share: Share) -> Results:
    """Output and gradients of step 0."""
    return {"out": share.out[0], "dq": share.dq[0], "dk": share.dk[0], "dv": share.dv[0]}


def same_bits(one: Sequence[Results], other: Sequence[Results]) -> bool:
    """Every tensor of every rank equal, bit for bit."""
    return all(
        a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a) for a, b in zip(one, other, strict=True)
    )


def ring_alone(problem: Problem) -> list[Results]:
    """`ring_attention`, with no Ulysses code around it. ValueError where the mesh has a Ulysses degree."""
    if problem.layout.ulysses != 1:
        raise ValueError(f"ulysses is {problem.layout.ulysses}; a ring alone has 1")

    def work(mesh: Mesh) -> Results:
        q, k, v, dout = mine(problem, mesh)
        out, _ = ring_attention(q, k, v, mesh.ring, problem.layout)
        return finished(out, (q, k, v), dout)

    return logical.run(work, ring=problem.layout.ring)


def ulysses_alone(problem: Problem) -> list[Results]:
    """Two swaps and one process's attention between them, with no ring code. ValueError where the mesh has a ring."""
    if problem.layout.ring != 1:
        raise ValueError(f"ring is {problem.layout.ring}; Ulysses alone has 1")
    if problem.layout.padded != problem.layout.length:
        raise ValueError(f"{problem.layout.length} tokens do not divide among {problem.layout.ulysses} ranks")

    def work(mesh: Mesh) -> Results:
        group = mesh.ulysses
        q, k, v, dout = mine(problem, mesh)
        keys, values = (gather_tokens(repeat_kv(x, problem.heads, group.size), group) for x in (k, v))
        out = gather_heads(ttt_attention(gather_tokens(q, group), keys, values), group)
        return finished(out, (q, k, v), dout)

    return logical.run(work, ulysses=problem.layout.ulysses)


def mine(problem: Problem, mesh: Mesh) -> tuple[torch.Tensor, ...]:
    """This rank's q, k, v (leaves) and the gradient of its output."""
    place = mesh.ring.rank, mesh.ulysses.rank
    q, k, v, dout = (problem.layout.cut(x[0], 2, *place).to(problem.dtype) for x in problem.inputs())
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), dout


def finished(out: torch.Tensor, leaves: Sequence[torch.Tensor], dout: torch.Tensor) -> Results:
    out.backward(dout)
    gradients = [leaf.grad for leaf in leaves]
    return {"out": out.detach()} | dict(zip(GRADIENTS, gradients, strict=True))


def messages(problem: Problem) -> dict[str, int]:
    """What rank 0 starts, forward and backward: hops of the ring, all-to-alls, and messages to other ranks in these."""

    def work(mesh: Mesh) -> tuple[Counter[str], Counter[str]]:
        run_on_a_rank(mesh, problem, False, False)
        return mesh.ring.traffic.messages, mesh.ulysses.traffic.messages

    layout = problem.layout
    hops, swaps = logical.run(work, ring=layout.ring, ulysses=layout.ulysses)[0]
    return {
        "ring hops": hops.total(),
        "all-to-alls": swaps.total(),
        "messages in them": swaps.total() * (layout.ulysses - 1),
    }


def shard_bytes(problem: Problem) -> int:
    """What one rank is given: its part of q, k, v and of the output's gradient."""
    shape = problem.shape
    return (2 * shape.local_elements(problem.heads) + 2 * shape.local_elements(problem.kv_heads)) * shape.element_bytes


def peak_per_rank(problem: Problem) -> int:
    """Live bytes of the last rank at the worst moment of forward and backward, what it was given included.

    Measured alone: the other ranks are buffers of the right sizes (`ring_lab.Echo`).
    """
    layout = problem.layout
    ring, ulysses = (Echo(size - 1, size) for size in (layout.ring, layout.ulysses))
    mesh = Mesh(ring, ulysses, Echo(layout.ring * layout.ulysses - 1, layout.ring * layout.ulysses))
    return shard_bytes(problem) + run_on_a_rank(mesh, problem, False, True).peak


def small(
    length: int,
    ring: int,
    ulysses: int,
    heads: int,
    kv_heads: int,
    size: int = 8,
    kind: Kind = "zigzag",
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Problem:
    """A problem of ordinary causal attention."""
    return Problem(Layout(length, ring, ulysses, kind), heads, kv_heads, size, seed=seed, dtype=dtype)


def across_nodes(shape: AttentionShape, per_node: int, ulysses_inside: bool = True) -> tuple[int, int]:
    """(bytes to ranks of the same node, to other nodes) that the whole mesh sends in one forward.

    Ranks are numbered with the Ulysses dimension inside (`labsim.parallel.mesh`) or with the ring inside, and nodes
    take `per_node` ranks in a row.
    """
    ring, ulysses = shape.layout.ring, shape.layout.ulysses
    found = {True: 0, False: 0}

    def node(r: int, u: int) -> int:
        return (r * ulysses + u if ulysses_inside else u * ring + r) // per_node

    for r in range(ring):
        for u in range(ulysses):
            if ring > 1:
                found[node(r, u) == node((r + 1) % ring, u)] += shape.ring_forward
            for peer in range(ulysses):
                if peer != u:
                    found[node(r, u) == node(r, peer)] += shape.ulysses_forward // (ulysses - 1)
    return found[True], found[False]
