"""Training: a function of the seed, the same function after kill -9, and refusals that give the reason."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from labsim.commands.options import keep_the_draft
from labsim.drafts.vocabulary import DraftVocabulary
from labsim.models.load import Target, load_target
from labsim.models.paths import data_directory
from labsim.train.answer_store import Answer, AnswerSettings, AnswerStore
from labsim.train.ttt import estimate
from labsim.train.ttt.build import covered
from labsim.train.ttt.checkpoint import NAME
from labsim.train.ttt.data import Document
from labsim.train.ttt.loop import Report, train
from labsim.train.ttt.recipe import TTTRecipe
from labsim.train.ttt.run import find, generation_prompt, read_data, run

RECIPE = TTTRecipe(
    draft="eagle3.1", ttt=2, steps=10, seq=64, draft_vocab_size=64, evaluate_every=4, k=2, seed=5, learning_rate=2e-3
)
KILLED = """
import os, signal, sys
sys.path.insert(0, {here!r})
from test_ttt_loop import RECIPE, run
from pathlib import Path
import labsim.train.ttt.loop as loop

def kill(report):
    if report.counters.step == {at}:
        os.kill(os.getpid(), signal.SIGKILL)

original = loop.train
import labsim.train.ttt.run as whole
whole.train = lambda *a, **k: original(*a, **k, checkpoint_every=3)
run("nano", [{data!r}], RECIPE, Path({out!r}), told=kill)
"""


@pytest.fixture(scope="module")
def nano() -> Target:
    return load_target("nano", device="cpu")


def store(directory: Path, nano: Target, **changed: object) -> Path:
    """A directory of made-up answers of nano to rendered prompts."""
    settings = AnswerSettings(**({"target": "nano", "vocab_size": 4096, "max_new_tokens": 40, "temperature": 0.0,
                                  "seed": 0} | changed))  # fmt: skip
    draw = torch.Generator().manual_seed(1)
    answers = []
    for i in range(40):
        prompt = tuple(nano.encode_chat(f"Question {i}?"))
        answer = torch.randint(300, 340, (10 + i % 7,), generator=draw).tolist()
        answers.append(Answer(f"q{i}", 0, ("chat", "code")[i % 2], prompt, tuple(answer), "length"))
    AnswerStore(directory, settings).add(answers)
    return directory


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, nano: Target) -> Path:
    return store(tmp_path_factory.mktemp("answers"), nano)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, data: Path) -> tuple[Path, dict[str, object]]:
    out = tmp_path_factory.mktemp("whole")
    return out, run("nano", [str(data)], RECIPE, out)


def test_the_report_has_the_contract_and_the_draft_is_usable(
    whole: tuple[Path, dict[str, object]], nano: Target
) -> None:
    from labsim.drafts.load import load_drafter

    out, report = whole
    for key in ("draft", "steps", "loss", "per_depth_accuracy", "acceptance_length", "tokens_per_second", "out"):
        assert key in report
    assert report["peak_memory_bytes"] > 4 * report["parameters"], "gradients alone take four bytes a parameter"
    assert report["steps"] == 10
    assert report["draft_vocabulary"] == 64 and report["coverage"] == {"training": 1.0, "held_out": 1.0}
    assert len((out / "loss.csv").read_text().splitlines()) == 11
    assert [line.split(",")[0] for line in (out / "held_out.csv").read_text().splitlines()[1:]] == ["4", "8", "10"]
    assert json.loads((out / "recipe.json").read_text())["recipe"]["seed"] == 5
    assert load_drafter(str(out), nano).name


def test_coverage_counts_the_answers_tokens_and_not_the_prompts() -> None:
    """Of the answers 5 6 and 6 7 8 the words 5 and 6 are three of five."""
    documents = [
        Document(("a", 0), "chat", (9, 9, 5, 6), 2, True),
        Document(("b", 0), "code", (5, 6, 7, 8), 1, True),
    ]
    assert covered(documents, DraftVocabulary.of([5, 6], 10)) == 3 / 5
    assert covered(documents, DraftVocabulary.whole(10)) == 1.0


def test_held_out_texts_are_walked_once_behind_the_last_look(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look in the loop, then the draft that was written: of all texts and by domain from one walk."""
    walked, original = Counter(), estimate.guesses

    def counting(draft: object, document: Document, *arguments: object) -> list[list[bool]]:
        walked[document.key] += 1
        return original(draft, document, *arguments)

    monkeypatch.setattr(estimate, "guesses", counting)
    report = run("nano", [str(data)], replace(RECIPE, steps=1, ttt=3), tmp_path)
    assert len(report["per_depth_accuracy"]) == 3 > report["k"], "every trained depth has its accuracy"
    assert report["held_out"].keys() == {"all", "chat", "code"}
    assert len(walked) == report["held_out"]["all"]["documents"] > 1
    assert set(walked.values()) == {2}


