"""Who holds what, in a page without a kernel: the swap turns rows of the picture into columns."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from labsim.lab.explorers.mesh import who_holds_what, who_wins

from .static_page import page_of

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_outside_a_rank_is_a_band_of_tokens_inside_a_band_of_heads(browser: Browser) -> None:
    explorer = who_holds_what()
    explorer.set(mesh="1 x 4", layout="contiguous")
    page = browser.new_context(offline=True).new_page()
    page.set_content(page_of(explorer))
    expect(page.locator("svg[role=img]")).to_be_visible()

    def extent(name: str) -> tuple[float, float]:
        """Width and height of what a rank holds."""
        boxes = [one.bounding_box() for one in page.locator(f'[data-name="{name}"] .labsim-marker').all()]
        assert len(boxes) == 32
        middles = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes]
        return tuple(max(values) - min(values) for values in zip(*middles, strict=True))  # type: ignore[return-value]

    outside = extent("rank 1")
    alt = page.locator("svg[role=img]").get_attribute("aria-label")
    moment = page.locator('input[data-slider="moment"]')
    moment.focus()
    moment.press("ArrowRight")
    expect(page.locator("svg[role=img]")).not_to_have_attribute("aria-label", alt)
    inside = extent("rank 1")
    assert inside[0] < outside[0] / 4, "two of eight heads"
    assert inside[1] > 4 * outside[1], "all tokens in place of a quarter"
    page.context.close()


def test_a_bar_for_each_legal_mesh(browser: Browser) -> None:
    explorer = who_wins()
    explorer.set(model="Qwen2.5-1.5B, 12 / 2", length=4096)
    page = browser.new_context(offline=True).new_page()
    page.set_content(page_of(explorer))
    expect(page.locator("svg[role=img]")).to_be_visible()
    text = page.locator("svg[role=img]").text_content()
    assert text is not None
    assert "16 x 1" in text and "4 x 4" in text and "1 x 16" not in text
    page.context.close()
