"""Every planted fault is named by the check that it says, and shows the symptom that it says; healthy drafts show none.

Drafts on the course's small target with the draft that ships for it.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from labsim.checkpoints.behaviour import embedding_checks
from labsim.checkpoints.curve import Curve, greedy_texts, measure, read_texts
from labsim.checkpoints.doctor import Diagnosis, examine
from labsim.checkpoints.faults import fault_named, faults, plant, symptom
from labsim.checkpoints.held_out import held_out_checks, read_said, same_texts, walked
from labsim.checkpoints.on_disk import read_directory
from labsim.checkpoints.served import serve
from labsim.features.source import Online
from labsim.models.load import Target, load_target
from labsim.models.paths import data_directory
from labsim.train.ttt.build import start_from
from labsim.train.ttt.data import Document
from labsim.train.ttt.estimate import estimate
from labsim.train.ttt.recipe import TTTRecipe
from labsim.train.ttt.run import run as train

from .public_drafts import names

HEALTHY = data_directory() / "drafts" / "nano-eagle3.1"
EAGLE_3 = data_directory() / "drafts" / "nano-eagle3"
# These leave no trace but in how the draft behaves.
BEHAVIOURAL = {"d2t-stale", "feedback-flag", "residual-flag", "halves-swapped"}
CHECKPOINT = [fault.name for fault in faults("checkpoint")]


@pytest.fixture(scope="module")
def target() -> Target:
    return load_target("nano")


@pytest.fixture(scope="module")
def texts(target: Target) -> list[Document]:
    return greedy_texts(target)  # those that the command line takes


@pytest.fixture(scope="module")
def healthy(target: Target, texts: list[Document]) -> Curve:
    return symptom(HEALTHY, target, texts)


def run(directory: Path, target: Target, texts: list[Document]) -> Diagnosis:
    return examine(directory, "nano", load=lambda name: target, texts=texts)


def test_there_are_enough_faults_and_each_says_what_it_is() -> None:
    known = faults()
    assert len(CHECKPOINT) >= 10 and len(faults("trainer")) >= 4
    assert len({fault.name for fault in known}) == len(known)
    assert all(fault.cause and fault.symptom and fault.remedy and fault.caught_by for fault in known)
    with pytest.raises(ValueError, match="did you mean 'd2t-zeros'"):
        fault_named("d2t-zero")


@pytest.mark.parametrize("name", CHECKPOINT)
def test_the_doctor_names_it(name: str, target: Target, texts: list[Document], tmp_path: Path) -> None:
    # 3.1 norms what it reads and what it hands on: this one costs it too little to be seen.
    planted = plant(name, EAGLE_3 if name == "residual-flag" else HEALTHY, tmp_path / "planted")
    found = run(planted, target, texts) if name in BEHAVIOURAL else examine(planted, "nano", run=False)
    wrong = names(found.checks, "fault") + names(found.checks, "warning")
    assert fault_named(name).caught_by in wrong, wrong
    assert not found.ok or name == "short-positions"  # engines differ: a warning


@pytest.mark.parametrize("directory", [HEALTHY, EAGLE_3], ids=["3.1", "3"])
def test_a_healthy_draft_passes_everything(directory: Path, target: Target, texts: list[Document]) -> None:
    found = run(directory, target, texts)
    assert found.ok and names(found.checks, "warning") == []
    # A long training has moved the head of EAGLE-3 away from the rows that it started from.
    assert names(found.checks, "not checked") == ([] if directory == HEALTHY else ["head rows"])
    assert found.behaviour and len(found.behaviour.tried) >= 10
    document = found.document()
    assert json.loads(json.dumps(document))["acceptance"]["survival"][0] > 0.3
    assert {"name", "status", "finding", "symptom", "remedy"} == set(document["checks"][0])


def test_the_behavioural_check_says_how_far_it_is(target: Target) -> None:
    told: list[tuple[str, int, int]] = []
    texts = greedy_texts(target, 3, 8, told=lambda *said: told.append(said))
    assert told == [("greedy answers", done, 3) for done in range(4)]
    told.clear()
    found = examine(HEALTHY, "nano", load=lambda name: target, texts=texts, told=lambda *said: told.append(said))
    tried = len(found.behaviour.tried)
    assert told == [("other wirings", done, tried) for done in range(tried)]


def test_an_embedding_that_is_not_the_targets(target: Target, tmp_path: Path) -> None:
    embedding = target.model.embedding_VE.half()
    for factor, name in ((1, "embedding copy"), (0, "embedding copy: differs")):
        disk = read_directory(HEALTHY)
        stored = embedding * factor + (1 - factor) * embedding.roll(1, dims=0)
        found = embedding_checks(replace(disk, tensors=disk.tensors | {"embed_tokens.weight": stored}), target)
        assert [check.name for check in found] == [name]
    assert embedding_checks(read_directory(HEALTHY), target) == []


def test_a_draft_that_is_only_poor_is_no_fault(target: Target, texts: list[Document]) -> None:
    """Without training-time test a normed feedback happens to be a little better: a cure, not a wiring fault."""
    assert names(run(data_directory() / "ttt" / "nano" / "eagle3-ttt1", target, texts).checks, "fault") == []


def test_weights_that_were_better_once_are_named(target: Target, texts: list[Document], tmp_path: Path) -> None:
    """Noise on the layer: a draft that is still fair by itself. Its recipe remembers more."""
    tensors, generator = read_directory(HEALTHY).tensors, torch.Generator().manual_seed(0)
    for name, weight in tensors.items():
        if weight.ndim == 2 and name.startswith("midlayer."):
            noise = torch.randn(weight.shape, generator=generator) * weight.float().std()
            tensors[name] = (weight.float() + 0.6 * noise).to(weight.dtype)
    save_file(tensors, tmp_path / "model.safetensors")
    shutil.copy(HEALTHY / "config.json", tmp_path)
    assert run(tmp_path, target, texts).ok
    shutil.copy(HEALTHY / "recipe.json", tmp_path)
    assert names(run(tmp_path, target, texts).checks, "fault") == ["acceptance: below its training's"]


def test_the_walk_over_the_same_texts_is_the_recipes_own_figure(target: Target, tmp_path: Path) -> None:
    """Of a draft that was trained on the shipped answers alone."""
    recipe = TTTRecipe(draft="eagle3.1", ttt=1, steps=8, seq=512, draft_vocab_size=1024, evaluate_every=8, k=7)
    train("nano", ["shipped"], recipe, tmp_path)
    disk = read_directory(tmp_path)
    said = read_said(disk)
    same = same_texts(disk, target, said)
    assert len(same) == said["all"].documents == 48
    draft = serve(tmp_path, target)
    read = read_texts(target, same, draft.layers)
    runs_P = measure(draft, read, 7).runs_P
    steps, accepted = torch.tensor(
        [walked(text, runs_P[read.text_P == index], 7) for index, text in enumerate(same)]
    ).sum(0).tolist()  # fmt: skip
    found = json.loads((tmp_path / "recipe.json").read_text())
    assert 1 + accepted / steps == pytest.approx(found["result"]["acceptance_length"], rel=0.01)
    assert same_texts(read_directory(HEALTHY), target, read_said(read_directory(HEALTHY))) == []  # others were added


def test_without_the_same_texts_the_interval_is_wide(
    target: Target, texts: list[Document], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recipe that says a little more than is seen on a few other texts is no fault; one that says far more is."""
    monkeypatch.setattr("labsim.checkpoints.held_out.same_texts", lambda disk, target, said: [])
    draft = serve(HEALTHY, target)
    read = read_texts(target, texts, draft.layers)
    for survival, status in (([0.45, 0.25, 0.15], "ok"), ([1.0, 1.0, 1.0], "fault")):
        figures = {domain: {"documents": 12, "survival": survival} for domain in ("chat", "code", "agent")}
        (tmp_path / "recipe.json").write_text(json.dumps({"result": {"held_out": figures}}))
        disk = replace(read_directory(HEALTHY), directory=tmp_path)
        assert [one.status for one in held_out_checks(disk, draft, target, texts, read)] == [status]
    endless = {"survival": [0.5] * 100_000, "documents": 3}
    for damage in (
        {"survival": [2.0], "documents": 3},
        endless,
        {"survival": None},
        {"documents": "x", "survival": [0.5]},
    ):
        (tmp_path / "recipe.json").write_text(json.dumps({"result": {"held_out": {"chat": damage}}}))
        assert held_out_checks(disk, draft, target, texts, read) == []


