"""What does one EAGLE-3 training step cost, in time and memory, against the `speculators` package in the same run?

    python benchmarks/ttt_step.py                                   # SmolLM2's width, 512 to 4,096 positions
    python benchmarks/ttt_step.py --lengths 512,1024 --repeats 1    # a short look
    python benchmarks/ttt_step.py --peer none                       # ours alone
    python benchmarks/ttt_step.py --size llama-3.1-8b               # on a GPU: up to 65,536 positions, bf16 autocast

A step is forward, loss and backward of training-time test with 7 steps, batch 1, one document. Both systems get the
same weights, inputs and teacher states, and both count right guesses. First they must agree: loss and every gradient,
in float32 and with a mask that leaves positions out. The peer's loss is a KL divergence, ours a cross-entropy; the
entropy of the teacher, computed apart in float64, is the difference. If they do not agree there is no ratio.

Each measurement is a process of its own, in turns, and who begins moves on. A ratio is the peer's figure over ours:
above 1, ours is faster or smaller. Memory is counted over live tensor storages, weights and inputs not included; bytes
per token are its growth between two lengths, constant where memory is linear. A shape that passes --memory, or the
GPU's own, is reported as one that did not fit, and longer ones are not tried.

The peer has its own environment: python benchmarks/peers/build_speculators.py. It is measured with each attention that
trains here: eager and sdpa, and on CUDA also flex, its default, with its fused loss.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil
import torch
from peers.build_speculators import ENVIRONMENT, PEER, READY
from peers.ttt_case import SIZES
from safetensors.torch import load_file
from simulator_speed import spread

HERE = Path(__file__).resolve().parent
OURS = "ours"
LENGTHS = {"cpu": (512, 1024, 2048, 4096), "cuda": (2048, 4096, 8192, 16_384, 32_768, 65_536)}
PEER_ATTENTION = {"cpu": ("eager", "sdpa"), "cuda": ("eager", "sdpa", "flex")}
DECAY, ANSWERS_WHEN_COMPARED, LONGEST_COMPARED = 0.8, 0.7, 512
LOSS_TOLERANCE, GRADIENT_TOLERANCE = 3e-6, 2e-5
LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Workers:
    """Starts measurements. `request` is what they all share; `memory` is the limit in bytes of resident memory."""

    peer_python: Path | None
    memory: float
    request: Mapping[str, object]

    def run(self, system: str, task: str, length: int, **differing: object) -> dict:
        """The answer of `peers.ttt_worker`, or `{"did_not_fit": why}`. RuntimeError when it broke off otherwise."""
        request = {**self.request, "system": system, "task": task, "length": length, "out": None, **differing}
        python = sys.executable if system == OURS else str(self.peer_python)
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "HF_HUB_OFFLINE": "1"}
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
            command = [python, "-m", "peers.ttt_worker", json.dumps(request)]
            process = subprocess.Popen(command, cwd=HERE, env=environment, stdout=out, stderr=errors)
            try:
                if self.outgrows(process):
                    return {"did_not_fit": f"more than {self.memory / 1e9:.1f} GB resident"}
            finally:
                process.kill()
                process.wait()
            if process.returncode == -9:
                return {"did_not_fit": "ended by the system (signal 9)"}
            out.seek(0), errors.seek(0)
            if process.returncode:
                raise RuntimeError(f"{system}, {task}, {length} positions: {errors.read()[-3000:]}")
            return json.loads(out.read().splitlines()[-1])

    def outgrows(self, process: subprocess.Popen) -> bool:
        """Wait for the end of the process; True as soon as its resident memory passes the limit."""
        looked_at = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                if looked_at.memory_info().rss > self.memory:
                    return True
            except psutil.NoSuchProcess:  # it ended between two looks, as poll() will say
                continue
            time.sleep(LOOK_SECONDS)
        return False


def peer_python(directory: Path = ENVIRONMENT) -> Path:
    """The peer's interpreter. ValueError, with what to do, when its environment is not there or not finished."""
    if not (directory / READY).exists():
        raise ValueError(
            f"{directory} is not there or not finished: python benchmarks/peers/build_speculators.py makes it "
            f"({PEER[0]}, about 1.3 GB); --peer none measures ours alone"
        )
    return directory / "bin" / "python"


