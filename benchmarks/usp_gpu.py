"""Sequence parallelism on GPUs: how close a ring comes to the flash kernel's own rate, and how long a row can get.

    python benchmarks/usp_gpu.py                                    # one GPU
    torchrun --nproc-per-node 4 benchmarks/usp_gpu.py --only rate    # several GPUs, NCCL
    python benchmarks/usp_gpu.py --device cpu --target nano --seq 512 --memory 0.3 --sp 1,2      # smoke test

rate     Causal attention, forward and backward, as a zigzag ring and as one call of the same kernel, in turn. TFLOP/s
         counts attended pairs: 2 products forward and 5 backward, 2 D operations each. On one GPU the ranks are logical
         and share it: their sum is what cutting and merging cost, transfers are copies within the device. Under
         torchrun each rank has a GPU, and the figure is per GPU, transfers included.
longest  The longest row for a draft, one rank of SP measured: forward, loss and backward of the trainer's own step with
         weights, gradients, AdamW's moments and states in place. The other ranks are echoes: each message is answered
         by a copy of what was sent, so shapes, bytes and work are a rank's own, and the values are nobody's. Beside it,
         what `labsim memory` computes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from labsim.attention.kernels import backward, choose, forward
from labsim.attention.usp import usp_attention
from labsim.commands.memory_shapes import shape_of
from labsim.features.source import TargetStates
from labsim.models.linear import Linear
from labsim.parallel import logical
from labsim.parallel.group import Alone, Group, Traffic
from labsim.parallel.layout import Layout
from labsim.parallel.meeting import joined
from labsim.parallel.mesh import Mesh
from labsim.train.ttt.data import Document, PackedRow
from labsim.train.ttt.loop import build_optimizers
from labsim.train.ttt.loss import Teacher, row_loss
from labsim.train.ttt.memory import StepSetting
from labsim.train.ttt.memory_measure import StepCase, count, random_case
from labsim.train.ttt.memory_peak import peak
from labsim.train.ttt.memory_remedies import USABLE, longest
from labsim.train.ttt.part import Part

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
PRODUCTS = 2 + 5


def work(seq: int) -> float:
    """Operations of causal attention, forward and backward, over `seq` positions."""
    return PRODUCTS * 2 * HEAD_DIM * HEADS * seq * (seq + 1) / 2


# --- rate ----------------------------------------------------------------------------------------------------------


def timed(run: Callable[[], None], device: str) -> float:
    wait(device)
    begin = time.perf_counter()
    run()
    wait(device)
    return time.perf_counter() - begin


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def draw(seq: int, device: str) -> list[torch.Tensor]:
    """Whole q, k, v and output gradient."""
    generator = torch.Generator(device).manual_seed(0)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    heads = (HEADS, KV_HEADS, KV_HEADS, HEADS)
    return [torch.randn(1, n, seq, HEAD_DIM, generator=generator, device=device, dtype=dtype) for n in heads]


def one_call(whole: Sequence[torch.Tensor]) -> None:
    q, k, v, dout = whole
    out, lse = forward(q, k, v, causal=True)
    backward(dout, q, k, v, out, lse, causal=True)


def ring(mesh: Mesh, layout: Layout, parts: Sequence[torch.Tensor]) -> None:
    q, k, v, dout = parts
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    usp_attention(*leaves, mesh, layout)[0].backward(dout)


def on_logical_ranks(seq: int, ranks: int, device: str) -> Callable[[], None]:
    """All ranks of a zigzag ring, one after the other on one device."""
    whole, layout = draw(seq, device), Layout(seq, ranks)
    parts = [[layout.cut(x, 2, rank) for x in whole] for rank in range(ranks)]
    return lambda: logical.run(lambda mesh: ring(mesh, layout, parts[mesh.ring.rank]), ring=ranks, timeout_seconds=300)


def fraction(seq: int, share: float, alone: Callable, together: Callable, repeats: int, device: str) -> dict:
    """Seconds and TFLOP/s of both in turn, and the median of their ratio. `share` of the work is one GPU's."""
    for run in (alone, together):
        run()
    pairs = [(timed(alone, device), timed(together, device)) for _ in range(repeats)]
    ratios = [share * one / many for one, many in pairs]
    return {
        "kernel_tflops": work(seq) / statistics.median(one for one, _ in pairs) / 1e12,
        "ring_tflops": work(seq) * share / statistics.median(many for _, many in pairs) / 1e12,
        "fraction": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
    }


