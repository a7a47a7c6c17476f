"""The command line: `labsim COMMAND`.

Each command lives in `labsim.commands` and is imported when it is called, so that `labsim speedup` never pays for
torch or Jupyter. Errors are one line on stderr that names the value and what would be right; a wrong value
exits with 2.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import sys
from collections.abc import Sequence

import click

from . import __version__
from .models.fields import abridged, printable
from .sim.errors import unknown_name

# Of one value, such as a path, and of a whole error.
LONGEST_VALUE, LONGEST_LINE = 200, 1200

# What `labsim --help` says of each: shorter than the commands' own first sentences, and no module is imported for it.
COMMANDS = {
    "speedup": "tokens per step and speedup from one alpha",
    "breakeven": "the alpha that pays, by concurrency",
    "simulate": "throughput, TTFT, TPOT and P99 under load",
    "alpha": "acceptance from an engine's own output",
    "plan": "shall I turn it on? a gate and a staged plan",
    "generate": "decode a real model, with a draft or without",
    "target": "fetch and prepare a target",
    "data": "training data for drafts",
    "train": "train an EAGLE, MTP or heads draft",
    "eval": "a draft's acceptance by depth",
    "memory": "bytes of a training step; does it fit?",
    "usp": "USP attention on ranks of this machine",
    "draft": "examine a draft's checkpoint",
    "export": "write a draft as an engine reads it",
    "train-target": "train a small target model",
    "train-small": "train a small draft of the target's kind",
    "run": "execute notebooks under a deadline",
    "claims": "what became of each claim under test",
    "progress": "what you have solved, and what comes next",
    "teaching": "write the instructors' run sheet",
    "site": "the course as a web site",
    "slides": "notebooks as reveal.js decks",
    "handout": "the course for a class, without solutions",
    "doctor": "can the course run here?",
}


class LazyGroup(click.Group):
    """A command group whose members are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            raise click.UsageError(str(unknown_name("command", cmd_name, COMMANDS)))
        try:
            return importlib.import_module(f"labsim.commands.{cmd_name.replace('-', '_')}").command
        except ModuleNotFoundError as error:
            if (error.name or "labsim").partition(".")[0] == "labsim":
                raise
            raise click.ClickException(not_installed(error)) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def not_installed(error: ModuleNotFoundError) -> str:
    """One line for a Python that lacks the course's packages."""
    return (
        f"no module {error.name!r}: the course's packages are not installed for {sys.executable}; "
        "right: `. .venv/bin/activate` in the project folder, after `make lab` has made it"
    )


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="labsim")
def labsim() -> None:
    """Speculative decoding, computed: would it pay, from which concurrency on does it stop, what do the tails do?

    \b
    labsim speedup --alpha 0.7 --k 5 --overhead 0.1
    labsim breakeven --gpu h100 --model llama-3.1-8b --draft eagle3 --k 3 --concurrency 1,32,128,256
    labsim simulate --gpu h100 --model llama-3.1-8b --draft eagle3 --k 3 --survival .74,.48,.30
    """


def open_standard_streams() -> None:
    """Give closed standard streams a place to go, or the next file or pipe opened would take their number."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def error_line(message: str, arguments: Sequence[str]) -> str:
    """The message in one line. What comes from the command line stands in it escaped and not endless.

    Line ends of the message itself are spaces; those of an argument, or of one option's `--name=value`, are not.
    """
    values = {part for argument in arguments for part in (argument, argument.partition("=")[2])}
    for value in sorted(values, key=len, reverse=True):
        if not value.isprintable() or len(value) > LONGEST_VALUE:
            message = message.replace(value, abridged(printable(value), LONGEST_VALUE))
    line = printable(" ".join(message.split()))
    endless = re.compile(rf"\S{{{LONGEST_VALUE + 1},}}")
    return abridged(endless.sub(lambda word: abridged(word[0], LONGEST_VALUE), line), LONGEST_LINE)


def out_of_memory(error: BaseException) -> bool:
    """Whether Python, torch on a CPU or torch on a GPU had no room. By words: torch is not imported for it."""
    words = ("can't allocate memory", "not enough memory", "Storage size calculation overflowed")
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or any(word in str(error) for word in words)
    )


def leave_stdout() -> None:
    """Send what is still to be written nowhere: Python would complain again while flushing at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Exit status 0, 1 for a failed run, 2 for a wrong value."""
    open_standard_streams()
    try:
        status = labsim.main(args=arguments, prog_name="labsim", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(0)
    except click.ClickException as error:
        given = sys.argv[1:] if arguments is None else arguments
        click.echo(f"labsim: {error_line(error.format_message(), given)}", err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("labsim: stopped", err=True)
        sys.exit(130)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        given = sys.argv[1:] if arguments is None else arguments
        advice = "right is less at a time, such as a shorter row or context; `labsim memory` says what training keeps"
        click.echo(
            f"labsim: {error_line(f'out of memory ({str(error) or type(error).__name__}); {advice}', given)}", err=True
        )
        sys.exit(1)
    except BrokenPipeError:
        # `labsim ... | head` closes the pipe early.
        leave_stdout()
        sys.exit(1)
    except OSError as error:
        given = sys.argv[1:] if arguments is None else arguments
        where = "" if error.filename is None else f"{error.filename}: "
        if not where and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            where = "standard output cannot be written: "
            leave_stdout()
        click.echo(f"labsim: {error_line(f'{where}{error.strerror or error}', given)}", err=True)
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    main()
