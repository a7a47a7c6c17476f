"""The stepper in a page without a kernel: buttons, keyboard, runs, and what is drawn at every position."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from labsim.lab.stepper import Stepper, sentence
from tests.lab.test_stepper import BY_HAND, SENTENCES, RunView

from .conftest import LabServer
from .lab_page import failures, run_all_cells
from .static_page import drawn
from .test_explorer_in_lab import write

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

OTHER = RunView("other run", "another question", "z", True, BY_HAND.steps[:2])


@pytest.fixture
def static(browser: Browser) -> Iterator[Page]:
    with drawn(browser, Stepper([BY_HAND, OTHER])) as page:
        yield page


def marks(page: Page, place: str) -> list[tuple[str, str]]:
    """(mark, word) of the tokens in a part of the widget."""
    return [
        (token.get_attribute("data-mark"), token.locator(".labsim-word").text_content())
        for token in page.locator(f"{place} .labsim-token").all()
    ]


def test_each_position_shows_its_sentence_and_its_tokens(static: Page, screenshots: Path) -> None:
    forward, status = static.get_by_role("button", name="step forward"), static.get_by_role("status")
    for position in range(BY_HAND.positions):
        expect(status).to_have_text(sentence(BY_HAND, position))
        if position in SENTENCES:
            expect(status).to_have_text(SENTENCES[position])
        if position == 1:
            assert marks(static, ".labsim-work") == [("drafted", " b"), ("drafted", "↵"), ("drafted", " d")]
            assert static.locator(".labsim-fill-p").count() == 0, "before the verify pass p is not known"
        if position == 2:
            assert static.locator(".labsim-fill-p").count() == static.locator(".labsim-fill-q").count() == 3
            expect(static.locator(".labsim-work")).to_contain_text("keep: .250")
        if position == 3:
            assert marks(static, ".labsim-work") == [
                ("accepted", " b"), ("rejected", "↵"), ("unused", " d"), ("corrected", " e"),
            ]  # fmt: skip
            expect(static.locator(".labsim-counter")).to_have_text(
                "1 target forward after the prompt's, 3 tokens, 2.00 per forward"
            )
            static.screenshot(path=screenshots / "stepper-accept.png")
        if position + 1 < BY_HAND.positions:
            forward.click()
    assert marks(static, ".labsim-answer") == [
        ("first", " a"), ("accepted", " b"), ("corrected", " e"), ("accepted", " f"), ("bonus", " g"), ("bonus", " h"),
    ]  # fmt: skip
    expect(status).to_have_text(sentence(BY_HAND, BY_HAND.positions - 1))
    expect(forward).to_have_attribute("aria-disabled", "true")


def test_the_keyboard_alone_is_enough(static: Page) -> None:
    status = static.get_by_role("status")
    static.keyboard.press("Tab")  # the run
    static.keyboard.press("Tab")  # the first button
    for key, position in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 12), ("Home", 0)):
        static.keyboard.press(key)
        expect(status).to_have_text(sentence(BY_HAND, position))
    static.keyboard.press("ArrowLeft")
    expect(status).to_have_text(sentence(BY_HAND, 0))
    slider = static.get_by_role("slider", name="position in the answer")
    slider.focus()
    slider.press("ArrowRight")
    expect(status).to_have_text(sentence(BY_HAND, 1))
    assert slider.get_attribute("aria-valuetext") == sentence(BY_HAND, 1)


def test_another_run_begins_at_its_start(static: Page) -> None:
    static.get_by_role("button", name="last position").click()
    static.get_by_label("run").select_option("other run")
    expect(static.get_by_role("status")).to_have_text(sentence(OTHER, 0))
    expect(static.locator(".labsim-prompt")).to_have_text("another question")
    static.get_by_role("button", name="last position").click()
    expect(static.get_by_role("status")).to_have_text(sentence(OTHER, OTHER.positions - 1))


IN_LAB = """
import json
from pathlib import Path
from labsim.lab.stepper import DraftedToken, RunView, Stepper, StepView

guesses = (DraftedToken(" b", 0.2, 0.8, "accepted", " b"), DraftedToken(" c", 0.1, 0.4, "rejected", " d"))
run = RunView("by hand", "question", " a", True, (StepView(guesses, " d", 0.5, "corrected"),))
stepper = Stepper([run])
stepper.observe(lambda change: Path("position.json").write_text(json.dumps(change.new)), "position")
stepper
"""


def test_in_jupyterlab_the_arrow_keys_step_and_python_hears_it(
    lab_server: LabServer, page: Page, screenshots: Path
) -> None:
    write(lab_server.root / "stepper.ipynb", [IN_LAB, "1 + 1"])
    run_all_cells(page, lab_server.open("stepper.ipynb"))
    stepper = page.locator(".labsim-stepper")
    stepper.get_by_role("button", name="step forward").focus()
    for _ in range(3):  # JupyterLab's own arrow keys would leave the cell
        page.keyboard.press("ArrowRight")
    expect(stepper.get_by_role("status")).to_contain_text('" c" rejected; in its place " d"')
    stepper.screenshot(path=screenshots / "stepper-in-lab.png")
    arrived, end = lab_server.root / "position.json", time.monotonic() + 20
    while (not arrived.exists() or json.loads(arrived.read_text() or "0") < 3) and time.monotonic() < end:
        time.sleep(0.1)
    assert json.loads(arrived.read_text()) == 3
    assert failures(page) == []
