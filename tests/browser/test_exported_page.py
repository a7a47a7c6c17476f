"""The course's widgets in a page made by nbconvert and opened offline, with no kernel: drawn at once, and alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import anywidget
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, Page, expect

from labsim.lab.export import StandaloneWidgets
from labsim.lab.stepper import Stepper, sentence
from tests.lab.test_course_explorers import EXPLORERS
from tests.lab.test_export import saved
from tests.lab.test_stepper import BY_HAND

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Exports widgets, one cell each, and opens the page."""
    context = browser.new_context(viewport={"width": 1000, "height": 900}, offline=True)
    errors: list[str] = []

    def open_page(*widgets: anywidget.AnyWidget) -> Page:
        text, _ = HTMLExporter(preprocessors=[StandaloneWidgets]).from_notebook_node(saved(*widgets))
        (tmp_path / "page.html").write_text(text, encoding="utf-8")
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((tmp_path / "page.html").as_uri())
        return page

    yield open_page
    context.close()
    assert errors == []


@pytest.mark.parametrize("name", EXPLORERS)
def test_an_explorer_is_drawn_before_anything_is_touched_and_then_moves(
    name: str, opened: Callable[..., Page], screenshots: Path
) -> None:
    explorer = EXPLORERS[name]()
    page = opened(explorer)

    def shows_the_frame() -> None:
        frame = explorer.frame
        expect(page.locator(".labsim-readout")).to_have_text(frame.text)
        expect(page.locator("svg[role=img]")).to_have_attribute("aria-label", frame.alt)
        drawn = page.locator(".labsim-series")
        assert [one.get_attribute("data-name") for one in drawn.all()] == [series.name for series in frame.series]
        for one, series in zip(drawn.all(), frame.series, strict=True):
            if series.kind != "stack" or any(series.y):  # a part of nothing has no height in a stack
                assert one.bounding_box()["height"] > 0, (frame.text, series)

    shows_the_frame()
    page.screenshot(path=screenshots / f"exported-{name}.png")
    for slider_name, slider in explorer.sliders.items():
        at = slider.index_of(explorer.value[slider_name])
        key, to = ("ArrowRight", at + 1) if at + 1 < len(slider.values) else ("ArrowLeft", at - 1)
        page.locator(f"input[data-slider={slider_name}]").press(key)
        explorer.value = {slider_name: slider.values[to]}
        shows_the_frame()


def test_two_widgets_on_a_page_do_not_move_each_other(opened: Callable[..., Page]) -> None:
    explorer = EXPLORERS["three_words"]()
    page = opened(Stepper([BY_HAND]), explorer)
    page.get_by_role("button", name="step forward").click()
    first, second = page.locator(".labsim-readout").all()
    expect(first).to_have_text(sentence(BY_HAND, 1))
    expect(second).to_have_text(explorer.frame.text)
    page.locator("input[data-slider=likeness]").press("ArrowRight")
    expect(second).not_to_have_text(explorer.frame.text)
    expect(first).to_have_text(sentence(BY_HAND, 1))
