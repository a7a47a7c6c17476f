"""The small draft: labels and loss by hand, the target's own layers, real decoding, training that survives a kill."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save
from transformers import LlamaConfig, LlamaForCausalLM

from labsim.commands.train_small import command
from labsim.decode.generate import generate
from labsim.drafts.shape import Chain
from labsim.drafts.small import SmallModelDrafter
from labsim.models.llama import LanguageModel
from labsim.models.paths import data_directory
from labsim.train.answer_store import Answer, AnswerSettings, AnswerStore, read_answers
from labsim.train.answers import Question, generate_answers
from labsim.train.small import SmallRecipe, draft_loss, save_draft, start_from_draft, start_from_target
from labsim.train.small_data import batches, draft_vocabulary, endless_batches, make_batch, split
from labsim.train.small_eval import agreed_places, chain_steps, evaluate
from labsim.train.small_loop import CHECKPOINT, CURVE, Progress, learning_rate, total_steps, train

VOCAB, STOP = 61, 5
RECIPE = SmallRecipe(layers=(0, 2), draft_vocab_size=20, epochs=2, tokens_per_batch=160, warmup_steps=3)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama of three layers, saved as a target directory."""
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        initializer_range=0.5,
    )
    folder = tmp_path_factory.mktemp("target")
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(directory: Path) -> LanguageModel:
    return LanguageModel.from_directory(directory, device="cpu")


@pytest.fixture(scope="module")
def answers(model: LanguageModel) -> list[Answer]:
    """60 greedy answers of the tiny target, with candidates."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, 20, (60,), generator=generator).tolist()
    prompts = [tuple(torch.randint(6, VOCAB, (n,), generator=generator).tolist()) for n in lengths]
    asked = [Question(f"p{i}", 0, ("chat", "code")[i % 2], ids) for i, ids in enumerate(prompts)]
    made = generate_answers(model, {STOP}, asked, max_new_tokens=24, top_logprobs=5)
    return sorted(made, key=lambda answer: answer.key)


def test_the_draft_vocabulary_is_the_most_frequent_tokens(answers: list[Answer]) -> None:
    vocabulary = draft_vocabulary(answers, 12, VOCAB)
    counts = Counter(token for answer in answers for token in answer.answer_ids)
    lowest_in = min(counts[token] for token in vocabulary.ids_N.tolist())
    highest_out = max(counts[token] for token in range(VOCAB) if token not in vocabulary.ids_N.tolist())
    assert lowest_in >= highest_out > 0
    # The public layout's identities.
    assert torch.equal(torch.arange(12) + vocabulary.d2t, vocabulary.ids_N)
    assert (vocabulary.d2t.diff() >= 0).all() and vocabulary.d2t.dtype == torch.int64
    assert vocabulary.t2d.dtype == torch.bool and vocabulary.t2d.sum() == 12
    assert torch.equal(vocabulary.t2d.nonzero()[:, 0], vocabulary.ids_N)
    unused = draft_vocabulary([Answer("p", 0, "chat", (1,), (9, 9, 40), "stop")], 4, VOCAB)
    assert unused.ids_N.tolist() == [0, 1, 9, 40]
    with pytest.raises(ValueError, match="draft vocabulary of 62; the target has 61 tokens"):
        draft_vocabulary(answers, 62, VOCAB)


def test_all_answers_to_a_prompt_fall_on_one_side() -> None:
    many = [Answer(f"p{i}", s, "chat", (1,), (2,), "stop") for i in range(2000) for s in range(2)]
    ours, theirs = split(many)
    assert len(ours) + len(theirs) == 4000
    assert not {a.prompt for a in ours} & {a.prompt for a in theirs}
    assert 0.08 < len(theirs) / 4000 < 0.12


def test_with_all_layers_and_all_tokens_it_is_the_target(directory: Path, answers: list[Answer]) -> None:
    recipe = replace(RECIPE, layers=(0, 1, 2), draft_vocab_size=VOCAB)
    draft = start_from_target(directory, recipe, draft_vocabulary(answers, VOCAB, VOCAB))
    tokens = torch.tensor([[7, 8, 9, 30, 2]])
    with torch.no_grad():
        expected = LlamaForCausalLM.from_pretrained(directory)(tokens).logits
        found = draft.lm_head(draft(tokens))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_the_loss_is_the_cross_entropy_by_hand(directory: Path, answers: list[Answer]) -> None:
    """A padded batch against one unpadded answer at a time, through transformers' model of the same weights."""
    vocabulary = draft_vocabulary(answers, 20, VOCAB)
    draft = start_from_target(directory, RECIPE, vocabulary)
    peer = LlamaForCausalLM.from_pretrained(directory)
    peer.model.layers = torch.nn.ModuleList([peer.model.layers[0], peer.model.layers[2]])
    peer.model.layers[1].self_attn.layer_idx = 1
    known = vocabulary.ids_N.tolist()
    chosen = [answers[0], answers[7], replace(answers[9], top_ids_AT=None, top_logprobs_AT=None)]
    losses = []
    for answer in chosen:
        text = [*answer.prompt_ids, *answer.answer_ids]
        with torch.no_grad():
            logits = peer(torch.tensor([text]), use_cache=False).logits[0][:, known]
        for i, token in enumerate(answer.answer_ids):
            logprobs = logits[len(answer.prompt_ids) + i - 1].log_softmax(-1)
            likely = {token: 1.0}
            if answer.top_ids_AT is not None:
                ids, values = answer.top_ids_AT[i].tolist(), answer.top_logprobs_AT[i].tolist()
                likely = {candidate: math.exp(value) for candidate, value in zip(ids, values, strict=True)}
            said = {candidate: p for candidate, p in likely.items() if candidate in known}
            if said:
                total = sum(said.values())
                losses.append(-sum(p / total * logprobs[known.index(c)].item() for c, p in said.items()))
    assert len(losses) < sum(len(a.answer_ids) for a in chosen), "the example must have a place outside the vocabulary"
    assert draft_loss(draft, make_batch(chosen, vocabulary)).item() == pytest.approx(
        sum(losses) / len(losses), rel=1e-4
    )


