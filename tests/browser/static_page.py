"""A widget as it stands in an exported page: its script, its state, no kernel behind it and no network around it."""

from __future__ import annotations

import anywidget

from labsim.lab.export import standalone


def page_of(widget: anywidget.AnyWidget) -> str:
    """An HTML page that shows the widget from its synchronised state alone."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"></head><body>'
        f"{standalone(widget.get_state(), 'here')}</body></html>"
    )
