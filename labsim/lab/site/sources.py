"""What Sphinx reads: the course's pages, laid out as in the repository, so that every link between them holds.

`docs/site` holds the configuration, the start page and the style. README, `docs/*.md` and the data's own README files
go in as they are; notebooks become pages (`labsim.lab.site.page`). A link to a file that is no page (a table, a
notebook that is left out) takes the file along as a download.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat

from ..notebooks import read_notebook
from ..solutions import load_solutions
from .page import page_of

LINK = re.compile(r"\]\(([^)\s]+)\)")
LARGEST_DOWNLOAD = 4 << 20  # bytes


@dataclass(frozen=True)
class Course:
    """What the site shows: the repository, and the notebooks with what each became when it ran."""

    root: Path
    executed: Mapping[Path, Path]

    @property
    def texts(self) -> list[Path]:
        """The Markdown files that become pages, README first."""
        root = self.root
        return [root / "README.md", *sorted(root.glob("docs/*.md")), *sorted(root.glob("data/*/README.md"))]


def write_sources(course: Course, folder: Path, *, student: bool) -> None:
    """Write everything that Sphinx needs into `folder`, a new one.

    Raises:
        ValueError: a link that leads nowhere, or a notebook that was not run as it is now; the message names it.
    """
    shutil.copytree(course.root / "docs" / "site", folder, dirs_exist_ok=True)
    for path in course.texts:
        _copy(course, folder, path)
        _take_along(course, folder, path, path.read_text(encoding="utf-8"))
    for notebook, ran in course.executed.items():
        source = read_notebook(notebook)
        try:
            page = page_of(
                source,
                nbformat.read(ran, as_version=4),
                solutions={} if student else load_solutions(notebook),
                private=(course.root, Path.home()),
            )
        except ValueError as error:
            raise ValueError(f"{ran}: {error}") from error
        to = folder / notebook.relative_to(course.root)
        to.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(page, to)
        prose = "\n".join(cell["source"] for cell in source["cells"] if cell["cell_type"] == "markdown")
        _take_along(course, folder, notebook, prose)


def _take_along(course: Course, folder: Path, page: Path, text: str) -> None:
    """Copy what the page links to and what is no page itself."""
    pages = {path.resolve() for path in [*course.texts, *course.executed]}
    for target in linked_files(page, text):
        if target in pages:
            continue
        where = f"{page.relative_to(course.root)} links to {target}"
        if not target.is_file() or not target.is_relative_to(course.root.resolve()):
            raise ValueError(f"{where}; right: a file of this project")
        if target.stat().st_size > LARGEST_DOWNLOAD:
            raise ValueError(f"{where}, {target.stat().st_size} bytes; allowed for a download: {LARGEST_DOWNLOAD}")
        _copy(course, folder, target)


def linked_files(page: Path, text: str) -> Iterator[Path]:
    """The files that the relative links of a Markdown text lead to."""
    for link in LINK.findall(text):
        place = link.partition("#")[0]
        if place and not re.match(r"[a-z]+:", link):
            yield (page.parent / place).resolve()


def _copy(course: Course, folder: Path, path: Path) -> None:
    to = folder / path.resolve().relative_to(course.root.resolve())
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)


def downloads(course: Course, folder: Path) -> list[str]:
    """What lies in `folder` with the look of a page and is none: notebooks that are only linked to."""
    pages = {path.relative_to(course.root) for path in course.executed}
    found = (path.relative_to(folder) for path in sorted(folder.rglob("*.ipynb")))
    return [path.as_posix() for path in found if path not in pages]
