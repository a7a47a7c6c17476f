"""Fits the overheads of `labsim.sim` to public measurements and writes `labsim/sim/calibration.json`.

    python benchmarks/fit_calibration.py [--check]

Pooled first, then refined. Five coefficients are shared by all targets: seconds per speculative step, per draft
forward, per tree, the share of the layer overhead that a verify pass pays again, and the share of a request's further
tokens that pick new experts. The layer overhead of each target follows from its baseline. Then three of them
(per step, per draft forward, per tree) are refitted per target, pulled towards the pooled values, so that few rows
move them little. The loss is a soft absolute relative error: a handful of odd rows must not steer it.

Not fitted: `step_s` (1.2 ms, SpecDecode-Bench) and `allreduce_s` (15 us, a small-message all-reduce over NVLink with
its launch; an assumption that the layer overhead absorbs at the tensor parallelism of the fit).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from prediction import anchored, anchors_of, build, speedup, tensor_parallel_of  # noqa: E402
from published_rows import Row, read_rows  # noqa: E402

from labsim.sim.calibration import Fitted, Overheads, Table, load_table, table_to_json  # noqa: E402
from labsim.sim.targets import find_model  # noqa: E402

DATA = ROOT / "data" / "calibration" / "specbundle_calibration.csv"
TARGET = ROOT / "labsim" / "sim" / "calibration.json"

START = Overheads(1.2e-3, 0.0, 1.5e-5, 4e-4, 0.8, 2e-4, 8e-4, 2e-7, 0.5)
POOLED = (  # name, unit in seconds, lower and upper bound in that unit
    ("spec_s", 1e-3, 0.0, 20.0),
    ("verify_layer_factor", 1.0, 0.0, 2.0),
    ("draft_forward_s", 1e-3, 0.0, 5.0),
    ("tree_s", 1e-3, 0.0, 5.0),
    ("row_layer_s", 1e-6, 0.0, 5.0),
    ("expert_spread", 1.0, 0.2, 1.0),
)
REFINED = (("spec_s", 1e-3, 1.0), ("draft_forward_s", 1e-3, 0.2), ("tree_s", 1e-3, 0.5))  # name, unit, prior width
PRIOR_WEIGHT = 0.3
SCALE_POOLED, SCALE_REFINED = 0.05, 0.02  # relative error at which the loss turns from square to absolute


class Group:
    """The rows of one target at one batch on one GPU, with what the fit keeps fixed."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)
        first = self.rows[0]
        self.model, self.is_moe, self.batch, self.gpu = first.model, first.is_moe, first.batch, first.gpu
        self.engine = first.engine or ""
        self.peak = anchors_of(self.rows)[(first.target, first.gpu, first.batch)]
        self.tensor_parallel = tensor_parallel_of(first, self.peak)

    def anchored(self, overheads: Overheads) -> Overheads:
        return anchored(self.rows[0], overheads, self.tensor_parallel, self.peak)

    def errors(self, overheads: Overheads) -> np.ndarray:
        """log(predicted / measured) of each row."""
        cost = build(self.rows[0], overheads, self.tensor_parallel)
        return np.log([speedup(row, cost) / row.speedup for row in self.rows])


def soft(errors: np.ndarray, scale: float) -> np.ndarray:
    """Residuals whose squares sum to a soft absolute error, averaged over the rows."""
    scaled = errors / scale
    return np.sign(scaled) * np.sqrt(2 * (np.sqrt(1 + scaled**2) - 1) / len(errors))


def fit_pooled(groups: Sequence[Group]) -> Overheads:
    """The five shared coefficients; every target weighs the same."""

    def overheads(x: Iterable[float]) -> Overheads:
        return replace(START, **{name: value * unit for (name, unit, _, _), value in zip(POOLED, x, strict=True)})

    def residuals(x: np.ndarray) -> np.ndarray:
        shared = overheads(x)
        return np.concatenate([soft(g.errors(g.anchored(shared)), SCALE_POOLED) for g in groups])

    start = [getattr(START, name) / unit for name, unit, _, _ in POOLED]
    bounds = ([low for _, _, low, _ in POOLED], [high for _, _, _, high in POOLED])
    return overheads(least_squares(residuals, start, bounds=bounds).x)


