"""What is read is never written over, whatever way the directory is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from labsim.train.places import check_apart, check_distinct


def test_each_its_own(tmp_path: Path) -> None:
    check_apart({"--out": tmp_path / "a", "--features": None}, {"--target": tmp_path / "b", "--start-from": None})
    check_apart({"--out": tmp_path / "a"}, {"--target": tmp_path})  # inside another one is apart from it


@pytest.mark.parametrize("name", ["target", "link", "other/../target"])
def test_one_directory_under_two_names_is_refused(name: str, tmp_path: Path) -> None:
    for folder in ("target", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(ValueError, match=r"--out and --target are the same directory, .*: give each its own"):
        check_apart({"--out": tmp_path / name}, {"--target": tmp_path / "target"})
    with pytest.raises(ValueError, match="--features and --out are the same"):
        check_apart({"--out": tmp_path / "target", "--features": tmp_path / name}, {})


def test_answers_given_twice_are_refused(tmp_path: Path) -> None:
    check_distinct("--data", [tmp_path / "a", tmp_path / "b"])
    with pytest.raises(ValueError, match="is given twice"):
        check_distinct("--data", [tmp_path / "a", tmp_path / "b", tmp_path / "b" / ".." / "a"])
