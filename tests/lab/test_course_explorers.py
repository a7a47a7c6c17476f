"""The course's explorers: every slider moves the picture, and every frame equals a direct computation."""

from __future__ import annotations

import re

import pytest

from labsim.lab.drift_grid import read_figures
from labsim.lab.explorer import Explorer
from labsim.lab.explorers import (
    alpha,
    concurrency,
    drift,
    lossless,
    lse,
    memory,
    mesh,
    ring,
    rollout,
    shared,
    trees,
    ttt,
)
from labsim.lab.ttt_grid import read_grid
from labsim.models.paths import data_directory
from labsim.sim.cost import break_even, cost_model
from labsim.sim.memory import requests_that_fit
from labsim.sim.targets import find_model
from labsim.train.ttt.memory import StepSetting
from labsim.train.ttt.memory_peak import peak

EXPLORERS = {
    "what_alpha_buys": alpha.what_alpha_buys,
    "how_sure_is_a_log": alpha.how_sure_is_a_log,
    "break_even_by_concurrency": concurrency.break_even_by_concurrency,
    "three_tails": concurrency.three_tails,
    "traffic_mix": rollout.traffic_mix,
    "hop_by_hop": ring.hop_by_hop,
    "who_works_when": ring.who_works_when,
    "who_holds_what": mesh.who_holds_what,
    "who_wins": mesh.who_wins,
    "one_rank_one_step": shared.one_rank_one_step,
    "what_a_rank_holds": shared.what_a_rank_holds,
    "chain_or_tree": trees.chain_or_tree,
    "three_words": lossless.three_words,
    "a_row_in_blocks": lse.a_row_in_blocks,
    "merge_errors": lse.merge_errors,
    "probe_by_probe": lambda: drift.probe_by_probe(read_figures(data_directory() / "drift" / "nano")),
    "bytes_per_rank": memory.bytes_per_rank,
    "depth_by_depth": lambda: ttt.depth_by_depth(read_grid(data_directory() / "ttt" / "nano")),
}


@pytest.fixture(scope="module", params=EXPLORERS)
def explorer(request: pytest.FixtureRequest) -> Explorer:
    return EXPLORERS[request.param]()


def test_every_slider_moves_the_picture(explorer: Explorer) -> None:
    start = dict(explorer.value)
    for name, slider in explorer.sliders.items():
        explorer.value = start
        seen = []
        for value in slider.values:
            explorer.value = {name: value}
            drawn = [(series.name, series.y, series.lo) for series in explorer.frame.series]
            assert explorer.value[name] == value
            assert (drawn, explorer.frame.text) not in seen, f"{name}={value} draws what another value draws"
            seen.append((drawn, explorer.frame.text))
        assert len({str(drawn) for drawn, _ in seen}) > 1, f"{name} changes the sentence only"
    explorer.value = start


def test_every_frame_speaks(explorer: Explorer) -> None:
    for frame in explorer.frames.values():
        assert len(frame.text) > 40
        assert len(frame.alt) > len(frame.text)


def test_speedup_frame_by_hand() -> None:
    """K = 2, overhead 0.5: (1 + 2 * 0.7)/1.5 and (1 + 0.7 + 0.49)/1.5 at alpha 0.7."""
    frame = alpha.what_alpha_buys().set(k=2, overhead=0.5)
    at = alpha.ALPHAS.index(0.7)
    assert [series.y[at] for series in frame.series] == pytest.approx([2.4 / 1.5, 2.19 / 1.5], rel=1e-4)
    assert frame.mark == (0.25, "break-even, accepted/drafted")


def test_the_break_even_curve_says_why_it_ends() -> None:
    for values, frame in concurrency.break_even_by_concurrency().frames.items():
        drawn = [c for c, y in zip(concurrency.CONCURRENCIES, frame.series[0].y, strict=True) if y is not None]
        fits = int(re.search(r"The cache of (\d+) such", frame.text)[1])
        assert drawn == [c for c in concurrency.CONCURRENCIES if c <= fits], values
        whole = drawn == list(concurrency.CONCURRENCIES)
        assert ("all points, to 256, are drawn" in frame.text) == whole
        assert (f"the curve ends at {max(drawn, default=0)}." in frame.text) == (bool(drawn) and not whole)


