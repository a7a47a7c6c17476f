"""Loss and entropy against closed forms and transformers, and the shipped model against its own claims."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from labsim.models.load import load_target
from labsim.models.paths import cache_directory, data_directory
from labsim.train.nano.corpus import held_out_prompts
from labsim.train.nano.evaluate import Answer, answer, answer_entropies, copying, mean_loss, repetition, summarise

NANO = data_directory() / "nano"


@pytest.fixture(scope="module")
def target():
    return load_target("nano", device="cpu", dtype=torch.float32)


def reference():
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(NANO, dtype=torch.float32)


def test_mean_loss_is_that_of_transformers(target) -> None:
    rows_BT = np.random.default_rng(0).integers(8, 4000, (2, 40)).astype(np.uint16)
    tokens_BT = torch.from_numpy(rows_BT.astype(np.int64))
    with torch.no_grad():
        expected = reference()(input_ids=tokens_BT, labels=tokens_BT).loss.item()
    assert mean_loss(target.model, rows_BT) == pytest.approx(expected, rel=1e-4)


def test_greedy_answer_and_entropies_are_those_of_transformers(target) -> None:
    prompt = target.encode_chat("Tell me a story about a patient whale.")
    found = answer(target.model, prompt, target.stop_ids, temperature=0, max_new_tokens=16, generator=torch.Generator())
    model = reference()
    with torch.no_grad():
        output = model.generate(
            torch.tensor([prompt]), do_sample=False, max_new_tokens=16, output_logits=True, return_dict_in_generate=True
        )
    assert list(found.tokens) == output.sequences[0, len(prompt) :].tolist()
    expected = [torch.distributions.Categorical(logits=step[0].float()).entropy().item() for step in output.logits]
    assert found.entropies == pytest.approx(expected, abs=1e-3)


class Uniform:
    """A model without an opinion: V equal logits."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary, self.device = vocabulary, torch.device("cpu")
        self.config = type("Config", (), {"max_positions": 64})

    def new_cache(self, batch_size: int, capacity: int):
        return type("Cache", (), {"keep": lambda self, paths: None})()

    def forward(self, tokens_BQ, cache, *, logits="all"):
        return type("Output", (), {"logits_BQV": torch.zeros(1, 1, self.vocabulary)})


def test_entropy_of_a_uniform_model_is_the_logarithm_of_the_vocabulary() -> None:
    one = answer(
        Uniform(32), [1], frozenset(), temperature=1, max_new_tokens=50, generator=torch.Generator().manual_seed(0)
    )
    figures = summarise([one])
    assert figures.entropy_nats == pytest.approx(math.log(32), rel=1e-5)
    assert figures.entropy_bits == pytest.approx(5.0, rel=1e-5)
    assert figures.top_probability == pytest.approx(1 / 32)
    assert figures.stopped == 0 and len(set(one.tokens)) > 10


def test_means_weigh_positions_not_answers() -> None:
    short, long = Answer((1,), (3.0,), (0.5,), True), Answer((1, 2, 3), (1.0, 1.0, 1.0), (0.9, 0.9, 0.9), False)
    figures = summarise([short, long])
    assert figures.entropy_nats == 1.5 and figures.tokens == 4 and figures.stopped == 0.5
    with pytest.raises(ValueError, match="no answers"):
        summarise([])


def test_repetition_counts_windows_seen_before() -> None:
    assert repetition([1, 2, 3, 4, 5, 6]) == 0
    assert repetition([7] * 8) == pytest.approx(4 / 5)
    assert repetition([1, 2]) == 0


def test_a_prompt_that_does_not_fit_is_refused(target) -> None:
    with pytest.raises(ValueError, match="4090 tokens and 10 new ones do not fit 4096 positions"):
        answer(target.model, [9] * 4090, frozenset(), temperature=0, max_new_tokens=10, generator=torch.Generator())


def test_the_shipped_model_is_what_its_files_say(target) -> None:
    assert sum(path.stat().st_size for path in NANO.rglob("*") if path.is_file()) <= 16_000_000
    config = json.loads((NANO / "config.json").read_text())
    assert (config["num_hidden_layers"], config["max_position_embeddings"], config["rope_theta"]) == (8, 4096, 10000.0)
    assert {target.tokenizer.decode([i]) for i in target.stop_ids} == {"<|im_end|>", "<|eot_id|>", "<|end_of_text|>"}
    recipe = json.loads((NANO / "recipe.json").read_text())
    last = (NANO / "loss.csv").read_text().splitlines()[-1].split(",")
    assert (int(last[0]), int(last[1])) == (recipe["steps"], recipe["tokens"])
    assert max(phase["length"] for phase in recipe["recipe"]["phases"]) >= 1024


def test_the_shipped_evaluation_can_be_measured_again(target) -> None:
    document = json.loads((NANO / "evaluation.json").read_text())
    claimed, how = document["entropy"]["agent"]["greedy"], document["measured_with"]
    prompts = {"agent": held_out_prompts("agent", how["prompts_per_domain"], how["seed"])}
    found = answer_entropies(target, prompts, max_new_tokens=how["max_new_tokens"], seed=how["seed"])["agent"]["greedy"]
    assert found["entropy_nats"] == pytest.approx(claimed["entropy_nats"], rel=0.02)


class Lookup:
    """A model that copies perfectly: after a token it expects what followed that token before."""

    def __init__(self, vocabulary: int) -> None:
        self.config = type("Config", (), {"vocab_size": vocabulary})
        self.device = torch.device("cpu")

    def new_cache(self, batch_size: int, capacity: int) -> None:
        return None

    def forward(self, tokens_BQ, cache):
        logits_BQV = torch.zeros(*tokens_BQ.shape, self.config.vocab_size)
        tokens = tokens_BQ[0].tolist()
        for place, token in enumerate(tokens):
            if token in tokens[:place]:
                logits_BQV[0, place, tokens[tokens.index(token) + 1]] = 50.0
        return type("Output", (), {"logits_BQV": logits_BQV})


def test_copying_tells_a_model_that_looks_back_from_one_that_does_not() -> None:
    looks_back = copying(Lookup(400), 0, period=20, rows=2)
    assert looks_back.first == pytest.approx(math.log(400), rel=1e-4)
    assert looks_back.again == pytest.approx(0, abs=1e-6)


def test_directories_follow_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LABSIM_CACHE", str(tmp_path / "a"))
    assert cache_directory() == tmp_path / "a"
    monkeypatch.delenv("LABSIM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "labsim"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "labsim"
    assert (data_directory() / "nano" / "config.json").is_file()
