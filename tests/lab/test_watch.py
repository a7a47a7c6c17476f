"""How often the runner's watch asks for memory that is dear to count, and that it misses no peak."""

from __future__ import annotations

from pathlib import Path

import pytest

from labsim.lab import watch
from labsim.lab.outcome import MemoryCapError
from labsim.lab.watch import Watch


class Processes:
    """Memory of a run as a test says it is."""

    resident = proportional = asked = 0

    def resident_bytes(self) -> int:
        return self.resident

    def memory_bytes(self) -> int:
        self.asked += 1
        return self.proportional

    def kill_others(self) -> None:
        pass


def look(looker: Watch, processes: Processes, resident: int, proportional: int) -> object:
    processes.resident, processes.proportional = resident, proportional
    return looker._sample(processes)


@pytest.fixture
def looker() -> Watch:
    return Watch("run", Path("a.ipynb"), deadline_s=1, memory_cap_bytes=5000)


def test_pss_is_asked_at_a_new_height_and_not_five_times_a_second(looker: Watch) -> None:
    processes = Processes()
    for resident in (1000, 1000, 1010, 900, 2000, 2000):
        look(looker, processes, resident, resident - 100)
    assert processes.asked == 2 and looker.peak_memory_bytes == 1900


def test_a_peak_behind_ranks_that_share_pages_is_found(looker: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    processes, clock = Processes(), [100.0]
    monkeypatch.setattr(watch.time, "monotonic", lambda: clock[0])
    look(looker, processes, 4000, 1500)
    look(looker, processes, 3000, 2900)
    assert looker.peak_memory_bytes == 1500
    clock[0] += watch.PSS_S
    look(looker, processes, 3000, 2900)
    assert looker.peak_memory_bytes == 2900


def test_above_the_cap_every_look_asks(looker: Watch) -> None:
    processes = Processes()
    assert look(looker, processes, 6000, 4000) is None
    assert look(looker, processes, 6000, 5001).error is MemoryCapError
    assert processes.asked == 2