def test_breakeven_frame_equals_the_cost_model() -> None:
    frame = concurrency.break_even_by_concurrency().set(model="llama-3.3-70b", gpu="h200", k=5, context=8000)
    cost = cost_model("h200", "llama-3.3-70b", "eagle3")
    fits = requests_that_fit("h200", "llama-3.3-70b", 8000)
    drawn = dict(zip(concurrency.CONCURRENCIES, frame.series[0].y, strict=True))
    assert 64 < fits < 256
    assert "on 4 x h200," in frame.text, "the GPUs whose memory and bandwidth were reckoned with"
    for c, value in drawn.items():
        assert value == (pytest.approx(break_even(cost, 5, c, 8000).alpha_breakeven, rel=1e-4) if c <= fits else None)


def test_published_breakevens_show_in_the_explorer() -> None:
    frame = concurrency.break_even_by_concurrency().set(model="llama-3.1-8b", gpu="h100", k=3, context=400)
    by_users = dict(zip(frame.series[0].x, frame.series[0].y, strict=True))
    assert [by_users[c] for c in (1, 32, 128, 256)] == pytest.approx([0.10, 0.17, 0.30, 0.39], abs=0.005)


def test_a_sliders_callback_is_quick_enough_to_follow_the_hand() -> None:
    """Frames are computed beforehand, so moving a slider is a look-up: no simulation may run in the callback."""
    explorer = concurrency.three_tails()
    computed = explorer.frames
    for key, frame in computed.items():
        assert explorer.set(**dict(zip(explorer.sliders, key, strict=True))) is frame


def test_three_words_come_out_as_the_target_wants_only_from_the_residual() -> None:
    """By hand at likeness 0: overlap .2 + .2 + .1; redrawn from p: overlap + half of p."""
    explorer = lossless.three_words()
    for likeness in lossless.LIKENESS:
        _, draft, out = explorer.set(likeness=likeness, redraw="the residual").series
        assert out.y == pytest.approx(lossless.TARGET, abs=1e-5) and draft.y != out.y
    naive = explorer.set(likeness=0.0, redraw="the target p").series[2]
    assert naive.y == pytest.approx((0.2 + 0.5 * 0.6, 0.2 + 0.5 * 0.3, 0.1 + 0.5 * 0.1))
    assert "50% of the drafted words" in explorer.frame.text and "off by up to 0.100" in explorer.frame.text


def test_more_code_or_more_users_flip_the_verdict() -> None:
    explorer = rollout.traffic_mix()

    def verdict(code: float, concurrency: int, rule: str) -> str:
        return explorer.set(code=code, concurrency=concurrency, rule=rule).series[-1].name.removeprefix("this mix: ")

    verdicts = [verdict(code, 128, "breakeven") for code in rollout.SHARES]
    assert verdicts[0] == "go" and verdicts[-1] == "no-go"
    assert verdicts == sorted(verdicts), "once flipped, more code never flips it back"
    assert verdict(0.3, 32, "breakeven") == "go"
    assert verdict(0.3, 256, "breakeven") == "no-go"
    assert verdict(0.0, 1, "policy") == "no-go"


def test_the_stacks_are_the_formulas_parts_and_the_target() -> None:
    frame = memory.bytes_per_rank().set(length=65_536, ttt=4, ranks=2, draft_vocab=32_000, attention="fused")
    setting = StepSetting(positions=65_536, ttt=4, sequence_parallel=2, logit_chunk=1024)
    expected = peak(memory.draft_of("llama-3.1-8b"), setting).total + 2 * find_model("llama-3.1-8b").parameters
    assert sum(series.y[1] for series in frame.series) == pytest.approx(expected / 1e9, rel=1e-3)
    assert {series.kind for series in frame.series} == {"stack"}
