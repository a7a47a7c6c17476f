"""What can be seen in the files of slides without a browser: addresses, alternative texts, slide metadata.

Hyperlinks may lead anywhere; they load nothing until somebody follows them. Everything that a browser fetches by itself
has to lie beside the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup, Tag

from ..notebooks import SLIDE_TYPES

# Element and attribute by which a browser fetches without being asked.
_FETCHES = (
    ("script", "src"), ("link", "href"), ("img", "src"), ("img", "srcset"), ("iframe", "src"), ("frame", "src"),
    ("source", "src"), ("source", "srcset"), ("video", "src"), ("video", "poster"), ("audio", "src"), ("track", "src"),
    ("embed", "src"), ("object", "data"), ("image", "href"), ("use", "href"), ("input", "src"), ("body", "background"),
)  # fmt: skip
_NO_ALT = ("", "No description has been provided for this image")
_REMOTE = re.compile(r"\s*(?:https?:|wss?:|ftp:)?//", re.IGNORECASE)
_CSS = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])(?P<address>(?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
_JS = re.compile(
    r"""(?:\bimport\s*\(\s*|\bimport\s+(?:[\w{},*\s]+\s+from\s+)?|\bfrom\s+|\bimportScripts\s*\(\s*|\bfetch\s*\(\s*"""
    r"""|\bnew\s+Worker\s*\(\s*|\.src\s*=\s*)(?P<quote>["'`])(?P<address>(?:https?:)?//[^"'`\s]+)(?P=quote)"""
)


def external_addresses(page: Path) -> list[str]:
    """Addresses on other hosts that a page, its styles or its scripts would load: `place: address`."""
    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    found = [f"<{tag.name} {name}>: {value}" for tag, name, value in _fetched(soup) if _REMOTE.match(value)]
    for tag in soup.find_all(style=True):
        found += [f"<{tag.name} style>: {address}" for address in _matches(_CSS, tag["style"])]
    for tag in soup.find_all("style"):
        found += [f"<style>: {address}" for address in _matches(_CSS, tag.get_text())]
    for tag in soup.find_all("script", src=False):
        found += [f"<script>: {address}" for address in _matches(_JS, tag.get_text())]
    return found


def external_in_assets(folder: Path) -> list[str]:
    """The same for the style sheets and scripts of an assets folder."""
    found = []
    for pattern, suffix in ((_CSS, ".css"), (_JS, ".js")):
        for path in sorted(folder.rglob(f"*{suffix}")):
            text = path.read_text(encoding="utf-8")
            found += [f"{path.relative_to(folder)}: {address}" for address in _matches(pattern, text)]
    return found


def missing_files(page: Path) -> list[str]:
    """Files that a page loads, or links to, beside itself and that are not there."""
    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    linked = ((tag, "href", tag["href"]) for tag in soup.find_all("a", href=True))
    addresses = {value.partition("#")[0] for _, _, value in (*_fetched(soup), *linked)}
    local = {one for one in addresses if one and not re.match(r"[a-z][a-z+.-]*:|//", one, re.IGNORECASE)}
    return sorted(one for one in local if not (page.parent / one).exists())


def without_alt(page: Path) -> list[str]:
    """Pictures without an alternative text: `<img>` with none, an empty one, or what nbconvert puts in its place."""
    soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    return [str(img)[:80] for img in soup.find_all("img") if (img.get("alt") or "").strip() in _NO_ALT]


def without_slide_type(notebook: Mapping[str, Any]) -> list[str]:
    """Cells of a source notebook that do not say which kind of slide they are."""
    return [
        f"cell {number}: slideshow.slide_type is {kind!r}; allowed: {', '.join(SLIDE_TYPES)}"
        for number, cell in enumerate(notebook["cells"], start=1)
        if (kind := cell["metadata"].get("slideshow", {}).get("slide_type")) not in SLIDE_TYPES
    ]


def _fetched(soup: BeautifulSoup) -> Iterator[tuple[Tag, str, str]]:
    for element, attribute in _FETCHES:
        for tag in soup.find_all(element):
            if value := tag.get(attribute) or tag.get(f"xlink:{attribute}"):
                yield tag, attribute, value


def _matches(pattern: re.Pattern[str], text: str) -> list[str]:
    return [match["address"] for match in pattern.finditer(text)]
