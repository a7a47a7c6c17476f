"""Where an explorer's labels stand: at the end of their line that the curves leave free."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from labsim.lab.explorer import Frame, Reference, Series, Slider, explore

from .static_page import drawn

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

UP, DOWN, KINDS = [0.0, 0.02, 0.05, 0.9], [0.9, 0.05, 0.02, 0.0], ("line", "bar", "stack")


def places(browser: Browser, frame: Frame, **options: object) -> dict[str, tuple[float, float]]:
    """Where each label is: shares of the figure's width and height, at the label's middle."""
    explorer = explore(
        lambda n: frame, {"n": Slider("n", (1, 2))}, title="t", x_label="depth", y_label="share", **options
    )
    with drawn(browser, explorer) as page:
        figure = page.locator("svg[role=img]").bounding_box()
        boxes = {one.text_content(): one.bounding_box() for one in page.locator("text.labsim-note").all()}
    assert figure is not None
    return {
        text or "": (
            (box["x"] + box["width"] / 2 - figure["x"]) / figure["width"],
            (box["y"] + box["height"] / 2 - figure["y"]) / figure["height"],
        )
        for text, box in boxes.items()
        if box is not None
    }


def test_a_mark_is_named_above_where_a_curve_runs_low(browser: Browser) -> None:
    range_ = {"y_range": (0.0, 1.0)}
    low = Frame([Series("s", [1, 2, 3, 4], DOWN)], text="", alt="a", mark=(2, "here it ends"))
    high = Frame([Series("s", [1, 2, 3, 4], [0.9, 0.8, 0.7, 0.6])], text="", alt="a", mark=(2, "here it ends"))
    assert places(browser, low, **range_)["here it ends"][1] < 0.3
    assert places(browser, high, **range_)["here it ends"][1] > 0.7


@pytest.mark.parametrize("kind", KINDS)
def test_a_reference_is_named_at_its_free_end(browser: Browser, kind: str) -> None:
    """Also between two points, and over bars, which fill all below their top."""
    x = [1, 2, 3, 4] if kind == "line" else ["a", "b", "c", "d"]
    for values, right in ((UP, False), (DOWN, True)):
        frame = Frame([Series("s", x, values, kind=kind)], text="", alt="a")
        found = places(browser, frame, reference=Reference(0.4, "a limit"), y_range=(0.0, 1.0))["a limit"]
        assert (found[0] > 0.5) is right
