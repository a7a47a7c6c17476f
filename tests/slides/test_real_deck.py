"""From a notebook of the course to its deck by the command: executed, checked, printed, and alive without network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, expect
from pypdf import PdfReader

from labsim.commands.slides import ROOT, command
from labsim.lab.slides.chromium import opened

NAME = "01_alpha_and_k"


@pytest.fixture(scope="module")
def made(packages: None, chromium_path: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("real")
    words = [str(ROOT / "notebooks" / f"{NAME}.ipynb"), "--out", str(folder / "slides"), "--check", "--pdf", "--json"]
    result = CliRunner().invoke(command, [*words, "--executed", str(folder / "executed")])
    assert result.exit_code == 0, result.stderr
    return folder, json.loads(result.stdout)


@pytest.mark.browser
@pytest.mark.notebook
def test_the_command_executes_makes_checks_and_prints(made: tuple[Path, dict]) -> None:
    _, report = made
    assert report["ok"] and report["findings"] == []
    (seen,) = report["slides"].values()
    (printed,) = report["pdf"]
    assert seen["slides"] == printed["pages"] == len(PdfReader(printed["file"]).pages) > 15


@pytest.mark.browser
@pytest.mark.notebook
def test_a_slider_moves_the_picture_with_no_kernel_and_no_network(
    made: tuple[Path, dict], browser: Browser, tmp_path: Path
) -> None:
    moved = shutil.copytree(made[0] / "slides", tmp_path / "elsewhere")  # a deck's folder may be carried anywhere
    with opened(browser, moved / f"{NAME}.slides.html") as (page, faults):
        page.evaluate("() => { const at = Reveal.getIndices(document.querySelector('.labsim-explorer').closest("
                      "'section')); Reveal.slide(at.h, at.v); }")  # fmt: skip
        explorer = page.locator("section.present section.present .labsim-explorer")
        picture, words = explorer.locator(".labsim-series"), explorer.locator(".labsim-readout")
        before, said = picture.first.inner_html(), words.inner_text()
        explorer.get_by_role("slider").first.press("ArrowRight")
        expect(words).not_to_have_text(said)
        assert picture.first.inner_html() != before
        slide = page.evaluate("() => Reveal.getIndices()")
        explorer.get_by_role("slider").first.press("ArrowLeft")
        expect(words).to_have_text(said)
        assert page.evaluate("() => Reveal.getIndices()") == slide  # the arrow was the slider's
        page.evaluate("() => document.activeElement.blur()")
        page.keyboard.press("c")
        panel = page.locator("section.present section.present details.code[open] .highlight")
        expect(panel).to_be_visible()
        assert panel.bounding_box()["y"] + panel.bounding_box()["height"] <= 720
        assert faults == []


def test_wrong_values_are_one_line_and_exit_2(tmp_path: Path) -> None:
    for words, told in (
        (["nowhere.ipynb"], "nowhere.ipynb is not a notebook"),
        (
            ["--no-run", "--executed", str(tmp_path), "--out", str(tmp_path / "out")],
            "is not there; right: a notebook that",
        ),
        (["--pictures", str(tmp_path)], "--pictures goes with --check"),
    ):
        result = CliRunner().invoke(command, words)
        assert result.exit_code == 2 and told in result.stderr, result.output
