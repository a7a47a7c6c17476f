"""The course as a site: sources laid out, Sphinx run, the result held against the gates.

    site = build_site(Course(root, executed), Path("build/site"), sources=Path("build/site-src"), student=False)
    site.problems        # one sentence per broken rule; empty for a good site

The result is plain files. They open from a directory, without a server, as well as from any web server.
"""

from __future__ import annotations

import io
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..assets import copy
from .gates import dead_links, external_assets, silent_pictures, told_paths
from .sources import Course, write_sources

# What a finished site has and no other folder: only such a folder, or an empty one, is ever replaced.
SIGN = ("searchindex.js", "objects.inv")
MATHJAX = "es5/tex-chtml-full.js"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class SiteError(RuntimeError):
    """Sphinx found something wrong with the sources; the message holds its lines."""


@dataclass(frozen=True)
class Site:
    """A finished site. `pages` are the paths of its pages inside `out`; `problems` the broken rules."""

    out: Path
    pages: tuple[str, ...]
    bytes: int
    problems: tuple[str, ...]


def build_site(course: Course, out: Path, *, sources: Path, student: bool = False) -> Site:
    """Build the site into `out`, replacing an earlier one, by way of `sources`, which is written anew.

    Raises:
        ValueError: `out` holds something else, a link leads nowhere, a notebook was not run as it is now.
        SiteError: Sphinx warned.
        AssetUnavailable: MathJax is not on this machine and cannot be fetched.
    """
    for folder, sign in ((out, SIGN), (sources, ("conf.py",))):
        if folder.exists() and any(folder.iterdir()) and not all((folder / name).exists() for name in sign):
            raise ValueError(f"{folder} holds something that is no earlier site; allowed: a new or an empty folder")
        shutil.rmtree(folder, ignore_errors=True)
    sources.mkdir(parents=True)
    write_sources(course, sources, student=student)
    mathjax = copy("mathjax", sources / "static")
    _run_sphinx(sources, out, f"{mathjax}/{MATHJAX}")
    problems = [
        *external_assets(out),
        *silent_pictures(out),
        *dead_links(out),
        *told_paths(out, (course.root, Path.home())),
    ]
    files = [path for path in out.rglob("*") if path.is_file()]
    pages = sorted(str(path.relative_to(out)) for path in files if path.suffix == ".html")
    return Site(out, tuple(pages), sum(path.stat().st_size for path in files), tuple(problems))


def _run_sphinx(sources: Path, out: Path, mathjax: str) -> None:
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    told = io.StringIO()
    doctrees = out.with_name(f".{out.name}-doctrees")
    try:
        with patch_docutils(str(sources)), docutils_namespace():
            Sphinx(
                sources, sources, out, doctrees, "html",
                confoverrides={"mathjax_path": mathjax}, status=None, warning=told, freshenv=True,
            ).build(force_all=True)  # fmt: skip
    finally:
        shutil.rmtree(doctrees, ignore_errors=True)
    warnings = _ANSI.sub("", told.getvalue()).strip()
    if warnings:
        raise SiteError(f"Sphinx warned about the pages in {sources}:\n{warnings}")
    (out / ".buildinfo").unlink(missing_ok=True)
