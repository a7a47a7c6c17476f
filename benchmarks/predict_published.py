"""Predicts published speed-ups with labsim's cost model and says how far off it is.

    python benchmarks/predict_published.py                       the shipped measurements, as a table
    python benchmarks/predict_published.py --csv FILE --json     any file with the same columns, as one JSON document
    python benchmarks/predict_published.py --cross-validate      refit without each benchmark, K or target

Three layouts are recognised by their header (see published_rows.py). A row that lacks what the model needs is skipped
with the reason. Coefficients depend on model, GPU and engine, never on the row or its benchmark.

Exit code 0, or 2 with one line on stderr when a file cannot be read or its header is unknown.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from prediction import Prediction, anchors_of, predict, predict_all  # noqa: E402
from published_rows import INCONSISTENT, Row, Skipped, UnknownLayout, read_rows  # noqa: E402

from labsim.sim.calibration import Table, load_table  # noqa: E402
from labsim.sim.reference_points import predict_kimi_gb200, predict_specdecode_bench  # noqa: E402

DATA = ROOT / "data" / "calibration"
DEFAULT_FILES = tuple(
    DATA / name
    for name in ("published_calibration.csv", "specbundle_calibration.csv", "dspark_pareto_v4pro_8xB300.csv")
)


def median_abs_error(predictions: Iterable[Prediction]) -> float | None:
    errors = [abs(p.error) for p in predictions]
    return round(statistics.median(errors), 4) if errors else None


def spread(predictions: Sequence[Prediction]) -> dict[str, float | int | None]:
    """Count, median, 90th percentile and largest absolute relative error, and the median signed error."""
    if not predictions:
        return {"n": 0, "median": None, "p90": None, "max": None, "bias": None}
    errors = sorted(abs(p.error) for p in predictions)
    return {
        "n": len(errors),
        "median": round(statistics.median(errors), 4),
        "p90": round(errors[min(len(errors) - 1, int(0.9 * len(errors)))], 4),
        "max": round(errors[-1], 4),
        "bias": round(statistics.median(p.error for p in predictions), 4),
    }


def model_class(row: Row) -> str:
    return "moe" if row.is_moe else "dense"


def group_by(predictions: Iterable[Prediction], key: Callable[[Prediction], str]) -> dict[str, list[Prediction]]:
    groups: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        groups.setdefault(key(prediction), []).append(prediction)
    return dict(sorted(groups.items()))


def document(predictions: list[Prediction], skipped: list[Skipped], apart: list[Prediction]) -> dict:
    """The JSON document. `apart` are inconsistent rows: predicted for the record, in no median, listed as skipped."""
    by_class = group_by(predictions, lambda p: model_class(p.row))
    return {
        "rows": [_as_row(p) for p in predictions],
        "median_abs_error": {name: median_abs_error(by_class.get(name, [])) for name in ("dense", "moe")},
        "n": {name: len(by_class.get(name, [])) for name in ("dense", "moe")},
        "by_group": {
            name: spread(members)
            for name, members in group_by(predictions, lambda p: f"{p.row.gpu}/{model_class(p.row)}").items()
        },
        "by_target": {n: spread(members) for n, members in group_by(predictions, lambda p: p.row.model).items()},
        "by_calibration": {n: spread(members) for n, members in group_by(predictions, lambda p: p.calibration).items()},
        "skipped": [{"file": s.file, "row": s.line, "why": s.why} for s in skipped],
        "reported_apart": {"why": sorted(set(INCONSISTENT.values())), **spread(apart)},
        "acceptance_length_from_elsewhere": {
            "Kimi-K2.6 NVFP4, EAGLE-3.1, 4 x GB200, vLLM; AL 2.79 assumed": [vars(p) for p in predict_kimi_gb200()],
            "Llama-3.1-8B, EAGLE, H100, vLLM; AL 2.391 of the same runs": [vars(p) for p in predict_specdecode_bench()],
        },
    }


def _as_row(p: Prediction) -> dict:
    row = p.row
    return {
        "file": row.file,
        "row": row.line,
        "target": row.target,
        "hardware": row.gpu,
        "class": model_class(row),
        "benchmark": row.benchmark,
        "k": row.steps,
        "topk": row.width,
        "verify_tokens": row.verify,
        "batch": row.batch,
        "acceptance_length": row.acceptance_length,
        "predicted": round(p.speedup, 4),
        "published": row.speedup,
        "error": round(p.error, 4),
        "calibration": p.calibration,
    }


# One family per shape: leaving out Qwen3-30B-A3B while its twin stays would not be leaving it out.
_FAMILY = {"Qwen3-Coder-30B-A3B": "Qwen3-30B-A3B"}
FOLDS: dict[str, Callable[[Row], str]] = {
    "benchmark": lambda row: row.benchmark,
    "K": lambda row: str(row.steps),
    "topk": lambda row: "tree" if row.width > 1 else "chain",
    "target": lambda row: _FAMILY.get(row.model, row.model),
}


def cross_validate(rows: Sequence[Row]) -> dict[str, dict[str, dict]]:
    """Errors on rows whose benchmark, K, topk or target the fit has not seen. Needs numpy and scipy."""
    from fit_calibration import fit

    usable = [row for row in rows if row.baseline_tok_s is not None]
    result = {}
    for name, fold_of in FOLDS.items():
        held_out: list[Prediction] = []
        for fold in sorted({fold_of(row) for row in usable}):
            table = fit([row for row in usable if fold_of(row) != fold])
            held_out += _predict_fold([row for row in usable if fold_of(row) == fold], table)
        classes = group_by(held_out, lambda p: model_class(p.row))
        result[f"leave one {name} out"] = {kind: spread(members) for kind, members in classes.items()}
    blind: list[Prediction] = []
    for fold in sorted({FOLDS["target"](row) for row in usable}):
        table = fit([row for row in usable if FOLDS["target"](row) != fold])
        blind += [predict(_without_baseline(row), table, {}) for row in usable if FOLDS["target"](row) == fold]
    result["leave one target out, baseline unknown"] = {
        kind: spread(members) for kind, members in group_by(blind, lambda p: model_class(p.row)).items()
    }
    return result


def _predict_fold(rows: Sequence[Row], table: Table) -> list[Prediction]:
    anchors = anchors_of(rows)
    return [predict(row, table, anchors) for row in rows]


def _without_baseline(row: Row) -> Row:
    return replace(row, baseline_tok_s=None)


def print_report(doc: dict) -> None:
    for row in doc["rows"]:
        print(
            f"{row['target'][:34]:34s} {row['hardware']:10s} {row['benchmark'][:13]:13s} B={row['batch']:<4d}"
            f"{row['k']}/{row['topk']}/{row['verify_tokens']:<3d} AL {row['acceptance_length']:5.2f}  predicted "
            f"{row['predicted']:5.2f}  published {row['published']:5.2f}  {row['error']:+7.1%}  {row['calibration']}"
        )
    for title in ("by_target", "by_calibration", "by_group"):
        print(f"\n{title.replace('_', ' ')}")
        for name, s in doc[title].items():
            print(f"  {name:60s} n={s['n']:<4d} median {s['median']:6.1%}  p90 {s['p90']:6.1%}  bias {s['bias']:+6.1%}")
    print("\nmedian absolute relative error")
    for name, value in doc["median_abs_error"].items():
        print(f"  {name:6s} {'-' if value is None else f'{value:.1%}'}  (n={doc['n'][name]})")
    apart = doc["reported_apart"]
    if apart["n"]:
        print(f"  apart, in no median: n={apart['n']}, median {apart['median']:.1%} ({'; '.join(apart['why'])})")
    for title, points in doc["acceptance_length_from_elsewhere"].items():
        print(f"\n{title}")
        for point in points:
            print(
                f"  C={point['concurrency']:<3d} predicted {point['predicted']:.2f}  published {point['published']:.2f}"
            )
    print(f"\nskipped {len(doc['skipped'])} rows")
    reasons: dict[str, int] = {}
    for skip in doc["skipped"]:
        reasons[skip["why"]] = reasons.get(skip["why"], 0) + 1
    for why, count in sorted(reasons.items(), key=lambda item: -item[1]):
        print(f"  {count:3d}  {why}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=Path, nargs="+", action="extend", metavar="FILE", help="measurements to predict")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--cross-validate", action="store_true", help="add errors on what the fit has not seen")
    args = parser.parse_args(argv)
    rows: list[Row] = []
    skipped: list[Skipped] = []
    predictions: list[Prediction] = []
    apart: list[Prediction] = []
    table = load_table()
    for path in args.csv or DEFAULT_FILES:
        try:
            usable, left_out = read_rows(path)
        except UnknownLayout as error:
            print(error, file=sys.stderr)
            return 2
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            print(f"{path}: cannot be read ({error.__class__.__name__})", file=sys.stderr)
            return 2
        rows += usable
        skipped += left_out
        predictions += predict_all(usable, table)
        apart += predict_all([s.row for s in left_out if s.row is not None], table)
    doc = document(predictions, skipped, apart)
    if args.cross_validate:
        doc["cross_validation"] = cross_validate(rows)
    if args.json:
        print(json.dumps(doc, indent=1, allow_nan=False))
        return 0
    print_report(doc)
    for name, kinds in doc.get("cross_validation", {}).items():
        print(f"\n{name}")
        for kind, s in kinds.items():
            print(f"  {kind:6s} n={s['n']:<4d} median {s['median']:6.1%}  p90 {s['p90']:6.1%}  bias {s['bias']:+6.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