def test_an_epoch_holds_every_answer_once_within_the_budget(answers: list[Answer]) -> None:
    groups = batches(answers, 160, seed=0, epoch=0)
    assert sorted(a.key for group in groups for a in group) == sorted(a.key for a in answers)
    for group in groups:
        longest = max(len(a.prompt_ids) + len(a.answer_ids) for a in group)
        assert len(group) == 1 or len(group) * longest <= 160
    assert len(groups) < len(answers) / 2
    assert groups != batches(answers, 160, seed=0, epoch=1)
    whole, late = endless_batches(answers, 160, 0, 0), endless_batches(answers, 160, 0, 17)
    assert [next(whole) for _ in range(50)][17:] == [next(late) for _ in range(33)]


def test_the_learning_rate_warms_up_and_ends_at_zero() -> None:
    recipe = SmallRecipe(layers=(0,), draft_vocab_size=4, learning_rate=2.0, warmup_steps=4)
    assert learning_rate(recipe, 0, 0.0) == 0.5
    assert learning_rate(recipe, 100, 0.5) == pytest.approx(1.0)
    assert learning_rate(recipe, 100, 1.0) == 0.0


def test_the_predicted_acceptance_is_that_of_real_decoding(
    directory: Path, model: LanguageModel, answers: list[Answer], tmp_path: Path
) -> None:
    """Teacher-forced agreement, walked over, against the drafter and the decoding loop, step by step."""
    vocabulary = draft_vocabulary(answers, 40, VOCAB)
    draft = start_from_target(directory, replace(RECIPE, draft_vocab_size=40), vocabulary)
    train(draft, vocabulary, answers, replace(RECIPE, draft_vocab_size=40, epochs=6), tmp_path / "training")
    save_draft(tmp_path / "draft", draft, vocabulary, "tiny", VOCAB)
    # What is saved is fp16; the teacher-forced side must judge the same numbers.
    draft.load_state_dict({name: w.half().float() for name, w in draft.state_dict().items()})
    target = SimpleNamespace(name="tiny", model=model, stop_ids=frozenset({STOP}))
    drafter = SmallModelDrafter.from_directory(tmp_path / "draft", target)
    some = answers[:20]
    steps = tokens = 0
    for answer in some:
        result = generate(target, answer.prompt_ids, drafter=drafter, shape=Chain(3), max_new_tokens=24)
        assert result.tokens == answer.answer_ids
        steps += len(result.steps)
        tokens += len(result.tokens) - 1
    agreed = agreed_places(draft, vocabulary, some)
    assert sum(chain_steps(row[1:], 3) for row in agreed if len(row) > 1) == steps
    report = evaluate(draft, vocabulary, some, k=3)
    assert report["all"].acceptance_length == pytest.approx(tokens / steps)
    assert report["all"].acceptance_length > 1.2, "the example must accept something"
    assert report["all"].agreement < report["all"].coverage < 1
    assert report["all"].places == report["chat"].places + report["code"].places