def refine(group: Group, pooled: Overheads) -> Overheads:
    """The target's own spec_s, draft_forward_s and tree_s. spec_s absorbs the shared layer factor."""
    base = group.anchored(pooled)
    whole = base.spec_s + base.verify_layer_factor * base.layer_s * find_model(group.model).layers
    base = replace(base, spec_s=whole, verify_layer_factor=0.0)
    prior = np.array([getattr(base, name) / unit for name, unit, _ in REFINED])
    width = np.array([width for _, _, width in REFINED])

    def overheads(x: np.ndarray) -> Overheads:
        return replace(base, **{name: value * unit for (name, unit, _), value in zip(REFINED, x, strict=True)})

    def residuals(x: np.ndarray) -> np.ndarray:
        return np.concatenate([soft(group.errors(overheads(x)), SCALE_REFINED), PRIOR_WEIGHT * (x - prior) / width])

    return overheads(least_squares(residuals, prior, bounds=(0.0, 30.0)).x)


def fit(rows: Iterable[Row], log: Callable[[str], None] = lambda line: None) -> Table:
    """The calibration table of `rows` (those with a baseline)."""
    by_key: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        if row.baseline_tok_s is not None:
            by_key.setdefault((row.target, row.gpu, row.batch), []).append(row)
    groups = [Group(members) for members in by_key.values()]
    pooled = fit_pooled(groups)
    layer = {
        moe: statistics.median([g.anchored(pooled).layer_s for g in groups if g.is_moe == moe] or [0.0])
        for moe in (False, True)
    }
    fitted = []
    for group in groups:
        own = refine(group, pooled)
        error = statistics.median(abs(np.expm1(group.errors(own))))
        log(
            f"{group.model:26s} n={len(group.rows):3d} tp={group.tensor_parallel} layer {own.layer_s * 1e6:5.1f} us  "
            f"spec {own.spec_s * 1e3:5.2f}  draft {own.draft_forward_s * 1e3:5.2f}  tree {own.tree_s * 1e3:5.2f} ms  "
            f"median error {error:.1%}"
        )
        source = f"SpecBundle dashboard (SpecForge, MIT), SGLang, {group.gpu.upper()}, batch {group.batch}"
        fitted.append(
            Fitted(group.gpu, group.model, group.engine, group.tensor_parallel, group.batch, _round(own), source)
        )
    log("pooled " + " ".join(f"{k}={v:.3g}" for k, v in vars(pooled).items()) + f" layer_s={layer}")
    return Table(
        _round(replace(pooled, layer_s=layer[False])),
        _round(replace(pooled, layer_s=layer[True])),
        tuple(sorted(fitted, key=lambda f: (f.model, f.batch))),
    )


def _round(overheads: Overheads) -> Overheads:
    return Overheads(**{name: float(f"{value:.4g}") for name, value in vars(overheads).items()})


def _pairs(ours: Table, theirs: Table) -> list[tuple[Overheads, Overheads]]:
    if [(f.gpu, f.model, f.engine) for f in ours.fitted] != [(f.gpu, f.model, f.engine) for f in theirs.fitted]:
        raise SystemExit("calibration.json covers other models, GPUs or engines than this fit")
    pooled = [(ours.dense, theirs.dense), (ours.moe, theirs.moe)]
    return pooled + [(a.overheads, b.overheads) for a, b in zip(ours.fitted, theirs.fitted, strict=True)]


def _distance(ours: Overheads, theirs: Overheads) -> float:
    """Largest difference of the coefficients in seconds; the two shares count a thousandth of theirs."""
    shares = ("verify_layer_factor", "expert_spread")
    return max(abs(v - vars(theirs)[k]) * (1e-3 if k in shares else 1.0) for k, v in vars(ours).items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the shipped file instead of writing it")
    args = parser.parse_args()
    rows, _ = read_rows(DATA)
    table = fit(rows, print)
    provenance = (
        "Overheads that complete the roofline of labsim.sim.cost; seconds unless named otherwise.",
        f"Written by benchmarks/fit_calibration.py from data/calibration/{DATA.name} ({len(rows)} rows: public "
        "SpecBundle dashboard of SpecForge, MIT licence, SGLang on H200). Llama-4-Scout excluded (R < 1).",
        "step_s is SpecDecode-Bench's (arXiv 2601.11580); allreduce_s is an assumption.",
    )
    text = json.dumps(table_to_json(table, provenance), indent=1) + "\n"
    if args.check:
        shipped = load_table()
        worst = max(_distance(ours, theirs) for ours, theirs in _pairs(table, shipped))
        print(f"largest difference to calibration.json: {worst * 1e6:.2f} us (or 1e-6 of a share)")
        return 0 if worst < 20e-6 else 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
