"""Solutions: one percent-format file beside the notebooks, out of every import path.

`notebooks/01_alpha_and_k.ipynb` has its solutions in `notebooks/solutions/01_alpha_and_k.py`:

    # %% 01.1
    @exercise("01.1")
    def acceptance_length(survival):
        return 1 + sum(survival)

    # %% 01.2
    ...

A block is the whole text of the exercise's cell. What stands before the first block (docstring, imports) makes the file
readable for editors and linters and goes nowhere. An exercise cell carries the tag `exercise` and the metadata
`{"labsim": {"exercise": "01.1"}}`; with `solve=True` the runner swaps its source for the block of the same id, and the
exercise machinery shows the same block when a learner asks for it.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..sim.errors import unknown_name

EXERCISE_ID = re.compile(r"\d\d\.\d+")
_HEADER = re.compile(r"^# %%(?P<rest>.*)$")
Notebook = TypeVar("Notebook", bound=Mapping[str, Any])


def solutions_path(notebook: str | Path) -> Path:
    """Where the solutions of this notebook live, whether or not the file exists."""
    notebook = Path(notebook)
    return notebook.parent / "solutions" / f"{notebook.stem}.py"


def load_solutions(notebook_path: str | Path) -> dict[str, str]:
    """Source text by exercise id; empty when the notebook has no solutions file.

    Raises:
        ValueError: a block without an id, an id used twice, an empty block, or one that is not Python.
    """
    path = solutions_path(notebook_path)
    if not path.exists():
        return {}
    return parse_solutions(path.read_text(encoding="utf-8"), str(path))


def parse_solutions(text: str, name: str = "solutions") -> dict[str, str]:
    """Split percent-format `text` into blocks; `name` is what error messages call the file."""
    preamble: list[str] = []
    blocks: dict[str, list[str]] = {}
    current = preamble
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header is None:
            current.append(line)
            continue
        exercise_id, _, _title = header["rest"].strip().partition(" ")
        if not EXERCISE_ID.fullmatch(exercise_id):
            raise ValueError(f"{name}:{number}: block header is {line!r}; allowed: '# %% 01.1', an exercise id")
        if exercise_id in blocks:
            raise ValueError(f"{name}:{number}: exercise {exercise_id} has two blocks; allowed: one")
        current = blocks[exercise_id] = []
    _check_preamble("\n".join(preamble), name)
    return {exercise_id: _checked_block(exercise_id, lines, name) for exercise_id, lines in blocks.items()}


def exercise_cells(notebook: Mapping[str, Any]) -> dict[str, int]:
    """Index of each exercise cell by exercise id.

    Raises:
        ValueError: a tag without an id, an id without the tag, or one id on two cells (a cell copied or split).
    """
    found: dict[str, int] = {}
    for index, cell in enumerate(notebook["cells"]):
        metadata = cell["metadata"]
        tagged = "exercise" in metadata.get("tags", ())
        exercise_id = metadata.get("labsim", {}).get("exercise")
        if not tagged and exercise_id is None:
            continue
        where = f"cell {index + 1}"
        if not tagged:
            raise ValueError(f"{where} has labsim.exercise {exercise_id!r} but not the tag 'exercise'; add the tag")
        if not isinstance(exercise_id, str) or not EXERCISE_ID.fullmatch(exercise_id):
            raise ValueError(f"{where} is tagged 'exercise' with labsim.exercise {exercise_id!r}; allowed: like '01.1'")
        if exercise_id in found:
            raise ValueError(f"exercise {exercise_id} is in cell {found[exercise_id] + 1} and in {where}; allowed: one")
        found[exercise_id] = index
    return found


def apply_solutions(notebook: Notebook, solutions: Mapping[str, str]) -> Notebook:
    """A copy of the notebook in which every exercise cell holds its solution.

    Raises:
        ValueError: an exercise without a solution, or a solution without an exercise.
    """
    cells = exercise_cells(notebook)
    for exercise_id, index in cells.items():
        if exercise_id not in solutions:
            raise ValueError(
                f"exercise {exercise_id} (cell {index + 1}) has no solution; add a block '# %% {exercise_id}' "
                f"(blocks there: {', '.join(solutions) or 'none'})"
            )
    for exercise_id in solutions:
        if exercise_id not in cells:
            raise unknown_name("exercise in the solutions file:", exercise_id, cells)
    solved = copy.deepcopy(notebook)
    for exercise_id, index in cells.items():
        solved["cells"][index]["source"] = solutions[exercise_id]
    return solved


def _checked_block(exercise_id: str, lines: list[str], name: str) -> str:
    source = "\n".join(lines).strip("\n").rstrip()
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise ValueError(f"{name}: block {exercise_id} is not Python: {error}") from error
    if not tree.body:
        raise ValueError(f"{name}: block {exercise_id} is empty; allowed: the whole text of the exercise cell")
    return source


def _check_preamble(source: str, name: str) -> None:
    """Code before the first block would look as if it ran; it never does."""
    for node in ast.parse(source).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not docstring and not isinstance(node, (ast.Import, ast.ImportFrom)):
            raise ValueError(
                f"{name}:{node.lineno}: code before the first block never runs; allowed there: a docstring and imports"
            )