def test_what_is_saved_follows_the_public_layout(directory: Path, answers: list[Answer], tmp_path: Path) -> None:
    vocabulary = draft_vocabulary(answers, 20, VOCAB)
    save_draft(tmp_path, start_from_target(directory, RECIPE, vocabulary), vocabulary, "tiny", VOCAB)
    tensors = load_file(tmp_path / "model.safetensors")
    original = load_file(directory / "model.safetensors")
    assert "model.embed_tokens.weight" not in tensors
    assert torch.equal(tensors["lm_head.weight"], original["model.embed_tokens.weight"][vocabulary.ids_N].half())
    copied = tensors["model.layers.1.mlp.down_proj.weight"]
    assert torch.equal(copied, original["model.layers.2.mlp.down_proj.weight"].half())
    assert torch.equal(tensors["d2t"], vocabulary.d2t) and torch.equal(tensors["t2d"], vocabulary.t2d)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["num_hidden_layers"], config["vocab_size"], config["draft_vocab_size"]) == (2, VOCAB, 20)
    assert config["labsim"] == {"kind": "small", "target": "tiny", "embedding": "target"}


def test_training_goes_on_from_a_saved_draft(directory: Path, answers: list[Answer], tmp_path: Path) -> None:
    vocabulary = draft_vocabulary(answers, 20, VOCAB)
    draft = start_from_target(directory, RECIPE, vocabulary)
    train(draft, vocabulary, answers, RECIPE, tmp_path / "training")
    save_draft(tmp_path / "draft", draft, vocabulary, "tiny", VOCAB)
    again, same = start_from_draft(directory, tmp_path / "draft", "tiny")
    assert torch.equal(same.ids_N, vocabulary.ids_N) and torch.equal(same.draft_id_V, vocabulary.draft_id_V)
    with torch.no_grad():
        batch = make_batch(answers[:4], vocabulary)
        assert draft_loss(again, batch).item() == pytest.approx(draft_loss(draft, batch).item(), abs=5e-3)
    with pytest.raises(ValueError, match="is not a small draft"):
        start_from_draft(directory, directory, "tiny")


def test_training_learns_and_is_the_same_for_a_seed(directory: Path, answers: list[Answer], tmp_path: Path) -> None:
    vocabulary = draft_vocabulary(answers, 20, VOCAB)
    recipe = replace(RECIPE, epochs=5)
    weights = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        draft = start_from_target(directory, recipe, vocabulary)
        before = evaluate(draft, vocabulary, answers)["all"].agreement
        steps = train(draft, vocabulary, answers, replace(recipe, seed=seed), tmp_path / name)
        assert steps == total_steps(answers, replace(recipe, seed=seed))
        weights.append(torch.cat([p.detach().flatten() for p in draft.parameters()]))
    assert evaluate(draft, vocabulary, answers)["all"].agreement > before + 0.1
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    rows = (tmp_path / "c" / CURVE).read_text().splitlines()
    assert rows[0] == "step,loss,learning_rate" and len(rows) == 1 + steps
    losses = [float(row.split(",")[1]) for row in rows[1:]]
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])


