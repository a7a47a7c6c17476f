"""`labsim site`: the course as a web site that needs no server, no kernel and no network."""

from __future__ import annotations

from pathlib import Path

import click

from .options import GivenPath, print_json


@click.command("site")
@click.option("--out", type=GivenPath(path_type=Path, file_okay=False), default=Path("build/site"), show_default=True)
@click.option("--executed", type=GivenPath(path_type=Path, file_okay=False, exists=True), help="Use these runs as is.")
@click.option("--student", is_flag=True, help="Leave the solutions out.")
@click.option("--check", is_flag=True, help="Also look at every page in Chromium: light, dark, on a phone.")
@click.option("--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="Notebooks run at a time.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.pass_context
def command(
    ctx: click.Context, out: Path, executed: Path | None, student: bool, check: bool, jobs: int, as_json: bool
) -> None:
    """Build the course's site: every notebook as a page, with docs and search.

    Notebooks that have changed since they ran are run first (some minutes for all). Exit status 1 when the site breaks
    a rule: something loaded from elsewhere, a picture without text, a dead link.

    \b
    labsim site
    labsim site --student --out build/site-student
    labsim site --executed build/notebooks --check
    """
    from ..lab.assets import AssetUnavailable
    from ..lab.executed import ExecutionFailed, bring_up_to_date, executed_folder
    from ..lab.exercise import find_notebooks
    from ..lab.notebooks import course_notebooks
    from ..lab.site.build import SiteError, build_site
    from ..lab.site.sources import Course
    from ..lab.slides.chromium import NoBrowser

    try:
        notebooks_folder = find_notebooks(Path.cwd())
        root = notebooks_folder.resolve().parent
        notebooks = course_notebooks(notebooks_folder.resolve())
        if executed is None:
            folder = executed_folder(root / "build", solve=True)
            ran = bring_up_to_date(
                notebooks, folder, solve=True, jobs=jobs, say=lambda line: click.echo(line, err=True)
            )
        else:
            ran = [executed / one.name for one in notebooks]
            if missing := [one.name for one in ran if not one.exists()]:
                raise ValueError(
                    f"--executed {executed} lacks {', '.join(missing)}; right: a folder of labsim run --out"
                )
        course = Course(root, dict(zip(notebooks, ran, strict=True)))
        site = build_site(course, out, sources=out.with_name(f"{out.name}-src"), student=student)
        problems = [*site.problems, *(_look(site.out, site.pages) if check else [])]
    except (ExecutionFailed, SiteError, AssetUnavailable, NoBrowser) as error:
        raise click.ClickException(str(error)) from error
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; pip install 'labsim[site]', or make site"
        ) from error
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        print_json(
            {
                "ok": not problems,
                "out": str(site.out),
                "pages": list(site.pages),
                "bytes": site.bytes,
                "problems": problems,
            }
        )
    else:
        click.echo(f"{site.out / 'index.html'}: {len(site.pages)} pages, {site.bytes / 1e6:.1f} MB")
    for problem in problems:
        click.echo(problem, err=True)
    ctx.exit(1 if problems else 0)


def _say(line: str) -> None:
    click.echo(line, err=True)


def _look(out: Path, pages: tuple[str, ...]) -> list[str]:
    from ..lab.site.look import look
    from ..lab.slides.chromium import chromium

    with chromium() as browser:
        return look(browser, out, pages)
