"""`labsim slides`: notebooks as decks that need no network, their print, and the gates that they pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import GivenPath, making, print_json, wrong_values_exit_2

if TYPE_CHECKING:
    from ..lab.slides.rendered import Finding

ROOT = Path(__file__).resolve().parents[2]


@click.command("slides")
@click.argument("notebooks", nargs=-1, metavar="[NOTEBOOK...]", type=GivenPath(path_type=Path))
@click.option("--student", is_flag=True, help="Exercises empty, speaker notes without hints.")
@click.option("--out", type=GivenPath(path_type=Path, file_okay=False), help="Default: build/slides, or ...-student.")
@click.option(
    "--executed", type=GivenPath(path_type=Path, file_okay=False), help="Where executed notebooks lie, or will lie."
)
@click.option("--no-run", is_flag=True, help="Take the executed notebooks as they are, current or not.")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Notebooks executed at a time.")
@click.option("--pdf", is_flag=True, help="Print each deck to NAME.pdf beside it (needs Chromium).")
@click.option("--check", is_flag=True, help="Look at every slide in Chromium and judge it. Exit status 1 on a fault.")
@click.option(
    "--pictures", type=GivenPath(path_type=Path, file_okay=False), help="With --check: keep each slide as PNG."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.pass_context
def command(
    ctx: click.Context,
    notebooks: tuple[Path, ...],
    student: bool,
    out: Path | None,
    executed: Path | None,
    no_run: bool,
    jobs: int,
    pdf: bool,
    check: bool,
    pictures: Path | None,
    as_json: bool,
) -> None:
    """Make reveal.js decks of notebooks (all, when none is named), with every asset beside them.

    Notebooks that have changed, or whose package or data have, are executed first.

    \b
    labsim slides
    labsim slides notebooks/01_alpha_and_k.ipynb --student
    labsim slides --pdf
    labsim slides --check
    """
    from ..lab.notebooks import course_notebooks
    from ..lab.slides.deck import SUFFIX, make_deck

    if pictures and not check:
        raise click.UsageError("--pictures goes with --check")
    known = course_notebooks(ROOT / "notebooks")
    chosen = list(notebooks) or known
    for notebook in chosen:
        if not notebook.is_file():
            raise click.UsageError(f"{notebook} is not a notebook; right: {known[0]} for example")
    out = out or Path("build") / ("slides-student" if student else "slides")
    kept = making(pictures) if pictures else nullcontext()
    with failures_exit_1(), making(out), kept, wrong_values_exit_2():
        ready = _executed(chosen, executed, solve=not student, jobs=jobs, no_run=no_run)
        there = {deck.name.removesuffix(SUFFIX) for deck in out.glob(f"*{SUFFIX}")}
        decks = {notebook.stem for notebook in chosen} | there
        made = []
        for path in ready:
            made.append(make_deck(path, out, decks=decks, student=student))
            click.echo(str(made[-1]), err=True)
        report: dict[str, Any] = {"decks": [str(path) for path in made]}
        if pdf:
            report["pdf"] = _print(made, SUFFIX)
        findings = _check(chosen, made, pictures, report) if check else []
    if as_json:
        print_json({"ok": not findings, **report})
    for finding in findings:
        click.echo(str(finding), err=True)
    ctx.exit(1 if findings else 0)


@contextmanager
def failures_exit_1() -> Iterator[None]:
    """One line and exit status 1 for a run that failed, assets that cannot be had, a browser that is not there."""
    from ..lab.assets import AssetUnavailable
    from ..lab.executed import ExecutionFailed
    from ..lab.slides.chromium import DeckBroken, NoBrowser

    try:
        yield
    except (AssetUnavailable, ExecutionFailed, DeckBroken, NoBrowser) as error:
        raise click.ClickException(str(error)) from error


def _executed(notebooks: list[Path], folder: Path | None, *, solve: bool, jobs: int, no_run: bool) -> list[Path]:
    from ..lab.executed import bring_up_to_date, executed_folder

    folder = folder or executed_folder(Path("build"), solve=solve)
    if not no_run:
        return bring_up_to_date(notebooks, folder, solve=solve, jobs=jobs, say=lambda line: click.echo(line, err=True))
    paths = [folder / notebook.name for notebook in notebooks]
    for path in paths:
        if not path.is_file():
            raise ValueError(f"--no-run: {path} is not there; right: a notebook that `labsim run --out` has written")
    return paths


def _print(decks: list[Path], suffix: str) -> list[dict[str, object]]:
    from ..lab.slides.chromium import chromium
    from ..lab.slides.printed import print_deck

    printed = []
    with chromium() as browser:
        for deck in decks:
            pdf = deck.with_name(deck.name.removesuffix(suffix) + ".pdf")
            pages = print_deck(browser, deck, pdf)
            click.echo(f"{pdf}: {pages} pages", err=True)
            printed.append({"file": str(pdf), "pages": pages})
    return printed


def _check(notebooks: list[Path], decks: list[Path], pictures: Path | None, report: dict[str, Any]) -> list[Finding]:
    """Every gate over every deck; what is found, which also goes into the report."""
    from ..lab.slides.chromium import chromium
    from ..lab.slides.gates import judge_files
    from ..lab.slides.rendered import look_at

    findings = judge_files(notebooks, decks)
    report["slides"] = {}
    with chromium() as browser:
        for deck in decks:
            seen = look_at(browser, deck, pictures=pictures)
            findings += seen.findings
            report["slides"][deck.name] = {"slides": seen.slides, "smallest_page": seen.smallest}
            click.echo(f"{deck.name}: {seen.slides} slides, smallest at {seen.smallest:.0%}", err=True)
    report["findings"] = [vars(finding) for finding in findings]
    return findings
