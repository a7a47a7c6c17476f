"""What the commands share: lists in one option, wrong values as one line, a JSON document on stdout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite

import click

MAX_K = 1000


class NumberList(click.ParamType):
    """Comma-separated numbers, for example `1,32,128` or `.74,.48,.30`."""

    def __init__(self, kind: type[int] | type[float]) -> None:
        self.kind = kind
        self.name = f"{kind.__name__},..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        word = "whole numbers" if self.kind is int else "numbers"
        try:
            numbers = tuple(self.kind(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of {word} separated by commas, such as 1,32,128", param, ctx)
        return numbers


@contextmanager
def wrong_values_exit_2() -> Iterator[None]:
    """Turn the simulator's ValueError, which names value and allowed range, into a usage error."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise click.UsageError(str(error)) from error


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
