"""What a learner types into an exercise's cell: a known wrong answer, taken from the mutants, and the solution."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from labsim.lab.notebooks import read_notebook
from labsim.lab.solutions import exercise_cells, load_solutions
from tests.mutants.harness import Wrong, all_answers


@dataclass(frozen=True)
class FirstExercise:
    """The first exercise of a notebook: the stub in its cell, what to type, and the misconception to be named."""

    id: str
    stub: str
    wrong: str
    misconception: str
    function: Callable
    right: str


def first_exercise(notebook: Path) -> FirstExercise:
    """Found in the notebook, its mutants and its solutions."""
    content = read_notebook(notebook)
    exercise_id, index = min(exercise_cells(content).items(), key=lambda item: item[1])
    stub = content["cells"][index]["source"]
    known: Wrong = next(one for one in all_answers()[exercise_id].wrong if one.names)
    name = next(node.name for node in ast.parse(stub).body if isinstance(node, ast.FunctionDef))
    source = re.sub(rf"\bdef {known.function.__name__}\(", f"def {name}(", own_source(known.function), count=1)
    needed = [line for line in needs(known.function) if line]
    wrong = "\n\n".join([*needed, f'@exercise("{exercise_id}")\n{source}'])
    return FirstExercise(exercise_id, stub, wrong, known.names, known.function, load_solutions(notebook)[exercise_id])


def needs(function: Callable) -> list[str]:
    """Imports and helper functions that a function uses, as lines to stand before it."""
    found: dict[str, str] = {}
    for name in inspect.getclosurevars(function).globals:
        value = function.__globals__[name]
        if isinstance(value, ModuleType):
            found[name] = f"import {value.__name__}" + (f" as {name}" if name != value.__name__ else "")
        elif value.__module__ != function.__module__:
            found[name] = f"from {value.__module__} import {value.__name__} as {name}"
        else:
            found |= {line: line for line in needs(value)} | {name: own_source(value)}
    return list(found.values())


def own_source(function: Callable) -> str:
    return textwrap.dedent(inspect.getsource(function)).strip()
