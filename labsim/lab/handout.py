"""The hand-out: what a class gets. The course as delivered, without solutions, tests and goldens.

Everything that the notebooks read comes along (package, data, set-up, glossary), so `make lab` works in the unpacked
folder. Notebooks go out without outputs, whatever state they are in here. The same files give the same bytes.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("data", "docs", "labsim", "notebooks", "scripts")
FILES = ("LICENSE", "Makefile", "README.md", "environment.yml", "pyproject.toml", "requirements.lock")
TOP = "labsim-course"  # the folder that the archive unpacks to
_LEFT_OUT = {"solutions", "__pycache__", "golden", "mutants"}
_NOTE = (
    "> This is the hand-out of the course: without solutions, tests and benchmarks, so `make lab` opens it, and\n"
    "> `make test` and `make bench` are not part of it. Hints are, and so is the package, whose functions some\n"
    "> exercises rebuild: you can look answers up in it, and learn more by trying first.\n\n"
)
_EPOCH = (2000, 1, 1, 0, 0, 0)


def make_handout(out: Path, root: Path = ROOT) -> list[str]:
    """Write the archive; the names in it, in order. FileNotFoundError where the course is not whole."""
    names = []
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = out.with_name(f".{out.name}.new")
    try:
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in handed_out(root):
                name = f"{TOP}/{path.relative_to(root).as_posix()}"
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = (path.stat().st_mode & 0o777) << 16
                archive.writestr(entry, _content(path, root))
                names.append(name)
        fresh.replace(out)
    finally:
        fresh.unlink(missing_ok=True)
    return names


def handed_out(root: Path = ROOT) -> Iterator[Path]:
    """The files that a class gets."""
    for name in FILES:
        if not (root / name).is_file():
            raise FileNotFoundError(f"{root / name} is missing; a hand-out is made from the whole repository")
        yield root / name
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            parts = path.relative_to(root).parts
            hidden = any(part.startswith(".") for part in parts)
            if path.is_file() and not hidden and not _LEFT_OUT.intersection(parts[:-1]):
                yield path


def _content(path: Path, root: Path) -> bytes:
    if path == root / "README.md":
        title, _, rest = path.read_text(encoding="utf-8").partition("\n\n")
        return f"{title}\n\n{_NOTE}{rest}".encode()
    if path.suffix != ".ipynb":
        return path.read_bytes()
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for name in ("widgets", "papermill"):
        notebook["metadata"].pop(name, None)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()
