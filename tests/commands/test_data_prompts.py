"""`labsim data prompts` writes what `labsim data generate` reads, the same for a seed."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from labsim.commands.data import command
from labsim.train.prompts import read_prompts


def test_as_many_as_asked_for_and_the_same_again(tmp_path: Path) -> None:
    asked = ["prompts", "--chat", "5", "--document", "3", "--seed", "29"]
    for name in ("one", "other"):
        result = CliRunner().invoke(command, [*asked, "--out", str(tmp_path / "new" / f"{name}.jsonl")])
        assert result.exit_code == 0, result.output
    found = read_prompts(tmp_path / "new" / "one.jsonl")
    assert Counter(prompt.domain for prompt in found) == {"chat": 5, "document": 3}
    assert (tmp_path / "new" / "one.jsonl").read_bytes() == (tmp_path / "new" / "other.jsonl").read_bytes()


def test_none_asked_for(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["prompts", "--out", str(tmp_path / "x.jsonl")])
    assert result.exit_code == 2 and "--chat" in result.output and not (tmp_path / "x.jsonl").exists()


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = CliRunner().invoke(command, ["prompts", "--chat", "1", "--out", str(tmp_path / "x.jsonl")])
    assert result.exit_code == 2 and "No space left" in result.output
