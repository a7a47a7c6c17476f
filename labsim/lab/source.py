"""Show the package's own source in a notebook: the code that the learner reads is the code that runs."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable

from IPython.display import Code, display


def show_source(function: Callable) -> None:
    """Display a function's source with its file and line."""
    lines, first = inspect.getsourcelines(function)
    place = f"# {inspect.getmodule(function).__name__}, line {first}\n"
    display(Code(place + textwrap.dedent("".join(lines)), language="python"))
