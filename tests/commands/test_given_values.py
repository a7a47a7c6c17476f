"""What stands on the command line: empty names are refused, and errors repeat it escaped and not endless."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from labsim.cli import LONGEST_LINE, LONGEST_VALUE, labsim, main
from labsim.commands.options import GivenPath, MeanTokens, NumberList, TokenRange, Tokens


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit status and what the one line on stderr says."""
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert out == "" and err.endswith("\n") and err.startswith("labsim: ")
    return end.value.code, err[len("labsim: ") : -1]


def parameters(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Parameter]]:
    """Every parameter of the command line."""
    for inner in getattr(command, "list_commands", lambda ctx: [])(None):
        yield from parameters(command.get_command(click.Context(command), inner), f"{name} {inner}".strip())
    for parameter in command.params:
        yield f"{name} {parameter.opts[0]}", parameter


LENGTHS = (
    *("seq", "places", "logit_chunk", "context", "max_new_tokens"),
    *("prompt_tokens", "output_tokens", "token_budget"),
)


def test_a_length_in_tokens_may_be_given_in_k() -> None:
    found = {name: one for name, one in parameters(labsim) if one.name in LENGTHS}
    assert {one.name for one in found.values()} == set(LENGTHS)
    for name, one in found.items():
        expected = (2048,) if isinstance(one.type, NumberList) else 2048
        assert one.type.convert("2K", one, None) == one.type.convert("2048", one, None) == expected, name
        with pytest.raises(click.BadParameter):
            one.type.convert("2Q", one, None)
    assert TokenRange(8).convert("128k", None, None) == 128 * 1024 and Tokens().convert("1M", None, None) == 1 << 20
    assert MeanTokens().convert("1.5K", None, None) == 1536 and MeanTokens().convert("37.5", None, None) == 37.5
    assert NumberList(int, tokens=True).convert("512,4K", None, None) == (512, 4096)


def test_what_is_no_length_is_told_what_is(capsys: pytest.CaptureFixture[str]) -> None:
    status, line = said(capsys, "memory", "--target", "nano", "--seq", "128KB")
    assert status == 2 and "'128KB' is no length in tokens; right is a whole number, such as 131072 or 128K" in line


def test_an_error_repeats_a_length_as_it_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    status, line = said(capsys, "memory", "--target", "nano", "--seq", "1.0001K")
    assert status == 2 and "'1.0001K' is no length in tokens" in line


def test_a_number_is_finite(capsys: pytest.CaptureFixture[str]) -> None:
    found = {name: one for name, one in parameters(labsim) if isinstance(one.type, click.types.FloatParamType)}
    ranges = {name: one for name, one in found.items() if isinstance(one.type, click.FloatRange)}
    assert {"train --learning-rate", "usp --timeout", "eval --noise", "run --deadline"} <= set(ranges)
    for name, parameter in ranges.items():
        for value in ("nan", "inf"):
            with pytest.raises(click.BadParameter):
                parameter.type.convert(value, parameter, None)
                pytest.fail(f"{name} takes {value}")
    status, line = said(capsys, "usp", "--timeout", "nan")
    assert status == 2
    assert "'--timeout': 'nan' is no finite number; right is one of at least 1 and at most 604800" in line


def test_no_path_is_empty() -> None:
    found = {name: one for name, one in parameters(labsim) if isinstance(one.type, click.Path)}
    assert {"draft doctor directory", "train --out", "run notebooks", "data text answers", "plan --out"} <= set(found)
    for name, parameter in found.items():
        assert isinstance(parameter.type, GivenPath), name
        with pytest.raises(click.BadParameter, match=r"the name is empty; right is the name of a (file|directory)"):
            parameter.type.convert("", parameter, None)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["draft", "doctor", "", "--target", "nano"], "'DIRECTORY': the name is empty; right is the name of a file or"),
        (["export", "x", "--format", "vllm", "--out="], "'--out': the name is empty"),
        (["claims", "--check", ""], "'--check': the name is empty; right is the name of a file"),
        (["alpha", ""], "the name of a file is empty; right is a file, or - for standard input"),
        (
            ["plan", "--target=x", "--method=ngram", "--k=3", "--concurrency=1", "--alpha-from", ""],
            "the name of a file is empty",
        ),
        (["eval", "--target", "nano", "--draft", ""], "draft '' is neither none"),
        (["eval", "--target", "nano", "--draft", "ngram", "--template", ""], "template '' is neither own"),
        (["eval", "--target", "nano", "--draft", "ngram", "--data", ""], "--data is ''; right is a domain"),
        (["generate", "--target", "", "--prompt", "x"], "the target's name is empty"),
    ],
)
def test_an_empty_name_is_not_the_current_directory(
    command: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    status, line = said(capsys, *command)
    assert status == (3 if command[0] in ("alpha", "plan") else 2) and says in line
    assert list(tmp_path.iterdir()) == []


def test_data_without_a_name_are_no_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--draft", "mtp", "--out", str(tmp_path / "out")]
    status, line = said(capsys, "train", "--target", "nano", "--data", "", *more)
    assert status == 2 and "data '' is neither a directory of answers" in line


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["sp\x1b[31med"], r"unknown command 'sp\x1b[31med'"),
        (["--al\x1b[31mfa"], r"No such option '--al\x1b[31mfa'"),
        (["speedup", "--alpha", "\x1b[2J", "--k", "3"], r"'\x1b[2J' is not a valid float"),
        (["generate", "--prompts", "a\nb\x07"], r"File 'a\nb\x07' does not exist"),
        (["generate", "--prompts=a\r\nb\x07"], r"File 'a\r\nb\x07' does not exist"),
        (["alpha", "a\nb\x1b]0;title\x07"], r"a\nb\x1b]0;title\x07: no such file"),
        (["alpha", "left\u202eright\udcff"], r"left\u202eright\udcff: no such file"),
        (["train", "--target", "nano"], "Choose from: eagle1, eagle3, eagle3.1, mtp, heads"),
        (["alpha", "päth"], "päth: no such file"),
    ],
)
def test_control_characters_are_shown_and_not_obeyed(
    command: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, line = said(capsys, *command)
    assert line.isprintable() and says in line


@pytest.mark.parametrize(
    "command",
    [
        ["x" * 9000],
        ["data", "text", "x" * 9000],
        ["speedup", "--alpha", ".5", "--k", "9" * 9000],
        ["generate", "--seed", "9" * 4000],
        ["target", "nano or not " * 900],
        ["alpha", "\x1b[31m" * 900],
        ["breakeven", "--gpu", "h" * 9000, "--model", "m", "--k", "3"],
    ],
)
def test_an_endless_value_is_shortened(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    _, line = said(capsys, *command)
    assert "..." in line and len(line) < 2 * LONGEST_VALUE + 400 < LONGEST_LINE
    value = max(command, key=len)
    assert value[:20].replace("\x1b", r"\x1b") in line
