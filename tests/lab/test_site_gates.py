"""Each gate of a finished site lets a good page pass, and names what a bad one does."""

from __future__ import annotations

from pathlib import Path

import pytest

from labsim.lab.site import gates

GOOD = (
    '<a href="https://arxiv.org/abs/2401.15077">paper</a> <a href="#here">here</a> <a href="b.html#there">b</a>'
    '<h2 id="here">x</h2><img src="a.png" alt="A dot."><script src="a.js"></script><link rel="stylesheet" href="a.css">'
    '<svg role="img" aria-label="A line."></svg>'
)


def folder(place: Path, body: str = "", **files: str) -> Path:
    (place / "index.html").write_text(f"<!doctype html><html><body>{GOOD}{body}</body></html>")
    (place / "b.html").write_text('<h2 id="there">y</h2>')
    for name in ("a.js", "a.css", "a.png"):
        (place / name).write_text(files.get(name.replace(".", "_"), ""))
    return place


def all_gates(place: Path) -> list[str]:
    return [
        *gates.external_assets(place),
        *gates.silent_pictures(place),
        *gates.dead_links(place),
        *gates.told_paths(place, [Path("/home/somebody")]),
    ]


def test_a_good_folder_passes(tmp_path: Path) -> None:
    assert all_gates(folder(tmp_path)) == []


@pytest.mark.parametrize(
    ("body", "files", "told"),
    [
        ('<script src="https://cdn.example/x.js"></script>', {}, "cdn.example/x.js"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', {}, "cdn.example/x.css"),
        ('<img alt="x" src="http://cdn.example/x.png">', {}, "cdn.example/x.png"),
        ('<iframe src="https://cdn.example/"></iframe>', {}, "cdn.example"),
        ('<script type="module">import("https://cdn.example/y.js")</script>', {}, "cdn.example/y.js"),
        ('<p style="background:url(https://cdn.example/z.png)">x</p>', {}, "cdn.example/z.png"),
        ("", {"a_css": "@font-face{src:url('https://cdn.example/f.woff')}"}, "cdn.example/f.woff"),
        ("", {"a_js": 'import("https://cdn.example/m.js")'}, "cdn.example/m.js"),
        ('<img src="a.png">', {}, "no alt text"),
        ('<img src="a.png" alt=" ">', {}, "no alt text"),
        ('<svg role="img"></svg>', {}, "has no name"),
        ('<a href="gone.html">x</a>', {}, "leads to no file"),
        ('<a href="b.html#gone">x</a>', {}, "names a place that b.html has not"),
        ('<a href="#gone">x</a>', {}, "names a place that index.html has not"),
        ('<a href="../outside.html">x</a>', {}, "leads out of the site"),
        ("<pre>/home/somebody/labsim/x.py</pre>", {}, "names /home/somebody/"),
    ],
)
def test_each_fault_is_named_once(tmp_path: Path, body: str, files: dict[str, str], told: str) -> None:
    (found,) = all_gates(folder(tmp_path, body, **files))
    assert told in found


def test_a_folder_without_pages_is_no_proof(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no HTML page"):
        gates.external_assets(tmp_path)
