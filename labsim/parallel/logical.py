"""Logical ranks: threads of one process that talk as real ranks do.

Each thread runs the same function with its own `Mesh`. Messages are copies, matched by operation number, name and
shape; sums run in the order of ranks, so results are the same every time. One thread's error ends all of them, with
its name. For teaching, for tests, and as the yardstick of the real processes: the same code runs above both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from .group import Alone, Group, RankError, Traffic, describe, reduce_bytes, size_in_bytes
from .mesh import Mesh, ranks_of

Result = TypeVar("Result")


@dataclass
class PostOffice:
    """Messages between threads, and the first failure."""

    timeout_seconds: float
    mail: dict[tuple[Any, ...], tuple[str, list[torch.Tensor]]] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)
    failed: dict[int, BaseException] = field(default_factory=dict)
    left: set[int] = field(default_factory=set)

    def send(self, address: tuple[Any, ...], operation: str, tensors: Sequence[torch.Tensor]) -> None:
        with self.changed:
            self.mail[address] = operation, [tensor.detach().clone() for tensor in tensors]
            self.changed.notify_all()

    def receive(self, address: tuple[Any, ...], sender: int, operation: str) -> list[torch.Tensor]:
        with self.changed:
            arrived = self.changed.wait_for(
                lambda: address in self.mail or self.failed or sender in self.left, self.timeout_seconds
            )
            if address in self.mail:
                theirs, tensors = self.mail.pop(address)
                if theirs != operation:
                    raise RankError(operation, [sender], f"rank {sender} is in {theirs}")
                return tensors
            if self.failed:
                rank, error = next(iter(self.failed.items()))
                raise RankError(operation, [rank], f"rank {rank} failed: {error}")
            if sender in self.left:
                raise RankError(operation, [sender], f"rank {sender} has ended without it")
            assert not arrived
            raise RankError(operation, [sender], f"rank {sender} did not come within {self.timeout_seconds:g} s")


class Threads:
    """A group of logical ranks. `ranks` are world ranks in the order of the group."""

    def __init__(self, office: PostOffice, kind: str, ranks: Sequence[int], rank: int) -> None:
        self.office, self.kind, self.ranks = office, kind, list(ranks)
        self.rank, self.size = rank, len(ranks)
        self.traffic = Traffic()
        self.count = 0

    def post(self, to: int, number: int, operation: str, tensors: Sequence[torch.Tensor]) -> None:
        address = (self.kind, number, self.ranks[self.rank], self.ranks[to])
        self.office.send(address, operation, tensors)

    def fetch(self, source: int, number: int, operation: str) -> list[torch.Tensor]:
        address = (self.kind, number, self.ranks[source], self.ranks[self.rank])
        return self.office.receive(address, self.ranks[source], operation)

    def shift(self, tensors: Sequence[torch.Tensor], name: str) -> Hop:
        operation, number = self.begin(name, tensors)
        self.post((self.rank + 1) % self.size, number, operation, tensors)
        self.traffic.sent(name, size_in_bytes(tensors))
        return Hop(self, (self.rank - 1) % self.size, number, operation)

    def all_to_all(self, parts: torch.Tensor, name: str) -> torch.Tensor:
        operation, number = self.begin(name, [parts])
        others = [peer for peer in range(self.size) if peer != self.rank]
        for peer in others:
            self.post(peer, number, operation, [parts[peer]])
        self.traffic.sent(name, size_in_bytes([parts]) // self.size * len(others))
        received = torch.empty_like(parts)
        received[self.rank] = parts[self.rank]
        for peer in others:
            [received[peer]] = self.fetch(peer, number, operation)
        return received

    def all_gather(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        self.traffic.sent(name, size_in_bytes([tensor]) * (self.size - 1))
        return torch.stack(self.everybodys(tensor, name))

    def all_reduce(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        self.traffic.sent(name, reduce_bytes(tensor, self.size))
        total, *rest = self.everybodys(tensor, name)
        for part in rest:
            total = total + part
        return total

    def meet(self, name: str) -> None:
        self.everybodys(torch.zeros(0), name)

    def everybodys(self, tensor: torch.Tensor, name: str) -> list[torch.Tensor]:
        operation, number = self.begin(name, [tensor])
        others = [peer for peer in range(self.size) if peer != self.rank]
        for peer in others:
            self.post(peer, number, operation, [tensor])
        found = {peer: self.fetch(peer, number, operation)[0] for peer in others} | {self.rank: tensor.detach()}
        return [found[peer] for peer in range(self.size)]

    def begin(self, name: str, tensors: Sequence[torch.Tensor]) -> tuple[str, int]:
        self.count += 1
        return describe(name, tensors), self.count


@dataclass(frozen=True)
class Hop:
    """A hop between threads."""

    group: Threads
    source: int
    number: int
    operation: str

    def wait(self) -> list[torch.Tensor]:
        return self.group.fetch(self.source, self.number, self.operation)


def run(
    work: Callable[..., Result], *arguments: Any, ring: int = 1, ulysses: int = 1, timeout_seconds: float = 20.0
) -> list[Result]:
    """`work(mesh, *arguments)` on ring x ulysses logical ranks; their results in the order of ranks.

    Raises whatever the first failing rank raised.
    """
    world = ring * ulysses
    office = PostOffice(timeout_seconds)
    rings, columns = ranks_of(ring, ulysses)
    results: list[Any] = [None] * world

    def group(kind: str, members: list[list[int]], rank: int) -> Group:
        index, ranks = next((i, ranks) for i, ranks in enumerate(members) if rank in ranks)
        return Threads(office, f"{kind}{index}", ranks, ranks.index(rank)) if len(ranks) > 1 else Alone()

    def one(rank: int) -> None:
        world_group = group("world", [list(range(world))], rank)
        mesh = Mesh(group("ring", rings, rank), group("ulysses", columns, rank), world_group)
        try:
            results[rank] = work(mesh, *arguments)
        except BaseException as error:
            with office.changed:
                office.failed.setdefault(rank, error)
        finally:
            with office.changed:
                office.left.add(rank)
                office.changed.notify_all()

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if office.failed:
        raise next(iter(office.failed.values()))
    return results
