"""An executed notebook as a page to read: sliders alive, exercises to think about first.

A page shows what the notebook shows, with three differences:

- the parameters, the imports and the page's checks of itself are folded, calls for a task or a quiz left out;
- an exercise's cell is the empty one that a learner meets, whatever ran in it. Under it, each in its own fold, are
  the three hints, the mistakes that its check knows by name, and one right answer with what the check says to it;
- widgets draw themselves (`labsim.lab.export`), so the page needs no kernel and no network.
"""

from __future__ import annotations

import copy
import html
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import nbformat

from ..exercise import Exercise, find_exercise
from ..export import StandaloneWidgets
from ..metrics import MIME as METRICS_MIME
from ..solutions import exercise_cells
from ..verdict import EXERCISE_MIME, Status, markup

NOTHING: Mapping[Path, str] = MappingProxyType({})
ADDED = "added"  # what metadata.labsim says of a text that no author wrote into the notebook
# A cell that only calls up an exercise's text or a quiz.
_ASKS = re.compile(r"""\s*(?:from labsim\.lab\.\w+ import \w+\s+)?(?:task|quiz)\(["'][\d.]+["']\);?\s*""")
_IMPORTS = re.compile(r"^(from|import) ", re.MULTILINE)
# Progress that a terminal would overwrite: nothing to read afterwards.
_PROGRESS = re.compile(r"\r[^\n]*")