def test_a_time_budget_ends_training_with_the_rate_near_zero(
    directory: Path, answers: list[Answer], tmp_path: Path
) -> None:
    vocabulary = draft_vocabulary(answers, 20, VOCAB)
    recipe = replace(RECIPE, epochs=100_000)
    draft = start_from_target(directory, recipe, vocabulary)
    steps = train(draft, vocabulary, answers, recipe, tmp_path, minutes=2 / 60)
    assert recipe.warmup_steps < steps < total_steps(answers, recipe)
    rates = [float(row.split(",")[2]) for row in (tmp_path / CURVE).read_text().splitlines()[1:]]
    assert rates[-1] < 0.3 * max(rates)
    # Resuming a finished training finds no time left.
    draft = start_from_target(directory, recipe, vocabulary)
    assert train(draft, vocabulary, answers, recipe, tmp_path, minutes=2 / 60) == steps


TRAIN = """
import sys, time
from pathlib import Path
from labsim.train import small_loop
from labsim.train.answer_store import read_answers
from labsim.train.small import SmallRecipe, start_from_target
from labsim.train.small_data import draft_vocabulary
data, target, out = map(Path, sys.argv[1:4])
answers = read_answers(data)
vocabulary = draft_vocabulary(answers, 20, 61)
recipe = SmallRecipe(layers=(0, 2), draft_vocab_size=20, epochs=2, tokens_per_batch=160, warmup_steps=3)
def told(progress):
    print(progress.step, flush=True)
    time.sleep(0.02)
small_loop.train(
    start_from_target(target, recipe, vocabulary), vocabulary, answers, recipe, out, checkpoint_seconds=0.03, told=told
)
"""


def test_a_kill_at_any_step_changes_nothing(directory: Path, answers: list[Answer], tmp_path: Path) -> None:
    AnswerStore(tmp_path / "data", AnswerSettings("tiny", VOCAB, 24, 0.0, 0, 5)).add(answers)
    answers = read_answers(tmp_path / "data")  # as the other process has them
    vocabulary = draft_vocabulary(answers, 20, VOCAB)

    def run(out: Path, stop_at: int | None = None) -> int:
        """Train in this process, to the end or to the step at which it breaks off; the first step taken."""
        first = []

        def told(progress: Progress) -> None:
            first.append(progress.step)
            if progress.step == stop_at:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            draft = start_from_target(directory, RECIPE, vocabulary)
            train(draft, vocabulary, answers, RECIPE, out, checkpoint_seconds=0, told=told)
        return first[0]

    arguments = [sys.executable, "-c", TRAIN, str(tmp_path / "data"), str(directory), str(tmp_path / "killed")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)
    for line in process.stdout:
        if int(line) >= 7:
            process.send_signal(signal.SIGKILL)
            break
    process.stdout.close()
    assert process.wait(timeout=60) == -signal.SIGKILL
    again = run(tmp_path / "killed", stop_at=15)
    assert 1 < again <= 9
    assert run(tmp_path / "killed") in (15, 16)
    assert run(tmp_path / "whole") == 1
    whole, killed = (load_file(tmp_path / name / CHECKPOINT) for name in ("whole", "killed"))
    assert whole.keys() == killed.keys()
    assert all(torch.equal(whole[name], killed[name]) for name in whole)
    curves = [(tmp_path / name / CURVE).read_text() for name in ("whole", "killed")]
    assert curves[0] == curves[1]


def test_a_checkpoint_of_another_training_is_refused(directory: Path, answers: list[Answer], tmp_path: Path) -> None:
    vocabulary = draft_vocabulary(answers, 20, VOCAB)
    draft = start_from_target(directory, RECIPE, vocabulary)
    train(draft, vocabulary, answers, RECIPE, tmp_path)
    draft = start_from_target(directory, RECIPE, vocabulary)
    with pytest.raises(ValueError, match="another recipe"):
        train(draft, vocabulary, answers, replace(RECIPE, learning_rate=0.5), tmp_path)
    # As many answers and steps, one token or one candidate another.
    first = answers[0]
    said = replace(first, answer_ids=(*first.answer_ids[:-1], 60))
    likely = replace(first, top_logprobs_AT=first.top_logprobs_AT * 2)
    for other in (said, likely):
        draft = start_from_target(directory, RECIPE, vocabulary)
        with pytest.raises(ValueError, match="another answers"):
            train(draft, vocabulary, [other, *answers[1:]], RECIPE, tmp_path)
    swapped = start_from_target(directory, replace(RECIPE, layers=(2, 0)), vocabulary)
    with pytest.raises(ValueError, match="another draft to start from"):
        train(swapped, vocabulary, answers, RECIPE, tmp_path)
    draft = start_from_target(directory, RECIPE, vocabulary)
    with pytest.raises(ValueError, match="another draft vocabulary"):
        train(draft, draft_vocabulary([first], 20, VOCAB), answers, RECIPE, tmp_path)


