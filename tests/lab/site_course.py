"""Notebooks 01 and 10 as if they had run: the real sources, with the outputs that a reader's page depends on."""

from __future__ import annotations

import copy
from pathlib import Path

import nbformat

from labsim.lab.exercise import find_exercise
from labsim.lab.explorers.alpha import how_sure_is_a_log, what_alpha_buys
from labsim.lab.explorers.ring import hop_by_hop, who_works_when
from labsim.lab.notebooks import read_notebook
from labsim.lab.site.sources import Course
from labsim.lab.solutions import apply_solutions, exercise_cells, load_solutions
from labsim.lab.verdict import EXERCISE_MIME, Status, Verdict, markup

from .test_export import saved

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = [ROOT / "notebooks" / name for name in ("01_alpha_and_k.ipynb", "10_ring_attention.ipynb")]
WIDGETS = {
    "what_alpha_buys()": what_alpha_buys,
    "how_sure_is_a_log()": how_sure_is_a_log,
    "hop_by_hop()": hop_by_hop,
    "who_works_when()": who_works_when,
}
FIGURE = (
    '<img alt="A grey dot." src="data:image/png;base64,'
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==" '
    'style="max-width:100%;width:700px;height:300px;background:#fff">'
)


def ran(notebook: Path) -> nbformat.NotebookNode:
    """The notebook with solutions in its exercises, their verdicts, its explorers, tasks and one figure."""
    done = apply_solutions(nbformat.read(notebook, as_version=4), load_solutions(notebook))
    found = {i: call() for i, cell in enumerate(done.cells) for text, call in WIDGETS.items() if text in cell.source}
    assert found, f"{notebook.name} has none of the explorers {list(WIDGETS)}"
    widgets = saved(*found.values())
    done.metadata.widgets = widgets.metadata.widgets
    for index, cell in zip(found, widgets.cells, strict=True):
        done.cells[index].outputs = cell.outputs
    for exercise_id, index in exercise_cells(done).items():
        verdict = Verdict(Status.PASSED, f"Right: {exercise_id}.")
        data = {"text/html": verdict.to_html(exercise_id), EXERCISE_MIME: verdict.to_json(exercise_id)}
        done.cells[index].outputs = [nbformat.v4.new_output("display_data", data=data)]
        prompt = f"<h4>{exercise_id}</h4><p>{markup(find_exercise(exercise_id).prompt)}</p>"
        done.cells[index - 1].outputs = [nbformat.v4.new_output("display_data", data={"text/html": prompt})]
    for cell in done.cells:
        if cell.cell_type == "code" and "start(scale" in cell.source:
            cell.outputs = [nbformat.v4.new_output("stream", text=f"Python at {ROOT}/.venv/bin/python; scale ci\n")]
        if cell.cell_type == "code" and "show(fig" in cell.source:
            cell.outputs = [nbformat.v4.new_output("display_data", data={"text/html": FIGURE})]
    done.cells.insert(2, nbformat.v4.new_code_cell("solve = True", metadata={"tags": ["injected-parameters"]}))
    return done


def course(folder: Path) -> Course:
    """The repository's docs with these two notebooks; their runs are written to `folder`."""
    executed = {}
    for notebook in NOTEBOOKS:
        executed[notebook] = folder / notebook.name
        nbformat.write(ran(notebook), executed[notebook])
    return Course(ROOT, executed)


def source(notebook: Path) -> dict:
    """The notebook as it stands in the repository."""
    return copy.deepcopy(read_notebook(notebook))
