"""`labsim speedup`: the closed form, from one alpha."""

from __future__ import annotations

import click

from ..sim.acceptance import constant_conditional_acceptance, expected_tokens_geometric
from ..sim.errors import check_positive, check_probability, check_whole
from ..sim.speedup import (
    breakeven_conditional_acceptance,
    breakeven_draft_acceptance_rate,
    speedup,
    tokens_per_step,
)
from .options import MAX_K, print_json, wrong_values_exit_2


@click.command("speedup")
@click.option("--alpha", type=float, required=True, help="Acceptance, 0 to 1: accepted/drafted unless --per-token.")
@click.option("--k", type=int, required=True, help="Drafted tokens per step (num_speculative_tokens).")
@click.option("--overhead", type=float, default=0.0, show_default=True, help="Extra time of a speculative step: R - 1.")
@click.option("--per-token", is_flag=True, help="Read --alpha as the chance of each token, given the ones before it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(alpha: float, k: int, overhead: float, per_token: bool, as_json: bool) -> None:
    """Tokens per step and speedup from one alpha.

    \b
    labsim speedup --alpha 0.7 --k 5 --overhead 0.1              accepted/drafted: 4.5 tokens, 4.09x
    labsim speedup --alpha 0.7 --k 5 --overhead 0.1 --per-token  per token: 2.94 tokens, 2.67x
    """
    with wrong_values_exit_2():
        report = compute(alpha, k, overhead, per_token)
    if as_json:
        print_json(report)
        return
    other = report["conditional_acceptance"] if not per_token else report["draft_acceptance_rate"]
    breakeven = report["alpha_breakeven"]
    click.echo(
        f"{report['tokens_per_step']:.4g} tokens per step, speedup {report['speedup']:.3g}x\n"
        f"alpha {alpha:g} read as {report['alpha_kind']}; the same draft's "
        f"{'accepted/drafted rate' if per_token else 'per-token acceptance, if constant,'} is {other:.3g}\n"
        + (
            f"break-even alpha ({report['alpha_kind']}): {breakeven:.3g}"
            if breakeven is not None and breakeven <= 1
            else f"no alpha breaks even: a step costs {1 + overhead:g} and yields at most {k + 1} tokens"
        )
    )


def compute(alpha: float, k: int, overhead: float, per_token: bool) -> dict[str, object]:
    """The JSON document of the command. ValueError for values outside their range."""
    check_probability("alpha", alpha)
    check_whole("k", k, 1, MAX_K)
    check_positive("overhead", overhead, zero=True)
    tokens = tokens_per_step(alpha, k, per_token=per_token)
    return {
        "tokens_per_step": tokens,
        "speedup": speedup(tokens, overhead),
        "alpha_breakeven": breakeven_conditional_acceptance(overhead, k)
        if per_token
        else breakeven_draft_acceptance_rate(overhead, k),
        "alpha": alpha,
        "alpha_kind": "conditional per token" if per_token else "accepted/drafted",
        "k": k,
        "overhead": overhead,
        "draft_acceptance_rate": (expected_tokens_geometric(alpha, k) - 1) / k if per_token else alpha,
        "conditional_acceptance": alpha if per_token else constant_conditional_acceptance(alpha, k),
    }
