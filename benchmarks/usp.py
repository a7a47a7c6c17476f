"""Sequence-parallel attention: time, bytes and memory beside torch's own ring attention and beside one process.

    python benchmarks/usp.py                                # 2 and 4 ranks on this machine's CPU
    python benchmarks/usp.py --seq 256 --repeats 1 --worlds 2        # smoke test

Causal attention, forward and backward, float32, all contenders in turn in the same processes; a contender's time is its
slowest rank's, reported are the median over the repeats and their range. `pairs` are query-key pairs that a rank
computes, of the busiest and of the idlest rank, in shares of an equal split: what decides the time once every rank has
a core of its own. On two cores four ranks cannot be faster than two, and wall clock here is no proof of scaling.

Bytes are counted at the collective calls, memory over live tensor storages.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable

import torch

from labsim.attention.bytes_sent import AttentionShape
from labsim.attention.kernels import backward, forward
from labsim.attention.usp import usp_attention
from labsim.models.live_bytes import peak_bytes
from labsim.parallel import launch
from labsim.parallel.layout import Layout, blocks
from labsim.parallel.meeting import reshaped
from labsim.parallel.mesh import Mesh

HEADS, HEAD_DIM = 8, 64


def layouts(world: int, seq: int) -> dict[str, Layout]:
    """Our contenders by name."""
    found = {
        "ring, contiguous": Layout(seq, world, 1, "contiguous"),
        "ring, zigzag": Layout(seq, world, 1, "zigzag"),
        "ulysses": Layout(seq, 1, world, "zigzag"),
    }
    if world == 4:
        found["usp 2 x 2, zigzag"] = Layout(seq, 2, 2, "zigzag")
    return found


def draw(seq: int) -> list[torch.Tensor]:
    """Whole q, k, v and output gradient."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, HEADS, seq, HEAD_DIM, generator=generator) for _ in range(4)]


def on_a_rank(mesh: Mesh, seq: int, repeats: int) -> dict[str, dict[str, object]]:
    """Every contender's seconds, bytes and peak on this rank."""
    whole = draw(seq)
    work: dict[str, Callable[[], None]] = {}
    meshes: dict[str, Mesh] = {}
    for name, layout in layouts(mesh.size, seq).items():
        meshes[name] = reshaped(mesh, layout.ring, layout.ulysses)
        work[name] = ours(meshes[name], layout, whole)
    work["torch ring, head-tail"] = torchs(mesh, Layout(seq, mesh.size, 1, "zigzag"), whole)
    found: dict[str, dict[str, object]] = {name: {"seconds": []} for name in work}
    for turn in range(repeats + 1):
        for name, run in work.items():
            mesh.world.meet(f"{name}, turn {turn}")
            begin = time.perf_counter()
            run()
            if turn:  # the first one warms up
                found[name]["seconds"].append(time.perf_counter() - begin)
    for name, run in work.items():
        before = sum(meshes[name].bytes_sent.values()) if name in meshes else 0
        mesh.world.meet(f"{name}, counted")
        found[name]["peak_bytes"] = peak_bytes(run)
        found[name]["bytes_sent"] = sum(meshes[name].bytes_sent.values()) - before if name in meshes else None
    return found


def ours(mesh: Mesh, layout: Layout, whole: list[torch.Tensor]) -> Callable[[], None]:
    q, k, v, dout = (layout.cut(x, 2, mesh.ring.rank, mesh.ulysses.rank) for x in whole)

    def run() -> None:
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        usp_attention(*leaves, mesh, layout)[0].backward(dout)

    return run


def torchs(mesh: Mesh, layout: Layout, whole: list[torch.Tensor]) -> Callable[[], None]:
    from peers import torch_ring

    q, k, v, dout = (layout.cut(x, 2, mesh.ring.rank) for x in whole)

    def run() -> None:
        out, lse = torch_ring.forward(mesh.ring.handle, q, k, v, causal=True, zigzag=True)
        torch_ring.backward(mesh.ring.handle, dout, q, k, v, out, lse, causal=True, zigzag=True)

    return run


def one_process(seq: int, repeats: int) -> dict[str, object]:
    """The kernel alone, on one thread."""
    torch.set_num_threads(1)
    q, k, v, dout = draw(seq)

    def run() -> None:
        out, lse = forward(q, k, v, causal=True)
        backward(dout, q, k, v, out, lse, causal=True)

    run()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return {"seconds": seconds, "peak_bytes": peak_bytes(run), "bytes_sent": 0}


def balance(layout: Layout) -> list[float]:
    """Pairs of the idlest and of the busiest ring rank, in units of an equal share."""
    pairs = [sum(block.pairs for key in range(layout.ring) for block in blocks(layout, rank, key))
             for rank in range(layout.ring)]  # fmt: skip
    return [share * len(pairs) / sum(pairs) for share in (min(pairs), max(pairs))]


def measure(world: int, seq: int, repeats: int) -> dict[str, dict[str, object]]:
    """All contenders on so many ranks."""
    ranks = launch.run(on_a_rank, seq, repeats, ring=world, timeout_seconds=300)
    report = {}
    for name in ranks[0]:
        slowest = [max(rank[name]["seconds"][turn] for rank in ranks) for turn in range(repeats)]
        layout = layouts(world, seq).get(name)
        row: dict[str, object] = {
            "seconds": {"median": statistics.median(slowest), "min": min(slowest), "max": max(slowest)},
            "peak_bytes": max(rank[name]["peak_bytes"] for rank in ranks),
        }
        if layout:
            shape = AttentionShape(layout, HEADS, HEADS, HEAD_DIM)
            row |= {
                "bytes_sent": max(rank[name]["bytes_sent"] for rank in ranks),
                "bytes_predicted": shape.forward + shape.backward,
                "pairs": balance(layout),
            }
        report[name] = row
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--worlds", default="2,4")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    alone = one_process(asked.seq, asked.repeats)
    report = {
        "machine": {"cores": os.cpu_count(), "processor": platform.processor(), "torch": torch.__version__},
        "load": os.getloadavg()[0],
        "seq": asked.seq,
        "heads": HEADS,
        "head_dim": HEAD_DIM,
        "one process": {
            "seconds": {"median": statistics.median(alone["seconds"]), "min": min(alone["seconds"]),
                        "max": max(alone["seconds"])},
            "peak_bytes": alone["peak_bytes"],
        },
        "worlds": {world: measure(int(world), asked.seq, asked.repeats) for world in asked.worlds.split(",")},
    }  # fmt: skip
    print(json.dumps(report, indent=2) if asked.json else in_words(report))


def in_words(report: dict) -> str:
    def line(name: str, row: dict) -> str:
        seconds = row["seconds"]
        text = f"  {name:<24}{1e3 * seconds['median']:8.0f} ms ({1e3 * seconds['min']:.0f}-{1e3 * seconds['max']:.0f})"
        text += f"   peak {row['peak_bytes'] / 2**20:6.1f} MiB"
        if "bytes_sent" in row:
            text += f"   sent {row['bytes_sent'] / 2**20:6.2f} MiB (formula {row['bytes_predicted'] / 2**20:.2f})"
            text += f"   pairs {row['pairs'][0]:.2f}-{row['pairs'][1]:.2f}"
        return text

    lines = [f"{report['seq']} tokens, {report['heads']} heads of {report['head_dim']}, float32, causal, forward and "
             f"backward; load {report['load']:.1f}"]  # fmt: skip
    lines.append(line("one process", report["one process"]))
    for world, rows in report["worlds"].items():
        lines += [f"{world} ranks", *(line(name, row) for name, row in rows.items())]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
