"""A learner's first minute in a real browser: open a notebook, run all cells, move a slider, see the picture change."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from .conftest import LabServer
from .lab_page import failures, run_all_cells

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

DEMO = "explorer_demo.ipynb"
DEMO_CELLS = [
    """
from pathlib import Path
import json
from labsim.lab.explorer import Frame, Reference, Series, Slider, explore
from labsim.lab.exercise import exercise, hint, solution, task
from labsim.lab import plots
""",
    """
def compute(k, cost):
    alphas = [i / 20 for i in range(21)]
    linear = [1 + k * a for a in alphas]
    chain = [sum(a**i for i in range(k + 1)) for a in alphas]
    speedup = [t / (1 + cost * k) for t in chain]
    spread = [0.06 * t for t in chain]
    return Frame(
        [
            Series("accepted/drafted: 1 + K·alpha", alphas, linear),
            Series("per token: geometric", alphas, chain, [t - s for t, s in zip(chain, spread)],
                   [t + s for t, s in zip(chain, spread)]),
            Series("speed-up, draft cost paid", alphas, speedup),
        ],
        text=f"K = {k}: at alpha 0.7 the two readings give {1 + 0.7 * k:.2f} and {chain[14]:.2f} tokens per forward; "
             f"with a draft that costs {cost} of a target step the gain is {speedup[14]:.2f}x.",
        mark=(0.7, "alpha = 0.7"),
    )

explorer = explore(
    compute,
    {"k": Slider("draft length K", (1, 2, 3, 5, 7), value=3, unit="tokens"),
     "cost": Slider("draft cost", (0.0, 0.02, 0.05, 0.1), value=0.05, unit="of a target step")},
    title="What does alpha buy?", x_label="alpha", y_label="tokens per target forward",
    reference=Reference(1.0, "no gain"),
)
explorer.observe(lambda change: Path("value.json").write_text(json.dumps(change.new)), "value")
explorer
""",
    """
def histogram(alpha, k):
    counts = [(alpha**n) * (1 - alpha) for n in range(k)] + [alpha**k]
    measured = [c * (1.1 if n % 2 else 0.9) for n, c in enumerate(counts)]
    names = [str(n) for n in range(k + 1)]
    return Frame(
        [Series("geometric model", names, counts, kind="bar"),
         Series("measured", names, measured, [m * 0.8 for m in measured], [m * 1.2 for m in measured], kind="bar")],
        text=f"With alpha {alpha} all {k} drafted tokens are accepted in {counts[-1]:.0%} of the steps.",
    )

bars = explore(
    histogram, {"alpha": Slider("conditional acceptance", (0.3, 0.5, 0.7, 0.9), value=0.7), "k": Slider("K", (3, 5))},
    title="Accepted tokens per step", x_label="accepted tokens", y_label="share of steps",
)
bars
""",
    """
def sweep(gpu):
    batch = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    scale = {"A100": 1.0, "H100": 1.3}[gpu]
    s = [2.2 / (1 + b / (90 * scale)) + 0.3 for b in batch]
    return Frame(
        [Series("predicted", batch, s),
         Series("published", [1, 4, 16, 64],
                [2.4, 2.3, 2.1, 1.6], [2.3, 2.2, 1.9, 1.3], [2.5, 2.4, 2.3, 1.9], "points")],
        text=f"{gpu}: speculation pays up to the crossing.",
    )

sweep_explorer = explore(
    sweep, {"gpu": Slider("GPU", ("A100", "H100"))}, title="Concurrency", x_label="concurrency (requests)",
    y_label="speed-up (x)", x_scale="log2", y_scale="linear", reference=Reference(1.0, "no gain"),
)
sweep_explorer
""",
    """
fig, ax = plots.axes("concurrency (requests)", "speed-up (x)", "Speculation stops paying", x_scale="log")
x = [1, 2, 4, 8, 16, 32, 64, 128, 256]
plots.line(ax, x, [2.2 / (1 + b / 90) + 0.2 for b in x], "K = 3")
plots.band(ax, x, [2.6 / (1 + b / 60) + 0.1 for b in x], [2.4 / (1 + b / 60) for b in x],
           [2.8 / (1 + b / 60) + 0.2 for b in x], "K = 5, 95 %")
plots.reference(ax, 1.0, "no gain")
plots.show(fig, alt="Speed-up falls with concurrency and crosses 1 near 120.")
""",
    """
task("00.1")

@exercise("00.1")
def acceptance_length(accepted):
    return sum(accepted) / len(accepted)
""",
    """
@exercise("00.1")
def acceptance_length(accepted):
    raise NotImplementedError
""",
    """
@exercise("00.1")
def acceptance_length(accepted):
    total = 0
    for n in accepted:
        total += n / (len(accepted) - 1)
    return total

