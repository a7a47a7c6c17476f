"""The figures of notebook 07: what is kept is what was probed, and what is said follows from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from labsim.lab import drift_causes as causes
from labsim.lab import drift_claims as claims
from labsim.lab.drift_arms import DRIFT_ARMS, FC_ONLY, LONG_ARMS, OUTPUT_ONLY, POST, PRE
from labsim.lab.drift_grid import DriftGrid, ProbeBench, Probed, Probing, probe_grid, read_figures
from labsim.lab.drift_real import open_real
from labsim.lab.explorers.drift import COMPARED, probe_by_probe
from labsim.lab.situations import CORNERS
from labsim.lab.ttt_arms import Arm, Settings, recipe_of
from labsim.lab.ttt_grid import Bench, Grid, build_grid, flagged, read_grid
from labsim.lab.ttt_lab import open_draft
from labsim.models.load import Target
from labsim.train.probes.drift import Drift
from labsim.train.probes.sink import Sink
from labsim.train.ttt.build import build
from labsim.train.ttt.estimate import Estimate, estimate
from tests.lab.tiny_target import tiny_target

TINY = Settings(
    {"chat": 4}, {"chat": 3}, max_new_tokens=24, longest=400, seq=448, steps=2, draft_vocab_size=100,
    intermediate_size=16,
)  # fmt: skip
REAL = open_real("smollm2")
PROBING = Probing({"chat": 2}, {"chat": 1}, (900,), ("plain",), (0.5,), new_tokens=12, probed=2, depth=3, deep=4)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    return tiny_target(tmp_path_factory.mktemp("target") / "tiny", layers=4)


@pytest.fixture(scope="module")
def trained(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Grid:
    out = tmp_path_factory.mktemp("work")
    build_grid(target, TINY, DRIFT_ARMS, range(1), out, keep=DRIFT_ARMS)
    return build_grid(target, TINY, (POST,), range(2), out, keep=DRIFT_ARMS, keep_seeds=2)


@pytest.fixture(scope="module")
def probed(target: Target, trained: Grid, tmp_path_factory: pytest.TempPathFactory) -> DriftGrid:
    return probe_grid(target, trained.directory, tmp_path_factory.mktemp("figures"), PROBING)


def test_arms_differ_in_their_norms_alone(target: Target, trained: Grid) -> None:
    wanted = {PRE: (False, False), FC_ONLY: (True, False), OUTPUT_ONLY: (False, True), POST: (True, True)}
    for arm, flags in wanted.items():
        config = open_draft(trained.directory / arm.key, target).draft.config
        assert (config.fc_norm, config.norm_output) == flags
        assert config.kind == ("eagle3.1" if arm == POST else "eagle3")
    assert read_grid(trained.directory).keys() == {arm.key for arm in DRIFT_ARMS}


def test_all_arms_start_alike(target: Target) -> None:
    bench = Bench(target, TINY)
    starts = {}
    for arm in DRIFT_ARMS:
        draft, _ = build(recipe_of(arm, 3, target.model.config, TINY), target, bench.training)
        starts[arm] = (flagged(draft, arm.flags) if arm.flags else draft).state_dict()
    for arm in DRIFT_ARMS[1:]:
        assert set(starts[PRE]) <= set(starts[arm])
        assert all(torch.equal(starts[PRE][name], starts[arm][name]) for name in starts[PRE])
        new = set(starts[arm]) - set(starts[PRE])
        assert len(new) == (0 if arm == OUTPUT_ONLY else 3)
        assert all(bool((starts[arm][name] == 1).all()) for name in new)


def test_figures_on_disk_are_the_figures(probed: DriftGrid) -> None:
    again = read_figures(probed.directory)
    assert (again.settings, again.probing, again.groups) == (TINY, PROBING, probed.groups)
    assert again.sink.token == probed.sink.token and again.sink.shares == pytest.approx(probed.sink.shares, rel=1e-5)
    assert len(again.drafts) == 5
    for one, other in zip(probed.drafts, again.drafts, strict=True):
        assert (one.arm, one.seed, one.parameters) == (other.arm, other.seed, other.parameters)
        assert one.drift.hidden_norm == pytest.approx(other.drift.hidden_norm, rel=1e-5)
        assert one.deep.survival == pytest.approx(other.deep.survival, abs=1e-5)
        assert one.situations.keys() == other.situations.keys() and one.disturbed.keys() == other.disturbed.keys()


def test_what_is_probed_is_not_probed_again(probed: DriftGrid, trained: Grid, target: Target) -> None:
    told = []
    probe_grid(target, trained.directory, probed.directory, PROBING, told=lambda *one: told.append(one))
    assert told == []
    with pytest.raises(ValueError, match="another probing"):
        probe_grid(target, trained.directory, probed.directory, replace(PROBING, deep=5))


def test_situations_are_all_there_and_the_walk_is_the_trainers(
    probed: DriftGrid, trained: Grid, target: Target
) -> None:
    """The draft's own situation recomputed by the trainer's estimate, from every position of the text."""
    one = probed.of(POST)[1]
    assert list(one.situations) == [name for group in probed.groups.values() for name in group]
    assert probed.groups["context"] == ("900 tokens",)
    assert list(one.disturbed) == ["none", "pinned", "state 0.5", "embedding 0.5"]
    loaded = open_draft(trained.directory / f"{POST.key}-1", target)
    bench = ProbeBench(target, Bench(target, TINY).held_out, PROBING)
    recipe = recipe_of(POST, 1, target.model.config, TINY)
    source = bench.source(loaded.draft.config.feature_layers)
    for documents, found in (
        (bench.documents, one.disturbed["none"]),
        (bench.situation(bench.asked[2]), one.situations[CORNERS[2].name]),
    ):
        again = estimate(loaded.draft, documents, source, target.model.head, loaded.vocabulary, recipe, 7)
        assert (found.documents, found.steps, found.accepted) == (again.documents, again.steps, again.accepted)


def test_situations_change_the_prompt_and_nothing_else(target: Target) -> None:
    bench = ProbeBench(target, Bench(target, TINY).held_out, PROBING)
    texts = {one.name: bench.situation(one) for one in bench.asked}
    assert all(text.greedy and text.answer_tokens <= PROBING.new_tokens for group in texts.values() for text in group)
    own, bare = texts["own template"], texts["no template"]
    assert [text.key for text in own] == [text.key for text in bare]
    said = target.decode(own[0].tokens[: own[0].answer_start])
    assert said.endswith("assistant:") and not target.decode(bare[0].tokens[: bare[0].answer_start]).endswith(":")
    [long] = texts["900 tokens"]
    assert 880 <= long.answer_start <= 900


def figures_of(
    arm: Arm, seed: int, *, growth: float, deep: float, ratio: float = 1.0, special: float = 1.0, sink: float = 1.0
) -> Probed:
    """A draft whose state grows by `growth` per depth and whose right guesses shrink by `deep`."""
    depths = range(8)
    sizes = tuple(10 * growth**d for d in depths)
    shares = tuple(0.1 + 0.01 * d for d in depths)
    marginal = tuple(0.5 * (1 if d < 2 else deep ** (d - 1)) for d in range(16))
    survival = tuple(0.42 * 0.5**d * ratio for d in range(16))
    chains = Estimate(4, 100, round(100 * sum(survival)), survival, marginal)
    there = replace(chains, survival=tuple(s * special for s in survival))
    names = {one.name: (chains if at == 0 else there) for at, one in enumerate(CORNERS)} | {"2048 tokens": there}
    drift = Drift((1.0, 2.0, 3.0), (5.0,), sizes, tuple(0.4 * sink**d for d in depths), shares, shares, shares)
    return Probed(arm, seed, 1000, 2.0, drift, chains, {"none": chains, "pinned": chains, "state 1.0": there}, names)


def synthetic(sink_token: int | None = 0, pre_growth: float = 1.2, **post: float) -> DriftGrid:
    """Seeds differ a little; the two arms by what is given of 3.1."""
    drafts = []
    for seed, wobble in enumerate((0.99, 1.0, 1.01)):
        plain = {"growth": pre_growth * wobble, "deep": 0.4 * wobble, "ratio": wobble, "sink": 0.8}
        better = {"growth": 1.0, "deep": 0.95, "ratio": wobble, "sink": 1.0} | post
        drafts += [figures_of(PRE, seed, **plain), figures_of(POST, seed, **better)]
        drafts += [figures_of(arm, seed, **better) for arm in (FC_ONLY, OUTPUT_ONLY)]
    groups = {"template": tuple(one.name for one in CORNERS), "context": ("2048 tokens",)}
    found = Sink(sink_token, (0.4, 0.01, 0.0, 0.0), 0.01)
    return DriftGrid("nano", "mark", TINY, Probing(), {}, found, groups, tuple(drafts))


def test_a_probe_by_depth_is_students() -> None:
    grid = synthetic()
    sizes = np.array([one.drift.hidden_norm for one in grid.of(PRE)])
    low, high = stats.t.interval(0.95, 2, loc=sizes.mean(0)[3], scale=stats.sem(sizes[:, 3]))
    found = causes.by_depth(grid, PRE, "size of the state")[3]
    assert (found.low, found.mean, found.high) == pytest.approx((low, sizes.mean(0)[3], high))
    conditional = causes.by_depth(grid, PRE, "conditional acceptance")
    assert conditional[2].mean == pytest.approx(0.5)
    # 300 steps, 0.42 * 0.5^(d-1) of them alive behind depth d: 126, 63, 31.5, 15.75, ...
    assert [one is None for one in conditional] == [False] * 4 + [True] * 12
    with pytest.raises(ValueError, match="probe is 'size'"):
        causes.by_depth(grid, PRE, "size")


def test_ratios_are_paired() -> None:
    """Seeds wobble together, so the ratio of the pairs has no spread where the arms differ by a factor."""
    grid = synthetic(special=1.5)
    found = causes.ratio(grid, POST, PRE, lambda one: one.situations["no template"].survival[0])
    assert (found.low, found.mean, found.high) == pytest.approx((1.5, 1.5, 1.5))
    assert causes.accepted_in("no template", 2)(grid.of(POST)[1]) == pytest.approx(1.5 * 0.63)
    assert causes.first_in("no template")(grid.of(POST)[1]) == pytest.approx(1.5 * 0.42)
    assert causes.brought_back(grid, PRE).mean == pytest.approx(0)
    assert causes.kept("no template", claims.OWN, 7)(grid.of(POST)[0]) == pytest.approx(1.5)
    assert causes.kept_disturbed("state 1.0", 7)(grid.of(POST)[0]) == pytest.approx(1.5)
    assert causes.growth(3)(grid.of(PRE)[1]) == pytest.approx(1.2**2)
    assert causes.beyond(2, 4)(grid.of(PRE)[1]) == pytest.approx(0.4**2)
    assert causes.length(grid.of(PRE)[1].deep, 2) == pytest.approx(1.63)
    with pytest.raises(ValueError, match="arm eagle3-ttt5 is not among these drafts"):
        causes.over(grid, LONG_ARMS[0], causes.growth(2))


@pytest.mark.parametrize(
    ("claim", "post", "verdict"),
    [
        ("E2", {}, "reproduced"),
        ("E2", {"growth": 1.05}, "the trend only"),
        ("E2", {"growth": 1.3}, "not reproduced"),
        ("E2", {"pre_growth": 1.5}, "the trend only"),
        ("E2", {"pre_growth": 0.98}, "not reproduced"),
        ("E1", {}, "reproduced"),
        ("E1", {"sink": 0.8}, "not reproduced"),
        ("E1", {"sink_token": None}, "not reproduced"),
        ("E3", {}, "not reproduced"),
        ("E3", {"special": 2.0}, "reproduced"),
        ("E3", {"special": 1.1}, "the trend only"),
        ("E3", {"better": 1.5}, "the trend only"),
        ("E4", {"special": 1.6}, "reproduced"),
        ("E4", {"better": 1.6, "special": 0.8}, "not reproduced"),
        ("E4", {"special": 0.9}, "not reproduced"),
        ("E4", {"better": 1.6}, "the trend only"),
        ("E4", {"special": 1.1}, "the trend only"),
        ("E5", {}, "reproduced"),
        ("E5", {"deep": 0.8}, "the trend only"),
        ("E5", {"deep": 0.4}, "not reproduced"),
    ],
)
def test_verdicts(claim: str, post: dict[str, float], verdict: str) -> None:
    """By hand: sizes, sinks, ratios and depths that fulfil a claim, half of it, or none."""
    better = post.get("better")
    grid = synthetic(**{name: value for name, value in post.items() if name != "better"})
    if better:  # a factor everywhere: no gain of the situation's own
        grid = replace(grid, drafts=tuple(everywhere(one, better) if one.arm == POST else one for one in grid.drafts))
    [found] = [one for one in claims.judge(grid, REAL, True, 0.0) if one.claim == claim]
    assert found.verdict == verdict, found
    assert all(found.row().values())
    if claim == "E2":
        sizes = np.array([one.hidden_norm for one in REAL.drafts[0].by_text])
        assert f"EAGLE-3 {(sizes[:, 7] / sizes[:, 0]).mean():.2f}, EAGLE-3.1" in found.why


def everywhere(one: Probed, factor: float) -> Probed:
    situations = {
        name: replace(chains, survival=tuple(s * factor for s in chains.survival))
        for name, chains in one.situations.items()
    }
    return replace(one, situations=situations)


def test_the_code_path_is_judged_by_answers_and_logits() -> None:
    assert claims.same_path(True, 0.0).verdict == "reproduced"
    assert claims.same_path(False, 0.0).verdict == claims.same_path(True, 1e-3).verdict == "not reproduced"


def test_the_explorer_shows_the_figures() -> None:
    grid = synthetic()
    explorer = probe_by_probe(grid)
    assert list(explorer.sliders["drafts"].values) == list(COMPARED)[:2], "no drafts with more steps here"
    frame = explorer.set(probe="size of the state", drafts="one change at a time", depth=3)
    by_name = {series.name: series for series in frame.series}
    assert list(by_name) == ["EAGLE-3", "EAGLE-3 + fc_norm", "EAGLE-3 + norm_output", "EAGLE-3.1"]
    expected = [np.mean([one.drift.hidden_norm[d] for one in grid.of(PRE)]) for d in range(3)]
    assert by_name["EAGLE-3"].y == pytest.approx(expected, rel=1e-4)
    alive = explorer.set(probe="conditional acceptance", drafts="one change at a time", depth=4)
    assert "Of all places are right: EAGLE-3 0.50 to 0.08;" in alive.text  # 0.5 * 0.4^2
    assert "EAGLE-3.1 10.00 at depth 1, 10.00 at 3" in frame.text and frame.mark == (2, "trained to depth 2")
    with pytest.raises(ValueError, match="no interval to draw"):
        probe_by_probe(replace(grid, drafts=grid.drafts[:4]))


def test_damaged_figures_are_named(tmp_path: Path) -> None:
    (tmp_path / "figures.json").write_text('{"target": "nano"}')
    with pytest.raises(ValueError, match="does not hold drift figures"):
        read_figures(tmp_path)
