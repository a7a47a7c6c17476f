"""What a course notebook looks like: its parameters, and the rules that a lint enforces.

A notebook is a file without outputs. Its first code cell is tagged `parameters` and holds annotated plain values only:

    scale: str = "ci"
    seed: int = 0
    solve: bool = False

papermill writes the values of a run into a cell *after* this one, so anything derived here (`n = 2 * seed`) would keep
its old value in silence; and papermill merely logs an unknown name and runs with the defaults. Hence a schema: names
and types are read from the annotations, and a wrong name or type is an error before any process starts.

`lint` returns the broken rules as sentences. Everything works on the parsed JSON of an .ipynb file and on a
NotebookNode alike.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..sim.errors import unknown_name
from .solutions import exercise_cells

SLIDE_TYPES = ("slide", "subslide", "fragment", "skip", "notes", "-")
REQUIRED_DEFAULTS: Mapping[str, object] = {"scale": "ci", "seed": 0, "solve": False}
_TYPES: Mapping[str, type] = {"str": str, "int": int, "float": float, "bool": bool}
_DUPLICATE = re.compile(r"-Copy\d*$")
_CLAIM_ID = re.compile(r"\bclaims? [A-Z]\d+", re.IGNORECASE)
_GLOSSARY_LINK = re.compile(r"\]\([^)]*docs/glossary\.md(#[^)]*)?\)")
_SHOWS_SOURCE = re.compile(r"^show_source\(", re.MULTILINE)
_END: Mapping[str, Any] = {"metadata": {"slideshow": {"slide_type": "slide"}}}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a notebook: its annotated type and its default."""

    name: str
    type: type
    default: str | int | float | bool


def course_notebooks(folder: Path) -> list[Path]:
    """A course's notebooks in their order, without those that JupyterLab has duplicated (`01_name-Copy1.ipynb`)."""
    return sorted(path for path in folder.glob("[0-9][0-9]_*.ipynb") if not _DUPLICATE.search(path.stem))


def read_notebook(path: str | Path) -> dict[str, Any]:
    """The notebook as parsed JSON, with cell sources joined to one string each.

    nbformat would do, at the price of more than a second of imports.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a notebook of format 4.
    """
    path = Path(path)
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a notebook: {error}") from error
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4 or not isinstance(notebook.get("cells"), list):
        raise ValueError(f"{path} is not a notebook of format 4")
    for number, cell in enumerate(notebook["cells"], start=1):
        try:
            cell["source"] = "".join(cell["source"])
            if not (isinstance(cell["metadata"], dict) and isinstance(cell["cell_type"], str)):
                raise TypeError("its metadata or its type is of another kind")
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a notebook of format 4: cell {number} ({error!r})") from error
    return notebook


def parameters(notebook: Mapping[str, Any]) -> dict[str, Parameter]:
    """The parameters of a notebook, from its cell tagged `parameters`.

    Raises:
        ValueError: no such cell or several, or a line in it that is not `name: type = literal` with a type among
            str, int, float and bool.
    """
    tagged = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", ())]
    if len(tagged) != 1:
        raise ValueError(f"{len(tagged)} cells are tagged 'parameters'; allowed: exactly one")
    try:
        statements = ast.parse(tagged[0]["source"]).body
    except SyntaxError as error:
        raise ValueError(f"the parameters cell is not Python: {error}") from error
    found: dict[str, Parameter] = {}
    for statement in statements:
        parameter = _parameter(statement)
        if parameter.name in found:
            raise ValueError(f"parameter {parameter.name!r} is assigned twice; allowed: once")
        found[parameter.name] = parameter
    return found


def check_parameters(schema: Mapping[str, Parameter], given: Mapping[str, object]) -> dict[str, object]:
    """The given values, after a check of names and types (an int is also a float; a bool is never an int).

    Raises:
        ValueError: naming the parameter, what it is, what is allowed and, for names, the nearest match.
    """
    checked: dict[str, object] = {}
    for name, value in given.items():
        if name not in schema:
            raise unknown_name("parameter", name, schema)
        wanted = schema[name].type
        if wanted is float and type(value) is int:
            value = float(value)
        if type(value) is not wanted:
            raise ValueError(
                f"parameter {name} is {value!r}, a {type(value).__name__}; allowed: a value of type {wanted.__name__}"
            )
        checked[name] = value
    return checked


def parse_value(parameter: Parameter, text: str) -> str | int | float | bool:
    """A value typed on the command line, read as the parameter's own type (never guessed from its looks).

    Raises:
        ValueError: the text is not of that type.
    """
    if parameter.type is bool:
        values = {"true": True, "false": False}
        if text.lower() not in values:
            raise ValueError(f"parameter {parameter.name} is {text!r}; allowed: true or false")
        return values[text.lower()]
    try:
        return parameter.type(text)
    except ValueError:
        raise ValueError(
            f"parameter {parameter.name} is {text!r}; allowed: a value of type {parameter.type.__name__}"
        ) from None


def lint(notebook: Mapping[str, Any], solutions: Mapping[str, str]) -> list[str]:
    """The broken rules of a notebook, one sentence each; empty for a good one.

    Args:
        notebook: the source notebook.
        solutions: its solutions by exercise id (`labsim.lab.solutions.load_solutions`).
    """
    problems = [
        *_lint_parameters(notebook),
        *_lint_clean(notebook),
        *_lint_exercises(notebook, solutions),
        *_lint_pages(notebook),
    ]
    exercises = {
        index for index, cell in enumerate(notebook["cells"]) if "exercise" in cell["metadata"].get("tags", ())
    }
    for index, cell in enumerate(notebook["cells"]):
        where = f"cell {index + 1}"
        slide_type = cell["metadata"].get("slideshow", {}).get("slide_type")
        if slide_type not in SLIDE_TYPES:
            problems.append(f"{where}: slideshow.slide_type is {slide_type!r}; allowed: {', '.join(SLIDE_TYPES)}")
        if cell["cell_type"] == "code" and index not in exercises:
            problems.extend(f"{where}: {problem}" for problem in _lint_code(cell["source"]))
        if cell["cell_type"] == "markdown" and (by_id := _CLAIM_ID.search(cell["source"])):
            problems.append(f"{where}: says {by_id[0]!r}, an id that no reader knows; right: the claim's own words")
    if not any(cell["cell_type"] == "markdown" and _GLOSSARY_LINK.search(cell["source"]) for cell in notebook["cells"]):
        problems.append("no markdown cell links docs/glossary.md")
    return problems


