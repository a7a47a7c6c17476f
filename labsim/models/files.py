"""Writing files that a kill or a power cut cannot spoil, and naming them by their content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DIGEST_LETTERS = 12


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` so that `path` never holds a part of it, not even after a power cut.

    OSError naming `path`, with nothing left beside it, where it cannot be written: a full disk is not made fuller.
    """
    fresh = path.with_name(f".{path.name}.new")
    try:
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def emptied_on_failure(directory: Path) -> Iterator[None]:
    """Where the block fails, directories up to this one that were not there before and hold nothing are gone again."""
    new = [folder for folder in (directory, *directory.parents) if not os.path.lexists(folder)]
    try:
        yield
    except BaseException:
        with suppress(OSError):  # the first one that holds something ends it
            for folder in new:
                if os.path.lexists(folder):
                    folder.rmdir()
        raise


def digest(data: bytes) -> str:
    """The beginning of the sha256 of `data`, as a shard carries it in its name."""
    return hashlib.sha256(data).hexdigest()[:DIGEST_LETTERS]
