"""Chunked logits: the same loss and gradients in less memory, and the same resuming."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from labsim.features.source import Online
from labsim.models.load import Target, load_target
from labsim.train.ttt.build import build
from labsim.train.ttt.checkpoint import NAME
from labsim.train.ttt.data import Document
from labsim.train.ttt.loop import Report, identity_of, train
from labsim.train.ttt.loss import Teacher, row_loss
from labsim.train.ttt.memory import DraftShape, StepSetting
from labsim.train.ttt.memory_measure import StepCase, measure, random_case
from labsim.train.ttt.recipe import KINDS, TTTRecipe


def case_of(kind: str, **changed: object) -> StepCase:
    vocabulary = 400 if kind in ("eagle1", "mtp") else 250
    taps = 3 if kind.startswith("eagle3") else 1
    sizes = {"hidden": 32, "target_hidden": 32, "heads": 4, "kv_heads": 2, "head_dim": 8, "intermediate": 64}
    shape = DraftShape(kind=kind, vocab=400, draft_vocab=vocabulary, features=taps, **sizes)
    case = random_case(shape, StepSetting(positions=90, ttt=3, bf16=False, state_bytes=4, device="cpu"))
    return replace(case, recipe=replace(case.recipe, **changed))


def step(case: StepCase) -> tuple[torch.Tensor, list, dict[str, torch.Tensor]]:
    last_LE = case.states[0].last_TE
    teacher = Teacher.of(case.row, last_LE, case.head, case.vocabulary, keep=not case.recipe.logit_chunk)
    loss, figures = row_loss(case.draft, case.row, case.states, teacher, case.recipe)
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in case.draft.named_parameters()}
    case.draft.zero_grad(set_to_none=True)
    return loss, figures, gradients


@pytest.mark.parametrize("changed", [{}, {"oov": "drop"}, {"checkpointing": True}])
@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradients_are_those_of_whole_logits(kind: str, changed: dict[str, object]) -> None:
    whole = step(case_of(kind, **changed))
    for chunk in (7, 44, 500):
        loss, figures, gradients = step(case_of(kind, logit_chunk=chunk, **changed))
        assert float(loss.detach()) == pytest.approx(float(whole[0].detach()), rel=1e-6)
        for ours, theirs in zip(figures, whole[1], strict=True):
            assert torch.equal(ours.correct_C, theirs.correct_C) and torch.equal(ours.places_C, theirs.places_C)
        for name, gradient in gradients.items():
            assert gradient.norm() > 0, name
            assert (gradient - whole[2][name]).norm() <= 3e-6 * whole[2][name].norm(), (name, chunk)


@pytest.mark.parametrize("kind", ["eagle3", "heads"])
def test_under_autocast_many_chunks_lose_nothing_of_the_heads_gradient(kind: str) -> None:
    """Hundreds of sums in bfloat16 would drift; each chunk's share is widened before it is added."""
    exact = step(case_of(kind))[2]
    errors = {}
    for chunk in (0, 1):
        found = step(case_of(kind, bf16=True, logit_chunk=chunk))[2]
        heads = [name for name in found if found[name].shape[0] == 250]
        errors[chunk] = max(float((found[name] - exact[name]).norm() / exact[name].norm()) for name in heads)
    assert errors[1] < 1.2 * errors[0]


def test_chunks_hold_neither_teacher_nor_logits() -> None:
    whole, chunked = (measure(case_of("eagle3", logit_chunk=chunk)) for chunk in (0, 8))
    one = 88 * 250 * 4
    assert whole.saved - chunked.saved > 0.95 * (3 + 1) * one, "three steps' log-softmaxes and the teacher's p"


@pytest.fixture(scope="module")
def nano() -> Target:
    return load_target("nano", device="cpu")


def test_a_training_in_chunks_resumes_to_the_same_bits(nano: Target, tmp_path: Path) -> None:
    recipe = TTTRecipe(
        draft="eagle3", ttt=2, steps=5, seq=48, draft_vocab_size=64, evaluate_every=5, k=2, logit_chunk=9
    )
    draw = torch.Generator().manual_seed(0)
    rows = torch.randint(300, 340, (6, 40), generator=draw).tolist()
    documents = [Document((str(i), 0), "chat", tuple(row), 8, True) for i, row in enumerate(rows)]
    identity = identity_of(recipe, nano, documents)

    class Stopped(Exception):
        pass

    def stop(report: Report) -> None:
        if report.counters.step == 3:
            raise Stopped

    def run(out: Path, **told: object) -> None:
        draft, vocabulary = build(recipe, nano, documents)
        source = Online(nano.model, draft.config.feature_layers)
        train(
            draft,
            vocabulary,
            nano,
            source,
            documents,
            documents,
            recipe,
            out,
            identity=identity,
            checkpoint_every=2,
            **told,
        )

    run(tmp_path / "unbroken")
    with pytest.raises(Stopped):
        run(tmp_path / "broken", told=stop)
    run(tmp_path / "broken")
    expected, found = (load_file(tmp_path / name / NAME) for name in ("unbroken", "broken"))
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_checkpoints_from_before_the_setting_still_fit(nano: Target) -> None:
    recipe = TTTRecipe(draft="mtp")
    assert "logit_chunk" not in identity_of(recipe, nano, [])["recipe"]
    assert identity_of(replace(recipe, logit_chunk=8), nano, [])["recipe"]["logit_chunk"] == 8
    with pytest.raises(ValueError, match="logit_chunk is -1"):
        replace(recipe, logit_chunk=-1)
