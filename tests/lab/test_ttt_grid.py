"""The grid of notebook 06: what is kept is what was trained, and its statistics are the textbook's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from labsim.decode.generate import generate
from labsim.drafts.shape import Chain
from labsim.lab import ttt_causes as causes
from labsim.lab.explorers.ttt import depth_by_depth
from labsim.lab.tpot import acceptance_length, mean_tpot, p95_tpot, ratio_interval, serve, survival
from labsim.lab.ttt_arms import DEPTHS, NANO, Arm, Settings, matched_width, recipe_of
from labsim.lab.ttt_grid import Bench, Grid, Trial, build_grid, pooled, read_grid
from labsim.lab.ttt_lab import chains, open_draft, open_drafters
from labsim.models.config import ModelConfig
from labsim.models.load import Target
from labsim.train.ttt.build import build
from labsim.train.ttt.data import Document
from labsim.train.ttt.estimate import Estimate
from tests.lab.tiny_target import noisy_drafter, tiny_target

TINY = Settings(
    {"chat": 5},
    {"chat": 3},
    max_new_tokens=12,
    longest=400,
    seq=448,
    steps=2,
    draft_vocab_size=100,
    intermediate_size=16,
)
PLAIN, UNROLLED, PUBLIC = Arm("mtp", 1), Arm("mtp", 2), Arm("mtp", 3, "step")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    return tiny_target(tmp_path_factory.mktemp("target") / "tiny")


@pytest.fixture(scope="module")
def grid(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Grid:
    return build_grid(
        target,
        TINY,
        (PLAIN, UNROLLED, PUBLIC),
        range(2),
        tmp_path_factory.mktemp("grid"),
        keep=(PLAIN, UNROLLED, PUBLIC),
    )


def test_a_grid_on_disk_is_the_grid(grid: Grid) -> None:
    again = read_grid(grid.directory)
    assert again.settings == TINY and again.keys() == {"mtp-ttt1", "mtp-ttt2", "mtp-ttt3-step"}
    for one, other in zip(grid.trials, again.trials, strict=True):
        assert (one.arm, one.seed, one.found, one.parameters) == (other.arm, other.seed, other.found, other.parameters)
        assert one.losses == pytest.approx(other.losses, abs=1e-4)


def test_what_is_there_is_not_trained_again(grid: Grid, target: Target) -> None:
    trained = []
    build_grid(target, TINY, (PLAIN, Arm("mtp", 3)), range(1), grid.directory, told=lambda *one: trained.append(one))
    assert trained == [(Arm("mtp", 3), 0)]
    with pytest.raises(ValueError, match="other settings"):
        build_grid(target, replace(TINY, steps=3), (PLAIN,), range(1), grid.directory)


@pytest.mark.parametrize("arm", [UNROLLED, PUBLIC])
def test_a_kept_draft_walks_as_it_did_in_training_and_as_it_decodes(grid: Grid, target: Target, arm: Arm) -> None:
    """The estimate of the grid, the walk over the reloaded draft (fp16 on disk) and real decoding."""
    bench = Bench(target, TINY)
    loaded = open_draft(grid.directory / arm.key, target, torch.float32)
    walked = bench.walk(loaded, arm, bench.held_out, DEPTHS)
    kept = grid.of(arm)[0].found["all"]
    assert (walked.documents, walked.steps) == (kept.documents, pytest.approx(kept.steps, rel=0.05))
    drafter = open_drafters(grid, [arm], target)[arm.name]
    steps = sum(
        len(
            generate(
                target,
                one.tokens[: one.answer_start],
                drafter=drafter,
                shape=Chain(DEPTHS),
                max_new_tokens=TINY.max_new_tokens,
            ).steps
        )
        for one in bench.held_out
    )
    assert steps == pytest.approx(walked.steps, rel=0.05)


def test_chains_hold_the_marginals_of_the_walk(grid: Grid, target: Target) -> None:
    bench = Bench(target, TINY)
    loaded = open_draft(grid.directory / PLAIN.key, target, torch.float32)
    found = chains(loaded, bench.held_out, bench.source(loaded.draft.config.feature_layers), target, 1)
    walked = bench.walk(loaded, PLAIN, bench.held_out, 1)
    assert np.mean(found) == pytest.approx(walked.marginal[0])


def test_two_groups_together_are_all_documents_at_once(grid: Grid, target: Target) -> None:
    bench = Bench(target, TINY)
    loaded = open_draft(grid.directory / UNROLLED.key, target)
    groups = [bench.held_out[:1], bench.held_out[1:]]
    together = pooled([bench.walk(loaded, UNROLLED, one, DEPTHS) for one in groups], groups)
    whole = bench.walk(loaded, UNROLLED, bench.held_out, DEPTHS)
    assert (together.documents, together.steps, together.accepted) == (whole.documents, whole.steps, whole.accepted)
    assert together.survival == pytest.approx(whole.survival) and together.marginal == pytest.approx(whole.marginal)


def test_marginals_are_pooled_by_places() -> None:
    """By hand: answers of 4 and 9 tokens give 3 - d and 8 - d places at depth d + 1; all right here, none there."""
    groups = [
        [Document((name, 0), "chat", tuple(range(5 + size)), 5, greedy=True)] for name, size in (("a", 4), ("b", 9))
    ]
    walked = [Estimate(1, 2, 2, (0.0,) * DEPTHS, (share,) * DEPTHS) for share in (1.0, 0.0)]
    assert pooled(walked, groups).marginal == pytest.approx([3 / 11, 2 / 9, 1 / 7, 0, 0, 0, 0])


def config(**sizes: int) -> ModelConfig:
    chosen = {
        "vocab_size": 4096, "hidden_size": 256, "intermediate_size": 704, "num_layers": 8, "num_heads": 8,
        "num_kv_heads": 2, "head_dim": 32,
    } | sizes  # fmt: skip
    return ModelConfig(model_type="llama", max_positions=64, rms_norm_eps=1e-6, tied=True, stop_ids=(1,), **chosen)


def test_mtp_is_widened_until_both_have_as_many_parameters() -> None:
    from labsim.drafts.eagle import EagleDraft
    from labsim.drafts.eagle_config import EagleConfig
    from labsim.drafts.mtp import MTPConfig, MTPDraft

    target = config()
    embedding = torch.zeros(4096, 256)
    one = EagleDraft(EagleConfig.eagle3(target, draft_vocab_size=2048, intermediate_size=256), embedding)
    other = MTPDraft(MTPConfig.mtp(target, intermediate_size=matched_width(target, NANO)), embedding, embedding)
    counts = [sum(p.numel() for p in draft.parameters()) for draft in (one, other)]
    assert counts[0] == pytest.approx(counts[1], rel=0.002)


def test_arms_differ_in_kind_and_steps_only() -> None:
    recipes = [recipe_of(arm, 1, config(), NANO) for arm in (Arm("eagle3", 1), Arm("eagle3", 4))]
    assert replace(recipes[0], ttt=4) == recipes[1]
    assert recipe_of(Arm("mtp", 4, "step"), 0, config(), NANO).mtp_branch == "step"


def test_settings_that_do_not_fit_a_row() -> None:
    with pytest.raises(ValueError, match="do not fit a row of 300"):
        replace(NANO, seq=300)


def trial(arm: Arm, seed: int, survival: tuple[float, ...], steps: int = 100) -> Trial:
    found = Estimate(10, steps, round(steps * sum(survival)), survival, tuple(min(1, 1.1 * s) for s in survival))
    return Trial(arm, seed, 1000, (3.0, 2.0), ((2, 1 + sum(survival)),), {"all": found})


def synthetic() -> Grid:
    rows = {
        Arm("eagle3", 1): [(0.5, 0.1, 0.02, 0, 0, 0, 0), (0.6, 0.2, 0.04, 0, 0, 0, 0)],
        Arm("eagle3", 4): [(0.5, 0.3, 0.2, 0.1, 0.06, 0.03, 0.02), (0.56, 0.36, 0.22, 0.12, 0.06, 0.05, 0.02)],
        Arm("mtp", 1): [(0.4, 0.1, 0.01, 0, 0, 0, 0), (0.5, 0.2, 0.03, 0.01, 0, 0, 0)],
        Arm("mtp", 4): [(0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0), (0.46, 0.26, 0.12, 0.06, 0.04, 0.01, 0)],
    }
    trials = tuple(trial(arm, seed, values) for arm, seeds in rows.items() for seed, values in enumerate(seeds))
    return Grid("nano", "mark", NANO, {}, trials)


def test_an_interval_over_seeds_is_students() -> None:
    values = [2.0, 2.4, 1.9]
    found = causes.over_seeds(values)
    low, high = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
    assert (found.low, found.mean, found.high) == pytest.approx((low, np.mean(values), high))
    with pytest.raises(ValueError, match="at least two"):
        causes.over_seeds([1.0])


@pytest.mark.parametrize(
    ("low", "high", "claimed", "said"),
    [
        (2.1, 2.25, (2.2, 2.3), "reproduced"),
        (1.2, 1.5, (2.2, 2.3), "the trend only"),
        (0.9, 1.5, (2.2, 2.3), "not reproduced"),
        (0.9, 2.5, (2.2, 2.3), "not reproduced"),
        (0.7, 0.9, (0.59, 0.59), "the trend only"),
        (0.7, 1.1, (0.59, 0.59), "not reproduced"),
        (0.5, 0.6, (0.56, 0.65), "reproduced"),
        (0.53, 0.99, (0.56, 0.65), "the trend only"),  # holds the claim, and next to nothing too
        (1.1, 2.5, (2.2, 2.3), "the trend only"),
    ],
)
def test_a_claim_is_met_by_its_range_or_by_its_side_of_1(
    low: float, high: float, claimed: tuple[float, float], said: str
) -> None:
    assert causes.claim_verdict(causes.Spread((low + high) / 2, low, high), *claimed) == said


def test_effects_are_paired_by_seed() -> None:
    """Seeds differ by 0.16 in length and pairs by little: paired differences are far narrower than unpaired ones."""
    grid, one, other = synthetic(), Arm("eagle3", 4), Arm("eagle3", 1)
    found = causes.gain(grid, one, other, 2)
    assert found.mean == pytest.approx((0.2 + (0.92 - 0.8)) / 2)
    ratio = causes.ratio(grid, one, other, 1)
    assert ratio.mean == pytest.approx((1 + 1.56 / 1.6) / 2)
    deep = causes.deep_gain(grid, one, other, 3)
    assert deep.mean == pytest.approx(0.18) and deep.verdict == "more"
    with pytest.raises(ValueError, match="eagle3-ttt2 is not in this grid"):
        grid.of(Arm("eagle3", 2))


def test_a_depth_that_few_chains_reach_has_no_conditional_share() -> None:
    shares = causes.by_depth(synthetic(), Arm("eagle3", 1), "conditional")
    assert shares[0].mean == pytest.approx(0.55)
    assert shares[1].mean == pytest.approx((0.1 / 0.5 + 0.2 / 0.6) / 2)
    assert shares[2] is not None  # 30 of 200 chains
    assert shares[3] is None  # 6


def test_the_explorer_shows_the_grid() -> None:
    explorer = depth_by_depth(synthetic())
    frame = explorer.set(architecture="EAGLE-3", ttt=4, depth=3)
    by_name = {series.name: series for series in frame.series}
    assert by_name["survival"].y == pytest.approx((0.53, 0.33, 0.21))
    assert by_name["conditional"].y[1] == pytest.approx((0.3 / 0.5 + 0.36 / 0.56) / 2, rel=1e-4)
    assert "2.07 tokens per verify step" in frame.text and "over 2 trainings" in frame.text
    dead = explorer.set(architecture="EAGLE-3", ttt=1, depth=7)
    assert {s.name: s for s in dead.series}["conditional"].y[3:] == (None,) * 4
    assert "too few chains get there" in dead.text


def test_requests_are_lossless_and_their_figures_count(target: Target, tmp_path: Path) -> None:
    drafter = noisy_drafter(tmp_path / "tiny")
    prompts = [target.encode_chat(text) for text in ("one", "two words", "and three words")]
    served = serve(target, {"plain": None, "draft": drafter}, prompts, k=3, max_new_tokens=16)
    assert [one.tokens for one in served["plain"]] == [one.tokens for one in served["draft"]]
    for one in served["draft"]:
        # All but the first token come from steps; a stop token among the drafted ones ends the answer.
        assert len(one.tokens) - 1 in (sum(one.runs) + len(one.runs), sum(one.runs) + len(one.runs) - 1)
    assert acceptance_length(served["draft"]) == pytest.approx(1 + sum(survival(served["draft"], 3)))
    assert acceptance_length(served["plain"]) == 1
    times = [one.tpot_ms for one in served["draft"]]
    assert mean_tpot(served["draft"]) == pytest.approx(np.mean(times))
    assert np.median(times) <= p95_tpot(served["draft"]) <= max(times)
    value, interval = ratio_interval(served["draft"], served["draft"], mean_tpot)
    assert (value, *interval) == (1, 1, 1)
    value, interval = ratio_interval(served["draft"], served["plain"], acceptance_length)
    assert interval.low <= value <= interval.high and value > 1
    with pytest.raises(ValueError, match="same prompts twice"):
        ratio_interval(served["draft"], served["plain"][:1], mean_tpot)


def test_the_vocabulary_of_a_bench_is_of_its_answers(target: Target) -> None:
    bench = Bench(target, TINY)
    draft, vocabulary = build(recipe_of(PLAIN, 0, target.model.config, TINY), target, bench.training)
    assert len(vocabulary) == target.model.config.vocab_size == draft.config.draft_vocab_size
    for one in bench.training:
        assert one.greedy and 4 <= one.answer_tokens <= TINY.max_new_tokens
        again = generate(target, one.tokens[: one.answer_start], max_new_tokens=TINY.max_new_tokens)
        assert tuple(again.tokens) == one.tokens[one.answer_start :]
