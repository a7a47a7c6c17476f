"""What the commands that run a model refuse: one line on stderr, exit status 2, nothing on stdout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labsim.cli import main
from tests.tiny_llama import byte_llama


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return byte_llama(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    turn = {"role": "user", "content": "hi"}
    path.write_text(json.dumps({"id": "a", "domain": "chat", "messages": [turn]}))
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Runs the command line; its one line on stderr."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert (end.value.code, out, len(err.splitlines())) == (2, "", 1), err
    return err


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert (end.value.code, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("command", ["generate", "data generate", "eval"])
@pytest.mark.parametrize("value", ["nan", "inf", "1e-320", "-1"])
def test_a_temperature_that_is_none_is_refused_alike(
    command: str, value: str, target: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {
        "generate": ["--prompt", "x", "--json"],
        "data generate": ["--prompts", prompts, "--out", tmp_path / "out", "--json"],
        "eval": ["--draft", "ngram", "--json"],
    }[command]
    said = refused(capsys, *command.split(), "--target", target, "--temperature", value, *more)
    assert f"temperature is {float(value)}; right is 0 (greedy) or a number such as 0.8" in said


@pytest.mark.parametrize("command", ["generate", "data generate", "train", "train-small", "train-target"])
@pytest.mark.parametrize("seed", ["-1", str(2**32), str(2**64)])
def test_a_seed_out_of_range_is_named(command: str, seed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"--seed': {seed} is not in the range 0<=x<=4294967295" in refused(capsys, *command.split(), "--seed", seed)


@pytest.mark.parametrize("command", ["generate", "eval", "train"])
def test_a_device_that_is_not_there_is_named(
    command: str, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {
        "generate": ["--prompt", "x"],
        "eval": ["--draft", "ngram"],
        "train": ["--draft", "mtp", "--data", "shipped", "--out", tmp_path / "out"],
    }[command]
    said = refused(capsys, command, "--target", target, "--device", "cuda:9", *more, "--json")
    assert "device 'cuda:9' is not available here; right is cpu" in said


@pytest.mark.parametrize("command", ["data generate", "train", "train-small"])
def test_an_out_that_cannot_be_written_is_named(
    command: str, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {
        "data generate": ["--prompts", prompts],
        "train": ["--draft", "mtp", "--data", "shipped"],
        "train-small": ["--data", tmp_path],
    }[command]
    for out in (prompts / "below a file", tmp_path / ("x" * 300)):
        said = refused(capsys, *command.split(), "--target", "nano", *more, "--out", out, "--json")
        assert "--out '" in said and "cannot be written" in said


@pytest.mark.parametrize("command", ["train", "train-small"])
def test_a_start_without_a_draft_is_named(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    data = "data/answers/nano/greedy"
    more = ["--draft", "mtp"] if command == "train" else []
    start = tmp_path / "empty"
    said = refused(
        capsys, command, "--target", "nano", "--data", data, *more, "--start-from", start, "--out", tmp_path / "out"
    )
    assert f"{start}/config.json does not exist" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tree", "4,2"], "--tree shapes a draft, and --draft is none"),
        (["--dynamic-tree", "2,2,4"], "--dynamic-tree shapes a draft, and --draft is none"),
        (["--k", "3"], "--k shapes a draft, and --draft is none"),
        (["--draft", "ngram", "--k", "3", "--tree", "4,2"], "--k is the length of a chain, and --tree is given"),
        (["--draft", "ngram", "--repeats", "3"], "--repeats belongs to --compare"),
        (["--draft", "ngram", "--dynamic-tree", "5,100000,20"], "right is at most 32768"),
        (["--draft", ""], "draft '' is neither none"),
        (["--target", ""], "the target's name is empty"),
        (["--target", "x" * 5000], "target"),
        (["--prompt", " \n"], "--prompt: the prompt is empty; right is a question"),
        (["--prompt", "a\udcff"], "--prompt: the text holds '\\udcff'"),
    ],
)
def test_what_generate_refuses(
    arguments: list[str], message: str, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "generate", "--target", target, "--prompt", "x", "--json", *arguments)
    assert message in said and len(said) < 600


def test_a_wheel_for_nano_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.whl").touch()
    assert "--wheel belongs to smollm2" in refused(capsys, "target", "nano", "--wheel", tmp_path / "x.whl", "--json")


def test_more_candidates_than_tokens_are_refused(
    target: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--target", target, "--prompts", prompts, "--out", tmp_path / "out", "--top-logprobs", "5000"]
    said = refused(capsys, "data", "generate", *options)
    assert "--top-logprobs is 5000; right is 0 to 257" in said
    assert not (tmp_path / "out" / "settings.json").exists()


@pytest.mark.parametrize("command", ["generate", "data generate"])
def test_prompts_that_do_not_fit_are_named_before_the_first_answer(
    command: str, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prompts.jsonl"
    texts = ["fits", "x" * 300]
    path.write_text(
        "\n".join(json.dumps({"id": f"c{i}", "domain": "chat", "prompt": text}) for i, text in enumerate(texts))
    )
    more = ["--out", tmp_path / "out"] if command == "data generate" else []
    said = refused(capsys, *command.split(), "--target", target, "--prompts", path, *more)
    assert f"{path}:2: the prompt has 321 tokens" in said and "holds 160" in said
    assert not (tmp_path / "out" / "settings.json").exists()


def test_results_say_which_prompt_they_answer(target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('\n{"id": "first", "prompt": "ab"}\n"cd"\n')
    options = ["--target", target, "--prompts", path, "--max-new-tokens", "2", "--json"]
    results = run(capsys, "generate", *options, "--raw")["results"]
    assert [(one.get("id"), one["line"], one["prompt_tokens"]) for one in results] == [("first", 2, 2), (None, 3, 2)]
    assert run(capsys, "generate", *options)["results"][0]["prompt_tokens"] > 2


def test_one_token_has_no_speed_to_name(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--target", target, "--draft", "ngram", "--prompt", "ab", "--max-new-tokens", "1", "--compare"]
    with pytest.raises(SystemExit) as end:
        main([str(option) for option in ["generate", *options]])
    out = capsys.readouterr().out
    assert end.value.code == 0 and "nan" not in out.splitlines()[-2:] and "no decode step to time" in out
    assert "nan" not in "".join(out.splitlines()[-3:])


@pytest.mark.parametrize("value", ["file", "~no-such-user-here/x", "x" * 5000])
@pytest.mark.parametrize("command", [["target", "smollm2"], ["generate", "--target", "smollm2", "--prompt", "x"]])
def test_a_cache_that_cannot_be_used_is_named(
    command: list[str], value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / "file") if value == "file" else value
    monkeypatch.setenv("LABSIM_CACHE", path)
    said = refused(capsys, *command, "--json")
    assert "LABSIM_CACHE is" in said and path[:50] in said and len(said) < 400