def page_of(
    notebook: Mapping[str, Any],
    executed: nbformat.NotebookNode,
    *,
    solutions: Mapping[str, str],
    private: Mapping[Path, str] = NOTHING,
) -> nbformat.NotebookNode:
    """The page of an executed notebook, as a notebook that myst-nb reads.

    Args:
        notebook: the source, for its empty exercise cells.
        executed: the same notebook, run.
        solutions: source text by exercise id; empty for a page without answers.
        private: directories of this machine, and what stands for each in every text.

    Raises:
        ValueError: `executed` was not made from `notebook`: another number of cells, or other exercises.
    """
    page, _ = StandaloneWidgets().preprocess(copy.deepcopy(executed), {})
    page.cells = [cell for cell in page.cells if "injected-parameters" not in cell.metadata.get("tags", ())]
    if len(page.cells) != len(notebook["cells"]) or set(exercise_cells(page)) != set(exercise_cells(notebook)):
        raise ValueError(
            f"the executed notebook has {len(page.cells)} cells and the exercises {sorted(exercise_cells(page))}, its "
            f"source {len(notebook['cells'])} and {sorted(exercise_cells(notebook))}; run the notebook again"
        )
    stubs = {index: exercise_id for exercise_id, index in exercise_cells(notebook).items()}
    cells = []
    for index, cell in enumerate(page.cells):
        if index in stubs:
            cells += _exercise(stubs[index], notebook["cells"][index]["source"], cell, solutions)
        elif cell.cell_type == "code":
            cells.append(_code(cell, private))
        else:
            cells.append(nbformat.v4.new_markdown_cell(cell.source))
    scale = executed.metadata.get("papermill", {}).get("parameters", {}).get("scale", "ci")
    cells.insert(1, _added(_how_to_read(scale)))
    language = {"name": "python", "pygments_lexer": "ipython3"}
    metadata = {"kernelspec": executed.metadata["kernelspec"], "language_info": language}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def _added(text: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_markdown_cell(text, metadata={"labsim": ADDED})


def _how_to_read(scale: str) -> str:
    return (
        '<p class="labsim-how">A page to read: its numbers come from a run at scale '
        f"<code>{html.escape(scale)}</code>. Sliders move here too. To run the code and have your answers checked, "
        '<a href="../index.html#two-commands">open the course in JupyterLab</a>.</p>'
    )


def _code(cell: nbformat.NotebookNode, private: Mapping[Path, str]) -> nbformat.NotebookNode:
    tags = list(cell.metadata.get("tags", ()))
    mystnb = {}
    if "parameters" in tags:
        tags, mystnb = ["hide-cell"], {"code_prompt_show": "Parameters"}
    elif _ASKS.fullmatch(cell.source):
        tags = ["remove-input", "labsim-task"]
    elif cell.metadata.get("slideshow", {}).get("slide_type") == "skip":
        prompt = "Imports" if _IMPORTS.search(cell.source) else "A check of this page"
        tags, mystnb = ["hide-cell"], {"code_prompt_show": prompt}
    outputs = [kept for output in cell.outputs if (kept := _output(output, private)) is not None]
    metadata = {"tags": tags, **({"mystnb": mystnb} if mystnb else {})}
    return nbformat.v4.new_code_cell(
        cell.source, outputs=outputs, metadata=metadata, execution_count=cell.execution_count
    )


def _output(output: nbformat.NotebookNode, private: Mapping[Path, str]) -> nbformat.NotebookNode | None:
    """The output as the page shows it; None for one that no reader sees."""
    output = copy.deepcopy(output)
    if output.output_type == "stream":
        text = _PROGRESS.sub("", output.text) if output.name == "stderr" else output.text
        output.text = without_paths(text, private)
        return output if output.text.strip() else None
    if "data" in output:
        if "text/latex" in output.data and "text/html" in output.data:  # show_source: IPython colours it for white only
            output.data = {"text/markdown": f"```python\n{output.data['text/plain'].strip()}\n```"}
        for unseen in (METRICS_MIME, EXERCISE_MIME):
            output.data.pop(unseen, None)
        for kind, text in output.data.items():
            if isinstance(text, str):
                output.data[kind] = without_paths(text, private)
        return output if output.data else None
    return output


def without_paths(text: str, private: Mapping[Path, str]) -> str:
    """The text with each of these directories replaced by what stands for it, in paths below it too."""
    for path, shown in private.items():
        text = re.sub(rf"(?<![\w/.-]){re.escape(str(path))}(?:/|(?![\w-]|\.\w))", f"{shown}/", text)
    return text


def _exercise(
    exercise_id: str, stub: str, ran: nbformat.NotebookNode, solutions: Mapping[str, str]
) -> list[nbformat.NotebookNode]:
    found = find_exercise(exercise_id)
    cell = nbformat.v4.new_code_cell(stub, metadata={"tags": ["labsim-stub"]})
    return [cell, _added(folds(found, solutions.get(exercise_id), _verdict(ran)))]


def _verdict(cell: nbformat.NotebookNode) -> str:
    """What the check said, as HTML, if it passed; else nothing: the cell was run as delivered."""
    for output in reversed(cell.outputs):
        data = output.get("data", {})
        if data.get(EXERCISE_MIME, {}).get("status") == Status.PASSED:
            return data["text/html"]
    return ""


def folds(exercise: Exercise, solution: str | None, verdict: str = "") -> str:
    """Markdown: the hints, the named mistakes and, where there is one, the solution with its verdict, all folded."""
    hints = [_fold(f"Hint {n} of 3", f"<p>{markup(hint)}</p>") for n, hint in enumerate(exercise.hints, start=1)]
    mistakes = "".join(
        f"<li><strong>{markup(one.name)}</strong>: {markup(one.explain)}</li>" for one in exercise.check.misconceptions
    )
    if mistakes:
        hints.append(_fold("Mistakes that the check knows by name", f"<ul>{mistakes}</ul>"))
    if solution is not None:
        answer = f"```python\n{solution.strip()}\n```"
        hints.append(_fold("One right answer", f"\n\n{answer}\n\n{verdict}" if verdict else f"\n\n{answer}\n\n"))
    return "\n\n".join(['<div class="labsim-folds">', *hints, "</div>"])


def _fold(title: str, body: str) -> str:
    """A fold. A blank line in `body` ends the HTML for Markdown, so that what follows it is Markdown again."""
    return f"<details><summary>{html.escape(title)}</summary>{body}</details>"
