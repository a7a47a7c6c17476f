"""Answers of a target: equal to transformers' own generation, reproducible, and never lost or done twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from labsim.commands.data import command
from labsim.features.store import fingerprint
from labsim.models.files import digest
from labsim.models.llama import LanguageModel
from labsim.train.answer_store import (
    Answer,
    AnswerSettings,
    AnswerStore,
    read_answers,
    read_settings,
    shard_bytes,
    shards,
)
from labsim.train.answers import Batch, Question, Row, fill_store, generate_answers, generator_of, pools

VOCAB = 97
STOP = 5


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama with a byte-sized tokenizer, as a target directory."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("target")
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        eos_token_id=STOP,
        bos_token_id=0,
        initializer_range=0.6,
    )
    model = LlamaForCausalLM(config)
    model.generation_config.eos_token_id = STOP
    model.save_pretrained(folder)
    words = {chr(32 + i): i for i in range(VOCAB - 1)} | {"?": VOCAB - 1}
    backend = Tokenizer(models.WordLevel({**words, "<unk>": 31}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    template = "{% for m in messages %}{{ m['role'][0] }}{{ m['content'] }}{% endfor %}a"
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, chat_template=template, unk_token="<unk>")
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(directory: Path) -> LanguageModel:
    return LanguageModel.from_directory(directory, device="cpu")


def questions(count: int, seed: int = 0, longest: int = 40) -> list[Question]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest, (count,), generator=generator).tolist()
    return [
        Question(f"q{i}", 0, "chat", tuple(torch.randint(6, VOCAB, (n,), generator=generator).tolist()))
        for i, n in enumerate(lengths)
    ]


def reference(directory: Path, prompt: tuple[int, ...], count: int) -> list[int]:
    """Greedy answer by transformers, one prompt at a time, whole text again for each token."""
    peer = LlamaForCausalLM.from_pretrained(directory)
    text = list(prompt)
    with torch.no_grad():
        for _ in range(count):
            text.append(int(peer(torch.tensor([text])).logits[0, -1].argmax()))
            if text[-1] == STOP:
                break
    return text[len(prompt) :]


def test_greedy_answers_are_those_of_transformers(directory: Path, model: LanguageModel) -> None:
    asked = questions(23)
    # Five rows for 23 prompts: rows are refilled, and at the end dropped.
    answers = list(generate_answers(model, {STOP}, asked, max_new_tokens=30, batch_size=5))
    assert sorted(a.prompt for a in answers) == sorted(q.prompt for q in asked)
    by_prompt = {q.prompt: q for q in asked}
    for answer in answers:
        assert answer.prompt_ids == by_prompt[answer.prompt].ids
        assert list(answer.answer_ids) == reference(directory, answer.prompt_ids, 30)
        assert answer.finish == ("stop" if answer.answer_ids[-1] == STOP else "length")
    finishes = Counter(answer.finish for answer in answers)
    assert finishes["stop"] >= 2 and finishes["length"] >= 2, "the example must show both ways to finish"


def test_candidates_are_the_targets_own(directory: Path, model: LanguageModel) -> None:
    peer = LlamaForCausalLM.from_pretrained(directory)
    answers = list(generate_answers(model, {STOP}, questions(6), max_new_tokens=12, batch_size=4, top_logprobs=7))
    for answer in answers:
        with torch.no_grad():
            logits = peer(torch.tensor([[*answer.prompt_ids, *answer.answer_ids]])).logits[0]
        expected = logits[len(answer.prompt_ids) - 1 : -1].log_softmax(-1).topk(7)
        assert torch.equal(answer.top_ids_AT, expected.indices)
        torch.testing.assert_close(answer.top_logprobs_AT.float(), expected.values, atol=2e-2, rtol=2e-3)


def test_sampled_answers_follow_the_targets_distribution(directory: Path, model: LanguageModel) -> None:
    """4,000 first tokens after one prompt, against the exact softmax at that temperature."""
    prompt, temperature, draws = (20, 21, 22), 0.7, 4000
    asked = [Question("q", i, "chat", prompt) for i in range(draws)]
    answers = generate_answers(model, {STOP}, asked, max_new_tokens=1, temperature=temperature, batch_size=500)
    found = torch.zeros(VOCAB)
    for answer in answers:
        found[answer.answer_ids[0]] += 1
    with torch.no_grad():
        logits = LlamaForCausalLM.from_pretrained(directory)(torch.tensor([prompt])).logits[0, -1]
    expected = (logits / temperature).softmax(-1) * draws
    usual = expected >= 5
    chi_square = ((found - expected) ** 2 / expected)[usual].sum().item()
    degrees = int(usual.sum()) - 1
    assert degrees >= 10
    assert chi_square < degrees + 4 * (2 * degrees) ** 0.5  # four standard deviations above the mean


def test_an_answer_does_not_depend_on_its_batch(model: LanguageModel) -> None:
    asked = questions(12, seed=3)

    def sampled(some: list[Question], batch_size: int, seed: int = 7) -> dict[str, tuple[int, ...]]:
        answers = generate_answers(
            model, {STOP}, some, max_new_tokens=20, temperature=1.0, seed=seed, batch_size=batch_size
        )
        return {answer.prompt: answer.answer_ids for answer in answers}

    together = sampled(asked, 12)
    assert together == sampled(asked, 3)
    assert {k: v for k, v in together.items() if k in ("q2", "q9")} == sampled([asked[9], asked[2]], 2)
    assert together != sampled(asked, 12, seed=8)
    again = Question(asked[0].prompt, 1, "chat", asked[0].ids)
    assert sampled([again], 1)[again.prompt] != together[again.prompt]


def test_the_context_limits_an_answer_and_refuses_a_prompt(model: LanguageModel) -> None:
    long = Question("long", 0, "chat", tuple([7] * 125))
    (answer,) = generate_answers(model, set(), [long], max_new_tokens=50)
    assert (len(answer.answer_ids), answer.finish) == (3, "length")
    with pytest.raises(ValueError, match="prompt long has 128 tokens; the model's context of 128"):
        list(generate_answers(model, set(), [Question("long", 0, "chat", tuple([7] * 128))], max_new_tokens=5))


def test_pools_hold_every_question_once_and_similar_lengths() -> None:
    asked = [Question(str(n), 0, "chat", (1,) * n) for n in (3, 700, 128, 129, 256, 257, 90)]
    lengths = [[len(q.ids) for q in pool] for pool in pools(asked)]
    assert lengths == [[3, 90, 128], [129, 256], [257], [700]]


def some_answers(count: int, top: int = 0) -> list[Answer]:
    generator = torch.Generator().manual_seed(count)
    answers = []
    for i in range(count):
        ids = torch.randint(0, 60_000, (3 + i % 5,), generator=generator).tolist()
        candidates = (torch.randint(0, 60_000, (len(ids), top)), -torch.rand(len(ids), top)) if top else (None, None)
        finish = "stop" if i % 3 else "length"
        answers.append(Answer(f"p{i}", i % 2, "code", (1,) * i, tuple(ids), finish, *candidates))
    return answers


SETTINGS = AnswerSettings("nano", 60_000, 20, 0.0, 0)


@pytest.mark.parametrize("vocab_size", [60_000, 200_000])
@pytest.mark.parametrize("top", [0, 4])
def test_what_is_written_is_read(tmp_path: Path, vocab_size: int, top: int) -> None:
    store = AnswerStore(tmp_path, AnswerSettings("nano", vocab_size, 20, 0.0, 0, top))
    answers = some_answers(9, top)
    fill_store(store, answers, shard_size=4)
    assert len(shards(tmp_path)) == 3
    for _ in range(2):
        found = {a.key: a for a in read_answers(tmp_path)}
        assert sorted(found.values(), key=lambda a: a.key) == sorted(answers, key=lambda a: a.key)
        for answer in answers if top else []:
            assert torch.equal(found[answer.key].top_ids_AT.long(), answer.top_ids_AT)
            torch.testing.assert_close(found[answer.key].top_logprobs_AT, answer.top_logprobs_AT.half())
        store.merge()
        assert len(shards(tmp_path)) == 1
    tokens = sum(len(a.prompt_ids) + len(a.answer_ids) for a in answers)
    bytes_per_token = shards(tmp_path)[0].stat().st_size / tokens
    assert top or vocab_size > 1 << 16 or bytes_per_token < 20


def test_a_kill_takes_no_more_than_a_minute_of_a_slow_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, clock, on_disk = AnswerStore(tmp_path, SETTINGS), [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def slowly() -> Iterator[Answer]:
        for answer in some_answers(5):
            clock[0] += 25
            yield answer
            on_disk.append(len(read_answers(tmp_path)))

    fill_store(store, slowly())
    assert on_disk == [0, 0, 3, 3, 3] and len(read_answers(tmp_path)) == 5


def test_a_damaged_shard_and_other_settings_are_refused(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path, SETTINGS)
    path = store.add(some_answers(3))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"{path.name} is damaged"):
        read_answers(tmp_path)
    with pytest.raises(ValueError, match=r"made with temperature 0\.0; give another --out"):
        AnswerStore(tmp_path, AnswerSettings("nano", 60_000, 20, 0.5, 0))
    with pytest.raises(ValueError, match=r"no settings\.json"):
        read_answers(tmp_path / "elsewhere")


def test_answers_of_another_precision_are_not_mixed_in(tmp_path: Path) -> None:
    AnswerStore(tmp_path, replace(SETTINGS, dtype="bf16"))
    with pytest.raises(ValueError, match="made with dtype bf16; give another --out"):
        AnswerStore(tmp_path, replace(SETTINGS, dtype="fp32"))
    # Directories that are older than the note go on.
    AnswerStore(tmp_path / "old", SETTINGS)
    AnswerStore(tmp_path / "old", replace(SETTINGS, dtype="fp32"))


@pytest.mark.parametrize("damage", ["no header", "no lengths", "other lengths"])
def test_a_strangers_shard_is_named(damage: str, tmp_path: Path) -> None:
    """Whole, by the digest in its name, and yet no shard."""
    AnswerStore(tmp_path, AnswerSettings("tiny", VOCAB, 24, 0.0, 0))
    plain = tmp_path / "plain"
    plain.write_bytes(shard_bytes(some_answers(3), VOCAB))
    tensors, header = load_file(plain), {name: "[]" for name in ("prompts", "samples", "domains")}
    if damage == "no lengths":
        del tensors["answer_lengths"]
    elif damage == "other lengths":
        tensors["answer_lengths"] += 1
    data = save(tensors, metadata=None if damage == "no header" else header)
    (tmp_path / f"answers-00000-{digest(data)}.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match="is not a shard of answers"):
        read_answers(tmp_path)


def test_a_kill_while_merging_leaves_each_answer_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = AnswerStore(tmp_path, SETTINGS)
    fill_store(store, some_answers(6), shard_size=2)

    def killed(self: Path) -> None:
        raise SystemExit

    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(SystemExit):
        store.merge()
    assert len(shards(tmp_path)) == 4
    assert sorted(a.key for a in read_answers(tmp_path)) == sorted(a.key for a in some_answers(6))


def write_prompts(path: Path, count: int) -> Path:
    lines = [
        {
            "id": f"chat-{i:04d}",
            "domain": "chat",
            "messages": [{"role": "user", "content": f"tell me of {'x' * i} {i}"}],
        }
        for i in range(count)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def generate(directory: Path, prompts: Path, out: Path, *more: str) -> dict[str, object]:
    arguments = ["generate", "--target", str(directory), "--prompts", str(prompts), "--out", str(out), "--json", *more]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_command_does_each_prompt_once(directory: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers"
    first = generate(directory, write_prompts(tmp_path / "a.jsonl", 5), out, "--max-new-tokens", "9")
    assert (first["answers"], first["new_answers"]) == (5, 5)
    before = {a.key: a for a in read_answers(out)}
    # More prompts later: only the new ones are done.
    more = generate(directory, write_prompts(tmp_path / "b.jsonl", 8), out, "--max-new-tokens", "9")
    assert (more["answers"], more["new_answers"]) == (8, 3)
    after = {a.key: a for a in read_answers(out)}
    assert first["settings"]["dtype"] == "fp32" and read_settings(out).dtype == "fp32"
    narrow = generate(directory, tmp_path / "a.jsonl", tmp_path / "bf16", "--max-new-tokens", "9", "--dtype", "bf16")
    assert narrow["settings"]["dtype"] == read_settings(tmp_path / "bf16").dtype == "bf16"
    assert before.items() <= after.items()
    assert more["answer_tokens"] == sum(len(a.answer_ids) for a in after.values())
    text = "".join(chr(32 + i) if i != VOCAB - 1 else "?" for i in after["chat-0003", 0].prompt_ids)
    assert text == "utell me of xxx 3a"


def test_another_prompt_under_a_known_id_is_refused(directory: Path, tmp_path: Path) -> None:
    out, prompts = tmp_path / "answers", write_prompts(tmp_path / "a.jsonl", 3)
    generate(directory, prompts, out, "--max-new-tokens", "5")
    prompts.write_text(prompts.read_text().replace("xx 2", "xy 2"))
    arguments = ["generate", "--target", str(directory), "--prompts", str(prompts), "--out", str(out)]
    result = CliRunner().invoke(command, [*arguments, "--max-new-tokens", "5"])
    assert result.exit_code == 2
    assert "another prompt of the id chat-0002" in result.stderr
    result = CliRunner().invoke(command, [*arguments, "--samples", "3"])
    assert result.exit_code == 2 and "--temperature 0 gives the same answer 3 times" in result.stderr


def test_answers_of_other_weights_are_refused_and_old_directories_stay_readable(
    directory: Path, tmp_path: Path
) -> None:
    out, prompts = tmp_path / "answers", write_prompts(tmp_path / "a.jsonl", 2)
    target = Path(shutil.copytree(directory, tmp_path / "target"))
    arguments = ["generate", "--target", str(target), "--prompts", str(prompts), "--out", str(out)]
    generate(target, prompts, out)
    settings = json.loads((out / "settings.json").read_text())
    assert settings["weights"] == fingerprint(target)
    tensors = load_file(target / "model.safetensors")
    tensors["model.norm.weight"] += 1
    save_file(tensors, target / "model.safetensors")
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2 and "holds answers of other weights of" in result.stderr
    del settings["weights"]
    (out / "settings.json").write_text(json.dumps(settings))
    assert read_settings(out).weights is None
    assert generate(target, prompts, out)["new_answers"] == 0


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"\xff", b'{"target": 1}', b'{"target": "nano", "more": 1}', b'{"a":' * 5000]
)
def test_broken_settings_are_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "settings.json").write_bytes(data)
    with pytest.raises(ValueError, match=r"settings\.json"):
        read_settings(tmp_path)


def test_answers_without_their_settings_get_no_others(tmp_path: Path) -> None:
    settings = AnswerSettings("nano", 4096, 8, 0.0, 0)
    AnswerStore(tmp_path, settings).add([Answer("a", 0, "chat", (1, 2), (3,), "stop")])
    (tmp_path / "settings.json").unlink()
    with pytest.raises(ValueError, match=r"holds answers and no settings\.json"):
        AnswerStore(tmp_path, settings)
    assert not (tmp_path / "settings.json").exists()


def test_a_shard_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    """The library orders metadata by chance: each call of its own may come out otherwise."""
    answers = some_answers(5, 3)
    assert len({shard_bytes(answers, VOCAB) for _ in range(20)}) == 1
    path = AnswerStore(tmp_path, AnswerSettings("nano", VOCAB, 20, 0.0, 0, 3)).add(answers)
    assert read_answers(tmp_path) == answers
    assert set(load_file(path)) == {"tokens", "prompt_lengths", "answer_lengths", "stopped", "top_ids", "top_logprobs"}


def test_a_draw_follows_the_distribution_and_not_the_rounding(directory: Path) -> None:
    """Frequencies of many draws, and how often noise as large as a kernel's rounding changes one."""
    batch = Batch(LanguageModel.from_directory(directory, device="cpu"), frozenset(), 1, 16, 8, 0.7, 0, 0)
    generator = torch.Generator().manual_seed(0)
    logits_V = 3 * torch.randn(VOCAB, generator=generator)
    draws = 4000
    rows = [
        Row(Question(f"p{i}", 0, "chat", (1,)), 8, generator_of(0, Question(f"p{i}", 0, "chat", (1,))))
        for i in range(draws)
    ]
    found = torch.tensor(batch.choose(rows, logits_V.expand(draws, -1)))
    right_V = (logits_V.double() / 0.7).softmax(-1)
    counts_V = torch.bincount(found, minlength=VOCAB).double()
    chi_square = float(((counts_V - draws * right_V) ** 2 / (draws * right_V)).sum())
    assert chi_square < VOCAB + 5 * (2 * VOCAB) ** 0.5
    again = [Row(row.question, 8, generator_of(0, row.question)) for row in rows]
    noisy = logits_V + 1e-6 * torch.randn(draws, VOCAB, generator=generator)
    assert (torch.tensor(batch.choose(again, noisy)) != found).sum() <= 1


