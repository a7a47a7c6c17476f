"""Real processes: the same results as logical ranks, bit for bit, and a clear end when one of them goes wrong."""

from __future__ import annotations

import multiprocessing
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
import torch.distributed as dist

from labsim.lab.processes import listening
from labsim.parallel import launch, logical
from labsim.parallel.launch import RanksFailed
from labsim.parallel.layout import Layout
from labsim.parallel.mesh import Mesh
from tests.attention.ranks import ttt_on_a_rank
from tests.attention.sequence_reference import draws, expected, ttt_inputs
from tests.parallel.work import collectives, every_layout, misbehave

LENGTH = 29


def logical_case(mesh: Mesh, layout: Layout, given: list[torch.Tensor], dout: torch.Tensor) -> tuple:
    return (*ttt_on_a_rank(mesh, layout, given, dout, "cpu_flash"), mesh.bytes_sent)


@pytest.mark.parametrize(("world", "heads"), [(2, (8, 2)), (3, (6, 3)), (4, (8, 2))])
def test_processes_compute_what_logical_ranks_do_and_what_dense_attention_does(
    world: int, heads: tuple[int, int]
) -> None:
    factors = [(ring, world // ring) for ring in range(1, world + 1) if world % ring == 0]
    kinds = ["contiguous", "zigzag"]
    cases = [(Layout(LENGTH, *degrees, kind), steps) for degrees in factors for kind in kinds for steps in (0, 2)]
    cases.append((Layout(LENGTH, *factors[0], "zigzag", (4, 25)), 2))
    given = {steps: ttt_inputs(steps, *heads, LENGTH) for steps in (0, 2)}
    dout = draws([given[0][0].shape], seed=8)[0]
    ranks = launch.run(every_layout, cases, given, dout, ring=world)
    for index, (layout, steps) in enumerate(cases):
        parts = [rank[index] for rank in ranks]
        twins = logical.run(logical_case, layout, given[steps], dout, ring=layout.ring, ulysses=layout.ulysses)
        out, _, gradients = expected(given[steps], dout, layout.documents)
        whole = layout.join([part[0] for part in parts], 2)
        assert float((whole - out).abs().max() / out.abs().max()) < 1e-12
        for place, exact in enumerate(gradients):
            found = layout.join([part[1][place] for part in parts], 2)
            assert float(exact.abs().max()) > 0.01
            assert float((found - exact).abs().max() / exact.abs().max()) < 1e-12
        for part, twin in zip(parts, twins, strict=True):
            assert torch.equal(part[0], twin[0])
            assert all(torch.equal(a, b) for a, b in zip(part[1], twin[1], strict=True))
            assert torch.equal(part[2], twin[2]), "log-sum-exp"
            assert part[3] == twin[3], "bytes sent"


def test_the_four_operations_are_the_same_for_both_kinds_of_ranks() -> None:
    real, threads = launch.run(collectives, ring=3), logical.run(collectives, ring=3)
    assert real == threads
    assert real[1]["sum"] == [3.0, 3.0]
    assert real[1]["all"] == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    assert real[1]["parts"] == [1, 11, 21]
    assert real[0]["before"] == [[2.0, 2.0], [[2.0, 5.0], [3.0, 6.0], [4.0, 7.0]]]


WRONG = {
    "dies": "rank 1 was killed by signal 9 (SIGKILL)",
    "stops": "rank 1 is dead or stopped: no heartbeat",
    "hangs": "rank 1 is alive and has not come in 3 s; its last operation was warm-up of (3,) float32",
    "fails": "rank 1 failed: ValueError: no such page",
    "brings another shape": "rank 1 is in the hop of (4,) float32",
}


@pytest.mark.parametrize("how", WRONG)
def test_a_rank_that_goes_wrong_is_named_by_all_others_and_nothing_is_left(how: str) -> None:
    launch.run(collectives, ring=2)  # from here on multiprocessing's helpers are there
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    ports, begin = listening(psutil.Process()), time.monotonic()
    with pytest.raises(RanksFailed) as caught:
        launch.run(misbehave, how, 1, ring=3, timeout_seconds=3.0)
    assert listening(psutil.Process()) == ports, "the store's port, while the caller still holds the error"
    assert time.monotonic() - begin < 30
    said = {one.rank: str(one.error) for one in caught.value.failures}
    for rank in (0, 2):
        assert said[rank].startswith("the hop of (3,) float32: "), said[rank]
        assert WRONG[how] in said[rank]
    assert not {child.pid for child in psutil.Process().children(recursive=True)} - before
    if how == "dies":
        assert launch.run(collectives, ring=2)[0]["sum"] == [1.0, 1.0], "the next run is well"


def test_a_logical_rank_that_goes_wrong_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"rank . is in the hop of \(.,\) float32"):
        logical.run(misbehave, "brings another shape", 1, ring=3)
    with pytest.raises(ValueError, match="no such page"):
        logical.run(misbehave, "fails", 1, ring=3)
    with pytest.raises(RuntimeError, match="rank 1 has ended without it"):
        logical.run(misbehave, "leaves", 1, ring=3)
    with pytest.raises(RuntimeError, match=r"rank . is in the hop of \(3,\) float"):
        logical.run(misbehave, "brings another type", 1, ring=3)
    with pytest.raises(RuntimeError, match=r"rank . is in the hop (after )?of"):
        logical.run(misbehave, "skips an operation", 1, ring=3)


@pytest.mark.parametrize("how", ["hangs", "stops"])
def test_ranks_end_with_the_process_that_started_them(how: str, tmp_path: Path) -> None:
    script = tmp_path / "caller.py"
    script.write_text(
        "from labsim.parallel import launch\n"
        "from tests.parallel.work import misbehave\n"
        "if __name__ == '__main__':\n"
        f"    launch.run(misbehave, {how!r}, 1, ring=2, timeout_seconds=600)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    caller = psutil.Process(subprocess.Popen([sys.executable, str(script)], env=environment).pid)
    until = time.monotonic() + 60
    helpers = 2 if sys.platform == "linux" else 1  # multiprocessing's tracker, and the one that forks
    while len(started := caller.children(recursive=True)) < helpers + 2 or (
        how == "stops" and psutil.STATUS_STOPPED not in [one.status() for one in started]
    ):
        assert time.monotonic() < until
        time.sleep(0.1)
    caller.kill()
    caller.wait()
    _, alive = psutil.wait_procs(started, timeout=10)
    assert not alive


@pytest.mark.parametrize("sent", [b"", struct.pack("!i", 1000) + b"half of it"], ids=["nothing", "a part"])
@pytest.mark.parametrize(("code", "says"), [(-9, "was killed by signal 9 (SIGKILL)"), (1, "ended with exit status 1")])
def test_a_rank_that_ends_before_its_result_is_whole_is_named(sent: bytes, code: int, says: str) -> None:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    os.write(theirs.fileno(), sent)
    theirs.close()
    rank, store = SimpleNamespace(join=lambda: None, exitcode=code), dist.HashStore()
    results, failures = launch.collect({0: ours}, {0: rank}, store, 1.0)
    assert results == {} and str(failures[0].error) == f"the process {says}"
    assert f"rank 0 {says}" in store.get("left/0").decode()