def test_a_draft_that_always_says_one_token_is_as_good_as_none(
    target: Target, texts: list[Document], tmp_path: Path
) -> None:
    disk = read_directory(HEALTHY)
    answers = torch.cat([torch.tensor(text.tokens[text.answer_start :]) for text in texts])
    common = int(answers.bincount().argmax())
    row = int((torch.arange(len(disk.tensors["d2t"])) + disk.tensors["d2t"] == common).nonzero())
    head = torch.full_like(disk.tensors["lm_head.weight"], 1e-3)
    head[row] = 5 * disk.tensors["lm_head.weight"][row]
    shutil.copy(HEALTHY / "config.json", tmp_path)
    save_file(disk.tensors | {"lm_head.weight": head}, tmp_path / "model.safetensors")
    found = run(tmp_path, target, texts)
    assert found.behaviour and found.behaviour.configured and found.behaviour.configured.survival[0] > 0.04
    assert "acceptance: nothing" in names(found.checks, "fault")


def test_pre_norm_training_called_3_1_accepts_more_the_other_way(
    target: Target, texts: list[Document], tmp_path: Path
) -> None:
    """The other direction: a draft trained with the state before the norm, served as if it were 3.1's."""
    source = data_directory() / "ttt" / "nano" / "eagle3-ttt4"
    planted = plant("feedback-flag", source, tmp_path / "planted")
    assert json.loads((planted / "config.json").read_text())["norm_output"] is True
    called, meant = symptom(planted, target, texts), symptom(source, target, texts)
    assert called.survival[0] == meant.survival[0] and called.accepted < meant.accepted


