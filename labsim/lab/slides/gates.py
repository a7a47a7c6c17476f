"""All gates that need no browser, over notebooks and their decks; `rendered` has the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..notebooks import read_notebook
from . import static
from .palette import too_close
from .rendered import Finding


def judge_files(notebooks: Sequence[Path], decks: Sequence[Path]) -> list[Finding]:
    """Slide metadata, addresses, files, alternative texts and the palette."""
    found = [
        Finding(notebook.name, 0, "slide metadata", text)
        for notebook in notebooks
        for text in static.without_slide_type(read_notebook(notebook))
    ]
    gates = (
        ("external address", static.external_addresses),
        ("missing file", static.missing_files),
        ("alternative text", static.without_alt),
    )
    found += [Finding(deck.name, 0, gate, text) for deck in decks for gate, look in gates for text in look(deck)]
    folders = sorted({deck.parent / "assets" for deck in decks})
    found += [
        Finding(folder.name, 0, "external address", text)
        for folder in folders
        for text in static.external_in_assets(folder)
    ]
    return found + [Finding("palette", 0, "colour blindness", text) for text in too_close()]
