"""Messages as they are below `shift`: unbuffered, in order, without names. For the ways in which ranks get stuck.

A send ends when its receiver has taken the tensor (as NCCL's does; others buffer small messages and get stuck only
when these grow). Messages between two ranks are matched in the order in which they are posted. What travels is what
lies in the buffer when it is taken. Nobody agrees on anything first. Every wait is bounded: a deadlock ends with words.

    def send_first(wires, rank, ranks):
        wires.send(rank, (rank + 1) % ranks, tensor)
        return wires.receive(rank, (rank - 1) % ranks)

    play(send_first, ranks=3)       # each rank's result, or what it waited for
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


class Stuck(RuntimeError):
    """A rank has waited too long; the text says for what."""


@dataclass
class Parcel:
    """A posted send: a buffer that its owner may not touch before `taken`."""

    sender: int
    to: int
    buffer: torch.Tensor
    taken: bool = False


class Wires:
    """One line for each ordered pair of ranks."""

    def __init__(self, patience_seconds: float) -> None:
        self.patience_seconds = patience_seconds
        self.changed = threading.Condition()
        self.lines: dict[tuple[int, int], deque[Parcel]] = defaultdict(deque)

    def post(self, rank: int, to: int, buffer: torch.Tensor) -> Parcel:
        """Offer a buffer and go on."""
        with self.changed:
            parcel = Parcel(rank, to, buffer)
            self.lines[rank, to].append(parcel)
            self.changed.notify_all()
        return parcel

    def finish(self, parcel: Parcel) -> None:
        """Wait until a posted buffer has been taken."""
        with self.changed:
            self.wait(parcel.sender, f"to send to rank {parcel.to}", lambda: parcel.taken)

    def send(self, rank: int, to: int, buffer: torch.Tensor) -> None:
        """Post and wait: a blocking send."""
        self.finish(self.post(rank, to, buffer))

    def receive(self, rank: int, source: int) -> torch.Tensor:
        """Take the oldest parcel of `source`."""
        line = self.lines[source, rank]
        with self.changed:
            self.wait(rank, f"to receive from rank {source}", lambda: bool(line))
            parcel = line.popleft()
            found = parcel.buffer.clone()
            parcel.taken = True
            self.changed.notify_all()
        return found

    def wait(self, rank: int, what: str, done: Callable[[], bool]) -> None:
        if not self.changed.wait_for(done, self.patience_seconds):
            raise Stuck(f"rank {rank} has waited {self.patience_seconds:g} s {what}")


Program = Callable[[Wires, int, int], torch.Tensor]


def play(program: Program, ranks: int = 3, patience_seconds: float = 20.0) -> list[Any]:
    """`program(wires, rank, ranks)` on as many threads: each rank's result, or the words with which it gave up."""
    wires = Wires(patience_seconds)
    found: list[Any] = [None] * ranks

    def one(rank: int) -> None:
        try:
            found[rank] = program(wires, rank, ranks)
        except Stuck as stuck:
            found[rank] = str(stuck)

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def send_first(wires: Wires, rank: int, ranks: int) -> torch.Tensor:
    """Every rank sends, then receives."""
    wires.send(rank, (rank + 1) % ranks, torch.tensor([rank]))
    return wires.receive(rank, (rank - 1) % ranks)


def post_first(wires: Wires, rank: int, ranks: int) -> torch.Tensor:
    """Every rank posts its send, receives, and then waits for the send."""
    leaving = wires.post(rank, (rank + 1) % ranks, torch.tensor([rank]))
    came = wires.receive(rank, (rank - 1) % ranks)
    wires.finish(leaving)
    return came


def exchanged(wires: Wires, rank: int, ranks: int) -> torch.Tensor:
    """Keys (100 + owner) and gradients (200 + owner), of one shape; rank 1 posts them the other way round."""
    keys, gradients = torch.tensor([100 + rank]), torch.tensor([200 + rank])
    order = (gradients, keys) if rank == 1 else (keys, gradients)
    leaving = [wires.post(rank, (rank + 1) % ranks, one) for one in order]
    came_keys = wires.receive(rank, (rank - 1) % ranks)
    came_gradients = wires.receive(rank, (rank - 1) % ranks)
    for one in leaving:
        wires.finish(one)
    return torch.cat([came_keys, came_gradients])


def written_early(late: bool) -> Program:
    """Rank 0 clears a buffer that it has posted before it waits. Rank 1 takes it before that or, `late`, after."""
    cleared, taken = threading.Event(), threading.Event()

    def program(wires: Wires, rank: int, ranks: int) -> torch.Tensor:
        if rank == 0:
            buffer = torch.tensor([7])
            leaving = wires.post(0, 1, buffer)
            if not late:
                taken.wait(wires.patience_seconds)
            buffer.zero_()
            cleared.set()
            wires.finish(leaving)
            return buffer
        if late:
            cleared.wait(wires.patience_seconds)
        came = wires.receive(1, 0)
        taken.set()
        return came

    return program
