"""In a log file long work says from time to time how far it is; errors stay one line."""

from __future__ import annotations

import time

import pytest

from labsim.commands import options
from labsim.commands.options import progress_bar


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "FIRST_LINE_SECONDS", 0.05)
    monkeypatch.setattr(options, "LINE_SECONDS", 0.05)


def test_lines_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    told = ""
    with progress_bar() as progress:
        training = progress.add_task("training", total=40)
        progress.add_task("not begun", total=3)
        for step, words in ((10, "step 10  loss 3.1"), (20, "step 20  loss 2.9")):
            progress.update(training, completed=step, description=words)
            until = time.monotonic() + 20
            while words not in told and time.monotonic() < until:
                time.sleep(0.05)
                told += capsys.readouterr().err
        time.sleep(0.2)  # nothing has changed: nothing is said
    said = capsys.readouterr()
    assert said.out == ""
    first, second = (told + said.err).splitlines()
    assert first.startswith("step 10  loss 3.1, 10/40") and second.startswith("step 20  loss 2.9, 20/40")


def test_an_error_ends_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="stop"), progress_bar() as progress:
        progress.add_task("training", total=40)
        raise ValueError("stop")
    time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_other_ranks_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(hidden=True) as progress:
        progress.update(progress.add_task("training", total=40), completed=3)
        time.sleep(0.2)
    assert capsys.readouterr().err == ""
