"""benchmarks/usp.py runs, counts what the formula says, and shows zigzag's balance."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "usp.py"


def test_a_small_run() -> None:
    command = [sys.executable, str(SCRIPT), "--seq", "64", "--repeats", "1", "--worlds", "2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads(done.stdout)["worlds"]["2"]
    assert set(rows) == {"ring, contiguous", "ring, zigzag", "ulysses", "torch ring, head-tail"}
    for name, row in rows.items():
        assert row["seconds"]["median"] > 0 and row["peak_bytes"] > 0
        if name != "torch ring, head-tail":
            assert row["bytes_sent"] == row["bytes_predicted"] > 0
    assert rows["ring, zigzag"]["pairs"] == [1.0, 1.0]
    idlest, busiest = rows["ring, contiguous"]["pairs"]
    assert idlest < 0.6 and busiest > 1.4
