"""What a finished site must keep to, read from its files; `labsim.lab.site.look` sees the rest.

    external_assets   nothing is loaded from another address: no script, style, font, picture, frame or import().
                      A hyperlink loads nothing until a reader follows it, so links to papers are fine.
    silent_pictures   every picture says in words what it shows
    dead_links        every link to a page of the folder leads to a page, and to a place on it
    told_paths        no page names a directory of the machine that made it

Each returns one sentence per broken rule, which names the page; none for a good folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

from ..slides.static import external_addresses, external_in_assets, without_alt


def external_assets(folder: Path) -> list[str]:
    """Everything that a page, a style sheet or a script of the folder would load from another address."""
    found = [f"{_name(page, folder)}: loads {what}" for page in _pages(folder) for what in external_addresses(page)]
    return found + [f"loads {what}" for what in external_in_assets(folder)]


def silent_pictures(folder: Path) -> list[str]:
    """Pictures without a text: <img> without alt, <svg role=img> without a name."""
    found = []
    for page in _pages(folder):
        found += [f"{_name(page, folder)}: no alt text: {img}" for img in without_alt(page)]
        for svg in _read(page).select("svg[role=img]"):
            if not (svg.get("aria-label") or svg.get("aria-labelledby") or svg.find("title")):
                found.append(f"{_name(page, folder)}: a drawing (svg) has no name: {str(svg)[:80]}")
    return found


def dead_links(folder: Path) -> list[str]:
    """Relative links that lead to no file of the folder, or to a place that its page has not."""
    found = []
    for page in _pages(folder):
        for link in _read(page).select("a[href]"):
            address = urlsplit(link["href"])
            if address.scheme or address.netloc:
                continue
            target = (page.parent / unquote(address.path)).resolve() if address.path else page.resolve()
            target = target / "index.html" if target.is_dir() else target
            where = f"{_name(page, folder)}: link {link['href']!r}"
            if not target.is_relative_to(folder.resolve()):
                found.append(f"{where} leads out of the site")
            elif not target.is_file():
                found.append(f"{where} leads to no file")
            elif address.fragment and target.suffix == ".html" and unquote(address.fragment) not in _places(target):
                found.append(f"{where} names a place that {_name(target, folder)} has not")
    return found


def told_paths(folder: Path, private: Iterable[Path]) -> list[str]:
    """Pages that name one of these directories."""
    names = [f"{path}/" for path in private if len(path.parts) > 1]
    return [
        f"{_name(page, folder)}: names {name}, a directory of this machine"
        for page in _pages(folder)
        for name in names
        if name in page.read_text(encoding="utf-8")
    ]


def _pages(folder: Path) -> list[Path]:
    """The folder's pages. ValueError when there is none: nothing to look at is no proof."""
    if found := sorted(folder.rglob("*.html")):
        return found
    raise ValueError(f"{folder} holds no HTML page; allowed: a folder with pages")


def _name(path: Path, folder: Path) -> str:
    return str(path.resolve().relative_to(folder.resolve()))


def _read(page: Path) -> BeautifulSoup:
    return _parsed(page.resolve(), page.stat().st_mtime_ns)


@cache
def _parsed(page: Path, changed: int) -> BeautifulSoup:
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


def _places(page: Path) -> frozenset[str]:
    return _places_at(page, page.stat().st_mtime_ns)


@cache
def _places_at(page: Path, changed: int) -> frozenset[str]:
    soup = _parsed(page, changed)
    return frozenset([*(tag["id"] for tag in soup.select("[id]")), *(tag["name"] for tag in soup.select("a[name]"))])
