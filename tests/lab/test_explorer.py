"""Explorers: every slider position shows what `compute` says, in Python and in what travels to the browser."""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
import subprocess

import numpy as np
import pytest

from labsim.lab import explorer as module
from labsim.lab.explorer import Explorer, Frame, Reference, Series, Slider, explore, pack, unpack

XS = [i / 10 for i in range(11)]
SLIDERS = {
    "k": Slider("draft length K", (1, 2, 5), value=2, unit="tokens"),
    "cost": Slider("draft cost", (0.0, 0.1)),
    "gpu": Slider("GPU", ("A100", "H100")),
}


def compute(k, cost, gpu):
    shift = {"A100": 0.0, "H100": 0.5}[gpu]
    tokens = [sum(a**i for i in range(k + 1)) / (1 + cost * k) + shift for a in XS]
    return Frame(
        [
            Series("tokens", XS, tokens, [t - 0.1 for t in tokens], [t + 0.1 for t in tokens]),
            Series("one", XS, [1] * 11),
        ],
        text=f"K {k}, cost {cost}, {gpu}",
        mark=(0.7, "here"),
    )


@pytest.fixture
def made() -> Explorer:
    return explore(compute, SLIDERS, title="t", x_label="alpha", y_label="tokens", reference=Reference(1.0, "no gain"))


def test_every_combination_equals_a_direct_call(made):
    assert len(made.frames) == 12
    for k, cost, gpu in itertools.product((1, 2, 5), (0.0, 0.1), ("A100", "H100")):
        frame = made.set(k=k, cost=cost, gpu=gpu)
        assert frame == made.frames[k, cost, gpu] == compute(k, cost, gpu)
        assert frame.text == f"K {k}, cost {cost}, {gpu}"
        # Against the closed form, not against `compute`: (1 - a^(K+1)) / (1 - a) at a = 0.5.
        closed = (1 - 0.5 ** (k + 1)) / 0.5 / (1 + cost * k) + (0.5 if gpu == "H100" else 0.0)
        assert frame.series[0].y[5] == pytest.approx(closed, rel=5e-5)


def test_the_browser_finds_the_same_frame_at_each_index(made):
    """`explorer.js` computes position = ((i_k) * 2 + i_cost) * 2 + i_gpu and reads that frame of the unpacked grid."""
    state = json.loads(json.dumps(made.get_state(["grid", "spec"])))
    frames = unpack(state["grid"])
    sizes = [len(slider["texts"]) for slider in state["spec"]["sliders"]]
    for i, (k, cost, gpu) in enumerate(itertools.product((1, 2, 5), (0.0, 0.1), ("A100", "H100"))):
        made.set(k=k, cost=cost, gpu=gpu)
        position = 0
        for at, size in zip(made.index, sizes, strict=True):
            position = position * size + at
        assert position == i
        assert frames[position] == made.frame


def test_each_slider_moves_the_figure(made):
    for name, slider in made.sliders.items():
        made.value = {other: s.values[0] for other, s in made.sliders.items()}
        first = made.frame.series
        made.value = {name: slider.values[-1]}
        assert made.frame.series != first, name


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((1, 2, 3, 5, 7), "5 values from 1 to 7"),
        ((0.0, 0.05, 1.0), "3 values from 0 to 1"),
        ((1, 2, 3, 4), ""),
        ((4, 3, 2, 1), ""),
        (("A100", "H100"), ""),
        ((8, "all"), ""),
        ((5,), ""),
    ],
)
def test_a_slider_that_leaves_numbers_out_says_so(values, said):
    sliders = {**SLIDERS, "k": Slider("K", values)}
    made = explore(lambda k, cost, gpu: compute(2, cost, gpu), sliders, title="t", x_label="x", y_label="y")
    assert [one["coarse"] for one in made.spec["sliders"] if one["name"] == "k"] == [said]


def test_thousands_are_set_apart_beside_a_slider_as_they_are_in_a_frames_text():
    sliders = {**SLIDERS, "k": Slider("context", (1000, 131_072))}
    made = explore(lambda k, cost, gpu: compute(2, cost, gpu), sliders, title="t", x_label="x", y_label="y")
    assert [one["texts"] for one in made.spec["sliders"] if one["name"] == "k"] == [["1,000", "131,072"]]
    assert made.spec["sliders"][0]["coarse"] == "2 values from 1,000 to 131,072"


