"""`labsim usp`: the contract, real ranks and logical ones, and a wrong result that is not passed."""

from __future__ import annotations

import json

import pytest

from labsim.cli import main
from labsim.commands.usp import command
from labsim.parallel import launch
from labsim.parallel.board import BEAT_SECONDS, SILENT_SECONDS
from labsim.parallel.group import RankError
from labsim.parallel.launch import RankFailure, RanksFailed
from tests.mutants.sequence_parallel import MUTANTS, planted


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict]:
    with pytest.raises(SystemExit) as end:
        main(["usp", *map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    assert err == ""
    return int(end.value.code or 0), json.loads(out)


@pytest.mark.parametrize("place", [[], ["--threads"]], ids=["processes", "threads"])
def test_the_contract(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--world", 4, "--ring", 2, "--ulysses", 2, "--layout", "zigzag", "--seq", 61, "--heads", 8]
    arguments += ["--kv-heads", 2, "--head-dim", 16, "--ttt-steps", 3, "--dtype", "float64", "--check"]
    arguments += ["--timeout", 120, *place]
    status, report = run(capsys, *arguments)
    assert status == 0 and report["passed"] is True
    assert set(report["max_abs_error"]) == {"out", "lse", "dq", "dk", "dv", "branch"}
    assert 0 < max(report["max_abs_error"].values()) < 1e-12
    sent = report["bytes_sent_per_rank"]
    assert sent["forward"] == sent["predicted_forward"] > 0
    assert sent["backward"] == sent["predicted_backward"] > sent["forward"]
    assert report["peak_bytes_per_rank"] > 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_other_precisions_and_no_branch(dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, report = run(capsys, "--ring", 3, "--ulysses", 1, "--seq", 50, "--ttt-steps", 0, "--dtype", dtype,
                         "--layout", "contiguous", "--head-dim", 16, "--check", "--threads")  # fmt: skip
    assert status == 0
    assert 1e-12 < report["max_abs_error"]["out"] < report["tolerance"]
    assert report["max_abs_error"]["branch"] == 0.0


@pytest.mark.parametrize(
    "name", ["gradients of keys one hop short", "packed documents as one", "padding is attended to"]
)
def test_a_wrong_result_is_not_passed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Documents and padding are not in this command's reach: those bugs leave it right."""
    mutant = next(one for one in MUTANTS if one.name == name)
    with planted(mutant):
        status, report = run(capsys, "--seq", 64, "--head-dim", 16, "--check", "--threads")
    wrong = name.startswith("gradients")
    assert (status, report["passed"]) == ((1, False) if wrong else (0, True))


def test_one_token_has_no_gradient_for_its_query_and_passes(capsys: pytest.CaptureFixture[str]) -> None:
    status, report = run(capsys, "--seq", 1, "--ttt-steps", 1, "--head-dim", 8, "--check", "--threads")
    assert status == 0 and max(report["max_abs_error"].values()) < 1e-12


def test_a_lost_rank_is_named_within_half_a_minute() -> None:
    """What a waiting rank needs at the default: the limit, then a last look at the heart of the one that is late."""
    [option] = [one for one in command.params if one.name == "timeout"]
    for limit in (option.default, launch.LOCAL_TIMEOUT_SECONDS):
        assert max(limit + 3 * BEAT_SECONDS, SILENT_SECONDS) < 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--world", 3], "ring 2 x ulysses 2 makes 4 ranks, and there are 3"),
        (["--ulysses", 3], "8 query heads do not divide among so many ranks: right is one of [1, 2, 4, 8]"),
        (["--kv-heads", 3], "--kv-heads is 3, and 8 query heads do not divide"),
        (["--layout", "striped"], "'striped' is not one of"),
        (["--seq", 2_000_000, "--check"], "give a shorter --seq, or leave --check out"),
        (["--ring", 1000, "--ulysses", 1], "1000 is not in the range"),
        (["--ring", 64, "--ulysses", 2], "makes 128 ranks, each a process of this machine; right is at most 64"),
        (["--seq", "2M", "--head-dim", 1024], "4 ranks draw inputs of 5,497.6 GB here"),
    ],
)
def test_wrong_values_are_named(arguments: list[object], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["usp", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "")
    assert message in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("place", "error"),
    [
        (
            "launch",
            RanksFailed([RankFailure(1, RuntimeError("the process was killed"), "Traceback ...\nRuntimeError")]),
        ),
        ("logical", RankError("ring: k and v", [1], "rank 1 did not come within 60 s")),
    ],
)
def test_ranks_that_fail_are_one_line(
    place: str, error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(f"labsim.parallel.{place}.run", failing)
    with pytest.raises(SystemExit) as end:
        main(["usp", "--json", *(["--threads"] if place == "logical" else [])])
    out, err = capsys.readouterr()
    assert (end.value.code, out, len(err.splitlines())) == (1, "", 1)
    assert "rank 1" in err and "Traceback" not in err
