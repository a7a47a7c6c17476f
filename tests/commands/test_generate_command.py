"""`labsim generate` as scripts call it: contract keys, both ways compared, errors in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from io import StringIO
from pathlib import Path

import pytest

from labsim.cli import main
from labsim.commands.generate import describe
from labsim.decode.loops import find_loop
from tests.tiny_llama import byte_llama


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return byte_llama(tmp_path_factory.mktemp("bytes"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In this process: importing torch anew takes longer than most of these runs."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err, pytest.raises(SystemExit) as end:
        main(["generate", *arguments])
    return subprocess.CompletedProcess(arguments, int(end.value.code or 0), out.getvalue(), err.getvalue())


def test_as_a_process_of_its_own(target: Path) -> None:
    command = [sys.executable, "-m", "labsim", "generate", "--target", str(target), "--prompt", "abc", "--json"]
    result = subprocess.run([*command, "--max-new-tokens", "4"], capture_output=True, text=True, timeout=200)
    assert (result.returncode, result.stderr) == (0, "")
    assert len(json.loads(result.stdout)["tokens"]) == 4
    result = subprocess.run([*command, "--k", "many"], capture_output=True, text=True, timeout=200)
    assert (result.returncode, result.stdout) == (2, "")


def document(*arguments: str) -> dict:
    result = run(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_the_contract(target: Path) -> None:
    report = document(
        *("--target", str(target), "--draft", "ngram", "--prompt", "abcabcabc", "--k", "4"),
        *("--max-new-tokens", "60", "--temperature", "0", "--seed", "0", "--compare"),
    )
    wanted = {"text", "tokens", "acceptance_length", "alpha", "survival", "target_forwards", "tokens_per_second"}
    assert wanted <= set(report)
    assert report["identical"] is True
    assert report["baseline"]["tokens"] == report["tokens"]
    assert report["baseline"]["tokens_per_second"] > 0
    assert report["speedup"] > 0
    assert report["acceptance_length"] == pytest.approx(1 + sum(report["survival"]))
    assert report["baseline"]["target_forwards"] == len(report["tokens"])


@pytest.mark.parametrize("shape", [["--tree", "3,2,1"], ["--dynamic-tree", "3,2,5"], ["--k", "0"]])
def test_every_shape_gives_the_plain_answer(target: Path, shape: list[str]) -> None:
    options = ["--target", str(target), "--prompt", "abcabcabc", "--max-new-tokens", "50"]
    assert document(*options, "--draft", "ngram", *shape)["tokens"] == document(*options)["tokens"]


def test_raw_leaves_the_template_out(target: Path) -> None:
    options = ["--target", str(target), "--prompt", "abc", "--max-new-tokens", "5"]
    assert document(*options, "--raw")["prompt_tokens"] == 3
    assert document(*options)["prompt_tokens"] == len("<|user|>abc<|assistant|>")


def test_a_file_of_prompts_is_summed_over_steps(target: Path, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "xyxyxy"}]
    one, other = turns, [{"role": "user", "content": "abab"}]
    lines = [json.dumps({"id": f"chat-{i}", "domain": "chat", "messages": m}) for i, m in enumerate((one, other))]
    file.write_text("\n\n".join(lines) + "\n")
    report = document("--target", str(target), "--draft", "ngram", "--prompts", str(file), "--max-new-tokens", "30")
    assert report["prompts"] == len(report["results"]) == 2
    steps = sum(sum(one["histogram"]) for one in report["results"])
    accepted = sum(one["accepted"] for one in report["results"])
    assert report["acceptance_length"] == pytest.approx(1 + accepted / steps)
    assert report["acceptance_length"] == pytest.approx(1 + sum(report["survival"]))
    assert sum(report["histogram"]) == steps and len(report["survival"]) == len(report["histogram"]) - 1 > 0
    rates = [one["tokens_per_second"] for one in report["results"]]
    assert min(rates) <= report["tokens_per_second"] <= max(rates)
    text = tmp_path / "prompts.txt"
    text.write_text("xyxyxy\n\nabab\n")
    plain = document("--target", str(target), "--draft", "ngram", "--prompts", str(text), "--max-new-tokens", "30")
    assert plain["prompts"] == 2
    assert plain["results"][1]["tokens"] == report["results"][1]["tokens"]


def test_sampled_answers_repeat_with_their_seed(target: Path) -> None:
    options = ["--target", str(target), "--prompt", "abc", "--temperature", "1", "--max-new-tokens", "20"]
    first, again, other = (document(*options, "--seed", seed)["tokens"] for seed in ("3", "3", "4"))
    assert first == again != other


def test_in_words_the_answer_comes_first(target: Path) -> None:
    result = run("--target", str(target), "--draft", "ngram", "--prompt", "abab", "--max-new-tokens", "20", "--compare")
    assert result.returncode == 0
    assert "token for token the same answer" in result.stdout
    assert "tokens per verify step" in result.stdout


def test_an_answer_that_repeats_itself_says_so(target: Path) -> None:
    report = document("--target", str(target), "--draft", "ngram", "--prompt", "abab", "--max-new-tokens", "20")
    assert report["loop"] is None and find_loop(report["tokens"]) is None
    assert "repeats itself" not in describe(report)
    report["loop"] = asdict(find_loop([1, 2, 3] * 5))
    assert report["drafted"] > 0
    said = "    ! the answer repeats itself: 3 tokens 5 times in a row; "
    assert describe(report).endswith(said + "acceptance and speedup are of a loop")
    assert describe(report | {"drafted": 0}).endswith(said + "its speed is of a loop")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either --prompt TEXT or --prompts FILE"),
        (["--prompt", "x", "--k", "-1"], "k is -1"),
        (["--prompt", "x", "--tree", "4,0"], "tree widths are (4, 0)"),
        (["--prompt", "x", "--tree", "4,a"], "'4,a' is not a list of whole numbers"),
        (["--prompt", "x", "--tree", "64,64"], "has 4160 nodes"),
        (["--prompt", "x", "--dynamic-tree", "4,2"], "--dynamic-tree takes depth,top-k,nodes"),
        (["--prompt", "x", "--temperature", "-1"], "temperature is -1"),
        (["--prompt", "x", "--top-p", "0"], "top_p is 0"),
        (["--prompt", "x", "--top-p", "0.9"], "--temperature 0 is greedy"),
        (["--prompt", "x", "--top-k", "50"], "--temperature 0 is greedy"),
        (["--prompt", "x", "--max-new-tokens", "0"], "max_new_tokens is 0"),
        (["--prompt", "x", "--draft", "ngrm"], "did you mean 'ngram'?"),
        (["--prompt", "x" * 200], "the context of"),
        (["--prompt", ""], "--prompt: the prompt is empty"),
    ],
)
def test_wrong_values_are_named_in_one_line(target: Path, arguments: list[str], message: str) -> None:
    raw = ["--raw"] if "--prompt" in arguments else []
    result = run("--target", str(target), *raw, *arguments, "--json")
    assert result.returncode == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nanoo", "did you mean 'nano'?"),
        ("/no/such/dir", "neither nano nor smollm2, nor a directory"),
        ("a/b/c", "nor a Hugging Face id"),
    ],
)
def test_an_unknown_target_is_named(name: str, message: str) -> None:
    result = run("--target", name, "--prompt", "x")
    assert result.returncode == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("prompts.jsonl", b"", "prompts.jsonl: no prompts; expected one JSON object per line"),
        ("prompts.jsonl", b"{", "prompts.jsonl:1: not JSON"),
        ("prompts.jsonl", b'\n{"id": "a", "domain": "chat", "messages": []}', "prompts.jsonl:2: messages is []"),
        ("prompts.jsonl", b'{"prompts": "x"}', "prompts.jsonl:1: key 'prompts' is unknown; did you mean 'prompt'?"),
        ("prompts.jsonl", b"\xff", "prompts.jsonl:1: not UTF-8 text"),
        ("prompts.txt", b"\n \n", "prompts.txt: no prompts; expected one per line"),
        ("prompts.txt", b"\xff", "prompts.txt:1: not UTF-8 text"),
    ],
)
def test_a_broken_prompt_file_is_named_with_its_line(tmp_path: Path, name: str, text: bytes, message: str) -> None:
    file = tmp_path / name
    file.write_bytes(text)
    result = run("--prompts", str(file))
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
