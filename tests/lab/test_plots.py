"""Figures: the alt text reaches the exported page, and no series is told apart by hue alone."""

from __future__ import annotations

import io
import itertools
import math
import struct

import nbformat
import pytest
from bs4 import BeautifulSoup
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from matplotlib.collections import PolyCollection
from nbconvert import HTMLExporter, SlidesExporter

from labsim.lab import plots
from labsim.lab.style import LOOKS, contrast, look

ALT = 'Speed-up falls & crosses 1 at "120" requests.'


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    made = InteractiveShell.instance()
    made.history_manager.enabled = False
    yield made
    InteractiveShell.clear_instance()


@pytest.fixture
def figure():
    fig, ax = plots.axes("concurrency (requests)", "speed-up (x)", "title")
    plots.line(ax, [1, 2, 3], [1, 2, 3], "a")
    plots.line(ax, [1, 2, 3], [2, 3, 4], "b")
    plots.points(ax, [1, 2, 3], [2, 3, 4], "c")
    plots.band(ax, [1, 2, 3], [2, 3, 4], [1, 2, 3], [3, 4, 5], "d")
    plots.reference(ax, 1.0, "no gain")
    return fig, ax


def shown(fig):
    with capture_output() as captured:
        plots.show(fig, alt=ALT)
    (output,) = captured.outputs
    return output.data


@pytest.mark.parametrize("exporter", [HTMLExporter, SlidesExporter])
def test_the_exported_page_has_the_figure_with_its_alt_text(exporter, shell, figure):
    output = nbformat.v4.new_output("display_data", data=shown(figure[0]))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("show(fig)", outputs=[output])])
    page = BeautifulSoup(exporter().from_notebook_node(notebook)[0], "html.parser")
    (image,) = page.select("img")
    assert image["alt"] == ALT
    assert image["src"].startswith("data:image/png;base64,")


def test_without_html_the_alt_text_is_what_remains(shell, figure):
    assert shown(figure[0])["text/plain"] == ALT


@pytest.mark.parametrize("alt", ["", "  ", None])
def test_an_empty_alt_text_is_refused(alt, figure):
    with pytest.raises(ValueError, match="alt is"):
        plots.show(figure[0], alt=alt)


def test_a_label_cannot_be_left_out():
    with pytest.raises(ValueError, match="not empty"):
        plots.axes("", "y")


def test_each_series_has_its_own_colour_dash_and_marker(figure):
    lines = [one for one in figure[1].get_lines() if not one.get_label().startswith("_")]
    assert [one.get_label() for one in lines] == ["a", "b", "c", "d"]
    assert len({one.get_color() for one in lines}) == 4
    assert len({one.get_marker() for one in lines}) == 4
    assert lines[0].get_linestyle() == "-" and lines[1].get_linestyle() == "--"


def test_the_band_covers_exactly_its_interval(figure):
    (area,) = [one for one in figure[1].collections if isinstance(one, PolyCollection)]
    corners = {(x, y) for x, y in area.get_paths()[0].vertices}
    assert {(1, 1), (2, 2), (3, 3), (1, 3), (2, 4), (3, 5)} <= corners


def test_an_interval_that_excludes_its_mean_is_refused():
    _, ax = plots.axes("x", "y")
    with pytest.raises(ValueError, match=r"mean\[1\] is 3; allowed: between low 4 and high 5"):
        plots.band(ax, [1, 2], [2, 3], [1, 4], [3, 5], "d")


def test_bars_count_as_series(figure):
    _, ax = plots.axes("x", "y")
    first = plots.bars(ax, ["a", "b"], [1, 2], "one", width=0.4)
    second = plots.bars(ax, ["c", "d"], [1, 2], "two", width=0.4)
    colours = [bar.patches[0].get_facecolor() for bar in (first, second)]
    assert colours[0] != colours[1]
    assert first.patches[0].get_hatch() != second.patches[0].get_hatch()


def test_several_axes_come_side_by_side():
    fig, pair = plots.axes("x", "y", "title", columns=2)
    assert len(pair) == 2 and fig.get_suptitle() == "title"
    assert [ax.get_xlabel() for ax in pair] == ["x", "x"]


def test_the_same_figure_gives_the_same_png(figure):
    first, second = plots.png(figure[0]), plots.png(figure[0])
    assert first == second
    stream = io.BytesIO(first)
    stream.seek(16)
    width, height = struct.unpack(">II", stream.read(8))
    assert (width, height) == (770, 462)  # 7.0 x 4.2 inches at 110 dots per inch


def test_the_grid_does_not_run_through_a_legends_words(figure):
    frame = figure[1].get_legend().get_frame()
    assert frame.get_visible() and frame.get_alpha() > 0.8 and frame.get_edgecolor()[3] == 0


def test_ticks_that_were_chosen_stand_alone_on_a_logarithmic_axis():
    for chosen, expected in ((None, True), ([1, 8, 64], False)):
        fig, ax = plots.axes("x (1)", "y (1)", x_scale="log")
        plots.line(ax, [1, 8, 64], [1, 2, 3], "a")
        if chosen:
            ax.set_xticks(chosen, map(str, chosen))
        plots.show(fig, alt=ALT)
        assert (len(ax.get_xticks(minor=True)) > 0) is expected


def test_no_global_state_is_left_behind(figure):
    import matplotlib

    assert matplotlib.rcParams["font.size"] == matplotlib.rcParamsDefault["font.size"]
    import matplotlib.pyplot as plt

    assert plt.get_fignums() == []


def test_looks_differ_in_every_respect():
    for respect in ("colour", "dash", "marker"):
        assert len({getattr(one, respect) for one in LOOKS}) == len(LOOKS), respect
    assert look(len(LOOKS)) == LOOKS[0]


def test_contrast_is_that_of_the_standard():
    # WCAG's own examples: black on white is 21, #777777 on white is 4.48.
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("page", ["#ffffff", "#111111"])
def test_the_first_five_colours_are_seen_on_light_and_dark(page):
    assert [one.colour for one in LOOKS[:5] if contrast(one.colour, page) < 3.0] == []


# Machado, Oliveira and Fernandes (2009), severity 1.0: what deuteranopes and protanopes see, in linear RGB.
DEFICIENCIES = {
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
}


def seen(colour, matrix):
    """The colour as that eye sees it, r, g, b in 0..1."""
    rgb = [(int(colour[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5)]
    return [max(0.0, sum(m * c for m, c in zip(row, rgb, strict=True))) ** (1 / 2.2) for row in matrix]


def nearest_pair(colours, matrix):
    views = [seen(colour, matrix) for colour in colours]
    return min(math.dist(one, other) for one, other in itertools.combinations(views, 2))


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_the_first_four_colours_stay_apart_for_colour_blind_eyes(deficiency):
    ours = nearest_pair([one.colour for one in LOOKS[:4]], DEFICIENCIES[deficiency])
    # The control is the default palette of matplotlib, in which red and green fall together.
    default = nearest_pair(["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728"], DEFICIENCIES[deficiency])
    assert ours > 0.19
    assert ours > 1.3 * default, (ours, default)
