"""Python's standard library as text: its modules, functions, docstrings and help topics, read where they are installed.

Nothing of it is shipped. A module belongs to one side for good: a hash of its name decides (one module in twelve is
held out), so neither its source nor its docstrings can appear on both sides.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SKIPPED = {
    "test",
    "tests",
    "idle_test",
    "site-packages",
    "dist-packages",
    "lib2to3",
    "__pycache__",
    "encodings",
    "turtledemo",
    "ensurepip",
    "lib-dynload",
    "msilib",
    "pydoc_data",
}
HELD_OUT_SHARE = 12


@dataclass(frozen=True)
class Definition:
    """A function or class: where it comes from, its source (dedented), its docstring."""

    module: str
    name: str
    kind: str  # "function" or "class"
    source: str
    docstring: str


@dataclass(frozen=True)
class Module:
    name: str
    source: str
    docstring: str
    definitions: tuple[Definition, ...]


def is_held_out(name: str) -> bool:
    """Whether a module (by its top-level name) or help topic belongs to the held-out side."""
    return hashlib.sha256(name.split(".")[0].lower().encode()).digest()[0] % HELD_OUT_SHARE == 0


@cache
def modules(held_out: bool) -> tuple[Module, ...]:
    """The modules of one side, by name. Files that do not parse under this Python are left out."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if SKIPPED & set(parts) or parts[0].startswith("config-") or parts[-1].startswith(("test_", "_sysconfigdata")):
            continue
        name = ".".join(parts).removesuffix(".__init__")
        if is_held_out(name) != held_out:
            continue
        if (module := _read(name, path)) is not None:
            found.append(module)
    return tuple(found)


def _read(name: str, path: Path) -> Module | None:
    try:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (UnicodeDecodeError, SyntaxError):
        return None
    lines = source.splitlines()
    definitions = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.end_lineno is None:
            continue
        text = [line[node.col_offset :] for line in lines[node.lineno - 1 : node.end_lineno]]
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        definitions.append(Definition(name, node.name, kind, "\n".join(text).rstrip(), ast.get_docstring(node) or ""))
    return Module(name, source, ast.get_docstring(tree) or "", tuple(definitions))


@cache
def definitions(held_out: bool, low: int = 80, high: int = 1800) -> tuple[Definition, ...]:
    """The functions and classes of one side whose source has between `low` and `high` characters.

    The same code stands in several modules here and there; the held-out side leaves out what the training side has.
    """
    seen = {d.source for d in definitions(False, low, high)} if held_out else set()
    found = (d for module in modules(held_out) for d in module.definitions if low <= len(d.source) <= high)
    return tuple(d for d in found if d.source not in seen)


@cache
def documented(held_out: bool) -> tuple[Definition, ...]:
    """The definitions of one side with a docstring of at least 40 characters."""
    seen = {d.docstring for d in documented(False)} if held_out else set()
    found = (d for module in modules(held_out) for d in module.definitions if 40 <= len(d.docstring) <= 1500)
    return tuple(d for d in found if d.docstring not in seen)


@cache
def topics(held_out: bool) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Help topics of one side: name and paragraphs (plain text, markup and code blocks kept as they are)."""
    from pydoc_data.topics import topics as texts

    # Topics quote each other: what a training topic says is no longer new on the held-out side.
    seen = {paragraph for _, paragraphs in topics(False) for paragraph in paragraphs} if held_out else set()
    found = []
    for name, text in sorted(texts.items()):
        paragraphs = (p.strip("\n") for p in re.split(r"\n\s*\n", text) if p.strip())
        paragraphs = tuple(p for p in paragraphs if p not in seen)
        if is_held_out("topic " + name) == held_out and len(paragraphs) > 1:
            found.append((name.lower().replace("-", " "), paragraphs))
    return tuple(found)


def prose(paragraph: str) -> str:
    """A paragraph as running text: line breaks and reST marks removed."""
    text = " ".join(paragraph.split())
    return re.sub(r'\*(\w[^*]*)\*|"(\w[^"\s]*)"', lambda m: m.group(1) or m.group(2), text)


def is_prose(paragraph: str) -> bool:
    """Whether a paragraph is running text of some length, not code, a grammar or a heading."""
    return 80 <= len(paragraph) <= 1200 and not paragraph.startswith((" ", ">>>", "|", "*")) and "::=" not in paragraph


def first_sentence(docstring: str) -> str:
    """The first sentence of a docstring, without the full stop."""
    return prose(docstring.split("\n\n")[0]).split(". ")[0].rstrip(".")
