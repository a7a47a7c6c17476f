"""A run that fails before it has written anything leaves no `--out` behind; what was there before stays."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from labsim.cli import main
from labsim.commands.options import making, writing_to
from labsim.models.paths import data_directory

NOTEBOOK = str(data_directory().parent / "notebooks" / "00_start_here.ipynb")
TARGET = ["--target", "nano"]
EMPTY = {
    "train": ["train", *TARGET, "--draft", "mtp", "--data", "no such data"],
    "train-small": ["train-small", *TARGET, "--data", "{empty}"],
    "train-target": ["train-target", "nano", "--tokens", "100", "--workers", "-1"],
    "data generate": ["data", "generate", *TARGET, "--prompts", "{prompts}"],
    "run": ["run", "no such notebook.ipynb"],
    "slides": [
        "slides",
        str(data_directory().parent / "notebooks" / "00_start_here.ipynb"),
        "--no-run",
        "--executed=x",
    ],
    "export": ["export", "no such draft", "--format", "vllm"],
}


def failed(command: str, out: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "prompts.jsonl").write_text("not JSON\n")
    words = [word.format(empty=tmp_path / "empty", prompts=tmp_path / "prompts.jsonl") for word in EMPTY[command]]
    with pytest.raises(SystemExit) as end:
        main([*words, "--out", str(out)])
    assert end.value.code


@pytest.mark.parametrize("command", EMPTY)
def test_a_new_directory_is_gone_with_its_new_parents(command: str, tmp_path: Path) -> None:
    failed(command, tmp_path / "a" / "b" / "out", tmp_path)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("command", ["train", "run"])
def test_a_directory_that_was_there_stays_as_it_was(command: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    failed(command, tmp_path / "out", tmp_path)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("command", ["train", "train-small"])
def test_a_draft_is_not_replaced_unasked(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as an exported one, under a mistyped name. With --fresh the next thing that is wrong is named."""
    draft = tmp_path / "out" / "model.safetensors"
    draft.parent.mkdir()
    draft.write_bytes(b"weights")
    failed(command, draft.parent, tmp_path)
    assert "holds a draft and no training to go on with" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*EMPTY[command], "--fresh", "--out", str(draft.parent)])
    assert "holds a draft" not in capsys.readouterr().err
    assert draft.read_bytes() == b"weights"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, click.exceptions.Exit])
def test_what_was_written_stays_for_the_next_run(error: type[BaseException], tmp_path: Path) -> None:
    for keep in (making, writing_to):
        out = tmp_path / keep.__name__ / "out"
        with pytest.raises(error), keep(out):
            (out / "state").touch()
            raise error
        assert (out / "state").exists()


def test_no_lock_stays_in_somebody_elses_directory(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    with pytest.raises(ValueError, match="refused"), writing_to(tmp_path):
        raise ValueError("refused")
    assert [one.name for one in tmp_path.iterdir()] == ["theirs"]


def test_a_lock_of_another_process_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with writing_to(out):
        with pytest.raises(click.ClickException, match="another process is writing"), writing_to(out):
            pass
        assert (out / ".lock").exists()
    assert out.is_dir()