def test_symptoms_are_those_that_are_told(
    healthy: Curve, target: Target, texts: list[Document], tmp_path: Path
) -> None:
    def curve(name: str, draft: Path = HEALTHY) -> Curve:
        return symptom(plant(name, draft, tmp_path / name), target, texts)

    feedback = curve("feedback-flag")
    assert feedback.survival[0] == healthy.survival[0], "depth 1 does not see the fed-back state"
    assert feedback.survival[1] < 0.8 * healthy.survival[1] and feedback.survival[3] < 0.02
    for name in ("d2t-zeros", "d2t-absolute", "d2t-stale"):
        assert curve(name).accepted < 0.05
    assert curve("halves-swapped").accepted < 0.3 * healthy.accepted
    assert curve("residual-flag", EAGLE_3).accepted < 0.6 * symptom(EAGLE_3, target, texts).accepted
    assert curve("fc-norm-flag-off").survival[0] < healthy.survival[0]
    assert curve("template-differs").survival == healthy.survival, "the weights are the same"


def test_a_fault_that_does_not_apply_is_refused(tmp_path: Path) -> None:
    eagle3 = data_directory() / "ttt" / "nano" / "eagle3-ttt4"
    with pytest.raises(ValueError, match=r"no fc_norm to spoil: take an EAGLE-3\.1"):
        plant("fc-norm-skipped", eagle3, tmp_path / "a")
    with pytest.raises(ValueError, match="no EAGLE-3 draft"):
        plant("tied", data_directory() / "drafts" / "nano-mtp", tmp_path / "a")
    with pytest.raises(ValueError, match="is a fault of the trainer"):
        plant("mask-of-x-t", HEALTHY, tmp_path / "a")
    assert not (tmp_path / "a").exists()
    (tmp_path / "a").mkdir()
    with pytest.raises(ValueError, match="is there already"):
        plant("tied", HEALTHY, tmp_path / "a")


# --- the curve itself ------------------------------------------------------------------------------------------------


def test_the_curve_is_the_trainers_estimate_place_by_place(
    healthy: Curve, target: Target, texts: list[Document]
) -> None:
    """`estimate` counts by the teacher's own choices, text by text; here the next token of the greedy text decides."""
    recipe = TTTRecipe(draft="eagle3.1")
    draft, vocabulary = start_from(HEALTHY, recipe, target)
    source = Online(target.model, draft.config.feature_layers)
    found = estimate(draft, texts, source, target.model.head, vocabulary, recipe, 5)
    assert healthy.marginal == pytest.approx(found.marginal, abs=0.01)  # near-ties in batches of other widths
    assert healthy.conditional[1] == pytest.approx(healthy.survival[1] / healthy.survival[0])


def test_runs_are_leading_runs(target: Target, texts: list[Document]) -> None:
    """By brute force, from one draft's first guesses at each depth."""
    served = serve(HEALTHY, target)
    read = read_texts(target, texts[:2], served.layers)
    curve = measure(served, read, 3)
    place = 0
    for text in texts[:2]:
        [states] = Online(target.model, served.layers).read([text.tokens])
        tokens = torch.tensor([text.tokens])
        with torch.no_grad():
            steps = list(served.draft.ttt_forward(tokens, states.features_TF[None], 3))
            said = [served.ids_N[served.draft.logits(one.output_BLH[0]).argmax(-1)].tolist() for one in steps]
        for t in range(text.answer_start - 1, len(text.tokens) - 2):
            run = 0
            while run < 3 and t + 2 + run < len(text.tokens) and said[run][t] == text.tokens[t + 2 + run]:
                run += 1
            assert run == int(curve.runs_P[place])
            place += 1
    assert place == len(curve.runs_P)


def test_sampled_text_is_refused(target: Target, texts: list[Document]) -> None:
    with pytest.raises(ValueError, match="was sampled"):
        read_texts(target, [replace(texts[0], greedy=False)], (2,))
