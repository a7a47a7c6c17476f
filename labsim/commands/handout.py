"""`labsim handout`: the course as one archive for a class, without solutions."""

from __future__ import annotations

from pathlib import Path

import click

from .options import GivenPath, making, print_json, wrong_values_exit_2


@click.command("handout")
@click.option(
    "--out",
    type=GivenPath(path_type=Path, dir_okay=False),
    default=Path("build/labsim-handout.zip"),
    show_default=True,
    help="The archive.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(out: Path, as_json: bool) -> None:
    """Pack notebooks, package, data and set-up for a class: no solutions, no tests, no goldens."""
    from ..lab.handout import TOP, make_handout

    with making(out.parent), wrong_values_exit_2():
        names = make_handout(out)
    size = out.stat().st_size
    notebooks = [name for name in names if name.endswith(".ipynb")]
    if as_json:
        print_json({"file": str(out), "bytes": size, "files": len(names), "notebooks": notebooks})
        return
    click.echo(f"{out}: {len(notebooks)} notebooks, {len(names)} files, {size / 1e6:.0f} MB; unpacks to {TOP}/")
