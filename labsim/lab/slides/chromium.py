"""Decks in a real Chromium that reaches nothing but their own files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..browser import find_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

WIDTH, HEIGHT = 1280, 720
_START_S = 120


class NoBrowser(RuntimeError):
    """There is no Chromium or no Playwright on this machine. The message says what to install."""


class DeckBroken(RuntimeError):
    """A deck does not come up in the browser; the message says which and why."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium. NoBrowser where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise NoBrowser("playwright is not installed; right: pip install playwright, or the extra `test`") from error
    path = find_chromium()
    if path is None:
        raise NoBrowser("there is no chromium on PATH; right: apt-get install chromium fonts-dejavu-core")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, deck: Path, *, query: str = "") -> Iterator[tuple[Page, list[str]]]:
    """A deck whose first slide stands, and the list in which its faults gather.

    Faults are errors in the console, uncaught exceptions, files of its own that are not there, and every address
    outside the deck's folder that it asked for. Such a request is refused.
    """
    from playwright.sync_api import Error

    deck = deck.resolve()
    own = deck.parent.as_uri()
    faults: list[str] = []

    def gate(route: Route) -> None:
        address = route.request.url
        if address.startswith((f"{own}/", "data:", "blob:", "about:")):
            route.continue_()
        else:
            faults.append(f"asks for {address}")
            route.abort()

    # The pixels of the page are those of a slide only where the window has its size and the margin is none.
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, offline=True)
    try:
        page = context.new_page()
        context.route("**/*", gate)
        page.on("console", lambda said: faults.append(f"console: {said.text}") if said.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(f"uncaught: {error}"))
        page.on("requestfailed", lambda request: _note_failure(request, own, faults))
        page.goto(deck.as_uri() + query, wait_until="load")
        try:
            page.wait_for_function("() => window.labsimDeck !== undefined", timeout=_START_S * 1000)
        except Error as error:
            told = "; ".join(faults) or "no error was reported"
            raise DeckBroken(f"{deck.name}: no slide after {_START_S} s ({told})") from error
        state = page.evaluate("() => window.labsimDeck")
        if state != "ready":
            faults.append(f"does not start: {state}")
        yield page, faults
    finally:
        context.close()


def _note_failure(request: object, own: str, faults: list[str]) -> None:
    if request.url.startswith(own):
        faults.append(f"lacks {request.url.removeprefix(own + '/')}")
