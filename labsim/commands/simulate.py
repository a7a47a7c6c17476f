"""`labsim simulate`: a serving engine, event by event, with and without speculation."""

from __future__ import annotations

import click

from ..sim.accept_process import Acceptance
from ..sim.acceptance import check_survival
from ..sim.cost import cost_model
from ..sim.errors import check_whole
from ..sim.serving import EngineConfig, compare
from ..sim.workload import LogNormal, Workload
from .model_options import cost_options
from .options import NumberList, print_json, wrong_values_exit_2


@click.command("simulate")
@cost_options
@click.option("--survival", type=NumberList(float), required=True, help="P(at least i accepted), i = 1..K.")
@click.option("--prompt-tokens", type=float, default=300.0, show_default=True, help="Mean prompt length.")
@click.option("--output-tokens", type=float, default=250.0, show_default=True, help="Mean answer length.")
@click.option("--length-sigma", type=float, default=0.6, show_default=True, help="Spread of both (lognormal sigma).")
@click.option("--requests", type=int, help="Measured requests. Default: enough for a P99.")
@click.option("--request-std", type=float, default=0.0, help="Spread between requests of their acceptance length.")
@click.option("--autocorrelation", type=float, default=0.0, help="Lag-1 correlation of accepted counts in a request.")
@click.option("--token-budget", type=int, default=2048, show_default=True, help="Tokens per step, prefill included.")
@click.option("--no-prefill", is_flag=True, help="Prompts are processed elsewhere.")
@click.option("--seed", type=int, default=0, show_default=True)
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
    survival: tuple[float, ...],
    prompt_tokens: float,
    output_tokens: float,
    length_sigma: float,
    requests: int | None,
    request_std: float,
    autocorrelation: float,
    token_budget: int,
    no_prefill: bool,
    seed: int,
) -> None:
    """Throughput, TTFT, TPOT and three kinds of P99 with and without speculation, by concurrency.

    \b
    labsim simulate --gpu h100 --model llama-3.1-8b --draft eagle3 --k 3 --survival .74,.48,.30 --seed 0
    """
    with wrong_values_exit_2():
        if len(check_survival(survival)) != check_whole("k", k):
            raise ValueError(f"survival has {len(survival)} values; allowed: one per drafted token, {k} for k = {k}")
        cost = cost_model(gpu, model, draft, tensor_parallel=tensor_parallel, dtype=dtype, engine=engine)
        acceptance = Acceptance(survival, request_std, autocorrelation)
        workload = Workload(
            prompt=LogNormal(prompt_tokens, length_sigma),
            output=LogNormal(output_tokens, length_sigma),
            requests=requests,
        )
        config = EngineConfig(token_budget=token_budget, prefill=not no_prefill)
        rows = [compare(cost, workload, k, acceptance, c, seed, config).to_dict() for c in concurrency]
    if as_json:
        print_json({"gpu": gpu, "model": model, "draft": draft, "seed": seed, "rows": rows, "cost_source": cost.source})
        return
    click.echo(f"{model} + {draft} on {gpu}, K={k}; each cell: without -> with speculation, milliseconds")
    click.echo("concurrency  speedup       TPOT mean        TPOT P99    chunk gap P99    token gap P99")
    for row in rows:
        cells = [
            f"{row['baseline'][name]:.1f} -> {row[name]:.1f}"
            for name in ("tpot_mean_ms", "tpot_p99_ms", "chunk_gap_p99_ms", "token_gap_p99_ms")
        ]
        click.echo(f"{row['concurrency']:>11}  {row['speedup']:>6.2f}x" + "".join(f"{cell:>17}" for cell in cells)[1:])
    click.echo(f"Step cost: {cost.source}")