def _parameter(statement: ast.stmt) -> Parameter:
    line = f"parameters cell, line {statement.lineno}"
    if (
        not isinstance(statement, ast.AnnAssign)
        or not isinstance(statement.target, ast.Name)
        or not isinstance(statement.annotation, ast.Name)
        or statement.value is None
    ):
        raise ValueError(f"{line}: {ast.unparse(statement)!r}; allowed: name: type = literal")
    wanted = _TYPES.get(statement.annotation.id)
    if wanted is None:
        raise ValueError(f"{line}: type is {statement.annotation.id!r}; allowed: {', '.join(_TYPES)}")
    try:
        default = ast.literal_eval(statement.value)
    except ValueError:
        raise ValueError(
            f"{line}: {statement.target.id} is {ast.unparse(statement.value)!r}; allowed: a literal "
            "(a value derived here would not follow the run's parameters: derive it in the next cell)"
        ) from None
    if wanted is float and type(default) is int:
        default = float(default)
    if type(default) is not wanted:
        raise ValueError(f"{line}: {statement.target.id} is {default!r}; allowed: a literal of type {wanted.__name__}")
    return Parameter(statement.target.id, wanted, default)


def _lint_parameters(notebook: Mapping[str, Any]) -> list[str]:
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    problems = []
    if not code or "parameters" not in code[0]["metadata"].get("tags", ()):
        problems.append("the first code cell is not tagged 'parameters'")
    try:
        schema = parameters(notebook)
    except ValueError as error:
        return [*problems, str(error)]
    for name, default in REQUIRED_DEFAULTS.items():
        found = schema.get(name)
        if found is None or found.default != default or type(found.default) is not type(default):
            shown = "missing" if found is None else repr(found.default)
            problems.append(f"parameter {name} is {shown}; allowed: {name}: {type(default).__name__} = {default!r}")
    return problems


def _lint_clean(notebook: Mapping[str, Any]) -> list[str]:
    problems = []
    kernel = notebook["metadata"].get("kernelspec", {}).get("name")
    if kernel != "python3":
        problems.append(f"kernelspec is {kernel!r}; allowed: 'python3', the kernel of the running environment")
    for key in ("widgets", "papermill"):
        if key in notebook["metadata"]:
            problems.append(f"metadata.{key} is the trace of a run; clear all outputs and remove it")
    for index, cell in enumerate(notebook["cells"], start=1):
        if cell.get("outputs"):
            problems.append(f"cell {index}: has outputs; clear all outputs before you save")
        if cell.get("execution_count") is not None:
            problems.append(f"cell {index}: has execution count {cell['execution_count']}; clear all outputs")
        if "injected-parameters" in cell["metadata"].get("tags", ()):
            problems.append(f"cell {index}: is an injected parameters cell, the trace of a run; remove it")
    return problems


def _lint_exercises(notebook: Mapping[str, Any], solutions: Mapping[str, str]) -> list[str]:
    try:
        exercises = exercise_cells(notebook)
    except ValueError as error:
        return [str(error)]
    missing = [
        f"exercise {name} (cell {i + 1}) has no solution" for name, i in exercises.items() if name not in solutions
    ]
    spare = [f"solution {name} has no exercise" for name in solutions if name not in exercises]
    misplaced = [
        f"exercise {after} (cell {exercises[after] + 1}) stands behind {before}; allowed: numbered by place"
        for before, after in pairwise(exercises)
        if int(after.partition(".")[2]) < int(before.partition(".")[2])
    ]
    return missing + spare + misplaced


def _lint_pages(notebook: Mapping[str, Any]) -> list[str]:
    """Pages of a deck that a room cannot use: source without a word on what to see in it, a task without its slider."""
    problems = []
    page: list[tuple[int, Mapping[str, Any]]] = []
    for number, cell in enumerate([*notebook["cells"], _END], start=1):
        kind = cell["metadata"].get("slideshow", {}).get("slide_type")
        if kind in ("slide", "subslide") and page:
            first = page[0][0]
            if page[0][1]["cell_type"] == "markdown" and page[0][1]["source"].startswith("Try:"):
                problems.append(f"cell {first}: a page begins with 'Try:'; right: a fragment on its explorer's page")
            sources = [one["source"] for _, one in page]
            if all(one["cell_type"] == "code" for _, one in page) and any(_SHOWS_SOURCE.search(one) for one in sources):
                problems.append(f"cell {first}: a page of source alone; right: a sentence that says what to look for")
            page = []
        if kind != "skip":
            page.append((number, cell))
    return problems


def _lint_code(source: str) -> list[str]:
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        tree = ast.parse(TransformerManager().transform_cell(source))
    except SyntaxError as error:
        return [f"is not Python: {error}"]
    problems = [
        f"defines {node.name!r}; definitions belong in the package, or in an exercise"
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]
    # The last expression of a cell is displayed; a comparison anywhere else looks like a check and checks nothing.
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Compare) and node is not tree.body[-1]:
            problems.append(f"compares without assert: {ast.unparse(node)!r}")
    return problems
