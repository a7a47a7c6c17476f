"""`labsim draft`: what can be done with a draft's files; `doctor` looks at them."""

from __future__ import annotations

from pathlib import Path

import click

from .options import GivenPath, examination_bar, print_json, wrong_values_exit_2

MARKS = {"ok": "ok      ", "fault": "FAULT   ", "warning": "warning ", "not checked": "-       "}
COLOURS = {"ok": "green", "fault": "red", "warning": "yellow", "not checked": "bright_black"}


@click.group("draft")
def command() -> None:
    """Look at a draft's checkpoint."""


@command.command("doctor")
@click.argument("directory", type=GivenPath(path_type=Path))
@click.option("--target", "target_name", required=True, help="nano, smollm2, a directory or a Hugging Face id.")
@click.option("--run/--no-run", default=True, help="Draft on the target's own text, also in other wirings.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.pass_context
def doctor(ctx: click.Context, directory: Path, target_name: str, run: bool, as_json: bool) -> None:
    """Check the draft in DIRECTORY before anyone serves it. All checks run, whatever the first one finds.

    A target whose directory holds config.json alone allows everything but the behavioural check.

    Exit status: 0 without a fault (there may be warnings), 1 with faults, 2 for a wrong option, a directory that is not
    there or a target that cannot be read.

    \b
    labsim draft doctor data/drafts/nano-eagle3.1 --target nano
    labsim draft doctor ./downloaded --target meta-llama/Llama-3.1-8B-Instruct --no-run --json
    """
    from ..checkpoints.doctor import examine
    from ..models.smollm2 import TargetUnavailable

    with wrong_values_exit_2():
        try:
            with examination_bar("the files") as told:
                found = examine(directory, target_name, run=run, told=told)
        except TargetUnavailable as error:
            raise click.UsageError(str(error)) from error
    if as_json:
        print_json(found.document())
    else:
        click.echo(f"{directory}: {found.kind or 'unknown kind'}, {found.dialect}, for {target_name}")
        for check in found.checks:
            mark = click.style(MARKS[check.status], fg=COLOURS[check.status], bold=check.status == "fault")
            click.echo(f"{mark}{check.name}: {check.finding}")
            if check.symptom:
                click.echo(f"          symptom: {check.symptom}")
                click.echo(f"          remedy:  {check.remedy}")
        faults, warnings = len(found.faults), sum(check.status == "warning" for check in found.checks)
        click.echo("No fault found" if found.ok else f"{faults} fault{'s' * (faults > 1)}", nl=False)
        click.echo(f", {warnings} warning{'s' * (warnings != 1)}.")
    ctx.exit(0 if found.ok else 1)
