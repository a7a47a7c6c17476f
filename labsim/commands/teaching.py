"""`labsim teaching`: write the instructor's run sheet, docs/teaching.md."""

from __future__ import annotations

import json
from pathlib import Path

import click

from .options import GivenPath, print_json, wrong_values_exit_2


@click.command("teaching")
@click.option(
    "--out",
    type=GivenPath(path_type=Path, dir_okay=False),
    default=Path("docs/teaching.md"),
    show_default=True,
    help="The page to write.",
)
@click.option(
    "--runs",
    type=GivenPath(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Output of `labsim run --json`: processor times of the notebooks as delivered (default: data/budgets.json).",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(out: Path, runs: Path | None, as_json: bool) -> None:
    """Write the run sheet for instructors: time, difficulty, slides, what to project, by notebook and exercise.

    It judges every shipped solution once to measure the checks, which takes about a minute.
    """
    from ..lab.notebooks import course_notebooks
    from ..lab.overview import course_folder
    from ..lab.run_sheet import sheet
    from ..lab.teaching import check_seconds, facts

    with wrong_values_exit_2():
        paths = course_notebooks(course_folder(Path.cwd()))
        times = _run_seconds(runs)
        found = [facts(path) for path in paths]
        checks = {name: seconds for path in paths for name, seconds in check_seconds(path).items()}
        out.write_text(sheet(found, checks, times), encoding="utf-8")
    if as_json:
        print_json({"written": str(out), "notebooks": len(found), "check_seconds": checks, "run_seconds": times})
    else:
        click.echo(f"{out}: {len(found)} notebooks, {len(checks)} exercises")


def _run_seconds(runs: Path | None) -> dict[str, float]:
    """Processor seconds by notebook name, from a report of the runner or from the recorded budgets."""
    from ..lab.budget import DELIVERED, load_budgets

    if runs is None:
        return {name: one[DELIVERED] for name, one in load_budgets().items() if DELIVERED in one}
    try:
        report = json.loads(runs.read_text(encoding="utf-8"))
        return {
            Path(one["notebook"]).stem: float(one["cpu_s"]) for one in report["notebooks"] if one["cpu_s"] is not None
        }
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{runs} is no output of `labsim run --json` ({error!r})") from error
