"""The acceptance that pays for itself, at each of the user's operating points.

    break-even alpha_d = (R - 1) / K        R = time of a speculative step / time of a plain step at the same load

R comes from, in this order: step times that the user measured; the cost model (`labsim.sim.cost`); the ratio of the
two *mean* chunk gaps of a benchmark pair at that concurrency, when the cost model does not know the target. Where none
of them exists the point stays unknown: no R is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..sim.acceptance import acceptance_length
from ..sim.cost import CostModel, break_even, cost_model, default_tensor_parallel
from ..sim.hardware import check_dtype, find_gpu
from ..sim.memory import requests_that_fit
from ..sim.speedup import best_k
from ..sim.targets import find_model, split_model_name
from .benches import BenchPair
from .inputs import PlanInput


@dataclass(frozen=True)
class BreakEvenPoint:
    """Break-even alpha_d at one concurrency; None with the `origin` saying what is missing."""

    concurrency: int
    alpha: float | None
    step_ratio: float | None
    origin: str


@dataclass(frozen=True)
class Costs:
    """The cost model of the plan, or None and the reason; `fits` is how many requests the GPUs' memory holds."""

    model: CostModel | None
    reason: str | None = None
    fits: int | None = None
    tensor_parallel: int | None = None


def find_costs(inputs: PlanInput) -> Costs:
    """Build the cost model that the inputs determine."""
    tp = inputs.tensor_parallel
    if inputs.gpu is None:
        return Costs(None, "no GPU was named (--gpu)", tensor_parallel=tp)
    try:
        shape = find_model(inputs.target)
    except ValueError as error:
        return Costs(None, str(error), tensor_parallel=tp)
    draft = inputs.method
    if draft == "draft_model":
        try:
            draft = find_model(inputs.draft_checkpoint)
        except ValueError as error:
            return Costs(None, f"the draft: {error}", tensor_parallel=tp)
    where = {"tensor_parallel": tp, "dtype": inputs.dtype}
    model = cost_model(inputs.gpu, inputs.target, draft, engine=inputs.engine, **where)
    fits = requests_that_fit(inputs.gpu, inputs.target, inputs.context, draft=draft, **where)
    stored = check_dtype(inputs.dtype or split_model_name(inputs.target)[1] or shape.dtype)
    return Costs(model, None, fits, tp or default_tensor_parallel(find_gpu(inputs.gpu), shape, stored))


def break_even_points(inputs: PlanInput, costs: Costs, pairs: tuple[BenchPair, ...]) -> tuple[BreakEvenPoint, ...]:
    """One point per concurrency of the inputs."""
    return tuple(_point(c, inputs, costs, pairs) for c in inputs.concurrency)


def _point(concurrency: int, inputs: PlanInput, costs: Costs, pairs: tuple[BenchPair, ...]) -> BreakEvenPoint:
    if concurrency in inputs.step_times:
        before, after = inputs.step_times[concurrency]
        ratio = after / before
        return BreakEvenPoint(
            concurrency, (ratio - 1) / inputs.k, ratio, f"your step times {before:g} and {after:g} ms"
        )
    if costs.model is not None:
        point = break_even(costs.model, inputs.k, concurrency, inputs.context)
        return BreakEvenPoint(concurrency, point.alpha_breakeven, point.step_ratio, f"cost model: {costs.model.source}")
    for pair in pairs:
        if pair.concurrency == concurrency and pair.step_ratio is not None and pair.k in (None, inputs.k):
            alpha = (pair.step_ratio - 1) / inputs.k
            return BreakEvenPoint(concurrency, alpha, pair.step_ratio, f"mean ITL of {pair.both}")
    return BreakEvenPoint(concurrency, None, None, f"unknown: {costs.reason}")


def batch_to_k(inputs: PlanInput, costs: Costs, survival: tuple[float, ...] | None) -> tuple[tuple[int, int, int], ...]:
    """(first, last, K) over the batch sizes from 1 to the largest concurrency: the K up to the plan's with the highest
    predicted speedup, 0 where none wins. Empty without a cost model or a survival vector.
    """
    if costs.model is None or survival is None:
        return ()
    runs: list[tuple[int, int, int]] = []
    for batch in range(1, max(inputs.concurrency) + 1):
        best = best_k(costs.model, survival, batch, inputs.context)
        k = best.k if best else 0
        if runs and runs[-1][2] == k:
            runs[-1] = (runs[-1][0], batch, k)
        else:
            runs.append((batch, batch, k))
    return tuple(runs)


def speedup_at(survival: tuple[float, ...], step_ratio: float) -> float:
    """S = acceptance length / R."""
    return acceptance_length(survival) / step_ratio
