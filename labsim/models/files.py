"""Writing files that a kill or a power cut cannot spoil, and naming them by their content."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

DIGEST_LETTERS = 12


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` so that `path` never holds a part of it, not even after a power cut."""
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def digest(data: bytes) -> str:
    """The beginning of the sha256 of `data`, as a shard carries it in its name."""
    return hashlib.sha256(data).hexdigest()[:DIGEST_LETTERS]