def rates(seq: int, worlds: Sequence[int], repeats: int, device: str) -> dict:
    """By number of ranks."""
    kernel = choose(draw(8, device)[0])
    world = int(os.environ.get("WORLD_SIZE", "1"))
    found = {"seq": seq, "heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM, "kernel": kernel, "ranks": {}}
    if world == 1:
        found["where"] = "logical ranks on one device"
        whole = draw(seq, device)
        for ranks in worlds:
            together = on_logical_ranks(seq, ranks, device)
            found["ranks"][ranks] = fraction(seq, 1.0, lambda: one_call(whole), together, repeats, device)
        return found
    found["where"] = "one process and GPU per rank"
    with joined(world, 1, device=device) as mesh:
        whole, layout = draw(seq, device), Layout(seq, world)
        parts = [layout.cut(x, 2, mesh.ring.rank) for x in whole]
        row = fraction(seq, 1 / world, lambda: one_call(whole), lambda: ring(mesh, layout, parts), repeats, device)
        slowest = mesh.world.all_gather(torch.tensor(row["fraction"]["median"], device=device), "fractions").min()
        found["ranks"][world] = row | {"slowest_rank": float(slowest)}
    return found


# --- longest -------------------------------------------------------------------------------------------------------


class Echo:
    """A rank among `size` whose partners answer every message with a copy of it."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size, self.traffic = rank, size, Traffic()

    def shift(self, tensors: Sequence[torch.Tensor], name: str) -> Echoed:
        return Echoed([tensor.clone() for tensor in tensors])

    def all_to_all(self, parts: torch.Tensor, name: str) -> torch.Tensor:
        return parts.clone()

    def all_reduce(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        return tensor * self.size

    def all_gather(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        return torch.stack([tensor] * self.size)

    def meet(self, name: str) -> None:
        return None


@dataclass(frozen=True)
class Echoed:
    tensors: list[torch.Tensor]

    def wait(self) -> list[torch.Tensor]:
        return self.tensors


def one_of(ranks: int) -> Mesh:
    """The last rank of a ring."""
    group: Group = Echo(ranks - 1, ranks) if ranks > 1 else Alone()
    return Mesh(group, Alone(), group)


class RandomStates:
    """States of any document, made where they are needed."""

    def __init__(self, case: StepCase, device: str) -> None:
        self.width, self.device = case.shape.feature_width, device
        self.target_width, self.dtype = case.shape.target_hidden, torch.bfloat16

    def read_at(self, document: Sequence[int], features_at: torch.Tensor, last_at: torch.Tensor) -> TargetStates:
        widths = ((len(features_at), self.width), (len(last_at), self.target_width))
        return TargetStates(*(torch.randn(*width, device=self.device, dtype=self.dtype) for width in widths))


def prepared(target: str, kind: str, setting: StepSetting, device: str) -> StepCase:
    """A draft on the device."""
    case = random_case(shape_of(target, kind, None)[0], replace(setting, positions=16))
    return replace(case, draft=case.draft.to(device), head=Linear(case.head.weight_OI.to(device)))


def storage_bytes(tensors: Sequence[torch.Tensor]) -> int:
    """Each storage once."""
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def rank_step(case: StepCase, moments: int, positions: int, ranks: int, device: str) -> tuple[int, float]:
    """(bytes of one rank at the worst moment, seconds) of a step over a row of so many positions."""
    tokens = tuple(torch.randint(case.shape.vocab, (positions,)).tolist())
    row = PackedRow.of([Document(("row", positions), "row", tokens, 1, True)])
    part = Part.of(row, one_of(ranks), case.recipe.ttt)
    states = part.states(RandomStates(case, device))

    def step(between: Callable[[], None]) -> None:
        last = torch.cat([one.last_TE for one in states])
        teacher = Teacher.of(row, last, case.head, case.vocabulary, keep=not case.recipe.logit_chunk, part=part)
        loss, _ = row_loss(case.draft, row, states, teacher, case.recipe, part=part)
        between()
        loss.backward()

    lasting = [
        *case.draft.parameters(),
        *case.draft.buffers(),
        *(x for s in states for x in (s.features_TF, s.last_TE)),
    ]
    try:
        begin = time.perf_counter()
        counted = count(step, torch.device(device))
        return storage_bytes(lasting) + moments + counted.peak, time.perf_counter() - begin
    finally:
        case.draft.zero_grad(set_to_none=True)


def longest_row(case: StepCase, setting: StepSetting, moments: int, memory: float, ranks: int, device: str) -> dict:
    """The longest row that fits, found around the computed one in steps of 1 %."""
    asked = replace(setting, sequence_parallel=ranks)
    computed = longest(case.shape, asked, memory)
    unit = max(2 * ranks, computed // 100 // (2 * ranks) * 2 * ranks)
    tried: dict[int, tuple[int, float] | None] = {}

    def fits(units: int) -> bool:
        try:
            tried[units] = rank_step(case, moments, units * unit, ranks, device)
        except torch.OutOfMemoryError:
            tried[units] = None
        if device == "cuda":
            torch.cuda.empty_cache()
        found = tried[units]
        return found is not None and found[0] <= USABLE * memory

    low, high = 0, 1
    at, stride = computed // unit, 8
    if fits(at):
        low = at
        while fits(low + stride):
            low += stride
        high = low + stride
    else:
        high = at
        while high - stride > 0 and not fits(high - stride):
            high -= stride
        low = max(0, high - stride)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    held = tried.get(low)
    row = {"computed_positions": computed, "measured_positions": low * unit, "resolution": unit}
    if held:
        formula = peak(case.shape, replace(asked, positions=low * unit)).total
        row |= {"bytes": held[0], "bytes_computed": formula, "seconds": held[1]}
    return row


def longest_rows(
    target: str, kind: str, ttt: int, memory: float, worlds: Sequence[int], remedies: bool, device: str
) -> dict:
    setting = StepSetting(
        positions=16, ttt=ttt, checkpointing=remedies, logit_chunk=1024 if remedies else 0, device=device
    )
    case = prepared(target, kind, setting, device)
    # AdamW's two moments of every weight, as they lie there in a training; counted where the device counts for itself.
    optimizers = build_optimizers(case.draft, case.recipe)
    for weight in case.draft.parameters():
        weight.grad = torch.zeros_like(weight)
    for optimizer in optimizers:
        optimizer.step()
    case.draft.zero_grad(set_to_none=True)
    held = [x for o in optimizers for state in o.state.values() for x in state.values() if isinstance(x, torch.Tensor)]
    moments = storage_bytes(held)
    return {
        "target": target,
        "draft": kind,
        "parameters": sum(weight.numel() for weight in case.draft.parameters() if weight.requires_grad),
        "ttt": ttt,
        "checkpointing and chunked logits": remedies,
        "usable_bytes": USABLE * memory,
        "ranks": {ranks: longest_row(case, setting, moments, memory, ranks, device) for ranks in worlds},
    }


# --- command -------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["rate", "longest"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--seq", type=int, default=65536, help="positions of `rate`")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sp", default="1,2,4,8", help="numbers of ranks")
    parser.add_argument("--target", default="llama-3.3-70b", help="of `longest`; its draft has 1.4 B weights")
    parser.add_argument("--draft", default="eagle3.1")
    parser.add_argument("--ttt", type=int, default=7)
    parser.add_argument("--memory", type=float, help="GB of one GPU; default: this one's")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA GPU here; --device cpu is for a smoke test of small sizes")
    if asked.device == "cpu" and not asked.memory and asked.only != "rate":
        parser.error("--device cpu needs --memory, gigabytes that stand for a GPU's")
    worlds = [int(one) for one in asked.sp.split(",")]
    report: dict[str, object] = {
        "device": torch.cuda.get_device_name() if asked.device == "cuda" else "cpu",
        "torch": torch.__version__,
    }
    if asked.only != "longest":
        report["rate"] = rates(asked.seq, [n for n in worlds if n > 1], asked.repeats, asked.device)
    if asked.only != "rate":
        memory = asked.memory * 1e9 if asked.memory else torch.cuda.get_device_properties(0).total_memory
        report["longest"] = [
            longest_rows(asked.target, asked.draft, asked.ttt, memory, worlds, remedies, asked.device)
            for remedies in (False, True)
        ]
    if int(os.environ.get("RANK", "0")) == 0:
        print(json.dumps(report, indent=2) if asked.json else in_words(report))


def in_words(report: dict) -> str:
    lines = [f"{report['device']}, torch {report['torch']}"]
    if rate := report.get("rate"):
        lines.append(f"zigzag ring, {rate['seq']} positions, {rate['heads']}/{rate['kv_heads']} heads of "
                     f"{rate['head_dim']}, kernel {rate['kernel']}, {rate['where']}")  # fmt: skip
        for ranks, row in rate["ranks"].items():
            share = row["fraction"]
            lines.append(f"  {ranks} ranks: {row['ring_tflops']:.1f} of {row['kernel_tflops']:.1f} TFLOP/s, "
                         f"{share['median']:.1%} ({share['min']:.1%}-{share['max']:.1%})")  # fmt: skip
    for found in report.get("longest", []):
        how = "checkpointing, chunked logits" if found["checkpointing and chunked logits"] else "plain"
        size = f"{found['draft']} for {found['target']}, {found['parameters'] / 1e9:.3g} B weights"
        room = f"{found['usable_bytes'] / 1e9:.3g} GB usable"
        lines.append(f"longest row, {size}, {found['ttt']} steps, {how}, {room}")
        for ranks, row in found["ranks"].items():
            lines.append(f"  {ranks} ranks: {row['measured_positions']:,} positions (+-{row['resolution']}), "
                         f"computed {row['computed_positions']:,}")  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    main()