def test_a_part_of_the_value_may_be_assigned_and_observers_hear_once(made):
    heard = []
    made.observe(lambda change: heard.append(change.new.text), "frame")
    made.value = {"k": 5}
    assert made.value == {"k": 5, "cost": 0.0, "gpu": "A100"}
    assert heard == ["K 5, cost 0.0, A100"]


def test_an_index_from_the_browser_changes_value_and_frame(made):
    made.set_state({"index": [2, 1, 1]})
    assert made.value == {"k": 5, "cost": 0.1, "gpu": "H100"}
    assert made.frame == compute(5, 0.1, "H100")


def test_it_starts_where_the_sliders_say(made):
    assert made.value == {"k": 2, "cost": 0.0, "gpu": "A100"}
    assert made.index == [1, 0, 0]
    assert made.frame == compute(2, 0.0, "A100")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"k": 4}, "slider 'draft length K' is 4; allowed: 1, 2, 5"),
        ({"gpu": "h100"}, "slider 'GPU' is 'h100'; allowed: A100, H100"),
        ({"costs": 0.1}, "unknown slider 'costs'; did you mean 'cost'?"),
    ],
)
def test_a_value_off_the_slider_is_refused_and_nothing_moves(made, value, message):
    before = made.frame
    with pytest.raises(ValueError, match=r"allowed|known") as caught:
        made.value = value
    assert message in str(caught.value)
    assert made.frame is before
    assert made.value == {"k": 2, "cost": 0.0, "gpu": "A100"}


def test_an_index_off_the_slider_is_refused(made):
    with pytest.raises(ValueError, match=r"index is \[3, 0, 0\]"):
        made.index = [3, 0, 0]


def test_the_grid_survives_json_and_keeps_a_shared_column_once(made):
    frames = tuple(made.frames.values())
    grid = json.loads(json.dumps(pack(frames), allow_nan=False))
    assert unpack(grid) == frames
    assert sum(column == XS_ROUNDED for column in grid["columns"]) == 1


XS_ROUNDED = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]


def test_numbers_are_plain_rounded_and_gaps_are_null():
    series = Series("s", np.arange(4), np.array([1 / 3, math.nan, math.inf, 1e-9 / 3]))
    assert series.x == (0, 1, 2, 3)
    assert series.y == (0.33333, None, None, 3.3333e-10)
    assert json.dumps(series.y, allow_nan=False) == "[0.33333, null, null, 3.3333e-10]"


def wide(points):
    return lambda k: Frame([Series("s", range(points), [k * 1.5 + i for i in range(points)])], text="t")


def test_a_grid_that_is_too_large_is_refused_early_and_says_what_to_coarsen():
    calls = []

    def counted(k):
        calls.append(k)
        return wide(500)(k)

    with pytest.raises(ValueError, match=r"50000 numbers.*allowed: 20000; give slider 'k' fewer than its 100 values"):
        explore(counted, {"k": Slider("K", range(100))}, title="t", x_label="x", y_label="y")
    assert len(calls) == 3


def test_the_limit_itself_is_accepted():
    explore(wide(200), {"k": Slider("K", range(100))}, title="t", x_label="x", y_label="y")
    with pytest.raises(ValueError, match="20100 numbers"):
        explore(wide(201), {"k": Slider("K", range(100))}, title="t", x_label="x", y_label="y")


def test_the_ends_of_a_band_count_too():
    def banded(k):
        column = list(range(67))
        return Frame([Series("s", column, column, column, column)], text="t")

    with pytest.raises(ValueError, match="20100 numbers"):
        explore(banded, {"k": Slider("K", range(100))}, title="t", x_label="x", y_label="y")


def test_bytes_are_limited_too(monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match=r"bytes.*allowed: 1000 bytes"):
        explore(wide(100), {"k": Slider("K", range(3))}, title="t", x_label="x", y_label="y")


def spec(**options):
    return explore(compute, SLIDERS, title="t", x_label="x", y_label="y", **options).spec


