"""`labsim simulate`: a serving engine, event by event, with and without speculation."""

from __future__ import annotations

import click

from ..sim.accept_process import Acceptance
from ..sim.acceptance import check_survival
from ..sim.cost import cost_model
from ..sim.errors import check_whole, out_of_range
from ..sim.serving import Comparison, EngineConfig, compare
from ..sim.workload import LogNormal, Workload
from .model_options import cost_options
from .options import MeanTokens, NumberList, Tokens, print_json, wrong_values_exit_2

MAX_CONCURRENCY, MAX_REQUESTS, MAX_TOKENS = 4096, 50_000, 100_000


@click.command("simulate")
@cost_options
@click.option("--survival", type=NumberList(float), required=True, help="P(at least i accepted), i = 1..K.")
@click.option("--prompt-tokens", type=MeanTokens(), default=300.0, show_default=True, help="Mean prompt length.")
@click.option("--output-tokens", type=MeanTokens(), default=250.0, show_default=True, help="Mean answer length.")
@click.option("--length-sigma", type=float, default=0.6, show_default=True, help="Spread of both (lognormal sigma).")
@click.option("--requests", type=int, help="Simulated requests, at least 4 per user. Default: enough for a P99.")
@click.option(
    "--request-std",
    type=float,
    default=0.0,
    show_default=True,
    help="Spread between requests of their acceptance length. Chat has about 0.3, and a worse TPOT P99 for it.",
)
@click.option(
    "--autocorrelation",
    type=float,
    default=0.0,
    show_default=True,
    help="Lag-1 correlation of accepted counts within a request. Chat has about 0.27.",
)
@click.option("--token-budget", type=Tokens(), default=2048, show_default=True, help="Prompt tokens per step, at most.")
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
        for one in concurrency:
            check_whole("concurrency", one, 1, MAX_CONCURRENCY)
        if requests is not None:
            check_whole("requests", requests, 1, MAX_REQUESTS)
        for name, tokens in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens)):
            if not 1 <= tokens <= MAX_TOKENS:
                raise out_of_range(name, tokens, f"1 to {MAX_TOKENS}")
        if not 0 <= length_sigma <= 3:
            raise out_of_range("length_sigma", length_sigma, "0 to 3")
        check_whole("token_budget", token_budget)
        cost = cost_model(gpu, model, draft, tensor_parallel=tensor_parallel, dtype=dtype, engine=engine)
        acceptance = Acceptance(survival, request_std, autocorrelation)
        workload = Workload(
            prompt=LogNormal(prompt_tokens, length_sigma, longest(prompt_tokens)),
            output=LogNormal(output_tokens, length_sigma, longest(output_tokens)),
            requests=requests,
        )
        rows = []
        for one in concurrency:
            # The budget is what prompts may take besides the verified tokens. A fixed total would make speculation
            # queue its own users, and fewer users decode faster.
            config = EngineConfig(max_batch=one, token_budget=token_budget + one * (k + 1), prefill=not no_prefill)
            run = compare(cost, workload, k, acceptance, one, seed, config)
            rows.append({**run.to_dict(), "warnings": remarks(run)})
    if as_json:
        print_json({"gpu": gpu, "model": model, "draft": draft, "seed": seed, "rows": rows, "cost_source": cost.source})
        return
    click.echo(f"{model} + {draft} on {gpu}, K={k}; each cell: without -> with speculation, milliseconds")
    click.echo("concurrency  speedup  tokens/s       TPOT mean        TPOT P99    chunk gap P99    token gap P99")
    for row in rows:
        cells = [
            f"{row['baseline'][name]:.1f} -> {row[name]:.1f}"
            for name in ("tpot_mean_ms", "tpot_p99_ms", "chunk_gap_p99_ms", "token_gap_p99_ms")
        ]
        click.echo(
            f"{row['concurrency']:>11}  {row['speedup']:>6.2f}x  {row['throughput_ratio']:>7.2f}x"
            + "".join(f"{cell:>17}" for cell in cells)[1:]
        )
        for warning in row["warnings"]:
            click.echo(f"{'':>11}  ! {warning}")
    click.echo("speedup: mean TPOT without / with; tokens/s: throughput with / without.")
    if not (request_std or autocorrelation):
        click.echo(
            "Every request accepts alike here, which is kind to P99: chat has about --request-std 0.3 "
            "--autocorrelation 0.27."
        )
    click.echo(f"Step cost: {cost.source}")


def longest(mean: float) -> int:
    """Cut of the length distribution, far enough out not to move its mean."""
    return max(8192, round(20 * mean))


def remarks(run: Comparison) -> list[str]:
    """What a reader of the speedup has to know besides."""
    plain, drafted = run.baseline, run.speculative
    said = []
    if drafted.mean_batch < 0.9 * plain.mean_batch or plain.mean_batch < 0.9 * drafted.mean_batch:
        said.append(
            f"prompts saturate the engine: {plain.mean_batch:.0f} requests decode without and {drafted.mean_batch:.0f} "
            f"with speculation, mean TTFT {plain.ttft_mean_ms:.0f} -> {drafted.ttft_mean_ms:.0f} ms; judge by tokens/s"
        )
    if run.speedup > 1 > run.throughput_ratio:
        said.append("loses: fewer tokens per second with speculation, although those who decode do so faster")
    return said
