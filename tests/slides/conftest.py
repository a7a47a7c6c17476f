"""A tiny executed notebook with one of everything that a deck shows, and a Chromium to look at it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from labsim.lab import assets
from labsim.lab.explorer import Explorer, Frame, Series, Slider, explore
from labsim.lab.slides.deck import make_deck
from tests.browser.conftest import browser, chromium_path  # noqa: F401
from tests.lab.test_export import saved

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
LINKS = "[The next one](02_more.ipynb), [words](../docs/w.md)."


@pytest.fixture(scope="session")
def packages() -> None:
    """What pages are made of, in the cache since the set-up."""
    missing = [name for name in assets.PACKAGES if assets.find(name) is None]
    if missing and os.environ.get("CI"):
        pytest.fail(f"the set-up has not fetched {', '.join(missing)}")
    if missing:
        pytest.skip(f"not on this machine: {', '.join(missing)}; scripts/setup_env.py fetches them")


def markdown(text: str, kind: str = "slide") -> nbformat.NotebookNode:
    return new_markdown_cell(text, metadata={"slideshow": {"slide_type": kind}})


def code(source: str, kind: str = "-", *, html: str = "", text: str = "", **metadata: object) -> nbformat.NotebookNode:
    outputs = [new_output("display_data", data={"text/html": html})] if html else []
    outputs += [new_output("stream", name="stdout", text=text)] if text else []
    return new_code_cell(source, outputs=outputs, metadata={"slideshow": {"slide_type": kind}, **metadata})


def explorer() -> Explorer:
    return explore(
        lambda k: Frame([Series("a line", [1, 2, 3], [k, 2 * k, 3 * k])], text=f"The line ends at {3 * k}."),
        {"k": Slider("K", (1, 2, 5))},
        title="A line",
        x_label="place (positions)",
        y_label="height (metres)",
    )


def tiny(*more: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Four slides in three columns, then `more`."""
    notebook = saved(explorer())
    (widget,) = notebook.cells
    widget.metadata = {"slideshow": {"slide_type": "-"}}
    tags = {"tags": ["exercise"], "labsim": {"exercise": "01.1"}}
    notebook.cells = [
        markdown(
            "# 01 A title\n\nThe sum $\\sum_i a_i$ is typeset. [The next one](02_more.ipynb), [words](../docs/w.md)."
        ),
        code("k: int = 1", "skip", tags=["parameters"]),
        code("1 + 1", text="it is 2\n"),
        code("a + b", "subslide", html=f'<img alt="one pixel" src="{PIXEL}" style="width:40px">'),
        markdown("## An exercise"),
        code("def f(): ...", text="passed\n", **tags),
        markdown("Said last.", "fragment"),
        markdown("Say this aloud.", "notes"),
        markdown("## An explorer"),
        widget,
        *more,
    ]
    return notebook


@pytest.fixture
def deck_of(packages: None, tmp_path: Path) -> Callable[..., Path]:
    """Makes a deck of the tiny notebook with further cells."""

    def make(*more: nbformat.NotebookNode, student: bool = False, decks: tuple[str, ...] = ()) -> Path:
        nbformat.write(tiny(*more), tmp_path / "01_tiny.ipynb")
        (tmp_path / "decks").mkdir(exist_ok=True)
        return make_deck(tmp_path / "01_tiny.ipynb", tmp_path / "decks", decks=decks, student=student)

    return make
