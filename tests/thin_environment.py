"""An environment with a few of the installed packages and no others, without downloading anything.

A bare venv, into whose site-packages the wanted distributions are linked from the running environment.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def closure(names: Iterable[str]) -> dict[str, str]:
    """Versions, by canonical name, of the named distributions and of all that they need here."""
    todo, found = [Requirement(name) for name in names], {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        one = todo.pop()
        key = (canonicalize_name(one.name), frozenset(one.extras))
        if key in seen:
            continue
        seen.add(key)
        found[key[0]] = importlib.metadata.version(key[0])
        for line in importlib.metadata.requires(key[0]) or []:
            needed = Requirement(line)
            environments = [{**default_environment(), "extra": extra} for extra in ("", *one.extras)]
            if needed.marker is None or any(needed.marker.evaluate(each) for each in environments):
                todo.append(needed)
    return found


def thin_venv(place: Path, names: Iterable[str], project: Path) -> Path:
    """A venv with these distributions, and `project` on its path. Returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = place / "lib" / version / "site-packages"
    source = Path(sysconfig.get_paths()["purelib"])
    for name in names:
        for file in importlib.metadata.files(name) or []:
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(source / top)
    (site / "project.pth").write_text(f"{project}\n")
    return place / "bin" / "python"
