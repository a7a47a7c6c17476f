"""A file is written whole, or what was there stays, with nothing beside it and its name in the error."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from labsim.models.files import write_atomically


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as refused:
        write_atomically(path, b"new")
    assert refused.value.filename == str(path) and refused.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"old" and [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as refused:
        write_atomically(tmp_path / "none" / "a.json", b"{}")
    assert refused.value.filename == str(tmp_path / "none" / "a.json")
