"""The training loop on a tiny recipe: a function of the seed, and the same function after kill -9."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

from labsim.train.curve import Curve
from labsim.train.nano import checkpoint
from labsim.train.nano.loop import Counters, tokenizer_for, train
from labsim.train.nano.model import build_model, build_optimizers, next_token_loss
from labsim.train.nano.packing import evaluation_rows, shard
from labsim.train.nano.recipe import Budget, Phase, Recipe
from labsim.train.nano.run import claim, run, thinned
from labsim.train.nano.workers import Workers

TINY = Recipe(
    vocab_size=400,
    hidden_size=32,
    num_layers=3,
    num_heads=2,
    num_kv_heads=1,
    intermediate_size=48,
    max_positions=4096,
    phases=(Phase(0.5, 32, 4), Phase(1.0, 64, 2)),
    rows_per_shard=8,
    warm_up_steps=2,
    learning_rate=0.02,
    matrix_learning_rate=0.02,
    tokenizer_characters=30_000,
    evaluation_rows=1,
    bf16=False,
    drills=1,
    drill_length=24,
)
TOKENS = 12 * 128

KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from test_nano_loop import TINY, TOKENS
from labsim.train.nano.loop import train
from labsim.train.nano.recipe import Budget

def kill(step):
    if step.counters.step == {at}:
        os.kill(os.getpid(), signal.SIGKILL)

train(Path({directory!r}), TINY, Budget(tokens=TOKENS), 5, report=kill, checkpoint_every_steps=3)
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole")
    train(directory, TINY, Budget(tokens=TOKENS), 5, checkpoint_every_steps=100)
    return directory


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return load_file(str(directory / checkpoint.NAME))


def losses(directory: Path) -> list[list[str]]:
    rows = [line.split(",") for line in (directory / "loss.csv").read_text().splitlines()]
    return [row[:2] + row[3:] for row in rows]


def test_the_same_seed_gives_the_same_bits(whole: Path, tmp_path: Path) -> None:
    train(tmp_path / "a", TINY, Budget(tokens=TOKENS), 5)
    train(tmp_path / "b", TINY, Budget(tokens=TOKENS), 6)
    first, again, other = weights(whole), weights(tmp_path / "a"), weights(tmp_path / "b")
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["model/model.embed_tokens.weight"], other["model/model.embed_tokens.weight"])
    assert losses(whole) == losses(tmp_path / "a")
    assert len(losses(whole)) == 13


def test_a_killed_run_resumes_to_the_same_bits(whole: Path, tmp_path: Path) -> None:
    """Killed at step 8, behind the change of row length, with its last checkpoint at 6."""
    script = KILLED.format(here=str(Path(__file__).parent), directory=str(tmp_path), at=8)
    ended = subprocess.run([sys.executable, "-c", script], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(losses(tmp_path)) == 9
    train(tmp_path, TINY, Budget(tokens=TOKENS), 5, checkpoint_every_steps=3)
    expected, resumed = weights(whole), weights(tmp_path)
    assert expected.keys() == resumed.keys()
    assert all(torch.equal(expected[name], resumed[name]) for name in expected)
    assert losses(whole) == losses(tmp_path)


def test_training_learns(whole: Path) -> None:
    curve = [float(row[4]) for row in losses(whole)[1:]]
    assert abs(curve[0] - math.log(TINY.vocab_size)) < 0.2
    assert curve[-1] < curve[0] - 0.1


def test_workers_compute_the_gradient_of_the_whole_batch() -> None:
    model = build_model(TINY, 1)
    tokens_BT = torch.randint(0, TINY.vocab_size, (5, 24), generator=torch.Generator().manual_seed(0))
    parameters = list(model.parameters())
    with Workers(2) as workers:
        [loss] = workers.loss_and_gradients(lambda rows: [next_token_loss(model, rows, False)], parameters, tokens_BT)
    found = [p.grad.clone() for p in parameters]
    model.zero_grad()
    whole_loss = model(input_ids=tokens_BT, labels=tokens_BT).loss
    whole_loss.backward()
    assert loss == pytest.approx(whole_loss.item(), rel=1e-6)
    for parameter, gradient in zip(parameters, found, strict=True):
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-4, atol=1e-6)


def test_budget_is_tokens_or_minutes() -> None:
    assert Budget(tokens=1000).progress(250, 1e9) == 0.25
    assert Budget(minutes=2).progress(10**9, 90) == 0.75
    assert Budget(minutes=2).progress(0, 500) == 1.0
    for wrong in ({}, {"tokens": 5, "minutes": 1.0}):
        with pytest.raises(ValueError, match="exactly one"):
            Budget(**wrong)
    for wrong in ({"tokens": 0}, {"minutes": -1.0}, {"minutes": math.nan}, {"minutes": math.inf}):
        with pytest.raises(ValueError, match="not a budget"):
            Budget(**wrong)


def test_schedule_warms_up_and_ends_at_zero() -> None:
    assert TINY.scale_at(0, 0.0) == 0.5
    assert TINY.scale_at(100, 0.0) == 1.0
    assert TINY.scale_at(100, 0.5) == pytest.approx(0.5)
    assert TINY.scale_at(100, 1.0) == pytest.approx(0.0)
    assert [TINY.phase_at(p) for p in (0.0, 0.49, 0.5, 0.99, 1.0)] == [0, 0, 1, 1, 1]


def test_a_minutes_budget_follows_the_clock(tmp_path: Path) -> None:
    """A clock that advances 10 seconds whenever it is read: one minute of it is about six steps."""
    now = iter(range(0, 100_000, 10))
    _, _, counters = train(tmp_path, TINY, Budget(minutes=1), 5, clock=lambda: float(next(now)))
    assert counters.seconds == 60.0 and counters.step == 6


def test_shards_differ_and_no_held_out_row_is_in_one(whole: Path) -> None:
    tokenizer = tokenizer_for(whole, TINY, 5)
    first, again, second = (shard(tokenizer, 5, number, 8, 64) for number in (0, 0, 1))
    assert first.shape == (8, 64) and (first == again).all() and (first != second).any()
    held_out = evaluation_rows(tokenizer, "chat", 5, 8, 64, held_out=True)
    assert not {row.tobytes() for row in first} & {row.tobytes() for row in held_out}


def test_a_run_with_another_seed_or_recipe_is_refused(tmp_path: Path) -> None:
    claim(tmp_path, TINY, 5)
    model = build_model(TINY, 5)
    checkpoint.save(tmp_path / checkpoint.NAME, model, build_optimizers(model, TINY), Counters().__dict__)
    claim(tmp_path, TINY, 5)
    with pytest.raises(ValueError, match="seed 5, not 6"):
        claim(tmp_path, TINY, 6)
    with pytest.raises(ValueError, match="hidden_size = 32, not 256"):
        claim(tmp_path, replace(TINY, hidden_size=256), 5)
    with pytest.raises(ValueError, match="has shape"):
        other = build_model(Recipe(vocab_size=400, num_layers=3), 5)
        checkpoint.load(tmp_path / checkpoint.NAME, other, build_optimizers(other, Recipe()))


def test_before_the_first_checkpoint_too(tmp_path: Path) -> None:
    """Its tokenizer is there already, and the next run would take it for its own."""
    claim(tmp_path, TINY, 5)
    with pytest.raises(ValueError, match="seed 5, not 6"):
        claim(tmp_path, TINY, 6)


def test_starting_over_deletes_runs_only(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "diary.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"would be deleted, and no training has made it"):
        run(tmp_path, Budget(tokens=TOKENS), 5, fresh=True, recipe=TINY)
    assert (tmp_path / "run" / "diary.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "content", [b"half", save({"a": torch.zeros(1)}), save({"a": torch.zeros(1)}, {"counters": "7"})]
)
def test_a_damaged_checkpoint_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / checkpoint.NAME
    path.write_bytes(content)
    model = build_model(TINY, 5)
    with pytest.raises(ValueError, match=f"{checkpoint.NAME} is no"):
        checkpoint.load(path, model, build_optimizers(model, TINY))


def test_a_curve_continues_without_the_lines_after_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("step,loss\n1,9\n2,8\n3,7\n4")
    Curve(path, "step,loss", 2).add(3, 6)
    assert path.read_text() == "step,loss\n1,9\n2,8\n3,6\n"
    long = "step,loss\n" + "".join(f"{i},0\n" for i in range(1, 1001))
    kept = [int(line.split(",")[0]) for line in thinned(long, 100).splitlines()[1:]]
    assert kept[0] == 1 and kept[-1] == 1000 and 100 <= len(kept) <= 102


def test_a_whole_run_writes_a_model_that_transformers_reads(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    report = run(tmp_path, Budget(tokens=TOKENS), 5, recipe=TINY, prompts_per_domain=2, max_new_tokens=4)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    saved = weights(tmp_path / "run")
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, saved[f"model/{name}"].half().float())
    assert report["tokens"] == TOKENS
    assert tokenizer.eos_token_id in model.generation_config.eos_token_id
    for name in ("recipe.json", "loss.csv", "held_out.csv", "evaluation.json", "templates/headers.jinja"):
        assert (tmp_path / "model" / name).stat().st_size > 0
    assert {p.name for p in (tmp_path / "model").iterdir() if p.name.startswith(".")} == set()
    entropy = report["entropy"]["chat"]["greedy"]
    assert 0 < entropy["entropy_nats"] < math.log(TINY.vocab_size)
