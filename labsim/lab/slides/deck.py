"""One deck from one executed notebook.

A notebook's cells say where slides begin (`slideshow.slide_type`), and what they have computed stands in their outputs.
The rest is decided here, the same for every notebook:

- cells of type `skip`, the parameters and what papermill put in do not appear;
- code is folded behind the word *code*, since a room reads results first; where a page has room for short code, it
  stands open. A cell tagged `exercise` or `show-input` is always open, one tagged `hide-input` (and one that only shows
  a task, a source or a quiz) has no code at all, and lines that only record a metric are left out;
- a solution appears with the next key, after the room has had its say;
- a cell tagged `preview` shows the beginning of its output only;
- a page without a heading carries its slide's, small;
- explorers draw themselves (`labsim.lab.export`);
- directories of the machine that made the deck are not told;
- links between notebooks lead from deck to deck; links to other files of the repository become plain words;
- what a teacher needs at an exercise and at an explorer goes into the speaker notes (`notes`). Decks for students have
  none of that.

The page refers to `assets/` beside it and to nothing else: see `labsim.lab.assets`.
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbformat.v4 import new_markdown_cell

from .. import assets
from ..export import STATE, VIEW, StandaloneWidgets
from ..site.page import without_paths
from .notes import exercise_note, widget_note

ROOT = Path(__file__).resolve().parents[3]
TEMPLATES = Path(__file__).parent / "templates"
SUFFIX = ".slides.html"
_HIDDEN_TAGS = {"parameters", "injected-parameters"}
_SHOWING = {"task", "show_source", "quiz"}
_RECORDING = {"record", "record_interval"}
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,2} +(.+)$", re.MULTILINE)
_BEFORE_PERCENT = re.compile(r"(?<=\d) (?=%)")
_LONGEST_OPEN_CODE = 12  # lines beside an output
_LONGEST_TEXT = 26  # lines of one printed output; more cannot be read from a slide


def make_deck(executed: Path, out: Path, *, decks: Collection[str], student: bool = False) -> Path:
    """Write `out/NAME.slides.html` and what it needs into `out/assets`; the deck's path.

    Args:
        executed: a notebook that has been run, with its widgets' state.
        decks: stems of the notebooks that have a deck, which links may lead to.
        student: leave out the speaker notes that give an exercise away.

    Raises:
        AssetUnavailable: the assets are not on this machine and cannot be fetched.
        ValueError: a widget without saved state would be a blank.
    """
    notebook = nbformat.read(executed, as_version=4)
    saved = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    if any(output.data[VIEW]["model_id"] not in saved for output in outputs if _is_view(output)):
        raise ValueError(f"{executed}: a widget's state is not saved; right: a finished `labsim run --out`")
    prepare(notebook, decks=decks, student=student)
    places = {"reveal": assets.copy("reveal.js", out / "assets"), "mathjax": assets.copy("mathjax", out / "assets")}
    deck = {name: f"assets/{place}" for name, place in places.items()} | {"title": title_of(notebook)}
    exporter = HTMLExporter(
        extra_template_basedirs=[str(TEMPLATES)],
        template_name="deck",
        preprocessors=[StandaloneWidgets],
        exclude_anchor_links=True,
    )
    page, _ = exporter.from_notebook_node(notebook, resources={"deck": deck})
    path = out / f"{executed.stem}{SUFFIX}"
    private = {place: name for place, name in ((ROOT, "labsim"), (Path.home(), "~")) if len(place.parts) > 1}
    path.write_text(without_paths(page, private), encoding="utf-8")
    return path


def prepare(notebook: nbformat.NotebookNode, *, decks: Collection[str], student: bool) -> None:
    """Turn the cells of an executed notebook into those of its deck, in place."""
    saved = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    cells = []
    heading = ""
    for cell in notebook.cells:
        tags = set(cell.metadata.get("tags", ()))
        if cell.metadata.get("slideshow", {}).get("slide_type") == "skip" or tags & _HIDDEN_TAGS:
            continue
        own = _HEADING.search(cell.source) if cell.cell_type == "markdown" else None
        if heading and own is None and _begins_a_page(cell):
            cells.append(_kicker(heading, cell))
        heading = own[1].strip() if own else heading
        cells.append(cell)
        if cell.cell_type == "markdown":
            cell.source = _LINK.sub(lambda match: _link(match, decks), cell.source)
            cell.source = _BEFORE_PERCENT.sub("\N{NO-BREAK SPACE}", cell.source)
        if cell.cell_type != "code":
            continue
        cell.outputs = [output for output in cell.outputs if _shows(output)]
        CoalesceStreamsPreprocessor().preprocess_cell(cell, {}, 0)
        cell.source = _without_records(cell.source)
        cell.metadata["deck_code"] = _code(cell, tags)
        for output in cell.outputs:
            if output.output_type == "stream":
                output.text = _shortened(output.text)
        if "exercise" in tags and not student:
            if not _begins_a_page(cell):
                cell.metadata.setdefault("slideshow", {})["slide_type"] = "fragment"
            cells.append(_notes(exercise_note(cell.metadata["labsim"]["exercise"])))
        views = [output.data[VIEW]["model_id"] for output in cell.outputs if _is_view(output)]
        cells += [_notes(text) for one in views if not student and (text := widget_note(saved[one]["state"]))]
    notebook.cells = cells


def title_of(notebook: nbformat.NotebookNode) -> str:
    """The notebook's first heading. ValueError where it has none."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (heading := _HEADING.search(cell.source)):
            return heading[1].strip()
    raise ValueError("the notebook has no heading of level 1; right: a first cell that begins with '# NN Title'")