def test_the_y_range_holds_every_frame_with_its_band():
    values = [v for k in (1, 2, 5) for c in (0.0, 0.1) for g in ("A100", "H100")
              for s in compute(k, c, g).series for column in (s.y, s.lo or [], s.hi or []) for v in column]  # fmt: skip
    assert spec()["yRange"] == [min(values), max(values)]
    assert spec(reference=Reference(50.0, "far"))["yRange"] == [min(values), 50.0]
    assert spec(y_range="frame")["yRange"] is None
    assert spec(y_range=(0, 3))["yRange"] == [0.0, 3.0]


def test_bars_start_at_zero():
    def bars(k):
        return Frame([Series("s", ["a", "b"], [k + 3, k + 4], kind="bar")], text="t")

    made = explore(bars, {"k": Slider("K", (1, 2))}, title="t", x_label="x", y_label="y")
    assert made.spec["yRange"] == [0.0, 6]


def test_stacked_bars_reach_from_zero_to_their_sum():
    def stacks(k):
        low, high = Series("low", ["a", "b"], [k, 2], kind="stack"), Series("high", ["a", "b"], [3, None], kind="stack")
        return Frame([low, high], text="t")

    made = explore(stacks, {"k": Slider("K", (1, 2))}, title="t", x_label="x", y_label="y")
    assert made.spec["yRange"] == [0.0, 5.0], "at K = 2 the first bar is 2 + 3 high, the second 2"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y_range": "grids"}, "did you mean 'grid'"),
        ({"y_range": (3, 1)}, "low < high"),
        ({"y_range": (0, 1), "y_scale": "log10"}, "above 0 on a log scale"),
        ({"x_scale": "log"}, "unknown scale 'log'"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        spec(**options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Slider("K", ()), "values of slider 'K' is empty"),
        (lambda: Slider("K", (1, 1)), "each value once"),
        (lambda: Slider("K", (1, 2), value=3), "slider 'K' is 3; allowed: 1, 2"),
        (lambda: Series("s", [1, 2], [1]), "y has 1 values; allowed: 2"),
        (lambda: Series("s", [1], [1], lo=[1]), "only one of lo and hi"),
        (lambda: Series("s", [1], [1], kind="bars"), "did you mean 'bar'"),
        (lambda: Frame([Series("s", [1], [1])], text=""), "a text or alt"),
        (lambda: Frame([], text="t"), "at least one series"),
        (lambda: explore(compute, {}, title="t", x_label="x", y_label="y"), "sliders is empty"),
        (lambda: explore(compute, SLIDERS, title="t", x_label=" ", y_label="y"), "x_label is empty"),
    ],
)
def test_bad_descriptions_are_refused(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_compute_must_return_a_frame():
    with pytest.raises(TypeError, match="compute returned list"):
        explore(lambda k: [1], {"k": Slider("K", (1,))}, title="t", x_label="x", y_label="y")


def test_a_long_precomputation_tells_how_far_it_is(capsys, monkeypatch):
    clock = itertools.count(0, 0.6)
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    explore(wide(3), {"k": Slider("K", range(6))}, title="t", x_label="x", y_label="y")
    said = capsys.readouterr().err
    assert "computing 2 of 6 frames" in said and "computed 6 frames in" in said


def test_a_short_precomputation_is_silent(capsys, made):
    assert capsys.readouterr().err == ""


SCRIPT = (module._HERE / "explorer.js").read_text()
STYLE = Explorer._css


def test_the_script_needs_no_network_and_no_other_module():
    text = SCRIPT.replace("http://www.w3.org/2000/svg", "")  # the namespace: a name, never fetched
    assert not re.search(
        r"https?:|//cdn|\bimport\b(?! s)|\bfetch\(|require\(|XMLHttpRequest", text.replace("No imports", "")
    )
    assert not re.search(r"url\(|@import|https?:", STYLE)


def test_the_script_is_part_of_the_widgets_state(made):
    """So an exported page needs nothing from disk or network besides the widget manager."""
    state = made.get_state(["_esm", "_css"])
    assert "export default { render }" in state["_esm"]
    assert all(part in state["_css"] for part in (".labsim-explorer", "--labsim-ink:", ".labsim-controls"))


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed; the browser tests load the script")
def test_the_script_is_valid():
    def complaint(script: str) -> str:
        command = ["node", "--input-type=module", "--check"]
        return subprocess.run(command, input=script, capture_output=True, text=True).stderr

    assert complaint(SCRIPT) == ""
    assert "SyntaxError" in complaint(SCRIPT + "}"), "the check would notice"
