"""`labsim train-target`: train the `nano` target from text that this Python installation carries."""

from __future__ import annotations

from pathlib import Path

import click

from ..sim.errors import unknown_name
from .options import SEED, GivenPath, print_json, writing_to, wrong_values_exit_2

TARGETS = ("nano",)


@click.command("train-target")
@click.argument("target")
@click.option("--out", type=GivenPath(file_okay=False, path_type=Path), help="Where to write. Default: ./nano.")
@click.option(
    "--minutes", type=float, help="Budget in minutes of training (default 60); the schedule follows the clock."
)
@click.option("--tokens", type=int, help="Budget in tokens: the result depends on the seed only.")
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option("--resume/--fresh", default=True, help="Continue the run in OUT, or start over.  [default: resume]")
@click.option("--workers", type=int, default=2, show_default=True, help="Single-core training threads.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    target: str,
    out: Path | None,
    minutes: float | None,
    tokens: int | None,
    seed: int,
    resume: bool,
    workers: int,
    as_json: bool,
) -> None:
    """Train a target model on this machine.

    \b
    labsim train-target nano                       an hour on two cores
    labsim train-target nano --tokens 10000000     the same result for the same seed
    labsim train-target nano --minutes 5 --out /tmp/nano --fresh

    Then `labsim generate --target OUT/model --prompt ...` talks to it.
    """
    if target not in TARGETS:
        raise click.UsageError(str(unknown_name("target", target, TARGETS)))
    from ..train.nano.recipe import Budget
    from ..train.nano.run import run

    out = out or Path("nano")
    with writing_to(out), wrong_values_exit_2():
        budget = Budget(tokens=tokens, minutes=60.0 if minutes is None and tokens is None else minutes)
        report = run(out, budget, seed, fresh=not resume, workers=workers)
    if as_json:
        print_json(report)
        return
    click.echo(f"{report['tokens']:,} tokens in {report['seconds'] / 60:.1f} minutes -> {report['model']}")
    for domain, figures in report["held_out"].items():
        entropy = report["entropy"][domain]
        click.echo(
            f"  {domain:9} held-out perplexity {figures['perplexity']:6.1f}   entropy of own answers "
            f"{entropy['greedy']['entropy_bits']:.2f} bits greedy, {entropy['sampled']['entropy_bits']:.2f} sampled"
        )
