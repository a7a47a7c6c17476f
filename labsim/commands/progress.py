"""`labsim progress`: which exercises are solved, which questions answered, and what comes next."""

from __future__ import annotations

from pathlib import Path

import click

from .options import GivenPath, print_json, wrong_values_exit_2


@click.command("progress")
@click.option(
    "--notebooks",
    "folder",
    metavar="DIR",
    type=GivenPath(path_type=Path, file_okay=False, exists=True),
    help="The course's notebooks (default: those at or above this directory).",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(folder: Path | None, as_json: bool) -> None:
    """What you have solved. It is read from a file on this machine and sent nowhere."""
    from ..lab.overview import next_step, overview
    from ..lab.progress import progress_file

    with wrong_values_exit_2():
        found = overview(folder)
    if as_json:
        following = next((one for one in found if one.next), None)
        print_json(
            {
                "file": str(progress_file()),
                "solved": sum(len(one.solved) for one in found),
                "exercises": sum(len(one.exercises) for one in found),
                "answered": sum(one.answered for one in found),
                "questions": sum(one.questions for one in found),
                "next": following and {"notebook": following.path.name, "exercise": following.next[0]},
                "notebooks": [
                    {
                        "notebook": one.path.name,
                        "title": one.title,
                        "exercises": list(one.exercises),
                        "solved": sorted(one.solved),
                        "questions": one.questions,
                        "answered": one.answered,
                        "next": one.next and one.next[0],
                    }
                    for one in found
                ],
            }
        )
        return
    wide, most = max(len(one.title) for one in found), max(len(one.exercises) for one in found)
    for one in found:
        bar = "".join("■" if name in one.solved else "□" for name in one.exercises)
        click.echo(
            f"{one.title:<{wide}}  {bar:<{most}}  {len(one.solved)} of {len(one.exercises)} exercises, "
            f"{one.answered} of {one.questions} questions"
        )
    click.echo(next_step(found))
