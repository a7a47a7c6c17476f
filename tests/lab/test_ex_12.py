"""The by-hand rules of notebook 12 are the rules of the package, and what the page shows is what the trainer does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
import torch

from labsim.attention.bytes_sent import AttentionShape
from labsim.lab import planted_shared as planting
from labsim.lab import shared_row as rows
from labsim.lab.exercises import shared_by_hand as hand
from labsim.lab.ring_count import count_pairs
from labsim.lab.shared_plot import draw_symptoms
from labsim.lab.shared_results import bytes_per_rank, gain
from labsim.lab.shared_training import (
    Lesson,
    apart,
    first_step_sums,
    guesses_by_rank,
    shorter,
    train_lesson,
)
from labsim.lab.usp_run import Problem, errors, run_on_a_rank
from labsim.models.load import load_target
from labsim.parallel import logical
from labsim.parallel.layout import Layout
from labsim.train.ttt.data import Document
from labsim.train.ttt.memory import StepSetting
from labsim.train.ttt.part import Part
from labsim.train.ttt.recipe import TTTRecipe

KINDS = hand.KINDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ring", [1, 2, 3])
def test_positions_halo_and_rotations_by_hand_are_the_layouts(kind: str, ring: int) -> None:
    length, steps = 8 * ring, 3
    layout, case = Layout(length, ring, 1, kind), rows.small_row(length, steps, 0)
    for rank, read in enumerate(rows.halo_of(case, ring, kind)):
        mine = layout.positions(rank).tolist()
        assert hand.own(kind, length, ring, rank) == mine
        # Nobody is judged behind the last token.
        assert [p for p in hand.halo(kind, length, ring, rank, steps) if p < length - 1] == read
        queries, keys = hand.turned(kind, length, ring, rank, 2)
        assert queries == [t + 2 for t in mine] and keys == [[t + 1, t + 2] for t in mine]
        for step in (0, 2):
            pairs = sum(count_pairs(layout)[rank])
            assert hand.pairs(kind, length, ring, rank, step + 1) == (step + 1) * pairs + len(mine) * (0, 1, 3)[step]
    home, others, branch = hand.keys_seen(length - 1, 2, length, ring, kind)
    assert (home + others, branch) == (length, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", [None, *planting.FAULTS])
def test_reasoned_symptoms_are_those_of_the_planted_trainer(fault: str | None, kind: str) -> None:
    for ring in (2, 3):
        case = rows.small_row(24, 3, ring)
        right = rows.guess_losses(case, kind, 1)
        wrong = rows.wrong_places(rows.guess_losses(case, kind, ring, fault=fault), right)
        name = fault or "healthy"
        assert wrong == hand.symptoms_of(name, kind, 24, ring, 3)
        assert hand.diagnose(wrong, 24 // (ring if kind == "contiguous" else 2 * ring)) == name


def test_losses_of_a_mesh_are_one_ranks() -> None:
    case = rows.small_row(32, 4, 1)
    right = rows.guess_losses(case, "zigzag", 1)
    assert [len(one) for one in right] == [30, 29, 28, 27]
    assert max(map(max, rows.differences(rows.guess_losses(case, "zigzag", 2, 2), right))) < 1e-13
    with pytest.raises(ValueError, match="different guesses"):
        rows.differences(right[:1] + [{}] * 3, right)
    with pytest.raises(ValueError, match="at most 128"):
        rows.small_row(200, 3, 0)


@pytest.mark.parametrize(("ring", "ulysses"), [(4, 1), (2, 2), (1, 4)])
def test_bytes_of_each_step_are_the_formulas_and_checkpointing_sends_a_forward_more(ring: int, ulysses: int) -> None:
    case, steps = rows.small_row(32, 3, 0), 3
    *forward, backward = (sum(one.values()) for one in rows.traffic(case, ring, ulysses))
    shape = AttentionShape(Layout(32, ring, ulysses), 4, 2, 8, 1, 8, 8, steps)
    assert forward == [shape.forward // steps] * steps
    assert backward == shape.backward
    again = replace(case, recipe=replace(case.recipe, checkpointing=True))
    assert sum(sum(one.values()) for one in rows.traffic(again, ring, ulysses)) == 2 * shape.forward + backward


def test_planting_leaves_the_package_as_it_is_and_needs_its_text() -> None:
    tokens, total = Part.tokens, Part.total
    for name in planting.FAULTS | planting.SUMS:
        assert issubclass(planting.faulty_part(name), Part)
    assert (Part.tokens, Part.total) == (tokens, total)
    with pytest.raises(ValueError, match="seam"):
        planting.faulty_part("seem")
    with pytest.raises(ValueError, match="0 times, not once"):
        planting.changed(replace(planting.FAULTS["seam"], old="nothing of it"), {})


def test_the_map_is_drawn() -> None:
    case = rows.small_row(16, 3, 0)
    maps = rows.all_faults(case, "zigzag", 2)
    assert list(maps) == ["healthy", *planting.FAULTS]
    fig = draw_symptoms(maps, 4)
    assert [ax.get_title(loc="left") for ax in fig.axes[:-1]] == list(maps)
    shown = fig.axes[1].images[0].get_array()
    assert int((~torch.as_tensor(shown.filled(float("nan"))).isnan()).sum()) == 2, "one missing token at each run's end"


@pytest.fixture(scope="module")
def lesson() -> Lesson:
    """Three made-up documents, one with a late answer, so that ranks count unevenly."""
    target, draw = load_target("nano"), Random(0)
    texts = [
        Document((f"made-{at}", 0), "chat", tuple(draw.randrange(8, 4096) for _ in range(24)), start, True)
        for at, start in enumerate((2, 20, 8))
    ]
    recipe = TTTRecipe(
        draft="eagle3", ttt=3, steps=2, seq=72, bf16=False, evaluate_every=2, k=2, draft_vocab_size=64,
        intermediate_size=32,
    )  # fmt: skip
    return Lesson.of(target, recipe, texts, texts[:1])


def test_sums_by_rank_make_the_trainers_loss(lesson: Lesson, tmp_path: Path) -> None:
    one = replace(lesson, recipe=replace(lesson.recipe, ttt=1, steps=1, evaluate_every=1))
    sums, counts = first_step_sums(one, 2, "contiguous")
    assert counts == guesses_by_rank(one, 2, 1, "contiguous", 1)[0] and counts[0] != counts[1]
    loss, off = hand.reduced(sums, counts)
    [alone] = train_lesson(one, tmp_path / "alone", dtype="float64")
    means = train_lesson(
        one, tmp_path / "means", dtype="float64", kind="contiguous", ring=2, fault="mean of means"
    )[0]  # fmt: skip
    assert loss == pytest.approx(alone.losses[0], rel=1e-6)
    assert (1 + off) * loss == pytest.approx(means.losses[0], rel=1e-6)
    assert abs(off) > 1e-4


def test_faulty_sums_have_the_traces_that_are_reasoned_about(lesson: Lesson, tmp_path: Path) -> None:
    [alone] = train_lesson(lesson, tmp_path / "alone", dtype="float64")
    for fault in (None, *planting.SUMS):
        found = train_lesson(lesson, tmp_path / str(fault), dtype="float64", ring=2, fault=fault)
        assert hand.trace_fault(alone.trace, found[0].trace, 2) == (fault or "healthy")
    for number, fault in enumerate(hand.TRACES):
        assert hand.trace_fault(*hand.trace_of(fault, Random(number))) == fault


def test_a_lesson_goes_on_with_other_ranks(lesson: Lesson, tmp_path: Path) -> None:
    whole = shorter(lesson, 3)
    [alone] = train_lesson(whole, tmp_path / "alone", dtype="float64")
    [first] = train_lesson(whole, tmp_path / "stopped", dtype="float64", checkpoint_every=1, stop_after=2)
    assert len(first.losses) == 2, "step 2 was taken, and lost with its checkpoint"
    rest = train_lesson(whole, tmp_path / "stopped", dtype="float64", ring=2)
    assert len(rest[0].losses) == 2
    assert max(apart(rest[0].losses, alone.losses[1:])) < 1e-9
    with pytest.raises(ValueError, match="unknown setting 'dtyp'"):
        train_lesson(whole, tmp_path, dtyp="float64")


def test_bytes_of_a_rank_are_the_formulas_share() -> None:
    shape = replace(rows.SHAPE, hidden=64, target_hidden=64, intermediate=176, vocab=512, draft_vocab=384)
    setting = StepSetting(positions=512, ttt=3, bf16=False, state_bytes=4, device="cpu", places=509)
    alone, shared = (bytes_per_rank(shape, setting, ring) for ring in (1, 4))
    assert abs(alone.off) < 0.1 and abs(shared.off) < 0.1
    assert shared.saved * 4 / alone.saved == pytest.approx(1, abs=0.1)


def answer(*runs: int) -> SimpleNamespace:
    """As much of a decoded answer as `gain` looks at: steps that accepted so many tokens."""
    return SimpleNamespace(steps=[SimpleNamespace(path=range(run)) for run in runs])


def test_the_gain_of_equal_drafts_is_nothing_and_of_a_better_one_is_its_own() -> None:
    poor, good = [answer(0, 1), answer(1, 0)], [answer(2, 3), answer(3, 2)]
    assert gain(poor, poor) == (0, 0)
    assert gain(good, poor) == (2, 2)
    with pytest.raises(ValueError, match="2 and 1 answers"):
        gain(good, poor[:1])


@pytest.mark.parametrize(
    ("fault", "spoiled"), [("history: own pair", {"dq", "dk", "dv"}), ("branch: own LSE", {"dq", "branch"})]
)
def test_a_faulty_backward_spoils_its_own_gradients(fault: str, spoiled: set[str]) -> None:
    problem = Problem(Layout(16, 2, 1), 4, 2, 8, branch_steps=2)
    ranks = logical.run(run_on_a_rank, problem, True, False, planting.faulty_attention(fault), ring=2)
    assert {part for part, off in errors(problem, ranks).items() if off > 1e-6} == spoiled
