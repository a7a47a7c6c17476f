"""Exported pages: a widget's saved state becomes what draws it. (`tests/browser` opens such pages.)"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import ipywidgets
import nbformat
import pytest
from bs4 import BeautifulSoup
from nbconvert import HTMLExporter, SlidesExporter

from labsim.lab import export
from labsim.lab.explorer import Frame, Series, Slider, explore
from labsim.lab.export import STATE, VIEW, StandaloneWidgets, standalone
from labsim.lab.stepper import Stepper

from .test_stepper import BY_HAND


def saved(*widgets: ipywidgets.Widget) -> nbformat.NotebookNode:
    """A notebook as an execution leaves it: one view of a widget per cell, and the widgets' states."""
    cells, models = [], {}
    for widget in widgets:
        view = {"model_id": widget.model_id, "version_major": 2, "version_minor": 1}
        output = nbformat.v4.new_output("display_data", data={VIEW: view, "text/plain": repr(widget)})
        cells.append(nbformat.v4.new_code_cell("widget", outputs=[output]))
        models[widget.model_id] = {
            "model_name": widget._model_name,
            "model_module": widget._model_module,
            "model_module_version": widget._model_module_version,
            "state": widget.get_state(),
        }
    states = {STATE: {"state": models, "version_major": 2, "version_minor": 0}}
    return nbformat.v4.new_notebook(cells=cells, metadata={"widgets": states})


def scripts(page: str) -> list[str]:
    """Text of the scripts that stand where widgets stood."""
    return [one.get_text() for one in BeautifulSoup(page, "html.parser").select(".jp-OutputArea script[type=module]")]


@pytest.mark.parametrize("exporter", [HTMLExporter, SlidesExporter])
def test_the_page_holds_script_style_and_data_and_asks_for_no_widget_manager(exporter: type[HTMLExporter]) -> None:
    widgets = Stepper([BY_HAND]), Stepper([BY_HAND])
    page, _ = exporter(preprocessors=[StandaloneWidgets]).from_notebook_node(saved(*widgets))
    assert "html-manager" not in page
    found = scripts(page)
    assert len(found) == 2 and all('"by hand"' in one and "function render(" in one for one in found)
    places = [one["id"] for one in BeautifulSoup(page, "html.parser").select(".labsim-standalone")]
    assert len(set(places)) == 2 and all(f'"{place}"' in script for place, script in zip(places, found, strict=True))
    assert ".labsim-stepper" in page


def test_other_widgets_and_states_that_were_not_saved_are_left_to_jupyter() -> None:
    stepper, other = Stepper([BY_HAND]), ipywidgets.IntSlider()
    page, _ = HTMLExporter(preprocessors=[StandaloneWidgets]).from_notebook_node(saved(stepper, other))
    assert len(scripts(page)) == 1
    assert "html-manager" in page and f'"{other.model_id}"' in page
    unsaved = saved(stepper)
    del unsaved.metadata["widgets"]
    page, _ = HTMLExporter(preprocessors=[StandaloneWidgets]).from_notebook_node(unsaved)
    assert scripts(page) == [] and "Stepper" in page


def test_no_text_in_the_data_can_end_the_script() -> None:
    def frame(k: int) -> Frame:
        return Frame([Series("s", [1], [k])], text="</script><b>loose</b><!-- <script>")

    widget = explore(frame, {"k": Slider("K", (1, 2))}, title="t", x_label="x", y_label="y")
    page = BeautifulSoup(standalone(widget.get_state(), "here"), "html.parser")
    assert page.find("b") is None and len(page.find_all("script")) == 1


def test_the_command_in_the_docstring(tmp_path: Path) -> None:
    nbformat.write(saved(Stepper([BY_HAND])), tmp_path / "n.ipynb")
    (line,) = re.findall(r"^    jupyter (nbconvert .*) NOTEBOOK$", export.__doc__, re.MULTILINE)
    command = [sys.executable, "-m", *line.split(), str(tmp_path / "n.ipynb")]
    subprocess.run(command, check=True, capture_output=True, timeout=200)
    page = (tmp_path / "n.html").read_text(encoding="utf-8")
    assert len(scripts(page)) == 1 and "html-manager" not in page
