"""One measurement of one system in a process of its own: `python -m peers.ttt_worker REQUEST`, answer on its last line.

REQUEST is a JSON object: `system` (ours, eager, sdpa or flex), `task`, and the arguments of `ttt_case.draw`. Weights
are float32; `bf16` runs forward and loss under autocast, as both trainers do. Tasks:

    time        seconds of the step (forward, loss, backward) after a first one; resident bytes that the first one added
    memory      bytes of all tensor storages alive at the worst moment of a step, above weights and inputs
    gradients   loss; the gradients go to the file `out`

A dispatch mode counts the storages on a CPU and slows each operation down, so time and memory are two runs. Buffers
inside one operation (a kernel's workspace) are not storages and not counted; on CUDA the allocator counts, those too.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol

import torch
from safetensors.torch import save_file

from labsim.models.live_bytes import peak_bytes

from .ttt_case import draw

STEPS, ENOUGH_SECONDS = 5, 5.0


class System(Protocol):
    def loss(self) -> torch.Tensor: ...

    def parameters(self) -> dict[str, torch.nn.Parameter]: ...


def training_step(system: System, device: str, bf16: bool) -> float:
    """Forward, loss, backward. The gradients are made anew each time."""
    for parameter in system.parameters().values():
        parameter.grad = None
    with torch.autocast(device, torch.bfloat16, enabled=bf16):
        loss = system.loss()
    loss.backward()
    return float(loss.detach())


def measure_time(step: Callable[[], float], device: str) -> dict[str, object]:
    """Median seconds of up to STEPS steps, ENOUGH_SECONDS at most before the last one starts."""
    before = resident("VmRSS", reset=True)
    loss = step()
    after = resident("VmHWM")
    seconds: list[float] = []
    while len(seconds) < STEPS and sum(seconds) < ENOUGH_SECONDS:
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    rise = None if before is None or after is None else after - before
    return {"seconds": sorted(seconds)[len(seconds) // 2], "steps": len(seconds), "rss_rise": rise, "loss": loss}


def resident(field: str, *, reset: bool = False) -> int | None:
    """Bytes of a field of /proc/self/status (Linux); `reset` starts VmHWM, the highest so far, from here."""
    gc.collect()
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def answer(request: dict) -> dict[str, object]:
    name, task, out, bf16 = (request.pop(key) for key in ("system", "task", "out", "bf16"))
    frozen_head, threads, device = request.pop("frozen_head"), request.pop("threads"), request["device"]
    if threads:
        torch.set_num_threads(threads)
    case = draw(**request)
    if name == "ours":
        system: System = import_module("peers.ttt_ours").Ours(case, frozen_head=frozen_head)
    else:
        system = import_module("peers.ttt_speculators").Speculators(case, name, frozen_head=frozen_head)
    step = partial(training_step, system, device, bf16)
    if task == "time":
        return measure_time(step, device) | {"threads": torch.get_num_threads(), "torch": torch.__version__}
    if task == "memory":
        step()  # whatever is made once, such as a compiled kernel, is not part of a step
        for parameter in system.parameters().values():
            parameter.grad = None
        return {"peak_bytes": peak_bytes(step, device)}
    loss = step()
    save_file({name: p.grad.contiguous().cpu() for name, p in system.parameters().items()}, out)
    entropy = import_module("peers.ttt_ours").teacher_entropy(case) if name == "ours" else None
    return {"loss": loss, "teacher_entropy": entropy}


def main() -> int:
    try:
        said = answer(json.loads(sys.argv[1]))
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
            raise
        said = {"did_not_fit": str(error).splitlines()[0]}
    print(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
