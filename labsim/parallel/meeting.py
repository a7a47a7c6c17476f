"""How ranks find each other: process groups, board and mesh of one rank.

with joined(2, 2) as mesh: ...   this process is one of torchrun's, on one machine or on many
with meet(...) as mesh: ...      it has been told where to meet (`launch`)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from .board import Board
from .group import Alone, Group, RankError
from .mesh import Mesh, check_degrees, ranks_of
from .process import Processes

REMOTE_TIMEOUT_SECONDS = 600.0
PREFIX = "labsim"


@contextmanager
def joined(
    ring: int, ulysses: int, *, device: str | None = None, timeout_seconds: float = REMOTE_TIMEOUT_SECONDS
) -> Iterator[Mesh]:
    """The mesh of a job that torchrun started; of one rank when nobody did.

    NCCL on GPUs, one per local rank; gloo with `device="cpu"`, or where there is no GPU.

    Raises:
        ValueError: degrees that do not multiply to the number of ranks, more than one of them without torchrun, more
            ranks here than GPUs, or an environment that is not torchrun's.
        RankError: not all ranks came to the start.
    """
    world, rank = said_by_torchrun("WORLD_SIZE", "1"), said_by_torchrun("RANK", "0")
    if "WORLD_SIZE" not in os.environ and ring * ulysses > 1:
        raise ValueError(
            f"ring {ring} x ulysses {ulysses} makes {ring * ulysses} ranks, and this process was started alone: "
            f"right is torchrun --nproc-per-node {ring * ulysses} -m labsim.train ..."
        )
    check_degrees(world, ring, ulysses)
    if world == 1:
        yield Mesh.alone()
        return
    kind = "cuda" if torch.cuda.is_available() and device != "cpu" else "cpu"
    if kind == "cuda":
        local, gpus = said_by_torchrun("LOCAL_RANK"), torch.cuda.device_count()
        if local >= gpus:
            raise ValueError(
                f"local rank {local} on a machine with {gpus} GPU{'s' * (gpus != 1)}: NCCL needs one per rank; right "
                f"is --nproc-per-node {gpus}, or --device cpu for gloo"
            )
        torch.cuda.set_device(local)
    backend = "nccl" if kind == "cuda" else "gloo"
    with meet(backend, kind, rank, world, ring, ulysses, timeout_seconds, None) as mesh:
        yield mesh


def said_by_torchrun(name: str, default: str = "") -> int:
    """A number of the environment. ValueError naming it where it is none."""
    text = os.environ.get(name, default)
    if not text.isdecimal():
        raise ValueError(f"{name} is {text!r} in the environment; right is a whole number, as torchrun sets it")
    return int(text)


@contextmanager
def meet(
    backend: str,
    device: str,
    rank: int,
    world: int,
    ring: int,
    ulysses: int,
    timeout_seconds: float,
    store: dist.Store | None,
) -> Iterator[Mesh]:
    """Process groups and board, and their end. Without a store, torchrun's environment says where to meet.

    RankError where ranks do not come, or go again before the groups are made.
    """
    limit = timedelta(seconds=timeout_seconds)
    if world == 1:
        yield Mesh.alone()
        return
    if rank >= world:
        raise ValueError(f"RANK is {rank} of WORLD_SIZE {world}; right is 0 to {world - 1}")
    try:
        dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=limit)
    except RuntimeError as error:  # what the store and the backends raise has no other base
        late = f"the {world} ranks were not all there within {timeout_seconds:g} s"
        raise RankError("the start", [], f"{late} ({type(error).__name__}: {error})") from error
    try:
        base = store if store is not None else dist.distributed_c10d._get_default_store()
        with Board(dist.PrefixStore(PREFIX, base), rank, world, timeout_seconds) as board:
            try:
                mesh = mesh_of(device, rank, ring, ulysses, board)
            except RuntimeError as error:
                raise board.blame("making the groups", range(world), error) from error
            yield mesh
    finally:
        dist.destroy_process_group()


def mesh_of(device: str, rank: int, ring: int, ulysses: int, board: Board) -> Mesh:
    """The three groups of this rank."""
    mesh = init_device_mesh(device, (ring, ulysses), mesh_dim_names=("ring", "ulysses"))
    rings, columns = ranks_of(ring, ulysses)
    number = next(board.meshes)

    def group(kind: str, members: list[list[int]], handle: dist.ProcessGroup) -> Group:
        index, ranks = next((i, ranks) for i, ranks in enumerate(members) if rank in ranks)
        return Processes(handle, f"{kind}{index} of mesh {number}", ranks, board) if len(ranks) > 1 else Alone()

    return Mesh(
        group("ring", rings, mesh.get_group("ring")),
        group("ulysses", columns, mesh.get_group("ulysses")),
        group("world", [list(range(ring * ulysses))], dist.group.WORLD),
    )


def reshaped(mesh: Mesh, ring: int, ulysses: int) -> Mesh:
    """Other degrees over the same processes; all of them call it, and none is between two operations.

    Raises:
        ValueError: degrees that do not multiply to the number of ranks.
    """
    check_degrees(mesh.size, ring, ulysses)
    if not isinstance(mesh.world, Processes):
        return mesh
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    return mesh_of(device, mesh.world.rank, ring, ulysses, mesh.world.board)