def agreement(workers: Workers, systems: Sequence[str], length: int) -> dict[str, dict]:
    """For each peer: relative differences of loss and gradients, and whether they are small enough."""
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        files = {system: str(Path(folder) / f"{system}.safetensors") for system in systems}
        settings = {"bf16": False, "answers": ANSWERS_WHEN_COMPARED}
        said = {}
        for name in systems:
            said[name] = workers.run(name, "gradients", length, out=files[name], **settings)
            tell(length, name, said[name])
        if broken := [f"{name}: {found['did_not_fit']}" for name, found in said.items() if "did_not_fit" in found]:
            raise RuntimeError(f"the comparison of {length} positions did not fit ({'; '.join(broken)})")
        ours, gradients = said[OURS], load_file(files[OURS])
        for name in systems:
            if name != OURS:
                loss = abs(ours["loss"] - ours["teacher_entropy"] - said[name]["loss"]) / ours["loss"]
                worst, difference = furthest(gradients, load_file(files[name]))
                result[name] = {
                    "positions": length,
                    "loss": ours["loss"],
                    "peer_loss": said[name]["loss"],
                    "teacher_entropy": ours["teacher_entropy"],
                    "loss_difference": loss,
                    "gradient_difference": difference,
                    "gradient": worst,
                    "agrees": loss <= LOSS_TOLERANCE and difference <= GRADIENT_TOLERANCE,
                }
    return result


def furthest(ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> tuple[str, float]:
    """The tensor that differs most, and |a - b| / |b| there: infinite for one that only one has, or not a number."""
    if different := ours.keys() ^ theirs.keys():
        return min(different), float("inf")
    relative = {name: float((ours[name] - theirs[name]).norm() / theirs[name].norm()) for name in ours}
    relative = {name: value if value == value else float("inf") for name, value in relative.items()}
    worst = max(relative, key=relative.__getitem__)
    return worst, relative[worst]


def measure(workers: Workers, systems: Sequence[str], lengths: Sequence[int], repeats: int) -> list[dict]:
    """One row per length: memory of each system, then `repeats` rounds of times."""
    rows, too_long = [], set()
    for length in lengths:
        row: dict = {"positions": length, "systems": {}}
        rounds: list[dict[str, dict]] = []
        for system in systems:
            if system in too_long:
                row["systems"][system] = {"did_not_fit": "not tried: a shorter one did not fit"}
            else:
                row["systems"][system] = workers.run(system, "memory", length)
                tell(length, system, row["systems"][system])
        for turn in range(repeats):
            able = [name for name in systems if "did_not_fit" not in row["systems"][name]]
            rounds.append({})
            start = turn % max(1, len(able))
            for system in able[start:] + able[:start]:
                found = workers.run(system, "time", length)
                tell(length, system, found)
                if "did_not_fit" in found:
                    row["systems"][system] |= found
                else:
                    rounds[-1][system] = found
        too_long |= {name for name in systems if "did_not_fit" in row["systems"][name]}
        rows.append(row | summarise(row["systems"], rounds))
    return rows


def tell(length: int, system: str, found: Mapping[str, object]) -> None:
    said = ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in found.items()
    )
    print(f"{length} positions, {system}: {said}", file=sys.stderr)


def summarise(systems: Mapping[str, dict], rounds: Sequence[Mapping[str, dict]]) -> dict[str, dict]:
    """Spread of the times of each system, and per round the peer's time over ours."""
    done: dict[str, dict] = {}
    ratios: dict[str, dict] = {}
    for name, measured in systems.items():
        times = [found[name] for found in rounds if name in found]
        done[name] = dict(measured)
        if "did_not_fit" in measured:
            continue
        done[name]["seconds"] = spread([found["seconds"] for found in times])
        rises = [found["rss_rise"] for found in times if found["rss_rise"] is not None]
        done[name]["rss_rise"] = max(rises, default=None)
        if name != OURS and "did_not_fit" not in systems[OURS]:
            ratios[name] = {
                "time": spread([found[name]["seconds"] / found[OURS]["seconds"] for found in rounds]),
                "memory": measured["peak_bytes"] / systems[OURS]["peak_bytes"],
            }
    return {"systems": done, "ratios": ratios}


def growth(rows: Sequence[dict]) -> dict[str, list[dict]]:
    """Bytes per token that each system's peak grows by between consecutive lengths."""
    result: dict[str, list[dict]] = {}
    for shorter, longer in pairwise(rows):
        for name, measured in longer["systems"].items():
            before = shorter["systems"][name]
            if "peak_bytes" in measured and "peak_bytes" in before:
                tokens = longer["positions"] - shorter["positions"]
                step = {"from": shorter["positions"], "to": longer["positions"]}
                step["bytes_per_token"] = (measured["peak_bytes"] - before["peak_bytes"]) / tokens
                result.setdefault(name, []).append(step)
    return result


