"""How fast is the serving simulation? Simulated requests per second at batch 1, 8 and 32.

    python benchmarks/simulator_speed.py                      # synthetic requests
    python benchmarks/simulator_speed.py --peer DIR           # beside SpecDecode-Bench's simulator

A point simulates 300 requests twice, without and with speculation (K = 3), and both are timed. "All three" is 300
requests over the time of the three batch sizes together: the way in which the published figure of the public
SpecDecode-Bench simulator counts (300 requests at batch 1, 8 and 32 in 15 s: 20 requests per second).

DIR is a checkout of https://github.com/SpecDecode-Bench/simulator. Both programs then answer the same question from
the same file (EAGLE acceptance recorded on GSM8K, all 300 requests), in turns; ours is timed with reading the file,
the peer as a process. They do not do the same work: the peer runs B copies of one request side by side with one
prefill; ours serves B users whose requests come and go.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from labsim.sim.accept_process import Replay
from labsim.sim.cost import cost_model
from labsim.sim.serving import compare
from labsim.sim.workload import Empirical, Workload

REQUESTS, K, BATCHES = 300, 3, (1, 8, 32)
SURVIVAL = (0.675, 0.437, 0.279)  # EAGLE on GSM8K, from the acceptance records of arXiv 2601.11580
PUBLISHED = 20.0


def seconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def synthetic(repeats: int) -> dict[str, object]:
    """Requests per second per batch size: 272 prompt tokens, 256 output tokens each."""
    cost, work = cost_model("h100", "llama-3.1-8b", "eagle3"), Workload(prompt=272, output=256, requests=REQUESTS)
    times: dict[int, list[float]] = {batch: [] for batch in BATCHES}
    for seed in range(repeats):
        for batch in BATCHES:
            times[batch].append(
                seconds_of(lambda batch=batch, seed=seed: compare(cost, work, K, SURVIVAL, batch, seed))
            )
    together = [sum(per_batch) for per_batch in zip(*times.values(), strict=True)]
    return {
        "seconds_per_point": {str(batch): spread(t) for batch, t in times.items()},
        "requests_per_second": {str(batch): spread([REQUESTS / x for x in t]) for batch, t in times.items()},
        "all_three": spread([REQUESTS / t for t in together]),
    }


def read_recorded(path: Path) -> tuple[Workload, Replay]:
    """The peer's file: acc_len[p] is how many tokens a step that starts at output position p would emit."""
    prompts, outputs, accepted = [], [], []
    with path.open() as lines:
        for line in lines:
            record = json.loads(line)
            possible = record["acc_eagle"]["acc_len"]
            position, steps = 1, []
            while position < len(possible):
                steps.append(min(possible[position], K + 1) - 1)
                position += steps[-1] + 1
            prompts.append(len(record["prompt_token_ids"]))
            outputs.append(len(possible))
            accepted.append(steps or [0])
    work = Workload(Empirical(prompts, in_order=True), Empirical(outputs, in_order=True), requests=len(prompts))
    return work, Replay(accepted)


def beside_peer(directory: Path, repeats: int) -> dict[str, object]:
    """Time both on the recorded GSM8K requests, in turns; ratio per turn."""
    cost = cost_model("h100", "llama-3.1-8b", "eagle3")
    recorded = directory / "data" / "llama3.1-8B" / "combined_gsm8k.jsonl"
    speedups: dict[str, float] = {}

    def ours() -> None:
        work, replay = read_recorded(recorded)
        for batch in BATCHES:
            speedups[str(batch)] = compare(cost, work, K, replay, batch).speedup

    def peer() -> None:
        with tempfile.TemporaryDirectory() as out:
            command = [sys.executable, "main.py", "--proposer", "eagle3", "--datasets", "gsm8k"]
            command += ["--predict-methods", "FIXED_3", "--output-dir", out, "--batch-sizes", *map(str, BATCHES)]
            environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
            subprocess.run(command, cwd=directory, env=environment, check=True, capture_output=True, timeout=600)
            rows = (Path(out) / "eagle3_gsm8k_speedup.csv").read_text().split()[1:]
            peer_speedups.update({row.split(",")[0]: float(row.split(",")[3]) for row in rows})

    peer_speedups: dict[str, float] = {}
    our_times, peer_times = [], []
    for _ in range(repeats):
        our_times.append(seconds_of(ours))
        peer_times.append(seconds_of(peer))
    ratios = [theirs / mine for mine, theirs in zip(our_times, peer_times, strict=True)]
    return {
        "ours_all_three": spread([REQUESTS / t for t in our_times]),
        "peer_all_three": spread([REQUESTS / t for t in peer_times]),
        "ratio": spread(ratios),
        "ours_speedup": speedups,
        "peer_speedup": peer_speedups,
    }


def show(result: dict[str, object]) -> None:
    print(
        f"Python {result['python']}, {result['repeats']} repeats, 300 requests, K = {K}, without and with speculation"
    )
    ours = result["synthetic"]
    print(f"{'batch':>10} {'s per point':>12} {'requests/s':>11}  spread")
    for batch in map(str, BATCHES):
        rate, point = ours["requests_per_second"][batch], ours["seconds_per_point"][batch]
        print(f"{batch:>10} {point['median']:>12.3f} {rate['median']:>11.0f}  {rate['min']:.0f}-{rate['max']:.0f}")
    rate = ours["all_three"]
    print(f"{'all three':>10} {'':>12} {rate['median']:>11.0f}  {rate['min']:.0f}-{rate['max']:.0f}")
    print(
        f"Published for SpecDecode-Bench's simulator: {PUBLISHED:.0f} requests/s; ours is "
        f"{result['times_published']:.0f}x that figure (another machine)."
    )
    if "peer" not in result:
        print("That simulator was not run here (pass --peer with a checkout of it).")
        return
    peer = result["peer"]
    print("Beside it on the same recorded GSM8K requests, all three batch sizes, in turns:")
    for name in ("ours", "peer"):
        rate = peer[f"{name}_all_three"]
        said = ", ".join(f"{b}: {s:.2f}x" for b, s in peer[f"{name}_speedup"].items())
        print(f"  {name}  {rate['median']:>6.0f} requests/s  ({rate['min']:.0f}-{rate['max']:.0f})  speedup at {said}")
    print(f"  ratio {peer['ratio']['median']:>5.0f}x  ({peer['ratio']['min']:.0f}-{peer['ratio']['max']:.0f})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    parser.add_argument("--repeats", type=int, default=5, help="repeats, at least 1 (default 5)")
    parser.add_argument("--peer", type=Path, help="checkout of github.com/SpecDecode-Bench/simulator")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error(f"--repeats is {options.repeats}; allowed: at least 1")
    if options.peer and not (options.peer / "main.py").is_file():
        parser.error(f"--peer is {options.peer}; allowed: a checkout that contains main.py")
    measured = synthetic(options.repeats)
    result: dict[str, object] = {
        "python": platform.python_version(),
        "repeats": options.repeats,
        "synthetic": measured,
        "published_requests_per_second": PUBLISHED,
        "times_published": measured["all_three"]["median"] / PUBLISHED,
    }
    if options.peer:
        result["peer"] = beside_peer(options.peer, options.repeats)
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
