"""What Sphinx reads: the course's pages, laid out as in the repository, so that every link between them holds.

`docs/site` holds the configuration, the start page and the style. README, `docs/*.md` and the data's own README files
go in as they are; notebooks become pages (`labsim.lab.site.page`). Links that lead to no page:

- a file is taken along as a download;
- a directory stands for its README;
- a directory without one, and a notebook that this site leaves out, become plain words.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat

from ..notebooks import read_notebook
from ..solutions import load_solutions
from .page import ADDED, page_of

LINK = re.compile(r"!?\[(?P<words>[^\]]*)\]\((?P<target>[^)\s]+)\)")
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
        to = folder / path.relative_to(course.root)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(_linked(course, folder, path, path.read_text(encoding="utf-8")), encoding="utf-8")
    for notebook, ran in course.executed.items():
        source = read_notebook(notebook)
        try:
            page = page_of(
                source,
                nbformat.read(ran, as_version=4),
                solutions={} if student else load_solutions(notebook),
                private={course.root: "labsim", Path.home(): "~"},
            )
        except ValueError as error:
            raise ValueError(f"{ran}: {error}") from error
        for cell in page.cells:
            if cell.cell_type == "markdown" and cell.metadata.get("labsim") != ADDED:
                cell.source = _linked(course, folder, notebook, cell.source)
        to = folder / notebook.relative_to(course.root)
        to.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(page, to)


def _linked(course: Course, folder: Path, page: Path, text: str) -> str:
    """The text of a page with links that hold in the site; what it links to and is no page itself is copied."""
    pages = {path.resolve() for path in [*course.texts, *course.executed]}

    def keep(link: re.Match[str]) -> str:
        place = link["target"].partition("#")[0]
        target = (page.parent / place).resolve()
        if not place or re.match(r"[a-z]+:", place) or target in pages:
            return link[0]
        where = f"{page.relative_to(course.root)} links to {target}"
        if not target.exists() or not target.is_relative_to(course.root.resolve()):
            raise ValueError(f"{where}; right: a file of this project")
        if target.is_dir() and target / "README.md" in pages:
            return f"[{link['words']}]({place.rstrip('/')}/README.md)"
        if target.is_dir() or target.suffix == ".ipynb":
            return link["words"]
        if target.stat().st_size > LARGEST_DOWNLOAD:
            raise ValueError(f"{where}, {target.stat().st_size} bytes; allowed for a download: {LARGEST_DOWNLOAD}")
        to = folder / target.relative_to(course.root.resolve())
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(target, to)
        return link[0]

    return LINK.sub(keep, text)
