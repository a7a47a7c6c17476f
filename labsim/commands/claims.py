"""`labsim claims`: what others have claimed, judged by the metrics that the notebooks record."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import GivenPath, making, print_json, wrong_values_exit_2

if TYPE_CHECKING:
    from ..lab.claims.judge import Judged
    from ..lab.claims.store import NotebookMetrics


@click.command("claims")
@click.option(
    "--metrics",
    type=GivenPath(path_type=Path, file_okay=False),
    help="Recorded metrics, a folder per scale (default: those of the repository, data/metrics).",
)
@click.option(
    "--executed", type=GivenPath(path_type=Path, file_okay=False), help="Take them from executed notebooks instead."
)
@click.option("--out", type=GivenPath(path_type=Path, dir_okay=False), help="Write the page here, as Markdown.")
@click.option("--check", type=GivenPath(path_type=Path, dir_okay=False), help="Fail unless this page says the same.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.pass_context
def command(
    ctx: click.Context, metrics: Path | None, executed: Path | None, out: Path | None, check: Path | None, as_json: bool
) -> None:
    """Judge every claim under test: reproduced, trend only, not reproduced, refuted, or not yet measured.

    Figures come from recorded metrics; nothing is run. Exit status 1 when --check finds another page.

    \b
    labsim claims
    labsim run --solve --metrics data/metrics/ci notebooks/*.ipynb && labsim claims --out docs/claims.md
    labsim claims --executed build/notebooks
    """
    from ..lab.claims.judge import judge
    from ..lab.claims.page import page
    from ..lab.claims.store import values
    from ..lab.claims.table import claims_file, read_claims

    if metrics and executed:
        raise click.UsageError("--metrics and --executed exclude each other")
    if out and check:
        raise click.UsageError("--out and --check exclude each other")
    try:
        by_scale = _recorded(metrics, executed)
        judged = judge(read_claims(), {scale: values(runs) for scale, runs in by_scale.items()})
        recorded = next(iter(by_scale.values()))
        text = page(judged, recorded, claims_file().parents[1] / "notebooks") if out or check else ""
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    current = True
    if out:
        with making(out.parent), wrong_values_exit_2():
            out.write_text(text, encoding="utf-8")
    if check:
        current = check.exists() and check.read_text(encoding="utf-8") == text
    if as_json:
        print_json({"ok": current, "claims": [_document(one) for one in judged]})
    else:
        for one in judged:
            click.echo(f"{one.claim.id:>4}  {one.finding.verdict:17} {one.finding.here or one.finding.why}")
    if not current:
        click.echo(f"{check} is not what the recorded metrics say; write it with labsim claims --out {check}", err=True)
    ctx.exit(0 if current else 1)


def _recorded(metrics: Path | None, executed: Path | None) -> dict[str, dict[str, NotebookMetrics]]:
    """Recorded metrics by scale and notebook number, the smallest scale first."""
    from ..lab.claims.store import SCALES, from_executed, load_directory, metrics_directory

    if executed:
        runs = [from_executed(path) for path in sorted(executed.glob("[0-9][0-9]_*.ipynb"))]
        if not runs:
            raise ValueError(f"--executed {executed} holds no notebook (NN_name.ipynb)")
        return {
            scale: {run.number: run for run in runs if run.scale == scale}
            for scale in SCALES
            if any(run.scale == scale for run in runs)
        }
    directory = metrics or metrics_directory()
    found = {scale: load_directory(directory / scale) for scale in SCALES if (directory / scale).is_dir()}
    if not found:
        raise ValueError(
            f"{directory} has no folder {' or '.join(SCALES)}; write it with labsim run --metrics {directory}/ci"
        )
    return found


def _document(one: Judged) -> dict[str, object]:
    return {
        **asdict(one.claim),
        "basis": one.basis,
        "uses": list(one.uses),
        **asdict(one.finding),
        "at_scale": {scale: asdict(found) for scale, found in one.at_scale.items()},
    }