hint("00.1")
solution("00.1")
""",
    """
@exercise("00.1")
def acceptance_length(accepted):
    return sum(accepted) / len(accepted) + 1
""",
]


@pytest.fixture(scope="module")
def demo(lab_server: LabServer) -> str:
    """A notebook with every form of explorer, figure and verdict, put beside the course's own."""
    write(lab_server.root / DEMO, DEMO_CELLS)
    return DEMO


def write(path: Path, sources: list[str]) -> None:
    """A notebook of code cells."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source.strip()) for source in sources],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    nbformat.write(notebook, path)


def picture(explorer) -> list[str]:
    """Everything that shows data: lines, bars and markers with their coordinates."""
    return explorer.locator(".labsim-series").evaluate_all("groups => groups.map(group => group.innerHTML)")


def move(slider) -> None:
    """One step with the keyboard, away from the end of the slider."""
    at_end = slider.evaluate("input => Number(input.value) === Number(input.max)")
    slider.focus()
    slider.press("ArrowLeft" if at_end else "ArrowRight")


# Those with torch take half a minute and more until their explorers are there.
QUICK = ["01_alpha_and_k", "02_concurrency_and_tails", "15_rollout"]
LONG = ["03_lossless", "04_trees", "05_eagle3", "06_training_time_test", "07_attention_drift", "08_why_training_ooms"]
LONG += ["09_lse_fusion", "10_ring_attention", "11_ulysses_and_usp", "12_usp_for_ttt"]


@pytest.mark.parametrize(
    "notebook", [Path(DEMO).stem, *QUICK, *(pytest.param(name, marks=pytest.mark.full) for name in LONG)]
)
def test_moving_each_slider_changes_the_picture(notebook, lab_server, demo, page, screenshots):
    run_all_cells(page, lab_server.open(f"{notebook}.ipynb"))
    assert failures(page) == []
    explorers = page.locator(".labsim-explorer").all()
    assert explorers
    for number, explorer in enumerate(explorers, start=1):
        explorer.scroll_into_view_if_needed()
        explorer.screenshot(path=screenshots / f"{notebook}-{number}-before.png")
        for slider in explorer.get_by_role("slider").all():
            before, alt = picture(explorer), explorer.locator("svg[role=img]").get_attribute("aria-label")
            assert before and alt
            move(slider)
            expect(explorer.locator("svg[role=img]")).not_to_have_attribute("aria-label", alt)
            assert picture(explorer) != before, slider.get_attribute("data-slider")
        explorer.screenshot(path=screenshots / f"{notebook}-{number}-after.png")
    assert failures(page) == []


def test_a_failing_cell_is_seen(lab_server, page):
    """The negative control of `failures`, on which the other tests rely."""
    write(lab_server.root / "fails.ipynb", ["1 + 1", "1 / 0", "2 + 2"])
    run_all_cells(page, lab_server.open("fails.ipynb"))
    assert failures(page) == ["ZeroDivisionError: division by zero"]


def test_a_slider_moved_in_the_browser_arrives_in_python(lab_server, demo, page):
    run_all_cells(page, lab_server.open(demo))
    slider = page.get_by_role("slider", name="draft length K")
    assert slider.get_attribute("aria-valuetext") == "3 tokens"
    move(slider)
    assert slider.get_attribute("aria-valuetext") == "5 tokens"
    arrived, end = lab_server.root / "value.json", time.monotonic() + 20
    while not arrived.exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert json.loads(arrived.read_text()) == {"k": 5, "cost": 0.05}


def test_text_and_paper_contrast_in_both_themes(lab_server, demo, page, screenshots):
    run_all_cells(page, lab_server.open(demo))
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.evaluate(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: '{theme}'}})")
        expect(page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
        page.wait_for_function(
            "dark => { const c = getComputedStyle(document.querySelector('.labsim-explorer')).backgroundColor;"
            " return (Number(c.match(/[0-9]+/)[0]) < 128) === dark }",
            arg=theme.endswith("Dark"),
        )
        ink, paper = page.locator(".labsim-explorer").first.evaluate(
            "el => [getComputedStyle(el.querySelector('.labsim-tick')).fill, getComputedStyle(el).backgroundColor]"
        )
        assert abs(brightness(ink) - brightness(paper)) > 120, (theme, ink, paper)
        for number, cell in enumerate(page.locator(".jp-CodeCell").all()):
            cell.scroll_into_view_if_needed()
            cell.screenshot(path=screenshots / f"demo-{theme.split()[-1].lower()}-cell{number}.png")
    page.screenshot(path=screenshots / "demo-page.png")


def brightness(colour: str) -> float:
    """Mean of the r, g and b of an rgb(...) or rgba(...) colour."""
    return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3]) / 3
