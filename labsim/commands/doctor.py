"""`labsim doctor`: one screen, each line `ok` or what to do."""

from __future__ import annotations

from dataclasses import asdict

import click

from .options import examination_bar, print_json


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Look whether the course can run here; exit status 1 when it cannot."""
    from ..doctor import can_run, examine

    with examination_bar("this machine") as told:
        findings = examine(told)
    ok = can_run(findings)
    if as_json:
        print_json({"ok": ok, "checks": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            mark = click.style("ok  ", fg="green") if finding.ok else click.style("FAIL", fg="red", bold=True)
            click.echo(f"{mark}  {finding.name:<14}  {finding.detail}")
            if finding.fix:
                click.echo(f"      {'':<14}  -> {finding.fix}")
        click.echo("The course can run here." if ok else "The course cannot run here yet: see the arrows above.")
    ctx.exit(0 if ok else 1)
