"""Markdown pieces of a plan: tables, code, and the rule that every number says where it comes from.

A number in running text is followed, on the same line, by its origin in square brackets: `[your input]`, `[default]`,
`[formula: ...]`, `[published: ...]`, `[cost model: ...]`, or the file it was read from. Tables carry an origin column.
Command lines stand in code blocks and are built from the inputs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .commands import Command


@dataclass(frozen=True)
class Stage:
    """One step of the plan. `body` are Markdown lines."""

    number: int
    name: str
    title: str
    body: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        return {"number": self.number, "name": self.name, "title": self.title, "body": "\n".join(self.body)}


def cell(text: object) -> str:
    """Text that stays in its table cell: no line break, no bar."""
    return " ".join(str(text).split()).replace("|", "\\|")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table, with an empty line before and after."""
    lines = ["", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return [*lines, ""]


def code(*commands: Command) -> list[str]:
    """A code block of shell commands, one option a line."""
    lines = ["", "```bash"]
    for i, command in enumerate(commands):
        lines += [""] * (i > 0) + command.wrapped().split("\n")
    return [*lines, "```", ""]


def shell(script: str) -> list[str]:
    """A code block of a shell script."""
    return ["", "```bash", *script.rstrip("\n").split("\n"), "```", ""]


def show(value: float | None, digits: int = 3) -> str:
    """A number for people; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def line(text: str) -> str:
    """Running text on one line, however odd the file names in it are."""
    return " ".join(text.split())
