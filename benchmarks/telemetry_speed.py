"""Reading speed of `labsim.telemetry` on lines without a match, beside `grep -c` on the same file in the same run.

    python benchmarks/telemetry_speed.py [--size-mb 300] [--repeats 3] [--json]

Writes a log of web-server and engine lines with one telemetry line in 10,000, then reads it by turns with labsim and
with grep (fixed strings, C locale). Prints megabytes per second of each turn and the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from labsim.telemetry import read  # noqa: E402
from scripts import engine_output as out  # noqa: E402


def write_log(path: Path, megabytes: int) -> int:
    """A log of `megabytes`, telemetry in one line of 10,000. Returns the drafts it holds."""
    rng = random.Random(1)
    paths = ["/v1/chat/completions", "/v1/completions", "/health", "/metrics", "/v1/models"]
    lines = [
        f"(APIServer pid=1) INFO:     10.0.{rng.randrange(256)}.{rng.randrange(256)}:{rng.randrange(1024, 65536)} - "
        f'"POST {rng.choice(paths)} HTTP/1.1" 200 OK request_id=req-{rng.getrandbits(64):016x} '
        f"latency_ms={rng.random() * 900:.1f}"
        for _ in range(9_999)
    ]
    steps = out.draw_steps(1, (0.7, 0.45, 0.3), 300)
    block = ("\n".join(lines) + "\n").encode()
    times = max(1, megabytes * 1_000_000 // len(block))
    with path.open("wb") as file:
        for i in range(times):
            file.write(block)
            # At another time each: the same print twice counts once.
            file.write(f"(APIServer pid=1) {out.vllm_v1_line(steps, 3, at=10.0 * i)}\n".encode())
    return times * len(steps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size-mb", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.log"
        drafts = write_log(path, options.size_mb)
        size = path.stat().st_size / 1e6
        ours, greps = [], []
        for _ in range(options.repeats):
            start = time.perf_counter()
            record = read(path)
            ours.append(size / (time.perf_counter() - start))
            if record.drafts != drafts:
                print(f"read {record.drafts} drafts, the log holds {drafts}", file=sys.stderr)
                return 1
            start = time.perf_counter()
            command = ["grep", "-c", "-F", "SpecDecoding metrics", str(path)]
            subprocess.run(command, env={**os.environ, "LC_ALL": "C"}, check=True, capture_output=True)
            greps.append(size / (time.perf_counter() - start))
    ratios = [a / b for a, b in zip(ours, greps, strict=True)]
    result = {
        "size_mb": round(size),
        "labsim_mb_per_s": [round(value) for value in ours],
        "grep_mb_per_s": [round(value) for value in greps],
        "ratio": round(statistics.median(ratios), 3),
    }
    if options.json:
        print(json.dumps(result))
    else:
        print(f"{result['size_mb']} MB, one telemetry line in 10,000, {options.repeats} turns")
        print(f"labsim.telemetry  {statistics.median(ours):7.0f} MB/s   {result['labsim_mb_per_s']}")
        print(f"grep -c -F        {statistics.median(greps):7.0f} MB/s   {result['grep_mb_per_s']}")
        print(f"ratio {result['ratio']:.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