def hardware(device: str) -> dict[str, object]:
    processor = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if device == "cpu" and information.exists():
        names = [line for line in information.read_text().splitlines() if line.startswith("model name")]
        processor = names[0].split(":", 1)[1].strip() if names else processor
    return {
        "device": device,
        "processor": processor,
        "cores": os.cpu_count(),
        "wait_policy": os.environ.get("OMP_WAIT_POLICY", "default"),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def show(result: dict) -> None:
    about = result["hardware"]
    load = f", load {about['load_average'][0]:.1f}" if about["load_average"] else ""
    precision = "bfloat16 autocast" if result["bf16"] else "float32"
    print(
        f"{result['size']}, {result['ttt']} TTT steps, batch 1, {precision}, on {about['processor']} "
        f"({about['device']}, {about['cores']} cores{load}), torch {about['torch']}"
    )
    for name, found in result["agreement"].items():
        print(
            f"{'same' if found['agrees'] else 'NOT THE SAME'} as {name}: loss within {found['loss_difference']:.1e}, "
            f"gradients within {found['gradient_difference']:.1e} (the furthest: {found['gradient']})"
        )
    for row in result["lengths"]:
        print(f"\n{row['positions']} positions")
        for name, measured in row["systems"].items():
            if "did_not_fit" in measured:
                print(f"  {name:<6} did not fit: {measured['did_not_fit']}")
                continue
            seconds, rise = measured["seconds"], measured["rss_rise"]
            resident = "" if rise is None else f"  (resident + {rise / 1e6:.0f} MB)"
            line = f"  {name:<6}{seconds['median']:>8.2f} s ({seconds['min']:.2f}-{seconds['max']:.2f})"
            line += f"{measured['peak_bytes'] / 1e6:>9.0f} MB{resident}"
            if ratio := row["ratios"].get(name):
                time_ = ratio["time"]
                line += f"  {time_['median']:.2f}x our time ({time_['min']:.2f}-{time_['max']:.2f})"
                line += f", {ratio['memory']:.2f}x our memory"
            print(line)
    print("\ngrowth of peak memory, kB per token (constant: linear in the length)")
    for name, steps in result["growth"].items():
        print(f"  {name:<6}" + ", ".join(f"{s['from']}-{s['to']}: {s['bytes_per_token'] / 1e3:.1f}" for s in steps))


def lengths_of(text: str) -> list[int]:
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}; right are numbers between commas, such as 512,1024") from error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lengths", type=lengths_of, help="positions (default: 512 to 4096, on CUDA 2048 to 65536)")
    parser.add_argument("--ttt", type=int, default=7, help="TTT steps (default 7)")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of times, at least 1 (default 3)")
    parser.add_argument("--size", default="smollm2", choices=SIZES, help="sizes of the draft (default smollm2)")
    parser.add_argument("--peer", default="speculators", choices=("none", "speculators"), help="default speculators")
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, help="autocast (default: on CUDA only)")
    parser.add_argument("--frozen-head", action="store_true", help="train neither head; speculators' own default")
    parser.add_argument("--memory", type=float, default=14.0, help="GB a process may have resident (default 14)")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda if there is one")
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's own choice)")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_args()
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    bf16 = device == "cuda" if options.bf16 is None else options.bf16
    lengths = options.lengths or list(LENGTHS[device])
    if options.ttt < 1 or options.repeats < 1:
        parser.error("--ttt and --repeats need at least 1")
    if lengths[0] < 4 * options.ttt:
        parser.error(f"--lengths begin at {lengths[0]}; {options.ttt} TTT steps need at least {4 * options.ttt}")
    try:
        python = peer_python() if options.peer != "none" else None
    except ValueError as error:
        parser.error(str(error))
    shared = {
        "name": options.size,
        "ttt": options.ttt,
        "decay": DECAY,
        "answers": 1.0,
        "device": device,
        "bf16": bf16,
        "frozen_head": options.frozen_head,
        "threads": options.threads,
    }
    workers = Workers(python, options.memory * 1e9, shared)
    systems = [OURS, *(PEER_ATTENTION[device] if python else ())]
    started = time.time()
    about = hardware(device)
    agreed = agreement(workers, systems, min(lengths[0], LONGEST_COMPARED)) if python else {}
    result = {
        "size": options.size,
        "sizes": vars(SIZES[options.size]),
        "ttt": options.ttt,
        "bf16": bf16,
        "frozen_head": options.frozen_head,
        "memory_limit_gb": options.memory,
        "peer": " ".join(PEER) if python else None,
        "hardware": about,
        "agreement": agreed,
    }
    if apart := [name for name, found in agreed.items() if not found["agrees"]]:
        print(
            f"{', '.join(apart)}: loss or gradients differ from ours, so a ratio would compare different work.\n"
            f"{json.dumps(agreed, indent=1)}",
            file=sys.stderr,
        )
        if options.json:
            print(json.dumps(result, indent=1))
        return 1
    rows = measure(workers, systems, lengths, options.repeats)
    result |= {"lengths": rows, "growth": growth(rows), "seconds": time.time() - started}
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
