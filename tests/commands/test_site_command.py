"""`labsim site` from outside: a small course built, what it says of it, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner

from labsim.cli import labsim

ROOT = Path(__file__).resolve().parents[2]
README = "# labsim\n\nA course.\n\n## Two commands\n\n[one](notebooks/01_one.ipynb)\n\n## From the terminal\n\nText.\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course of one notebook, run already, and the working directory."""
    for folder in ("notebooks/solutions", "docs", "ran"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copytree(ROOT / "docs" / "site", tmp_path / "docs" / "site")
    (tmp_path / "docs" / "glossary.md").write_text("# Glossary\n\nWords.\n")
    (tmp_path / "docs" / "results.md").write_text("# Results\n\n[set](../data/set), [code](../docs/site/)\n")
    (tmp_path / "data" / "set").mkdir(parents=True)
    (tmp_path / "data" / "set" / "README.md").write_text("# A set\n\n[numbers](numbers.csv)\n")
    (tmp_path / "data" / "set" / "numbers.csv").write_text("a,b\n1,2\n")
    (tmp_path / "README.md").write_text(README)
    (tmp_path / "notebooks" / "solutions" / "01_one.py").write_text('"""None."""\n')
    write(tmp_path, '<img alt="A dot." src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(root: Path, shown: str) -> None:
    """The notebook, and its run whose last cell shows this HTML."""
    text = nbformat.v4.new_markdown_cell("# 01 One\n\n[words](../docs/glossary.md) $$l = \\log(e^{a})$$")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = nbformat.v4.new_notebook(cells=[text, nbformat.v4.new_code_cell("show()")], metadata=kernel)
    nbformat.write(notebook, root / "notebooks" / "01_one.ipynb")
    notebook.cells[1].outputs = [nbformat.v4.new_output("display_data", data={"text/html": shown})]
    nbformat.write(notebook, root / "ran" / "01_one.ipynb")


def call(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(labsim, ["site", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def test_it_builds_and_says_what(root: Path) -> None:
    status, out, err = call("--executed", "ran", "--json")
    assert status == 0, err
    told = json.loads(out)
    assert (status, err, told["ok"], told["problems"]) == (0, "", True, [])
    assert {"index.html", "notebooks/01_one.html", "data/set/README.html", "search.html"} <= set(told["pages"])
    page = (root / "build/site/notebooks/01_one.html").read_text()
    assert "tex-chtml-full.js" in page, "a page with mathematics loads what sets it"
    assert "tex-chtml-full.js" not in (root / "build/site/index.html").read_text()
    assert list((root / "build/site/_downloads").rglob("numbers.csv"))
    results = (root / "build/site/docs/results.html").read_text()
    assert 'href="../data/set/README.html"' in results and "code</p>" in results

    write(root, '<img src="https://cdn.example/x.png">')  # built again over the first: this time it breaks two rules
    status, out, err = call("--executed", "ran")
    assert status == 1 and "build/site/index.html" in out
    assert "cdn.example" in err and "no alt text" in err


def test_a_dead_link_and_a_warning_of_sphinx_are_errors(root: Path) -> None:
    (root / "docs" / "glossary.md").write_text("# Glossary\n\n[gone](gone.md)\n")
    status, _, err = call("--executed", "ran")
    assert status == 2 and "docs/glossary.md links to" in err and "gone.md" in err
    (root / "docs" / "glossary.md").write_text("# Glossary\n\n[gone](#nowhere)\n")
    status, _, err = call("--executed", "ran")
    assert status == 1 and "nowhere" in err


def test_what_is_no_site_is_never_replaced(root: Path) -> None:
    (root / "precious").mkdir()
    (root / "precious" / "work.txt").write_text("years")
    status, _, err = call("--executed", "ran", "--out", "precious")
    assert status == 2 and "no earlier site" in err
    assert (root / "precious" / "work.txt").read_text() == "years"


def test_missing_and_foreign_runs_are_named(root: Path) -> None:
    (root / "ran" / "01_one.ipynb").unlink()
    status, _, err = call("--executed", "ran")
    assert status == 2 and "lacks 01_one.ipynb" in err
    other = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    nbformat.write(other, root / "ran" / "01_one.ipynb")
    status, _, err = call("--executed", "ran")
    assert status == 2 and "run the notebook again" in err
