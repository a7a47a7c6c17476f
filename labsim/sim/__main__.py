"""`python -m labsim.sim`: where speculation pays, where it loses, and whom it hurts. Needs nothing but Python.

Prints the break-even table, a grid of acceptance and draft length measured in the serving simulation beside the
closed form, and the tails. Both sides of every comparison serve the same requests on the same engine with the same
step cost; the draft is paid for in every step; a rejection costs no second target forward. Every sentence under
"What the numbers say" is computed from the tables above it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import stdev

from .accept_process import Acceptance
from .acceptance import acceptance_length, draft_acceptance_rate, survival_from_constant
from .cost import CostModel, cost_model
from .errors import check_whole
from .serving import compare_traces, trace
from .speedup import predict
from .workload import Workload

ALPHAS_C = (0.3, 0.5, 0.65, 0.8)
KS = (1, 3, 5)
LOADS = (1, 32, 128)
SEEDS = 3
STUDENT_T = 4.303  # 97.5 % quantile for 3 - 1 = 2 degrees of freedom
TAIL_ALPHA_C, TAIL_K = 0.65, 3
# Spread and memory of EAGLE on ShareGPT, K = 3 (statistics of the acceptance records of arXiv 2601.11580).
TAIL_STD, TAIL_LAG1 = 0.34, 0.20


@dataclass(frozen=True)
class BreakEvenRow:
    """accepted/drafted at which speculation starts to pay, per draft length and concurrency."""

    k: int
    concurrency: int
    context: int
    step_ratio: float
    alpha_d_breakeven: float


@dataclass(frozen=True)
class GridRow:
    """One operating point: closed form beside simulation. `verdict` is "wins", "loses", or "even" where the 95 %
    interval of the simulated speedup contains 1.
    """

    concurrency: int
    alpha_c: float
    k: int
    alpha_d: float
    acceptance_length: float
    step_ratio: float
    speedup_closed_form: float
    speedup: float
    speedup_low: float
    speedup_high: float
    target_forwards_per_token: float
    tpot_p99_ms: float
    baseline_tpot_p99_ms: float
    verdict: str


@dataclass(frozen=True)
class TailRow:
    """Plain and speculative tails at one concurrency; `_plain` is without speculation. Times in ms."""

    concurrency: int
    speedup: float
    requests_slower: float
    tpot_mean_plain: float
    tpot_mean: float
    tpot_p99_plain: float
    tpot_p99: float
    chunk_gap_p50_plain: float
    chunk_gap_p50: float
    chunk_gap_p99_plain: float
    chunk_gap_p99: float
    token_gap_p99_plain: float
    token_gap_p99: float
    prefill_step_share_plain: float
    prefill_step_share: float


def break_even_rows(cost: CostModel, ks: Sequence[int], loads: Sequence[int], context: int) -> list[BreakEvenRow]:
    points = [predict(cost, [0.0] * k, c, context) for k in ks for c in loads]
    return [BreakEvenRow(p.k, p.concurrency, context, p.step_ratio, p.alpha_breakeven) for p in points]


def grid_rows(
    cost: CostModel, alphas_c: Sequence[float], ks: Sequence[int], loads: Sequence[int], context: int, seed: int
) -> list[GridRow]:
    rows, seeds = [], range(seed, seed + SEEDS)
    for load in loads:
        work = _workload(load)
        plain = [trace(cost, work, 0, None, load, seed) for seed in seeds]
        for alpha_c in alphas_c:
            for k in ks:
                survival = survival_from_constant(alpha_c, k)
                point = predict(cost, survival, load, context)
                runs = [
                    compare_traces(base, trace(cost, work, k, survival, load, seed))
                    for base, seed in zip(plain, seeds, strict=True)
                ]
                speedups = [run.speedup for run in runs]
                half = STUDENT_T * stdev(speedups) / sqrt(SEEDS)
                low, high = _mean(speedups) - half, _mean(speedups) + half
                rows.append(
                    GridRow(
                        concurrency=load,
                        alpha_c=alpha_c,
                        k=k,
                        alpha_d=draft_acceptance_rate(survival),
                        acceptance_length=acceptance_length(survival),
                        step_ratio=point.step_ratio,
                        speedup_closed_form=point.speedup,
                        speedup=_mean(speedups),
                        speedup_low=low,
                        speedup_high=high,
                        target_forwards_per_token=_mean([r.speculative.target_forwards_per_token for r in runs]),
                        tpot_p99_ms=_mean([r.speculative.tpot_p99_ms for r in runs]),
                        baseline_tpot_p99_ms=_mean([r.baseline.tpot_p99_ms for r in runs]),
                        verdict="loses" if high < 1 else "wins" if low > 1 else "even",
                    )
                )
    return rows


def tail_rows(cost: CostModel, loads: Sequence[int], seed: int) -> list[TailRow]:
    acceptance = Acceptance(survival_from_constant(TAIL_ALPHA_C, TAIL_K), TAIL_STD, TAIL_LAG1)
    rows = []
    for load in loads:
        work = _workload(load)
        plain = trace(cost, work, 0, None, load, seed)
        run = compare_traces(plain, trace(cost, work, TAIL_K, acceptance, load, seed))
        before, after = run.baseline, run.speculative
        rows.append(
            TailRow(
                concurrency=load,
                speedup=run.speedup,
                requests_slower=run.requests_slower,
                tpot_mean_plain=before.tpot_mean_ms,
                tpot_mean=after.tpot_mean_ms,
                tpot_p99_plain=before.tpot_p99_ms,
                tpot_p99=after.tpot_p99_ms,
                chunk_gap_p50_plain=before.chunk_gap_p50_ms,
                chunk_gap_p50=after.chunk_gap_p50_ms,
                chunk_gap_p99_plain=before.chunk_gap_p99_ms,
                chunk_gap_p99=after.chunk_gap_p99_ms,
                token_gap_p99_plain=before.token_gap_p99_ms,
                token_gap_p99=after.token_gap_p99_ms,
                prefill_step_share_plain=before.prefill_step_share,
                prefill_step_share=after.prefill_step_share,
            )
        )
    return rows


def conclusions(grid: Sequence[GridRow], tails: Sequence[TailRow]) -> list[str]:
    """Sentences that hold for these rows; one that does not hold is not there."""
    said = []
    losing = [row for row in grid if row.verdict == "loses"]
    said.append(f"{len(losing)} of {len(grid)} points lose, {sum(r.verdict == 'wins' for r in grid)} win.")
    if losing:
        worst = min(losing, key=lambda row: row.speedup)
        said.append(f"Worst: {worst.speedup:.2f}x at concurrency {worst.concurrency}, {_point(worst)}.")
    best = max(grid, key=lambda row: row.speedup)
    said.append(f"Best: {best.speedup:.2f}x at concurrency {best.concurrency}, {_point(best)}.")
    for alpha_c in sorted({row.alpha_c for row in grid}):
        parts = []
        for load in sorted({row.concurrency for row in grid}):
            top = max((r for r in grid if (r.alpha_c, r.concurrency) == (alpha_c, load)), key=lambda row: row.speedup)
            parts.append(f"{top.k if top.verdict == 'wins' else 'none'} at {load}")
        said.append(f"Best K by concurrency for alpha_c = {alpha_c}: {', '.join(parts)}.")
    differing = [r for r in grid if (r.acceptance_length > r.step_ratio) != (r.speedup > 1) and r.verdict != "even"]
    rule = "agrees with" if not differing else f"fails at {len(differing)} points against"
    said.append(f"The rule 'pays when tokens per forward exceed the step ratio R' {rule} the simulation.")
    for row in tails:
        if row.speedup > 1 and row.tpot_p99 > row.tpot_p99_plain:
            said.append(
                f"Concurrency {row.concurrency}: mean TPOT improves {row.speedup:.2f}x, yet P99 TPOT rises from "
                f"{row.tpot_p99_plain:.1f} to {row.tpot_p99:.1f} ms; "
                f"{row.requests_slower:.0%} of the requests get slower."
            )
        if row.speedup > 1 and row.chunk_gap_p99 > row.chunk_gap_p99_plain:
            said.append(
                f"Concurrency {row.concurrency}: the P99 gap between chunks rises from {row.chunk_gap_p99_plain:.1f} "
                f"to {row.chunk_gap_p99:.1f} ms while mean TPOT falls from {row.tpot_mean_plain:.1f} "
                f"to {row.tpot_mean:.1f} ms."
            )
    return said


def render(result: dict[str, object]) -> str:
    """The text report, under 100 columns."""
    even, grid, tails = result["breakeven"], result["grid"], result["tails"]
    lines = [f"Cost: {part}" for part in _wrapped(str(result["cost_source"]), 90)]
    lines += [
        "",
        f"1. Break-even alpha_d (accepted/drafted) = (R - 1) / K, context {result['context']} tokens; "
        "above 1: cannot win",
    ]
    loads = sorted({row.concurrency for row in even})
    lines.append("     K" + "".join(f"{'C=' + str(load):>9}" for load in loads))
    for k in sorted({row.k for row in even}):
        cells = {row.concurrency: row.alpha_d_breakeven for row in even if row.k == k}
        lines.append(f"{k:>6}" + "".join(f"{cells[load]:>9.3f}" for load in loads))
    lines += [
        "",
        f"2. Measured in the simulation, mean of {result['seeds']} seeds, 95 % interval; prompts and queueing included",
        "   alpha_c: chance that one more drafted token passes; alpha_d: accepted/drafted; AL: tokens per",
        "   target forward; R: time of a speculative step over a plain one; AL/R: closed form, decode only",
        "     C alpha_c  K alpha_d    AL     R   AL/R  speedup   interval   fwd/token  P99 TPOT, ms",
    ]
    for row in grid:
        lines.append(
            f"{row.concurrency:>6} {row.alpha_c:>7.2f} {row.k:>2} {row.alpha_d:>7.3f} {row.acceptance_length:>5.2f} "
            f"{row.step_ratio:>5.2f} {row.speedup_closed_form:>6.2f} {row.speedup:>8.3f}  {row.speedup_low:.3f}-"
            f"{row.speedup_high:.3f} {row.target_forwards_per_token:>9.3f} {row.baseline_tpot_p99_ms:>7.1f} ->"
            f"{row.tpot_p99_ms:>5.1f}  {row.verdict}"
        )
    lines += [
        "",
        f"3. Tails in ms, plain -> speculative, alpha_c = {TAIL_ALPHA_C}, K = {TAIL_K}, requests differ "
        f"(std of AL {TAIL_STD})",
        f"{'C':>6} "
        + " ".join(f"{name:>13}" for name in ("TPOT mean", "TPOT P99", "gap P50", "gap P99", "gap/token P99"))
        + f"{'prefill steps':>16}{'slower':>7}",
    ]
    for row in tails:
        cells = [
            (row.tpot_mean_plain, row.tpot_mean),
            (row.tpot_p99_plain, row.tpot_p99),
            (row.chunk_gap_p50_plain, row.chunk_gap_p50),
            (row.chunk_gap_p99_plain, row.chunk_gap_p99),
            (row.token_gap_p99_plain, row.token_gap_p99),
        ]
        shares = f"{row.prefill_step_share_plain:>6.1%} ->{row.prefill_step_share:>6.1%}"
        lines.append(
            f"{row.concurrency:>6} "
            + " ".join(f"{before:>5.1f} ->{after:>5.1f}" for before, after in cells)
            + f"{shares:>16}{row.requests_slower:>7.1%}"
        )
    lines += ["", "What the numbers say"]
    for sentence in result["conclusions"]:
        first, *rest = _wrapped(sentence, 94)
        lines += [f"  - {first}", *(f"    {part}" for part in rest)]
    return "\n".join(lines)


def build(cost: CostModel, seed: int, quick: bool) -> dict[str, object]:
    """All rows and sentences of one report."""
    context = 400
    loads = LOADS[1:] if quick else LOADS
    grid = grid_rows(cost, ALPHAS_C, KS[:2] if quick else KS, loads, context, seed)
    tails = tail_rows(cost, (8, 32) if quick else (1, 8, 32, 128), seed)
    return {
        "cost_source": cost.source,
        "context": context,
        "seed": seed,
        "seeds": SEEDS,
        "breakeven": break_even_rows(cost, (1, 3, 5, 7), (1, 8, 32, 64, 128, 256), context),
        "grid": grid,
        "tails": tails,
        "conclusions": conclusions(grid, tails),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m labsim.sim",
        description="Does speculative decoding pay? Break-even, measured speedup and tails from a serving simulation.",
        epilog="Example: python -m labsim.sim --gpu h200 --model llama-3.3-70b --seed 7",
    )
    parser.add_argument("--gpu", default="h100", help="GPU (default: %(default)s)")
    parser.add_argument("--model", default="llama-3.1-8b", help="target model (default: %(default)s)")
    parser.add_argument("--draft", default="eagle3", help="draft (default: %(default)s)")
    parser.add_argument("--seed", default="0", help="first seed of the simulated requests, a whole number from 0")
    parser.add_argument("--quick", action="store_true", help="fewer points, under a second")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_args(arguments)
    try:
        seed = check_whole("seed", options.seed, 0)
        cost = cost_model(options.gpu, options.model, options.draft)
    except ValueError as problem:
        print(f"labsim.sim: {problem}", file=sys.stderr)
        return 2
    result = build(cost, seed, options.quick)
    if options.json:
        tables = {name: [asdict(row) for row in result[name]] for name in ("breakeven", "grid", "tails")}
        text = json.dumps({**result, **tables}, indent=1)
    else:
        text = render(result)
    try:
        print(text, flush=True)
    except OSError as problem:
        # What is left in the buffer goes nowhere: Python would complain again while flushing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(problem, BrokenPipeError):  # `| head` has read enough
            print(f"labsim.sim: standard output cannot be written: {problem.strerror}", file=sys.stderr)
        return 1
    return 0


def _workload(load: int) -> Workload:
    # A single user needs no crowd for a stable mean.
    return Workload(requests=80 if load == 1 else max(300, 5 * load))


def _point(row: GridRow) -> str:
    return f"K = {row.k}, alpha_c = {row.alpha_c} (alpha_d = {row.alpha_d:.3f})"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


if __name__ == "__main__":
    sys.exit(main())
