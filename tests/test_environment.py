"""pyproject.toml, requirements.lock and environment.yml say the same thing."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
}
DIRECT = [
    Requirement(line)
    for line in [
        *PROJECT["dependencies"],
        *(line for extra in ("lab", "site", "test") for line in PROJECT["optional-dependencies"][extra]),
    ]
]

OUTSIDE = ["flash-attn", "ipyparallel"]


def reachable() -> set[str]:
    """Distributions that the direct requirements pull in here, CUDA libraries of a GPU build aside."""
    todo, found = [(r.name, tuple(r.extras)) for r in DIRECT], set()
    while todo:
        name, extras = todo.pop()
        key = (canonicalize_name(name), extras)
        if key in found or re.match(r"nvidia-|cuda-|triton$", key[0]):
            continue
        found.add(key)
        for line in importlib.metadata.requires(name) or []:
            requirement = Requirement(line)
            environments = [{**default_environment(), "extra": extra} for extra in ("", *extras)]
            if requirement.marker is None or any(requirement.marker.evaluate(e) for e in environments):
                todo.append((requirement.name, tuple(sorted(requirement.extras))))
    return {name for name, _ in found}


@pytest.mark.parametrize("requirement", DIRECT, ids=str)
def test_every_direct_requirement_is_pinned_within_its_range(requirement: Requirement) -> None:
    assert PINS[canonicalize_name(requirement.name)] in requirement.specifier


def test_torch_is_pinned_to_the_tested_version() -> None:
    assert PINS["torch"] == "2.13.0"


def test_the_lock_holds_what_the_project_needs_and_nothing_else() -> None:
    missing = reachable() - PINS.keys()
    strays = PINS.keys() - reachable()
    assert (missing, strays) == (set(), set())


def test_the_lock_names_no_cuda_library() -> None:
    assert [name for name in PINS if re.match(r"nvidia|cuda|triton|flash", name)] == []


def test_what_is_installed_is_what_is_locked() -> None:
    installed = {name: importlib.metadata.version(name).split("+")[0] for name in PINS}
    assert installed == PINS


def test_environment_yml_is_a_thin_route_to_the_lock() -> None:
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())
    *plain, last = conda["dependencies"]
    assert sorted(re.split(r"[=<>]", item)[0] for item in plain) == ["pip", "python"]
    assert last == {"pip": ["-r requirements.lock", "-e ."]}
    (python,) = (item.split("=", 1)[1] for item in plain if item.startswith("python"))
    assert SpecifierSet(PROJECT["requires-python"]).contains(f"{python}.0")


def test_what_is_not_for_everybody_is_an_extra_outside_the_lock() -> None:
    extras = PROJECT["optional-dependencies"]
    assert [Requirement(r).name for extra in ("gpu", "live") for r in extras[extra]] == OUTSIDE
    assert not set(OUTSIDE) & PINS.keys()


def test_every_direct_dependency_has_its_reason() -> None:
    decisions = (ROOT / "docs" / "decisions.md").read_text()
    names = [r.name for r in DIRECT] + OUTSIDE
    assert [name for name in names if f"`{name}`" not in decisions] == []


@pytest.mark.parametrize("good", ["python3", ""])
def test_the_interpreter_is_found(good: str) -> None:
    result = run_with_python({"PYTHON": good})
    assert result.returncode == 0
    assert result.stdout.strip() in {"3.11", "3.12", "3.13"}


def test_a_wrong_interpreter_is_named() -> None:
    result = run_with_python({"PYTHON": "/bin/false"})
    assert result.returncode == 1
    assert "PYTHON=/bin/false is not a Python 3.11" in result.stderr


def run_with_python(extra: dict[str, str]) -> subprocess.CompletedProcess[str]:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    command = ["sh", "scripts/with_python.sh", "-c", code]
    import os

    return subprocess.run(command, cwd=ROOT, env={**os.environ, **extra}, capture_output=True, text=True)


@pytest.mark.parametrize("stamp", ["", "{", '{"digest": "other"}'])
def test_a_broken_stamp_means_set_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stamp: str) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import setup_env

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    (tmp_path / "labsim-setup.json").write_text(stamp)
    monkeypatch.setattr(setup_env, "VENV", tmp_path)
    monkeypatch.setattr(setup_env, "STAMP", tmp_path / "labsim-setup.json")
    wanted = {"digest": "this", "prefix": str(tmp_path)}
    assert not setup_env.is_current(wanted)
    (tmp_path / "labsim-setup.json").write_text(json.dumps(wanted))
    assert setup_env.is_current(wanted)
