"""`labsim breakeven`: the acceptance a draft must reach, at each concurrency."""

from __future__ import annotations

import click

from ..sim.cost import CostModel, break_even, cost_model
from ..sim.errors import check_probability, check_whole
from ..sim.memory import requests_that_fit
from ..sim.speedup import paying_ranges
from .model_options import cost_options
from .options import MAX_K, Tokens, print_json, wrong_values_exit_2

LIMIT = 4096


@click.command("breakeven")
@cost_options
@click.option("--context", type=Tokens(), default=1000, show_default=True, help="Tokens in each request's KV cache.")
@click.option("--alpha", type=float, help="Your accepted/drafted rate: adds speedup and the concurrency where it ends.")
def command(
    gpu: str,
    model: str,
    draft: str,
    k: int,
    concurrency: tuple[int, ...],
    tensor_parallel: int | None,
    dtype: str | None,
    engine: str | None,
    as_json: bool,
    context: int,
    alpha: float | None,
) -> None:
    """The accepted/drafted rate at which speculation neither wins nor loses, by concurrency.

    \b
    labsim breakeven --gpu h100 --model llama-3.1-8b --draft eagle3 --k 3 --concurrency 1,32,128,256 --context 400
    labsim breakeven --gpu h100 --model llama-3.1-8b --draft eagle3 --k 3 --context 400 --alpha 0.46
    """
    with wrong_values_exit_2():
        cost = cost_model(gpu, model, draft, tensor_parallel=tensor_parallel, dtype=dtype, engine=engine)
        fits = requests_that_fit(
            gpu, model, context, draft=draft, tensor_parallel=tensor_parallel, dtype=dtype, engine=engine
        )
        report = compute(cost, k, concurrency, context, alpha, min(LIMIT, max(1, fits)))
    report = {"gpu": gpu, "model": model, "draft": draft, **report, "requests_that_fit": fits}
    if as_json:
        print_json(report)
    else:
        print_table(report)


def compute(
    cost: CostModel, k: int, concurrency: tuple[int, ...], context: int, alpha: float | None, limit: int = LIMIT
) -> dict[str, object]:
    """The JSON document of the command. `pays_at` lists the ranges of concurrency up to `limit` in which alpha wins;
    `stops_paying_with_5_percent` where that ends with 5 % less and more acceptance (None: not up to `limit`).
    """
    check_whole("k", k, 1, MAX_K)
    for one in concurrency:
        check_whole("concurrency", one)
    if alpha is not None:
        check_probability("alpha", alpha)
    rows = []
    for one in concurrency:
        point = break_even(cost, k, one, context)
        row: dict[str, object] = {"concurrency": one, **point._asdict()}
        if alpha is not None:
            row["speedup"] = (1 + k * alpha) / point.step_ratio
        rows.append(row)
    report: dict[str, object] = {"k": k, "context": context, "alpha_kind": "accepted/drafted", "rows": rows}
    if alpha is not None:
        less, given, more = (paying_ranges(cost, 1 + k * a * alpha, k, context, limit) for a in (0.95, 1.0, 1.05))
        ends = [
            None if ranges and ranges[-1][1] == limit else ranges[-1][1] + 1 if ranges else 1 for ranges in (less, more)
        ]
        report |= {"alpha": alpha, "pays_at": given, "searched_up_to": limit, "stops_paying_with_5_percent": ends}
    return {**report, "cost_source": cost.source}


def print_table(report: dict) -> None:
    with_alpha = "alpha" in report
    click.echo(
        f"{report['model']} + {report['draft']} on {report['gpu']}, K={report['k']}, context {report['context']}"
    )
    click.echo("concurrency  step ratio R  break-even alpha" + ("  speedup" if with_alpha else ""))
    for row in report["rows"]:
        breakeven = f"{row['alpha_breakeven']:.2f}" if row["alpha_breakeven"] <= 1 else "none: always loses"
        line = f"{row['concurrency']:>11}  {row['step_ratio']:>12.2f}  {breakeven:>16}"
        if with_alpha:
            line += f"  {row['speedup']:>6.2f}x" + ("  loses" if row["speedup"] < 1 else "")
        click.echo(line)
    click.echo("alpha is accepted/drafted; R is the time of a speculative step over a plain one.")
    if with_alpha:
        limit = report["searched_up_to"]
        low, high = (end or f"beyond {limit}" for end in report["stops_paying_with_5_percent"])
        click.echo(f"At alpha {report['alpha']:g} speculation {verdict(report['pays_at'], limit)}.")
        click.echo(f"With 5 % less or more acceptance it stops at {low} or {high}: read it as a range, and measure.")
    fits = report["requests_that_fit"]
    told = f"The KV cache of {fits} such requests fits; beyond that they queue."
    click.echo(told if fits else "Nothing fits: weights and one request need more memory. Raise --tensor-parallel.")
    click.echo(f"Step cost: {report['cost_source']}")


def verdict(ranges: list[tuple[int, int]], limit: int) -> str:
    """The ranges in words."""
    if not ranges:
        return f"pays at no concurrency up to {limit}"
    if ranges == [(1, limit)]:
        return f"pays at every concurrency up to {limit}"
    parts = [f"{first} to {last}" if last < limit else f"{first} on" for first, last in ranges]
    after = f", and stops paying at {ranges[-1][1] + 1}" if ranges[-1][1] < limit else ""
    return f"pays at concurrency {' and '.join(parts)}{after}"
