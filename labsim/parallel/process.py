"""Groups of real ranks over torch.distributed: gloo between CPUs, NCCL between GPUs.

An operation is agreed on first (`board`), so that what runs here has everybody present with one shape. Messages are
posted in one order on all ranks. Tensors are made contiguous: gloo refuses others, NCCL would send the wrong bytes.

Shapes: P ranks of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist

from .board import Board
from .group import Traffic, describe, reduce_bytes, size_in_bytes

Result = TypeVar("Result")


class Processes:
    """A group of processes. `ranks` are world ranks in the order of the group.

    Args:
        board: where operations are agreed on; None trusts every rank to come.
    """

    def __init__(self, handle: dist.ProcessGroup, kind: str, ranks: Sequence[int], board: Board | None) -> None:
        self.handle, self.kind, self.ranks, self.board = handle, kind, list(ranks), board
        self.rank, self.size = self.ranks.index(dist.get_rank()), len(ranks)
        self.traffic = Traffic()
        self.count = 0

    def shift(self, tensors: Sequence[torch.Tensor], name: str) -> Hop:
        sent = [tensor.contiguous() for tensor in tensors]
        operation = self.begin(name, sent)
        received = [torch.empty_like(tensor) for tensor in sent]
        after, before = (self.ranks[(self.rank + step) % self.size] for step in (1, -1))
        posts = [dist.P2POp(dist.isend, tensor, after, self.handle) for tensor in sent]
        posts += [dist.P2POp(dist.irecv, tensor, before, self.handle) for tensor in received]
        works = self.run(operation, lambda: dist.batch_isend_irecv(posts))
        self.traffic.sent(name, size_in_bytes(sent))
        return Hop(self, operation, works, sent, received)

    def all_to_all(self, parts: torch.Tensor, name: str) -> torch.Tensor:
        parts = parts.contiguous()
        operation = self.begin(name, [parts])
        received = torch.empty_like(parts)
        self.run(operation, lambda: dist.all_to_all_single(received, parts, group=self.handle))
        self.traffic.sent(name, size_in_bytes([parts]) // self.size * (self.size - 1))
        return received

    def all_reduce(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        total = tensor.detach().clone(memory_format=torch.contiguous_format)
        operation = self.begin(name, [total])
        self.run(operation, lambda: dist.all_reduce(total, group=self.handle))
        self.traffic.sent(name, reduce_bytes(total, self.size))
        return total

    def all_gather(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        tensor = tensor.detach().contiguous()
        operation = self.begin(name, [tensor])
        gathered = tensor.new_empty((self.size, *tensor.shape))
        self.run(operation, lambda: dist.all_gather(list(gathered.unbind(0)), tensor, group=self.handle))
        self.traffic.sent(name, size_in_bytes([tensor]) * (self.size - 1))
        return gathered

    def meet(self, name: str) -> None:
        self.count += 1
        if self.board is None:
            dist.barrier(self.handle)
        else:
            self.board.agree(self.kind, self.ranks, self.count, name, patient=True)

    def begin(self, name: str, tensors: Sequence[torch.Tensor]) -> str:
        operation = describe(name, tensors)
        self.count += 1
        if self.board is not None:
            self.board.agree(self.kind, self.ranks, self.count, operation)
        return operation

    def run(self, operation: str, work: Callable[[], Result]) -> Result:
        """RankError in place of what torch.distributed says when a rank is lost."""
        try:
            return work()
        except RuntimeError as error:
            if self.board is None:
                raise
            raise self.board.blame(operation, self.ranks, error) from error


@dataclass(frozen=True)
class Hop:
    """A hop under way. It holds what is sent until it has left."""

    group: Processes
    operation: str
    works: list[dist.Work]
    sent: list[torch.Tensor]
    received: list[torch.Tensor]

    def wait(self) -> list[torch.Tensor]:
        self.group.run(self.operation, lambda: [work.wait() for work in self.works])
        return self.received
