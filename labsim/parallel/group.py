"""What a rank can say to the others of its group, and how many bytes it takes.

Four operations carry everything in this package: `shift` (a ring's hop), `all_to_all` (Ulysses), `all_reduce` and
`all_gather`. Who carries them is exchangeable, and the arithmetic above does not notice:

    Alone       one rank, nothing to send
    Threads     logical ranks: threads of one process (`logical`), deterministic, nothing to install or to wait for
    Processes   real ranks over gloo or NCCL (`process`)

Every operation has a name, which is what an error names. Bytes are counted at the call: what this rank sends, without
what it keeps.

Shapes: P ranks of the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch


class RankError(RuntimeError):
    """Ranks did not do what an operation needed of them.

    Attributes:
        operation: the operation at which this rank found out.
        ranks: world ranks at fault.
    """

    def __init__(self, operation: str, ranks: Sequence[int], reason: str) -> None:
        super().__init__(f"{operation}: {reason}")
        self.operation, self.ranks, self.reason = operation, tuple(ranks), reason

    def __reduce__(self) -> tuple[type, tuple[str, tuple[int, ...], str]]:
        return RankError, (self.operation, self.ranks, self.reason)


@dataclass
class Traffic:
    """Bytes and messages that this rank has sent, by operation name."""

    bytes: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)

    def sent(self, name: str, count: int) -> None:
        self.bytes[name] += count
        self.messages[name] += 1

    @property
    def total(self) -> int:
        return sum(self.bytes.values())


class Pending(Protocol):
    """A hop under way."""

    def wait(self) -> list[torch.Tensor]:
        """What came from the rank before, once it is here. The tensors sent may be changed only after this."""


class Group(Protocol):
    """P ranks that talk to each other; this process or thread is the one with number `rank`."""

    rank: int
    size: int
    traffic: Traffic

    def shift(self, tensors: Sequence[torch.Tensor], name: str) -> Pending:
        """Send tensors to the next rank of the ring and receive the same number, of the same shapes, from the one
        before. Not to be called in a group of one."""

    def all_to_all(self, parts: torch.Tensor, name: str) -> torch.Tensor:
        """`parts` (P, ...): part i goes to rank i. Returns (P, ...): part i came from rank i."""

    def all_reduce(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        """The sum over the ranks, the same bits on each."""

    def all_gather(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        """(P, ...): every rank's tensor, all of one shape."""

    def meet(self, name: str) -> None:
        """Return when every rank has come here, however long a living one takes."""


class Alone:
    """A group of one."""

    rank, size = 0, 1

    def __init__(self) -> None:
        self.traffic = Traffic()

    def shift(self, tensors: Sequence[torch.Tensor], name: str) -> Pending:
        raise ValueError(f"{name}: a ring of one rank has nobody to send to")

    def all_to_all(self, parts: torch.Tensor, name: str) -> torch.Tensor:
        return parts

    def all_reduce(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        return tensor

    def all_gather(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        return tensor[None]

    def meet(self, name: str) -> None:
        return None


def size_in_bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def reduce_bytes(tensor: torch.Tensor, size: int) -> int:
    """What a rank sends in an all-reduce by the ring algorithm: 2 (P-1)/P of the tensor."""
    return 2 * (size - 1) * size_in_bytes([tensor]) // size


def describe(name: str, tensors: Sequence[torch.Tensor]) -> str:
    """An operation as its partners must see it: name, shapes, precision."""
    shapes = ", ".join(f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}" for tensor in tensors)
    return f"{name} of {shapes}"
