"""Small notebooks for the tests of the runner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

PARAMETERS = 'scale: str = "ci"\nseed: int = 0\nsolve: bool = False\nrate: float = 0.5'
RECORD = "from labsim.lab.metrics import record\n"


def code(source: str, *, exercise: str | None = None, tags: Sequence[str] = ()) -> nbformat.NotebookNode:
    metadata: dict = {"slideshow": {"slide_type": "slide"}}
    if exercise is not None:
        metadata |= {"tags": ["exercise", *tags], "labsim": {"exercise": exercise}}
    elif tags:
        metadata["tags"] = list(tags)
    return new_code_cell(source, metadata=metadata)


def notebook(*cells: str | nbformat.NotebookNode, parameters: str = PARAMETERS) -> nbformat.NotebookNode:
    """Cell 1 is Markdown, cell 2 holds the parameters, the given ones follow from number 3 on."""
    title = new_markdown_cell(
        "# A test\n[glossary](../docs/glossary.md)", metadata={"slideshow": {"slide_type": "slide"}}
    )
    rest = [code(cell) if isinstance(cell, str) else cell for cell in cells]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(metadata={"kernelspec": kernel}, cells=[title, code(parameters, tags=["parameters"]), *rest])


def write(path: Path, *cells: str | nbformat.NotebookNode, **options: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook(*cells, **options), path)
    return path
