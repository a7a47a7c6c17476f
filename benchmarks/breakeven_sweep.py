"""Where does "break-even climbs to 0.45-0.55 at high concurrency" hold?

    python benchmarks/breakeven_sweep.py [--low 0.45] [--high 0.55]

Prints, per GPU, model and context, the break-even accepted/drafted at K = 3 by concurrency, and marks the cells inside
the band. Batches whose cache would not fit beside the weights are left out: they cannot be run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from labsim.sim.cost import break_even, cost_model  # noqa: E402
from labsim.sim.memory import requests_that_fit  # noqa: E402

PAIRS = (
    ("a100", "llama-3.1-8b"),
    ("h100", "llama-3.1-8b"),
    ("h200", "llama-3.1-8b"),
    ("b200", "llama-3.1-8b"),
    ("h100", "llama-3.3-70b"),
    ("h200", "llama-3.3-70b"),
    ("b200", "llama-3.3-70b"),
    ("h200", "qwen3-30b-a3b"),
    ("h200", "kimi-k2"),
)
BATCHES = (1, 8, 32, 64, 128, 256, 512)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--low", type=float, default=0.45)
    parser.add_argument("--high", type=float, default=0.55)
    args = parser.parse_args()
    print(f"break-even accepted/drafted at K=3; * = inside {args.low}-{args.high}, > = above; - = cache does not fit")
    print(f"{'':24s}{'context':>8s}" + "".join(f"{f'C={b}':>8s}" for b in BATCHES))
    for gpu, model in PAIRS:
        cost = cost_model(gpu, model)
        for context in (400, 1000, 4000, 16000):
            fits = requests_that_fit(gpu, model, context)
            cells = []
            for batch in BATCHES:
                if batch > fits:
                    cells.append(f"{'-':>8s}")
                    continue
                alpha = break_even(cost, 3, batch, context).alpha_breakeven
                mark = "*" if args.low <= alpha <= args.high else ">" if alpha > args.high else " "
                cells.append(f"{alpha:7.2f}{mark}")
            print(f"{gpu + ' ' + model:24s}{context:8d}" + "".join(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
