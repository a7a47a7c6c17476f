"""The hand-out: nothing that gives an exercise away, and notebooks that run where it is unpacked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from labsim.lab.handout import FILES, FOLDERS, ROOT, TOP, make_handout
from labsim.lab.solutions import load_solutions


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    out = tmp_path_factory.mktemp("handout") / "course.zip"
    make_handout(out)
    with zipfile.ZipFile(out) as opened:
        yield opened


def test_no_solution_golden_or_mutant_is_in_it(archive: zipfile.ZipFile) -> None:
    names = archive.namelist()
    assert not [name for name in names if {"solutions", "golden", "mutants", "tests"} & set(name.split("/")[:-1])]
    delivered = {f"{TOP}/notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert delivered and delivered <= set(names)
    # Not under another name either.
    text = "\n".join(archive.read(name).decode() for name in delivered)
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        for source in load_solutions(notebook).values():
            assert json.dumps(source)[1:-1] not in text


def test_a_notebook_with_outputs_goes_out_without(tmp_path: Path) -> None:
    for folder in FOLDERS:
        (tmp_path / folder).mkdir()
    for name in FILES:
        (tmp_path / name).write_text("# Title\n\nText\n")
    cell = nbformat.v4.new_code_cell("1 + 1", execution_count=3, outputs=[nbformat.v4.new_output("stream", text="2")])
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "notebooks" / "01_a.ipynb")
    (tmp_path / "notebooks" / "solutions").mkdir()
    (tmp_path / "notebooks" / "solutions" / "01_a.py").write_text("secret = 1")
    (tmp_path / "data" / ".hidden").write_text("x")
    names = make_handout(tmp_path / "one.zip", tmp_path)
    assert [name for name in names if name.removeprefix(f"{TOP}/") not in FILES] == [f"{TOP}/notebooks/01_a.ipynb"]
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        (got,) = json.loads(archive.read(f"{TOP}/notebooks/01_a.ipynb"))["cells"]
        assert "This is the hand-out" in archive.read(f"{TOP}/README.md").decode()
    assert got["outputs"] == [] and got["execution_count"] is None
    make_handout(tmp_path / "two.zip", tmp_path)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    (tmp_path / "LICENSE").unlink()
    with pytest.raises(FileNotFoundError, match="LICENSE is missing"):
        make_handout(tmp_path / "three.zip", tmp_path)
    assert not (tmp_path / "three.zip").exists() and not list(tmp_path.glob(".*.new"))


@pytest.mark.notebook
def test_a_notebook_runs_where_it_is_unpacked_and_solution_answers_kindly(
    archive: zipfile.ZipFile, tmp_path: Path
) -> None:
    archive.extractall(tmp_path)
    course = tmp_path / TOP
    path = course / "notebooks" / "01_alpha_and_k.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for source in ('solution("01.1")', "import labsim\nprint(labsim.__file__)"):
        notebook.cells.append(nbformat.v4.new_code_cell(source, metadata={"slideshow": {"slide_type": "-"}}))
    nbformat.write(notebook, path)
    places = [str(course), os.environ.get("PYTHONPATH", "")]  # the package that was handed out, not this one
    command = [sys.executable, "-m", "labsim", "run", "--no-golden", "--out", str(tmp_path / "out"), str(path)]
    command += ["--deadline", "300"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    run = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True, timeout=400)
    assert run.returncode == 0, run.stderr
    *_, answered, where = nbformat.read(tmp_path / "out" / path.name, as_version=4).cells
    assert "your instructor has them" in answered.outputs[0].data["text/plain"]
    assert where.outputs[0].text.strip() == str(course / "labsim" / "__init__.py")
