"""The explorers of notebook 12 in a page without a kernel: the branch's column, bars with a cross."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from labsim.lab.explorers.shared import one_rank_one_step, what_a_rank_holds

from .static_page import page_of

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_a_further_step_adds_a_column_of_branch_keys(browser: Browser) -> None:
    page = browser.new_context(offline=True).new_page()
    page.set_content(page_of(one_rank_one_step()))
    expect(page.locator("svg[role=img]")).to_be_visible()
    branch = page.locator('[data-name="own branch, stays"] .labsim-marker')
    came = page.locator('[data-name="text, came round"] .labsim-marker')
    assert (branch.count(), came.count()) == (12, 54), "six queries, two steps"
    page.locator("input[type=range]").first.press("ArrowRight")
    expect(branch).to_have_count(18)
    assert came.count() == 54, "the text is the same in every step"
    left = max(box.bounding_box()["x"] for box in came.all())
    assert all(box.bounding_box()["x"] > left for box in branch.all())
    page.context.close()


def test_bars_fall_with_the_ranks_and_the_cross_is_drawn(browser: Browser) -> None:
    page = browser.new_context(offline=True).new_page()
    page.set_content(page_of(what_a_rank_holds()))
    expect(page.locator("svg[role=img]")).to_be_visible()
    bars = page.locator('[data-name="activations"] .labsim-bar').all()
    heights = [bar.bounding_box()["height"] for bar in bars]
    assert len(heights) == 5 and heights == sorted(heights, reverse=True)
    assert page.locator('[data-name="sent in a step"] .labsim-marker').count() == 5
    expect(page.locator(".labsim-readout")).to_contain_text("16 ranks")
    page.context.close()