def test_a_damaged_checkpoint_is_named(directory: Path, answers: list[Answer], tmp_path: Path) -> None:
    vocabulary = draft_vocabulary(answers, 20, VOCAB)
    draft = start_from_target(directory, RECIPE, vocabulary)
    (tmp_path / CHECKPOINT).write_bytes(b"half")
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        train(draft, vocabulary, answers, RECIPE, tmp_path)
    (tmp_path / CHECKPOINT).write_bytes(save({"a": torch.zeros(1)}))
    with pytest.raises(ValueError, match="is not a checkpoint of this training"):
        train(draft, vocabulary, answers, RECIPE, tmp_path)


def test_a_loss_that_is_no_number_stops_training(directory: Path, answers: list[Answer], tmp_path: Path) -> None:
    vocabulary = draft_vocabulary(answers, 20, VOCAB)
    draft = start_from_target(directory, RECIPE, vocabulary)
    draft.lm_head.weight.data[3] = float("nan")
    with pytest.raises(ValueError, match="the loss is nan at step 0"):
        train(draft, vocabulary, answers, RECIPE, tmp_path)
    with pytest.raises(ValueError, match="layer 3 to start from: the target has layers 0 to 2"):
        start_from_target(directory, replace(RECIPE, layers=(3,)), vocabulary)


def test_the_command_makes_a_draft_with_its_recipe(directory: Path, answers: list[Answer], tmp_path: Path) -> None:
    name = str(directory)
    data, out = tmp_path / "data", tmp_path / "out"
    AnswerStore(data, AnswerSettings(name, VOCAB, 24, 0.0, 0, 5)).add(answers)
    arguments = ["--target", name, "--data", str(data), "--out", str(out), "--draft-vocab-size", "20", "--json"]
    result = CliRunner().invoke(command, [*arguments, "--epochs", "2"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert {path.name for path in out.iterdir()} == {"config.json", "model.safetensors", "recipe.json", CURVE, ".lock"}
    recipe = json.loads((out / "recipe.json").read_text())
    assert recipe["held_out"] == report["held_out"] and recipe["data"][0]["answers"] == 60
    assert report["held_out"]["all"]["places"] == sum(len(a.answer_ids) for a in split(answers)[1])
    more = ["--out", str(tmp_path / "more"), "--start-from", str(out), "--epochs", "1", "--draft-vocab-size", "7"]
    result = CliRunner().invoke(command, [*arguments, *more])
    assert result.exit_code == 0, result.output
    longer = json.loads(result.stdout)
    assert longer["start_from"]["steps"] == recipe["steps"]
    # The vocabulary is that of the draft it started from.
    assert longer["recipe"]["draft_vocab_size"] == 20
    for place, why in (
        (data, "same directory"),
        (directory, "same directory"),
        (tmp_path / "mtp", "would be replaced"),
    ):
        if not place.exists():
            shutil.copytree(data_directory() / "drafts" / "nano-mtp", place)
        before = {path.name: path.read_bytes() for path in place.iterdir()}
        result = CliRunner().invoke(command, [*arguments, "--out", str(place)])
        assert result.exit_code == 2 and why in result.stderr
        assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    wrong = tmp_path / "wrong"
    shutil.copytree(data, wrong)
    (wrong / "settings.json").write_text((wrong / "settings.json").read_text().replace(name, "nano"))
    result = CliRunner().invoke(command, [*arguments, "--data", str(wrong), "--fresh"])
    assert result.exit_code == 2 and "holds answers of nano" in result.stderr
