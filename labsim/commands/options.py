"""What the commands share: lists in one option, wrong values as one line, a JSON document on stdout."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..models.config import LONGEST_CONTEXT
from ..models.fields import shown
from ..models.files import emptied_on_failure

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

MAX_K = 1000
FIRST_LINE_SECONDS, LINE_SECONDS = 5.0, 30.0
# Every generator of random numbers in use takes these.
SEED = click.IntRange(0, 2**32 - 1)
_LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KM])\s*", re.IGNORECASE)


def spelled_out(length: object) -> object:
    """`128K` is 131072, as the lengths of contexts are named: 1K is 1024 tokens, 1M is 1024K. Else what was given.

    >>> spelled_out("128K"), spelled_out("1.5k"), spelled_out("1M"), spelled_out("200")
    ('131072', '1536', '1048576', '200')
    """
    if not isinstance(length, str) or not (short := _LENGTH.fullmatch(length)):
        return length
    return f"{float(short[1]) * 1024 ** ('KM'.index(short[2].upper()) + 1):.15g}"


class _Length:
    """Reads 128K before the type of click that comes next in line does."""

    name = "tokens"
    kind: type[int] | type[float] = int

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        tokens = spelled_out(value)
        try:
            self.kind(tokens)
        except ValueError:
            what = "whole number" if self.kind is int else "number"
            self.fail(f"{value!r} is no length in tokens; right is a {what}, such as 131072 or 128K", param, ctx)
        return super().convert(tokens, param, ctx)


class Tokens(_Length, click.types.IntParamType):
    """A length in tokens, 131072 or 128K; what it may be is told by whoever takes it."""


class TokenRange(_Length, click.IntRange):
    """A length in tokens between two others."""


class MeanTokens(_Length, click.types.FloatParamType):
    """A mean length in tokens, 300, 37.5 or 8K."""

    kind = float


class Number(click.FloatRange):
    """A finite number in a range, which click's own does not ask for: NaN lies in every range, infinity in an open one.

    >>> Number(min=1).convert("nan", None, None)
    Traceback (most recent call last):
    click.exceptions.BadParameter: 'nan' is no finite number; right is one of at least 1
    """

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            least = f"{'above' if self.min_open else 'of at least'} {self.min:g}"
            most = "" if self.max is None else f" and at most {self.max:g}"
            self.fail(f"{str(value)!r} is no finite number; right is one {least}{most}", param, ctx)
        return number


# Beyond these nothing is trained; a slip of the keyboard would be computed for hours.
TTT_STEPS = click.IntRange(1, 64)
ROW_TOKENS = TokenRange(8, LONGEST_CONTEXT)
RANKS = click.IntRange(1, 4096)
RANK_SECONDS = Number(1, 7 * 24 * 3600)


class NumberList(click.ParamType):
    """Comma-separated numbers, for example `1,32,128` or `.74,.48,.30`; with `tokens` lengths, `512,4K`."""

    def __init__(self, kind: type[int] | type[float], tokens: bool = False) -> None:
        self.kind, self.tokens = kind, tokens
        self.name = f"{kind.__name__},..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        word = "whole numbers" if self.kind is int else "numbers"
        try:
            parts = str(value).split(",")
            numbers = tuple(self.kind(spelled_out(part) if self.tokens else part) for part in parts)
        except ValueError:
            self.fail(f"{value!r} is not a list of {word} separated by commas, such as 1,32,128", param, ctx)
        return numbers


class GivenPath(click.Path):
    """The name of a file or directory. An empty one is refused: `pathlib` would take it for the current directory."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if not os.fspath(value):
            kinds = [kind for kind, okay in (("file", self.file_okay), ("directory", self.dir_okay)) if okay]
            self.fail(f"the name is empty; right is the name of a {' or '.join(kinds)}", param, ctx)
        return super().convert(value, param, ctx)


