"""Exercise 07.7: the gradients of faulty losses look as its hints say, and no other candidate's do."""

from __future__ import annotations

import pytest

from labsim.checkpoints.trainer_faults import NAMES
from labsim.lab.answered import answered
from labsim.lab.exercises.drift_by_hand import TRAINING_CAUSES, TRAINING_CURVES
from labsim.lab.planted_curves import HEALTHY
from labsim.lab.planted_training import Backward, planted_backwards
from labsim.models.load import Target, load_target
from labsim.train.ttt.data import Document

BESIDE = (0, 4)
Losses = dict[str, list[Backward]]


@pytest.fixture(scope="module")
def nano() -> Target:
    return load_target("nano", device="cpu")


@pytest.fixture(scope="module")
def texts(nano: Target) -> list[Document]:
    return answered(nano, {"chat": 3, "code": 3}, "held_out", max_new_tokens=24, longest=160)


@pytest.fixture(scope="module")
def losses(nano: Target, texts: list[Document]) -> Losses:
    """By name of the fault, all candidates."""
    return planted_backwards(nano, texts, BESIDE, {name: name for name in TRAINING_CAUSES})


def kept(losses: Losses, name: str) -> float:
    """The gradient of the long row over that of the short one."""
    short, long = losses[name]
    return long.norm / short.norm


def test_the_candidates_are_trainer_faults() -> None:
    assert set(TRAINING_CURVES.values()) < set(TRAINING_CAUSES) <= set(NAMES)


def test_what_is_put_beside_the_answer_counts_for_nothing(losses: Losses) -> None:
    short, long = losses[HEALTHY]
    assert long.length - short.length == long.prompts - short.prompts > short.length
    assert kept(losses, HEALTHY) == pytest.approx(1, rel=1e-4)
    assert long.loss == pytest.approx(short.loss, rel=1e-5)
    for right in (short, long):
        assert not any(right.guess_L[: right.answer_start - 1]), "a prompt's guesses do not count"
        assert not any(right.guess_L[-2:]), "nothing of the answer is left to guess"
        assert all(right.guess_L[right.answer_start - 1 : -2])


def test_the_mask_takes_the_first_chain_of_the_answer_and_no_other(losses: Losses) -> None:
    for wrong, right in zip(losses["mask-of-x-t"], losses[HEALTHY], strict=True):
        missing = [at for at, (w, r) in enumerate(zip(wrong.guess_L, right.guess_L, strict=True)) if w == 0 < r]
        assert missing == [right.answer_start - 1]
        assert abs(wrong.loss / right.loss - 1) < 0.1, "the loss does not show it"


def test_the_diluted_mean_shrinks_as_the_row_grows(losses: Losses) -> None:
    short, long = losses[HEALTHY]
    assert kept(losses, "loss-mean-diluted") == pytest.approx(short.length / long.length, rel=1e-4)


@pytest.mark.parametrize("name", sorted(set(TRAINING_CAUSES) - set(TRAINING_CURVES.values())))
def test_no_other_candidate_looks_like_it(losses: Losses, name: str) -> None:
    assert kept(losses, name) == pytest.approx(1, rel=1e-4)
    assert all(row.guesses([-1])[0] > 0 for row in losses[name])


def test_more_prompts_than_texts_are_refused(nano: Target, texts: list[Document]) -> None:
    with pytest.raises(ValueError, match="9 prompts beside the answer take 10 texts; given 6"):
        planted_backwards(nano, texts, (0, 9))
