"""What the commands share: lists in one option, wrong values as one line, a JSON document on stdout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import click


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
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def print_json(document: object) -> None:
    """One JSON document, nothing else; NaN is refused because it is not JSON."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))