@contextmanager
def wrong_values_exit_2() -> Iterator[None]:
    """Turn a ValueError, which names value and allowed range, and a file that fails into a usage error."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise click.UsageError(str(error)) from error
    except BrokenPipeError:  # `| head` has read enough: no wrong value
        raise
    except OSError as error:
        where = f"{shown(error.filename)}: " if error.filename else ""
        raise click.UsageError(f"{where}{error.strerror or error}") from error


@contextmanager
def writing_to(out: Path) -> Iterator[None]:
    """Make the directory `--out` and keep it for this process. One line where it cannot be written, or is in use.

    Of work that fails before it has written anything, neither a new directory nor the lock stays.
    """
    from filelock import FileLock, Timeout

    with making(out):
        path = out / ".lock"
        lock = FileLock(path, timeout=0)
        try:
            before = {one.name for one in out.iterdir()}
            lock.acquire()
        except Timeout:
            raise click.ClickException(
                f"another process is writing to {out}: wait for it, or give another --out"
            ) from None
        except (OSError, NotImplementedError) as error:
            raise click.UsageError(f"--out {shown(out)} cannot be written: {error}") from error
        try:
            yield
        except BaseException:
            # Still locked: whoever comes now is refused, and whoever comes next makes a lock of their own.
            with suppress(OSError):
                if path.name not in before and {one.name for one in out.iterdir()} == before | {path.name}:
                    path.unlink()
            raise
        finally:
            lock.release()


def keep_the_draft(out: Path, checkpoint: str, fresh: bool) -> None:
    """ValueError where `--out` holds a draft and no training to go on with, unless it may be replaced.

    What a kill before the first checkpoint leaves may be: a curve, and no recipe, which is written at the end.
    """
    killed = (out / "loss.csv").exists() and not (out / "recipe.json").exists()
    if not fresh and (out / "model.safetensors").exists() and not (out / checkpoint).exists() and not killed:
        raise ValueError(
            f"{out} holds a draft and no training to go on with, and it would be replaced: give another --out, or "
            "--fresh"
        )


@contextmanager
def making(out: Path) -> Iterator[None]:
    """`make_writable`; where the work fails, what was made for it and is still empty is gone again."""
    with emptied_on_failure(out):
        make_writable(out)
        yield


def make_writable(out: Path) -> None:
    """Make the directory `--out`. UsageError where it cannot be made or written, before any work is done for it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"--out {shown(out)} cannot be written: {error.strerror}") from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise click.UsageError(f"--out {shown(out)} cannot be written: permission denied")


@contextmanager
def progress_bar(*columns: ProgressColumn, hidden: bool = False, transient: bool = False) -> Iterator[Progress]:
    """A bar on stderr, which goes away when an error comes: the error is one line.

    A `transient` one goes away in any case. Where stderr is a file (a batch job's log) there is no bar to redraw: a
    line from time to time instead, and nothing of a transient one.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        progress = Progress(console=console, disable=True)
        with nullcontext() if hidden or transient else lines_from_time_to_time(progress):
            yield progress
        return
    progress = Progress(*columns, console=console, disable=hidden)
    progress.start()
    try:
        yield progress
    except BaseException:
        transient = True
        raise
    finally:
        if transient:
            # The display alone: stopping the whole bar prints an empty line into a log.
            progress.live.transient = True
            progress.live.stop()
        else:
            progress.stop()


@contextmanager
def examination_bar(first: str) -> Iterator[Callable[[str, int, int], None]]:
    """A transient bar for a doctor. Yields what is to be told: what is looked at, how many are done, of how many."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    with progress_bar(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), transient=True) as progress:
        bar = progress.add_task(first, total=None)
        yield lambda what, done, total: progress.update(bar, description=what, completed=done, total=total)


@contextmanager
def lines_from_time_to_time(progress: Progress) -> Iterator[None]:
    """Lines such as `training: step 60  loss 3.1, 60/300, 0:02:10 left` on stderr while the block runs."""
    ended = threading.Event()

    def tell() -> None:
        said: dict[int, str] = {}
        wait = FIRST_LINE_SECONDS
        while not ended.wait(wait):
            wait = LINE_SECONDS
            for task in progress.tasks:
                left = f", {timedelta(seconds=round(task.time_remaining))} left" if task.time_remaining else ""
                count = f"{task.completed:g}/{task.total:g}" if task.total else f"{task.completed:g}"
                line = f"{task.description}, {count}"
                if task.visible and task.completed and said.get(task.id) != line:
                    click.echo(line + left, err=True)
                    said[task.id] = line

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def given(*names: str) -> list[str]:
    """Which of these options of the running command stand on its command line."""
    context = click.get_current_context()
    said = click.core.ParameterSource.COMMANDLINE
    return [f"--{name.replace('_', '-')}" for name in names if context.get_parameter_source(name) == said]


def print_json(document: object) -> None:
    """One JSON document, nothing else. A figure that was not measured (NaN) becomes null: JSON has no NaN."""
    click.echo(json.dumps(without_nan(document), indent=2, allow_nan=False))


def without_nan(document: object) -> object:
    """The same document with None in place of NaN and infinity."""
    if isinstance(document, dict):
        return {key: without_nan(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [without_nan(value) for value in document]
    return None if isinstance(document, float) and not isfinite(document) else document
