"""Who is where: a board in the rendezvous store on which every rank says what it is about to do.

A collective that one rank does not reach ends with "connection closed" or not at all, on whichever rank is waiting, and
names nobody. So before each operation a rank posts it here and reads what the others of its group post at the same
count. All agree, and the operation runs; or it ends at once with the ranks that are missing, and where they are, or
that hold another shape. A thread of each rank also posts a heartbeat: a dead rank is found out in seconds, whatever the
operation's own limit.
"""

from __future__ import annotations

import itertools
import json
import math
import threading
import time
from collections.abc import Sequence
from types import TracebackType

import torch.distributed as dist

from .group import RankError

BEAT_SECONDS = 0.5
SILENT_SECONDS = 6.0
SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1e-4, 0.05


class Board:
    """One rank's view of the board; a context that keeps its heart beating.

    Args:
        store: a client of the rendezvous store; the heartbeat gets a connection of its own.
        rank, world: of this process.
        timeout_seconds: how long a living rank may take to reach an operation.
    """

    def __init__(self, store: dist.Store, rank: int, world: int, timeout_seconds: float) -> None:
        self.store, self.rank, self.world, self.timeout_seconds = store, rank, world, timeout_seconds
        self.meshes = itertools.count(1)  # groups of another mesh count their operations from one again
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat, args=(store.clone(),), daemon=True)
        self._seen: dict[int, tuple[str, float]] = {}

    def __enter__(self) -> Board:
        self._heart.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._heart.join()
        # Those who wait for this rank learn why it does not come; whom it blames, they blame too.
        fault: dict[str, object] = {}
        if isinstance(error, RankError):
            fault = {"ranks": error.ranks, "why": error.reason}
        elif kind is not None:
            fault = {"ranks": [self.rank], "why": f"rank {self.rank} failed: {kind.__name__}: {error}"}
        try:
            note_leaving(self.store, self.rank, fault)
        except dist.DistError:  # the store went with its owner, and so has everybody who could read this
            return

    def agree(self, group: str, ranks: Sequence[int], number: int, operation: str, *, patient: bool = False) -> None:
        """Return when every rank has posted this operation as its `number`-th in the group.

        `patient` waits for a living rank as long as it takes.

        Raises:
            RankError: naming the operation and the ranks that died, hang, left or are in another one.
        """
        try:
            self.store.set(f"{group}/{number}/{self.rank}", operation)
            self.store.set(f"at/{self.rank}", operation)
            others = [rank for rank in ranks if rank != self.rank]
            self._wait(group, others, number, operation, math.inf if patient else self.timeout_seconds)
            posted = self.store.multi_get([f"{group}/{number}/{rank}" for rank in others]) if others else []
            # All have read the operation before this one: its posts have done their work.
            self.store.delete_key(f"{group}/{number - 1}/{self.rank}")
        except dist.DistError as error:
            raise RankError(operation, [], f"the rendezvous store is gone, and with it its owner ({error})") from error
        said = dict(zip(others, (text.decode() for text in posted), strict=True))
        if wrong := [rank for rank, text in said.items() if text != operation]:
            raise RankError(operation, wrong, "; ".join(f"rank {rank} is in {said[rank]}" for rank in wrong))

    def blame(self, operation: str, ranks: Sequence[int], error: Exception) -> RankError:
        """What a failed transfer means: who of the group is dead by now."""
        until = time.monotonic() + SILENT_SECONDS + 2 * BEAT_SECONDS
        others = [rank for rank in ranks if rank != self.rank]
        while time.monotonic() < until:
            if reasons := self._reasons(others):
                return RankError(operation, list(reasons), "; ".join(reasons.values()))
            time.sleep(LONGEST_PAUSE_SECONDS)
        return RankError(operation, others, f"the transfer failed, and all ranks seem alive: {error}")

    def _wait(self, group: str, others: Sequence[int], number: int, operation: str, limit: float) -> None:
        until, pause = time.monotonic() + limit, SHORTEST_PAUSE_SECONDS
        while missing := [rank for rank in others if not self.store.check([f"{group}/{number}/{rank}"])]:
            if pause >= LONGEST_PAUSE_SECONDS and (reasons := self._reasons(missing)):
                raise RankError(operation, list(reasons), "; ".join(dict.fromkeys(reasons.values())))
            # Of a rank whose heart has just been heard one knows that it lives; of another one will know soon.
            if time.monotonic() > until and all(self._heard(rank) for rank in missing):
                where = "; ".join(
                    f"rank {rank} is alive and has not come in {self.timeout_seconds:g} s{self._last_operation(rank)}"
                    for rank in missing
                )
                raise RankError(operation, missing, where)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _heard(self, rank: int) -> bool:
        """Whether its heart has beaten just now; before its first beat a rank is starting, which is alive."""
        beat, since = self._seen.get(rank, ("", 0.0))
        return not beat or time.monotonic() - since < 3 * BEAT_SECONDS

    def _last_operation(self, rank: int) -> str:
        if not self.store.check([f"at/{rank}"]):
            return ", nor to any operation before"
        return f"; its last operation was {self.store.get(f'at/{rank}').decode()}"

    def _reasons(self, ranks: Sequence[int]) -> dict[int, str]:
        """Of these, the ranks that will not come any more, and why."""
        found = {}
        for rank in ranks:
            if self.store.check([f"left/{rank}"]):
                fault = json.loads(self.store.get(f"left/{rank}"))
                for guilty in fault.get("ranks") or [rank]:
                    found[guilty] = fault.get("why") or f"rank {rank} has ended without it"
                continue
            beat = self.store.get(f"beat/{rank}").decode() if self.store.check([f"beat/{rank}"]) else ""
            last, since = self._seen.get(rank, (None, 0.0))
            if beat != last:
                self._seen[rank] = beat, time.monotonic()
            elif time.monotonic() - since > SILENT_SECONDS:
                found[rank] = f"rank {rank} is dead or stopped: no heartbeat for {SILENT_SECONDS:g} s"
                found[rank] += self._last_operation(rank)
        return found

    def _beat(self, store: dist.Store) -> None:
        count = 0
        while not self._ended.is_set():
            try:
                store.set(f"beat/{self.rank}", str(count))
            except dist.DistError:  # the main thread meets the same loss at its next operation, and says so
                return
            count += 1
            self._ended.wait(BEAT_SECONDS)


def note_leaving(store: dist.Store, rank: int, fault: dict[str, object]) -> None:
    """Post that a rank takes part no more: {} when it is done, else {"ranks": who is to blame, "why": text}."""
    store.set(f"left/{rank}", json.dumps(fault))
