"""Imports run one way, and the light parts stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "labsim"

# Which rooms a room may import, besides itself. `lab`, `commands` and the modules at the top may import all of them.
MAY_IMPORT = {
    "sim": set(),
    "telemetry": {"sim"},
    "rollout": {"telemetry", "sim"},
    "parallel": set(),
    "attention": {"parallel"},
    "models": {"attention", "parallel"},
    "drafts": {"models", "attention", "parallel"},
    "decode": {"drafts", "models", "attention", "parallel"},
    "features": {"models", "parallel"},
    "train": {"decode", "features", "drafts", "models", "attention", "parallel"},
    "checkpoints": {"train", "decode", "features", "drafts", "models", "attention", "parallel", "sim"},
}
HEAVY = {"torch", "transformers", "numpy", "matplotlib", "papermill", "IPython", "jupyter_client", "ipywidgets"}


def imported_modules(path: Path) -> set[str]:
    """Absolute names of everything that a file imports, at any level of nesting."""
    package = ["labsim", *path.relative_to(PACKAGE).parts[:-1]]
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            names |= {stem} | {f"{stem}.{alias.name}" for alias in node.names}
    return names


def room_files() -> list[Path]:
    """All modules but those that are a command line themselves (`python -m labsim.train`)."""
    paths = (path for room in MAY_IMPORT for path in (PACKAGE / room).rglob("*.py"))
    return sorted(path for path in paths if path.name != "__main__.py" or path.parent.name == "sim")


@pytest.mark.parametrize("path", room_files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_the_rooms_below_it(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0]
    rooms = {name.split(".")[1] for name in imported_modules(path) if name.startswith("labsim.")}
    assert rooms <= MAY_IMPORT[room] | {room}


@pytest.mark.parametrize("path", sorted((PACKAGE / "sim").rglob("*.py")), ids=lambda path: path.name)
def test_the_simulator_uses_the_standard_library_only(path: Path) -> None:
    foreign = {name.split(".")[0] for name in imported_modules(path)} - sys.stdlib_module_names - {"labsim"}
    assert foreign == set()


def modules_after(code: str) -> set[str]:
    report = f"{code}\nimport sys; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    result = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(result.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    [
        "import labsim",
        "import labsim.cli",
        "import labsim.sim.acceptance, labsim.sim.serving, labsim.sim.cost",
        "from labsim.commands.speedup import compute; compute(.7, 5, .1, False)",
    ],
)
def test_light_imports_stay_light(code: str) -> None:
    assert modules_after(code) & HEAVY == set()


def test_the_check_sees_a_heavy_import() -> None:
    assert "numpy" in modules_after("import numpy") & HEAVY
