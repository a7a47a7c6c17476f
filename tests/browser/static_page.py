"""A widget as it stands in an exported page: its script, its state, no kernel behind it and no network around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anywidget
from playwright.sync_api import Browser, Page, expect

from labsim.lab.export import standalone


def page_of(widget: anywidget.AnyWidget) -> str:
    """An HTML page that shows the widget from its synchronised state alone."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"></head><body>'
        f"{standalone(widget.get_state(), 'here')}</body></html>"
    )


@contextmanager
def drawn(browser: Browser, widget: anywidget.AnyWidget) -> Iterator[Page]:
    """The page, open and drawn in a browser without network. An error of its scripts fails at the end."""
    context = browser.new_context(viewport={"width": 900, "height": 700}, offline=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_content(page_of(widget))
    expect(page.locator("[data-ready=yes]")).to_be_visible()
    yield page
    context.close()
    assert errors == []
