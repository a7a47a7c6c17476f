"""Decks in a real Chromium: a clean one passes, each planted fault is seen; and their print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from pypdf import PdfWriter

from labsim.lab.slides.chromium import opened
from labsim.lab.slides.printed import faults_of_print, print_deck
from labsim.lab.slides.rendered import look_at

from .conftest import code, markdown

MakeDeck = Callable[..., Path]


@pytest.mark.browser
def test_a_clean_deck_has_no_findings(deck_of: MakeDeck, browser: Browser, tmp_path: Path) -> None:
    seen = look_at(browser, deck_of(), pictures=tmp_path)
    assert seen.slides == 4 and seen.findings == ()
    assert len(list(tmp_path.glob("*.png"))) == 4


@pytest.mark.browser
def test_each_planted_fault_is_seen(deck_of: MakeDeck, browser: Browser) -> None:
    deck = deck_of(
        markdown("## Too much\n\n" + "\n\n".join(f"Paragraph {n} of many." for n in range(60))),
        markdown("## Cut\n\n" + '<div style="width:90px;overflow:hidden;white-space:nowrap">no room for these</div>'),
        markdown("## Pale\n\n" + '<p style="color:#bbbbbb">Who can read this?</p>'),
        markdown("## Nameless\n\n" + '<svg role="img" width="9" height="9"></svg>'),
        code("x", "slide", html='<script>console.error("planted")</script><script>undefinedName()</script>'),
        code("x", html='<script>new Image().src = ["https:", "", "cdn.example", "a.png"].join("/")</script>'),
    )
    by_slide: dict[int, set[str]] = {}
    for finding in (found := look_at(browser, deck)).findings:
        by_slide.setdefault(finding.slide, set()).add(finding.gate)
    # A deck that asks for other hosts is not gone through slide by slide.
    assert found.slides == 0 and by_slide == {0: {"starts clean"}}
    told = " ".join(str(finding) for finding in found.findings)
    assert "console: planted" in told and "undefinedName" in told and "asks for https://cdn.example/a.png" in told

    text = deck.read_text(encoding="utf-8")
    for planted in ('console.error("planted")', "undefinedName()", "new Image().src"):
        text = text.replace(planted, "const unused = 1 ; //" if planted.endswith(")") else "window.unused")
    deck.write_text(text.replace("const unused = 1 ; //", "window.unused = 1; //"), encoding="utf-8")
    by_slide = {}
    for finding in look_at(browser, deck).findings:
        by_slide.setdefault(finding.slide, set()).add(finding.gate)
    assert by_slide == {5: {"overflow"}, 6: {"overflow"}, 7: {"color-contrast"}, 8: {"svg-img-alt"}}


@pytest.mark.browser
def test_a_sparse_page_is_drawn_larger_and_a_full_one_smaller(deck_of: MakeDeck, browser: Browser) -> None:
    full = "\n\n".join(f"Paragraph {n} of many." for n in range(16))
    with opened(browser, deck_of(markdown(f"## Full\n\n{full}"))) as (page, faults):
        sizes = [float(size) for size in page.locator(".page").evaluate_all("all => all.map(one => one.style.zoom)")]
    assert faults == [] and sizes[0] == 1.2 and 0.7 <= sizes[-1] < 1


@pytest.mark.browser
def test_code_is_enlarged_only_while_its_lines_hold(deck_of: MakeDeck, browser: Browser) -> None:
    """98 letters fill a line at full size; at 1.2 they would be broken."""
    lines = (code(f"x = {'1' * length}", "slide", tags=["show-input"]) for length in (40, 94))
    with opened(browser, deck_of(*lines)) as (page, faults):
        sizes = [float(size) for size in page.locator(".page").evaluate_all("all => all.map(one => one.style.zoom)")]
    assert faults == [] and sizes[-2] == 1.2 and 1 <= sizes[-1] <= 1.05


@pytest.mark.browser
def test_every_slide_is_one_printed_page(deck_of: MakeDeck, browser: Browser, tmp_path: Path) -> None:
    pdf = tmp_path / "tiny.pdf"
    assert print_deck(browser, deck_of(), pdf) == 4
    assert faults_of_print(pdf, 4) == []
    assert faults_of_print(pdf, 5) == ["4 pages for 5 slides"]


@pytest.mark.browser
def test_a_printed_page_has_the_margins_of_its_slide(deck_of: MakeDeck, browser: Browser) -> None:
    with opened(browser, deck_of(), query="?print-pdf") as (page, faults):
        page.wait_for_selector(".pdf-page", state="attached")
        sides = page.evaluate(
            "() => [...document.querySelectorAll('.pdf-page')].map((sheet) => {"
            " const [a, b] = [sheet, sheet.querySelector('.page')].map((one) => one.getBoundingClientRect());"
            " return [b.left - a.left, b.top - a.top, a.right - b.right]; })"
        )
    assert faults == [] and len(sides) == 4
    assert all(left >= 60 and top >= 34 and right >= 60 for left, top, right in sides), sides


def test_a_blank_page_and_another_shape_are_found(tmp_path: Path) -> None:
    writer = PdfWriter()
    writer.add_blank_page(960, 540)
    writer.add_blank_page(595, 842)
    writer.write(tmp_path / "bad.pdf")
    found = faults_of_print(tmp_path / "bad.pdf", 2)
    assert found == ["page 1 is blank", "page 2 is 595 x 842 points, not 16:9", "page 2 is blank"]


@pytest.mark.browser
def test_an_explorer_fills_the_width_that_its_place_has(deck_of: MakeDeck, browser: Browser) -> None:
    """Also where the page is full, so that it is drawn smaller and its place has more room."""
    full = "\n\n".join(f"Paragraph {n} of many." for n in range(7))
    with opened(browser, deck_of(markdown(full, "-"))) as (page, faults):
        page.evaluate("() => Reveal.slide(2, 0)")
        widths = page.evaluate(
            "() => ['.labsim-figure', '.labsim-chart'].map((one) =>"
            " Reveal.getCurrentSlide().querySelector(one).getBoundingClientRect().width)"
        )
    assert faults == [] and widths[1] > 0.97 * widths[0]