def _is_view(output: nbformat.NotebookNode) -> bool:
    return VIEW in output.get("data", {})


def _begins_a_page(cell: nbformat.NotebookNode) -> bool:
    return cell.metadata.get("slideshow", {}).get("slide_type") in ("slide", "subslide")


def _kicker(heading: str, cell: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The heading that `cell` goes on under; it begins the page in the cell's place."""
    kicker = new_markdown_cell(f'<p class="kicker">{html.escape(heading)}</p>', metadata={"slideshow": {}})
    kicker.metadata.slideshow.slide_type = cell.metadata.slideshow.slide_type
    cell.metadata.slideshow.slide_type = "-"
    return kicker


def _shows(output: nbformat.NotebookNode) -> bool:
    """False for what only programs read, such as the recorded metrics, for lines that told of progress, for blanks."""
    if output.output_type == "stream":
        return bool(output.text.strip()) and not (output.name == "stderr" and "\r" in output.text)
    return output.output_type == "error" or any(not mime.startswith("application/vnd.labsim.") for mime in output.data)


def _link(match: re.Match[str], decks: Collection[str]) -> str:
    text, to = match.groups()
    if re.match(r"[a-z]+:", to) or to.startswith("#"):
        return match[0]
    place, _, _ = to.partition("#")
    stem = Path(place).stem
    return f"[{text}]({stem}{SUFFIX})" if place == f"{stem}.ipynb" and stem in decks else text


def _code(cell: nbformat.NotebookNode, tags: set[str]) -> str:
    """How a cell's code stands on its slide: open, folded ("short" where it may open by itself, or "long"), or not."""
    if "hide-input" in tags or _only_shows(cell.source):
        return ""
    if tags & {"exercise", "show-input"}:
        return "open"
    if any(_is_view(output) for output in cell.outputs):
        return "long"  # the explorer says it all
    longest = _LONGEST_OPEN_CODE if cell.outputs else _LONGEST_TEXT
    return "short" if len(cell.source.splitlines()) <= longest else "long"


def _only_shows(source: str) -> bool:
    """Whether a cell's code says nothing that its output does not say."""
    body = [one for one in _statements(source) if not isinstance(one, ast.ImportFrom)]
    return bool(body) and all(_calls(one, _SHOWING) for one in body)


def _without_records(source: str) -> str:
    """A cell's code without the statements that record metrics, and without loops that do nothing else."""
    lines = source.splitlines(keepends=True)
    for one in reversed(_records(_statements(source))):
        if not lines[one.lineno - 1][: one.col_offset].strip():  # no other statement before it on its line
            del lines[one.lineno - 1 : one.end_lineno]
    return "".join(lines).rstrip("\n")


def _records(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for one in body:
        inner = _records(getattr(one, "body", []))
        empties = bool(inner) and inner == one.body
        if _calls(one, _RECORDING) or (empties and not getattr(one, "orelse", [])):
            found.append(one)
        elif not empties:
            found += inner
    return found


def _statements(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except SyntaxError:  # a magic
        return []


def _calls(statement: ast.stmt, names: Collection[str]) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names


def _shortened(text: str) -> str:
    lines = text.rstrip().splitlines()
    if len(lines) <= _LONGEST_TEXT:
        return "\n".join(lines)
    left = len(lines) - _LONGEST_TEXT + 1
    return "\n".join([*lines[: _LONGEST_TEXT - 1], f"... and {left} more lines, in the notebook"])


def _notes(text: str) -> nbformat.NotebookNode:
    return new_markdown_cell(text, metadata={"slideshow": {"slide_type": "notes"}})
