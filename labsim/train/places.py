"""Which directories a command reads and which it writes: never the same one.

A draft's directory, a target's and one of states or answers all hold `*.safetensors`, and whoever reads one of them
reads all: written into each other they are a damaged target, or a draft that cannot be read after hours of training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def check_apart(written: Mapping[str, Path | None], read: Mapping[str, Path | None]) -> None:
    """ValueError where a directory that is written is also read, or written under another option's name.

    Keys are what an error calls the directories, such as `--out`; None is not given.
    """
    taken: dict[Path, str] = {place.resolve(): name for name, place in read.items() if place is not None}
    for name, place in written.items():
        if place is None:
            continue
        if other := taken.get(place.resolve()):
            raise ValueError(f"{name} and {other} are the same directory, {place}: give each its own")
        taken[place.resolve()] = name


def check_distinct(name: str, places: Sequence[Path]) -> None:
    """ValueError for a directory that is given twice: what lies in it would count twice."""
    seen: set[Path] = set()
    for place in places:
        if place.resolve() in seen:
            raise ValueError(f"{name} {place} is given twice, and its answers would count twice: give it once")
        seen.add(place.resolve())
