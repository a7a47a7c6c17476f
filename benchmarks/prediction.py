"""Speed-up of a measured row from the cost model.

    S = (1 + p) / (R / AL + p)        R = T(K) / T(0)

`p` is time that speculation does not shorten (prompt processing, the batch draining at the end), relative to decoding.
Where a row carries the *baseline's* tokens per second it is p = T_ideal throughput / baseline - 1, otherwise 0. The
measured speculative throughput is never an input.

Where the target has no fitted coefficients, or not at this batch, the layer overhead is set so that the plain step
equals the fastest baseline of that target and batch in the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from published_rows import Row

from labsim.sim.calibration import Overheads, Table, find_published
from labsim.sim.cost import CostModel, cost_model, default_tensor_parallel, roofline
from labsim.sim.drafts import find_draft
from labsim.sim.hardware import find_gpu
from labsim.sim.targets import find_model

Anchors = dict[tuple[str, str, int], float]


@dataclass(frozen=True)
class Prediction:
    row: Row
    speedup: float
    calibration: str  # "published", "fitted", "fitted on another GPU", "uncalibrated" (+ ", anchored at the baseline")

    @property
    def error(self) -> float:
        """Relative error, signed."""
        return self.speedup / self.row.speedup - 1


def anchors_of(rows: Iterable[Row]) -> Anchors:
    """Fastest baseline (tokens/s) per target, GPU and batch."""
    best: Anchors = {}
    for row in rows:
        if row.baseline_tok_s is not None:
            key = (row.target, row.gpu, row.batch)
            best[key] = max(best.get(key, 0.0), row.baseline_tok_s)
    return best


def tensor_parallel_of(row: Row, peak_tok_s: float | None) -> int:
    """GPUs the row ran on: as printed, else the fewest that hold the weights and could be as fast as the baseline.

    SpecBundle does not print it; the model cards of its drafts launch targets above 10B parameters with `--tp 4`
    (lmsys/SGLang-EAGLE3-Llama-3.3-70B-Instruct-SpecForge and the Qwen3-30B cards), so those start at 4.
    """
    gpu, model = find_gpu(row.gpu), find_model(row.model)
    if row.gpus is not None:
        return row.gpus
    tp = max(default_tensor_parallel(gpu, model, row.dtype), 4 if model.parameters > 10e9 else 1)
    while peak_tok_s and tp < 8 and _bare(row, tp).step_seconds(row.batch, 0, _kv(row)) > row.batch / peak_tok_s:
        tp *= 2
    return tp


def anchored(row: Row, overheads: Overheads, tensor_parallel: int, peak_tok_s: float) -> Overheads:
    """`overheads` with the layer overhead that makes the plain step last batch / peak_tok_s (at least 0)."""
    bare = build(row, replace(overheads, layer_s=0.0), tensor_parallel).step_seconds(row.batch, 0, _kv(row))
    return replace(overheads, layer_s=max(0.0, (row.batch / peak_tok_s - bare) / find_model(row.model).layers))


def build(row: Row, overheads: Overheads, tensor_parallel: int) -> CostModel:
    model = find_model(row.model)
    return roofline(
        find_gpu(row.gpu), model, find_draft(row.draft, model), tensor_parallel, row.dtype, "bf16", overheads, ""
    )


def speedup(row: Row, cost: CostModel) -> float:
    """The formula at the top."""
    plain = cost.step_seconds(row.batch, 0, _kv(row))
    ratio = cost.tree_step_seconds(row.batch, row.steps, row.width, row.verify, _kv(row)) / plain
    serial = 0.0
    if row.baseline_tok_s is not None:
        serial = max(0.0, row.batch / plain / row.baseline_tok_s - 1)
    return (1 + serial) / (ratio / row.acceptance_length + serial)


def predict(row: Row, table: Table, anchors: Anchors) -> Prediction:
    """Predicted speed-up of `row`. Coefficients depend on model, GPU and engine only."""
    if row.draft in ("eagle", "eagle-1", "eagle-3", "eagle-3.1", "eagle3", "n-gram") and find_published(
        row.gpu, row.model, row.dtype, "bf16", row.engine or "", row.gpus
    ):
        cost = cost_model(row.gpu, row.model, row.draft, engine=row.engine, dtype=row.dtype)
        return Prediction(row, speedup(row, cost), "published")
    peak = anchors.get((row.target, row.gpu, row.batch))
    entry = table.find(row.gpu, row.model, row.engine) if row.engine else None
    here = entry is not None and entry.gpu == row.gpu
    tp = entry.tensor_parallel if here and row.gpus is None else tensor_parallel_of(row, peak)
    overheads = entry.overheads if entry else table.pooled(row.is_moe, row.engine)
    how = ("fitted" if here else "fitted on another GPU") if entry else "uncalibrated"
    if peak and not (here and entry.batch == row.batch):
        overheads, how = anchored(row, overheads, tp, peak), how + ", anchored at the baseline"
    return Prediction(row, speedup(row, build(row, overheads, tp)), how)


def predict_all(rows: Iterable[Row], table: Table) -> list[Prediction]:
    rows = list(rows)
    anchors = anchors_of(rows)
    return [predict(row, table, anchors) for row in rows]


def _bare(row: Row, tensor_parallel: int) -> CostModel:
    return build(row, Overheads(0, 0, 0, 0, 0, 0, 0, 0, 1.0), tensor_parallel)


def _kv(row: Row) -> int:
    return row.batch * row.context
