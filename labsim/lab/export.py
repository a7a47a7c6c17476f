"""Exported pages whose widgets draw themselves, from the state that the notebook has saved: no kernel, no network.

nbconvert leaves a widget to scripts that the page fetches when somebody opens it: require.js, Jupyter's html-manager
and anywidget, from three addresses. Where one of them does not come, as on a machine without network, the widget's
place stays blank and nothing is said. But the saved state of an anywidget holds its script, its style and its data.
`StandaloneWidgets` puts them where the widget stands:

    jupyter nbconvert --to html --HTMLExporter.preprocessors=labsim.lab.export.StandaloneWidgets NOTEBOOK

The same holds for `--to slides`. The notebook must have been saved with its widgets' state, as `labsim run --out` does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.preprocessors import Preprocessor

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
_MANAGER = Path(__file__).with_name("standalone.js")
_NOT_DATA = ("layout", "tabbable", "tooltip")  # ipywidgets' own traits


class StandaloneWidgets(Preprocessor):
    """Replaces each view of an anywidget by what draws it. Other widgets, and those without a saved state, stay."""

    def preprocess(
        self, nb: nbformat.NotebookNode, resources: dict[str, Any]
    ) -> tuple[nbformat.NotebookNode, dict[str, Any]]:
        models = nb.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
        left = 0
        for number, output in enumerate(output for cell in nb.cells for output in cell.get("outputs", ())):
            if VIEW not in output.get("data", {}):
                continue
            model = models.get(output.data[VIEW]["model_id"], {})
            if "_esm" in model.get("state", {}) and not model.get("buffers"):
                del output.data[VIEW]
                output.data["text/html"] = standalone(model["state"], f"labsim-standalone-{number}")
            else:
                left += 1
        if models and not left:
            del nb.metadata["widgets"]  # or the page would fetch a manager that has nothing to manage
        return nb, resources


def standalone(state: Mapping[str, Any], place: str) -> str:
    """HTML that draws an anywidget with this state. `place` is the id of its element, once per page."""
    data = {name: value for name, value in state.items() if not name.startswith("_") and name not in _NOT_DATA}
    head = f"const HERE = {_literal(place)}, STATE = {_literal(data)}, SCRIPT = {_literal(state['_esm'])};"
    return (
        f'<div id="{place}" class="labsim-standalone"></div><style>{state.get("_css", "")}</style>\n'
        f'<script type="module">\n{head}\n{_MANAGER.read_text(encoding="utf-8")}</script>'
    )


def _literal(value: object) -> str:
    """JSON that is a JavaScript literal and cannot end the script element around it."""
    return json.dumps(value).replace("<", "\\u003c")
