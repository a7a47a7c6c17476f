"""A deck as PDF: every slide one page of 16:9, explorers in their first state, no page without anything on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .chromium import DeckBroken, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def print_deck(browser: Browser, deck: Path, out: Path) -> int:
    """Print a deck to the file `out`; the number of its pages.

    Raises:
        DeckBroken: the deck does not come up, or its print is not what it should be.
    """
    with opened(browser, deck, query="?print-pdf") as (page, faults):
        page.wait_for_selector(".pdf-page", state="attached", timeout=60_000)
        slides = page.locator(".pdf-page").count()
        data = page.pdf(prefer_css_page_size=True, print_background=True)
    if faults:
        raise DeckBroken(f"{deck.name}: {'; '.join(faults)}")
    out.write_bytes(data)
    problems = faults_of_print(out, slides)
    if problems:
        raise DeckBroken(f"{out.name}: {'; '.join(problems)}")
    return slides


def faults_of_print(pdf: Path, slides: int) -> list[str]:
    """What is wrong with a printed deck of so many slides, one line each."""
    from pypdf import PdfReader

    pages = PdfReader(pdf).pages
    problems = [] if len(pages) == slides else [f"{len(pages)} pages for {slides} slides"]
    for number, page in enumerate(pages, start=1):
        width, height = float(page.mediabox.width), float(page.mediabox.height)
        if abs(width / height - 16 / 9) > 0.01:
            problems.append(f"page {number} is {width:.0f} x {height:.0f} points, not 16:9")
        words = (page.extract_text() or "").split()
        # A slide's number stands on every page, so that alone makes no page full.
        if not [word for word in words if not word.replace("/", "").isdigit()] and not page.images:
            problems.append(f"page {number} is blank")
    return problems
