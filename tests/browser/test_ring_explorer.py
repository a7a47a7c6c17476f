"""The attention matrix of notebook 10 in a page without a kernel: first query at the top, earlier pairs small."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from labsim.lab.explorers.ring import hop_by_hop

from .static_page import page_of

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_the_first_query_stands_at_the_top_and_what_was_computed_before_is_small(browser: Browser) -> None:
    page = browser.new_context(offline=True).new_page()
    page.set_content(page_of(hop_by_hop()))
    expect(page.locator("svg[role=img]")).to_be_visible()

    def boxes(name: str) -> list[dict]:
        return [one.bounding_box() for one in page.locator(f'[data-name="{name}"] .labsim-marker').all()]

    first, last = boxes("rank 0"), boxes("rank 3")
    assert len(first) == 6, "at hop 1 rank 0 computes nothing: only the queries that it holds are marked"
    assert len(last) == 6 + 36
    assert max(box["y"] for box in first) < min(box["y"] for box in last)
    assert boxes("computed before")[0]["height"] < first[0]["height"] / 2
    page.context.close()
