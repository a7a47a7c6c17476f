"""Notebook 09's explorers in a page without a kernel: stairs change between two keys, an axis has one notation."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from playwright.sync_api import Browser

from labsim.lab.explorers.lse import a_row_in_blocks, merge_errors

from .static_page import drawn

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_a_stair_changes_between_two_keys(browser: Browser) -> None:
    explorer = a_row_in_blocks()
    explorer.set(length=6, scores="rising")
    with drawn(browser, explorer) as page:
        path = page.locator('[data-name="block in the row"] .labsim-line').get_attribute("d")
        points = page.locator('[data-name="key in its block"] .labsim-marker').all()
        keys = [float(one.get_attribute("x") or 0) or float(one.get_attribute("cx") or 0) for one in points]
        if not any(keys):  # squares are polygons: the middle of their corners
            corners = [re.findall(r"([\d.]+),", one.get_attribute("points") or "") for one in points]
            keys = [sum(map(float, one)) / len(one) for one in corners]
    assert path is not None
    stairs = [(float(x), float(y), float(to)) for x, y, to in re.findall(r"[ML]([\d.]+),([\d.]+)H([\d.]+)", path)]
    edges = [one[2] for one, other in pairwise(stairs) if one[1] != other[1]]
    assert edges == pytest.approx([(keys[at - 1] + keys[at]) / 2 for at in (6, 12, 18)], abs=0.2)
    first, *_, last = stairs
    assert first[0] < keys[0] and last[2] > keys[-1], "the ends are as wide as the rest"


def test_ticks_of_an_axis_are_of_one_notation(browser: Browser) -> None:
    with drawn(browser, merge_errors()) as page:
        texts = page.locator('.labsim-tick[text-anchor="end"]').all_text_contents()
    assert len(texts) > 3
    assert all(re.fullmatch(r"1e-?\d+", text) for text in texts), texts
