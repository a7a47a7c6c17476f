"""A widget as it stands in an exported page: its script, its state, no kernel behind it and no network around it."""

from __future__ import annotations

import json

import anywidget

# What anywidget's host gives a widget, and no more: get, set, save_changes, on, off.
HOST = """
const state = STATE;
const heard = {};
const model = {
  get: (name) => state[name],
  set: (name, value) => {
    const changed = JSON.stringify(state[name]) !== JSON.stringify(value);
    state[name] = value;
    if (changed) (heard[`change:${name}`] || []).forEach((call) => call());
  },
  save_changes: () => {},
  on: (name, call) => (heard[name] = [...(heard[name] || []), call]),
  off: (name, call) => (heard[name] = (heard[name] || []).filter((one) => one !== call)),
};
const script = URL.createObjectURL(new Blob([SCRIPT], { type: "text/javascript" }));
const widget = (await import(script)).default;
widget.render({ model, el: document.getElementById("here") });
document.body.dataset.ready = "yes";
"""


def page_of(widget: anywidget.AnyWidget) -> str:
    """An HTML page that shows the widget from its synchronised state alone."""
    state = widget.get_state()
    plain = {
        name: value for name, value in state.items() if not name.startswith("_") and name not in ("layout", "tabbable")
    }
    safe = json.dumps(plain).replace("</", "<\\/")
    script = json.dumps(state["_esm"]).replace("</", "<\\/")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><style>{state["_css"]}</style></head><body>'
        f'<div id="here"></div><script type="module">'
        f"{HOST.replace('STATE', safe, 1).replace('SCRIPT', script, 1)}</script></body></html>"
    )