def test_a_killed_run_goes_on_where_it_was(directory: Path, tmp_path: Path) -> None:
    out, prompts = tmp_path / "answers", write_prompts(tmp_path / "a.jsonl", 60)
    arguments = ["--max-new-tokens", "20", "--temperature", "1", "--batch-size", "4"]
    slow = (
        "import sys, time; from labsim.train import answers; from labsim.commands.data import command\n"
        "fill = answers.fill_store\n"
        "def slowly(store, some, **more): fill(store, (time.sleep(0.05) or a for a in some), shard_size=5, **more)\n"
        "answers.fill_store = slowly\n"
        "command(sys.argv[1:])\n"
    )
    full = ["generate", "--target", str(directory), "--prompts", str(prompts), "--out", str(out), *arguments]
    process = subprocess.Popen(
        [sys.executable, "-c", slow, *full], env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while len(shards(out)) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    # A second writer is turned away while the first one lives.
    second = CliRunner().invoke(command, full)
    assert second.exit_code == 1 and "another process is writing" in second.stderr
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = read_answers(out)
    assert 15 <= len(done) < 60
    report = generate(directory, prompts, out, *arguments)
    assert report["new_answers"] == 60 - len(done)
    assert (report["answers"], len(shards(out))) == (60, 1)
    undisturbed = tmp_path / "undisturbed"
    generate(directory, prompts, undisturbed, *arguments)
    assert sorted(read_answers(out), key=lambda a: a.key) == sorted(read_answers(undisturbed), key=lambda a: a.key)
