"""The course of a training on disk, line by line."""

from __future__ import annotations

from pathlib import Path

from ..models.files import write_atomically


class Curve:
    """A CSV that a resumed run continues: lines after the checkpoint's step are dropped, then lines are appended.

    The first column of `header` is the step.
    """

    def __init__(self, path: Path, header: str, step: int) -> None:
        lines = path.read_text().splitlines()[1:] if path.exists() else []
        whole = [line for line in lines if line.count(",") == header.count(",")]
        kept = [line for line in whole if int(line.split(",")[0]) <= step]
        write_atomically(path, ("\n".join([header, *kept]) + "\n").encode())
        self.path = path

    def add(self, *values: object) -> None:
        """Append one line."""
        with self.path.open("a") as file:
            file.write(",".join(map(str, values)) + "\n")