def test_training_learns(whole: tuple[Path, dict[str, object]]) -> None:
    losses = [float(line.split(",")[2]) for line in (whole[0] / "loss.csv").read_text().splitlines()[1:]]
    assert losses[-1] < losses[0] - 0.1


def test_a_killed_training_resumes_to_the_same_bits(
    whole: tuple[Path, dict[str, object]], data: Path, tmp_path: Path
) -> None:
    """Killed at a step drawn anew in every run of the tests, with a checkpoint every three steps."""
    at = random.SystemRandom().randint(1, 9)
    script = KILLED.format(here=str(Path(__file__).parent), data=str(data), out=str(tmp_path), at=at)
    ended = subprocess.run([sys.executable, "-c", script], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    assert ended.returncode == -signal.SIGKILL, at
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        resumed = run("nano", [str(data)], RECIPE, tmp_path)
        again = tmp_path / "unbroken"
        run("nano", [str(data)], RECIPE, again)
    finally:
        torch.set_num_threads(threads)
    expected, found = load_file(again / NAME), load_file(tmp_path / NAME)
    assert all(torch.equal(expected[name], found[name]) for name in expected), f"killed at step {at}"
    for name in ("loss.csv", "held_out.csv", "model.safetensors"):
        assert (again / name).read_bytes() == (tmp_path / name).read_bytes(), f"{name}, killed at step {at}"
    assert resumed["best_step"] == whole[1]["best_step"] or threads > 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there tests/gpu does it over NCCL")
def test_two_processes_of_torchrun_train_the_draft_of_one(
    whole: tuple[Path, dict[str, object]], data: Path, tmp_path: Path
) -> None:
    """The command as the README has it."""
    names = ("draft", "ttt", "steps", "seq", "draft_vocab_size", "evaluate_every", "k", "seed", "learning_rate")
    settings = [text for name in names for text in ("--" + name.replace("_", "-"), str(getattr(RECIPE, name)))]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "labsim.train", "--ring", "2", "--ulysses", "1", "--target", "nano", "--data", str(data)]
    command += [*settings, "--out", str(tmp_path), "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert report["ranks"] == {"ring": 2, "ulysses": 1, "layout": "zigzag"}
    mine, theirs = (
        [float(line.split(",")[2]) for line in (out / "loss.csv").read_text().splitlines()[1:]]
        for out in (tmp_path, whole[0])
    )
    assert mine == pytest.approx(theirs, rel=2e-3)  # products in bf16, sums in another order
    assert report["acceptance_length"] == pytest.approx(whole[1]["acceptance_length"], abs=0.1)


def test_another_training_in_the_same_place_is_refused(whole: tuple[Path, dict[str, object]], data: Path) -> None:
    with pytest.raises(ValueError, match=r"another recipe: learning_rate \([\d.]+, not 0.001\); give .*--fresh"):
        run("nano", [str(data)], replace(RECIPE, learning_rate=1e-3), whole[0])


def stop_at(step: int) -> Callable[[Report], None]:
    def told(report: Report) -> None:
        if report.counters.step == step:
            raise KeyboardInterrupt

    return told


def holds_finished_draft(out: Path) -> bool:
    try:
        keep_the_draft(out, NAME, fresh=False)
    except ValueError:
        return True
    return False


def test_what_a_stop_before_the_first_checkpoint_leaves_may_be_replaced(
    whole: tuple[Path, dict[str, object]], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look has written its draft by then; the same command must go on. A finished draft without state is kept."""
    monkeypatch.setattr("labsim.train.ttt.run.train", partial(train, checkpoint_seconds=math.inf))
    with pytest.raises(KeyboardInterrupt):
        run("nano", [str(data)], RECIPE, tmp_path / "stopped", told=stop_at(5))
    assert (tmp_path / "stopped" / "model.safetensors").exists() and not (tmp_path / "stopped" / NAME).exists()
    assert not holds_finished_draft(tmp_path / "stopped")
    assert not holds_finished_draft(whole[0]), "its state is there"
    finished = tmp_path / "finished"
    shutil.copytree(whole[0], finished, ignore=shutil.ignore_patterns(Path(NAME).name))
    assert holds_finished_draft(finished)
    for name in ("recipe.json", "loss.csv", "held_out.csv"):
        (finished / name).unlink()
    assert holds_finished_draft(finished), "a draft that was made elsewhere"


def test_starting_over_forgets_nothing_before_it_can_begin(
    whole: tuple[Path, dict[str, object]], data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole[0], out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="neither a directory of answers"):
        run("nano", ["no such data"], RECIPE, out, fresh=True)
    with pytest.raises(ValueError, match="nothing trains"):
        run("nano", [str(data)], replace(RECIPE, seq=8), out, fresh=True)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    with pytest.raises(KeyboardInterrupt):
        run("nano", [str(data)], replace(RECIPE, seed=6), out, fresh=True, told=stop_at(1))
    assert not (out / "recipe.json").exists(), "of another training than the next draft here"
    assert len((out / "loss.csv").read_text().splitlines()) == 2


def test_what_is_read_is_not_written(whole: tuple[Path, dict[str, object]], data: Path, tmp_path: Path) -> None:
    draft = whole[0]
    before = sorted(path.name for path in draft.iterdir())
    for places in (
        {"out": draft, "begin": draft, "fresh": True},
        {"out": tmp_path, "features": tmp_path},
        {"out": data},
        {"out": tmp_path, "features": data_directory() / "nano"},
        {"out": tmp_path, "begin": draft, "features": draft},
    ):
        with pytest.raises(ValueError, match="are the same directory"):
            run("nano", [str(data)], RECIPE, **places)
    assert sorted(path.name for path in draft.iterdir()) == before and not list(tmp_path.iterdir())


def test_a_loss_that_is_no_number_ends_the_training(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lower learning rate"):
        run("nano", [str(data)], replace(RECIPE, learning_rate=1e30, clip=1e30, warm_up=0.0), tmp_path)


def test_answers_that_do_not_fit_the_target_are_refused(nano: Target, tmp_path: Path) -> None:
    other = store(tmp_path / "other", nano, target="smollm2")
    with pytest.raises(ValueError, match="answers of smollm2, not of nano"):
        read_data([other], nano, 64)
    older = store(tmp_path / "older", nano, weights="0" * 32)
    with pytest.raises(ValueError, match="answers of other weights of nano"):
        read_data([older], nano, 64)
    smaller = store(tmp_path / "smaller", nano, vocab_size=2000)
    with pytest.raises(ValueError, match="2000 tokens; nano has 4096"):
        read_data([smaller], nano, 64)
    foreign = tmp_path / "foreign"
    headers = tuple(nano.encode_chat("Question?", template=nano.tokenizer.get_chat_template("headers")))
    AnswerStore(foreign, AnswerSettings("nano", 4096, 40, 0.0, 0)).add(
        [Answer("q", 0, "chat", headers, (300, 301, 302), "length")]
    )
    with pytest.raises(ValueError, match=r"prompt of q does not end as nano's chat template ends.*--any-template"):
        read_data([foreign], nano, 64)
    assert read_data([foreign], nano, 64, any_template=True).sources


def test_answers_without_two_tokens_train_nothing(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing trains"):
        run("nano", [str(data)], replace(RECIPE, seq=8), tmp_path)


def test_the_target_may_compute_in_another_precision(data: Path, tmp_path: Path) -> None:
    once = replace(RECIPE, steps=2)
    reports = {
        dtype: run("nano", [str(data)], once, tmp_path / str(dtype), target_dtype=dtype) for dtype in (None, "bf16")
    }
    assert [one["target_dtype"] for one in reports.values()] == ["fp32", "bf16"]
    losses = [one["loss"] for one in reports.values()]
    assert losses[0] != losses[1] and losses[0] == pytest.approx(losses[1], rel=0.02)
    features = tmp_path / "features"
    stored = run("nano", [str(data)], once, tmp_path / "stored", target_dtype="bf16", features=features)
    assert stored["loss"] == pytest.approx(losses[1], rel=0.02)
    with pytest.raises(ValueError, match="target_dtype"):
        run("nano", [str(data)], once, tmp_path / "bf16")


def test_data_by_name(tmp_path: Path) -> None:
    assert [path.name for path in find("shipped", "nano")] == ["greedy"]
    with pytest.raises(ValueError, match="'chatt' is neither a directory"):
        find("chatt", "nano")


def test_the_prompt_ending_is_the_templates(nano: Target) -> None:
    assert nano.decode(generation_prompt(nano), keep_special=True).endswith("<|im_start|>assistant\n")


def test_the_recipe_refuses_what_cannot_be_trained() -> None:
    with pytest.raises(ValueError, match="eagle2"):
        TTTRecipe(draft="eagle2")
    with pytest.raises(ValueError, match="ttt is 0"):
        TTTRecipe(draft="mtp", ttt=0)
    assert sum(TTTRecipe(draft="mtp", ttt=7).weights) == pytest.approx(1)


def test_a_trained_draft_is_trained_on(whole: tuple[Path, dict[str, object]], data: Path, tmp_path: Path) -> None:
    first = float((whole[0] / "loss.csv").read_text().splitlines()[1].split(",")[2])
    recipe = replace(RECIPE, steps=2, evaluate_every=2)
    run("nano", [str(data)], recipe, tmp_path, begin=whole[0])
    again = float((tmp_path / "loss.csv").read_text().splitlines()[1].split(",")[2])
    assert again < first - 0.1
    lineage = json.loads((tmp_path / "recipe.json").read_text())["begin"]
    assert lineage == json.loads((whole[0] / "recipe.json").read_text())
    with pytest.raises(ValueError, match=r"of the kind 'eagle3.1', not 'eagle3'"):
        run("nano", [str(data)], replace(recipe, draft="eagle3"), tmp_path / "other", begin=whole[0])
