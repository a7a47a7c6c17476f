"""The quiz in a page without a kernel, and in JupyterLab: choices, reasons, keys, and what fits a slide."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from labsim.lab.questions import Option, Question, numbers_of_quizzes, questions
from labsim.lab.quiz import Quiz, quiz

from .conftest import LabServer
from .lab_page import failures, run_all_cells
from .static_page import drawn, page_of
from .test_explorer_in_lab import write

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

# A slide is 720 high; its heading and margins take the rest.
MOST = 560
SEVERAL = Question(
    id="01.q1",
    title="several",
    text="Which of `1`, `2` and `3` are *odd*, 2 * 1 + 1 among them?",
    options=(
        Option("1", "1 = 2 · 0 + 1", right=True),
        Option("2", "2 = 2 · 1"),
        Option("3", "3 = 2 · 1 + 1", right=True),
    ),
    code="odd  =\n  2 n + 1",
)
SINGLE = Question(
    id="01.q2",
    title="one",
    text="And 4?",
    options=(Option("odd", "4 = 2 · 2"), Option("even", "4 = 2 · 2 + 0", right=True)),
)


@pytest.fixture
def static(browser: Browser) -> Iterator[Page]:
    with drawn(browser, Quiz([SEVERAL, SINGLE])) as page:
        yield page


def states(page: Page) -> list[str]:
    return [one.get_attribute("data-state") for one in page.locator(".labsim-quiz-option").all()]


def test_a_wrong_choice_says_why_and_the_right_ones_finish_the_question(static: Page, screenshots: Path) -> None:
    said, score = static.get_by_role("status"), static.locator(".labsim-quiz-score")
    expect(said).to_contain_text("Keys: 1 to 3,")
    expect(static.locator(".labsim-quiz-hint")).to_have_text("2 of these are right: find them all.")
    expect(static.locator(".labsim-quiz-asked code")).to_have_text(["1", "2", "3"])
    expect(static.locator(".labsim-quiz-asked em")).to_have_text(["odd"])
    expect(static.locator(".labsim-quiz-asked")).to_have_text("Which of 1, 2 and 3 are odd, 2 * 1 + 1 among them?")
    expect(static.locator("pre")).to_have_text(SEVERAL.code)

    static.get_by_role("button", name="2", exact=True).click()
    expect(said).to_have_text("✗ Not this one. 2 = 2 · 1")
    assert states(static) == ["open", "wrong", "open"]
    static.get_by_role("button", name="3", exact=True).click()
    expect(said).to_have_text("✓ Right. One of 2: look for the other. 3 = 2 · 1 + 1")
    expect(score).to_have_text("0 of 2 answered, 0 without a wrong choice")
    static.get_by_role("button", name="1", exact=True).click()
    expect(said).to_have_text("✓ Right. 1 = 2 · 0 + 1")
    expect(score).to_have_text("1 of 2 answered, 0 without a wrong choice")
    static.screenshot(path=screenshots / "quiz-answered.png")

    static.get_by_role("button", name="2 (not right)").click()  # read it again
    expect(said).to_have_text("✗ Not this one. 2 = 2 · 1")
    static.get_by_role("button", name="next ▶").click()
    expect(static.locator(".labsim-quiz-place")).to_have_text("2 of 2: one")
    expect(static.locator("pre")).to_be_hidden()
    expect(static.locator(".labsim-quiz-hint")).to_be_hidden()
    static.get_by_role("button", name="even", exact=True).click()
    expect(score).to_have_text("2 of 2 answered, 1 without a wrong choice")
    static.get_by_role("button", name="start over").click()
    expect(static.locator(".labsim-quiz-place")).to_have_text("1 of 2: several")
    assert states(static) == ["open"] * 3


def test_the_keyboard_alone_is_enough(static: Page) -> None:
    static.locator(".labsim-quiz-option").first.focus()
    static.keyboard.press("2")
    expect(static.get_by_role("status")).to_contain_text("Not this one")
    assert static.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    static.keyboard.press("ArrowRight")
    expect(static.locator(".labsim-quiz-place")).to_have_text("2 of 2: one")
    static.keyboard.press("Tab")  # the focus stayed inside, on the first option of the new question
    static.keyboard.press("Enter")
    expect(static.get_by_role("status")).to_have_text("✓ Right. 4 = 2 · 2 + 0")
    static.keyboard.press("9")  # no such option
    assert states(static) == ["open", "right"]


def test_at_its_ends_the_quiz_leaves_the_arrow_keys_to_the_slides(static: Page) -> None:
    static.evaluate("addEventListener('keydown', (event) => (window.heard = (window.heard || '') + event.key + ' '))")
    static.locator(".labsim-quiz-option").first.focus()
    for key in ("ArrowLeft", "ArrowRight", "1", "ArrowRight"):
        static.keyboard.press(key)
    assert static.evaluate("window.heard") == "ArrowLeft ArrowRight ", (
        "the first and the last one; not those in between"
    )


@pytest.mark.parametrize("number", numbers_of_quizzes())
def test_every_question_fits_a_slide_with_each_of_its_reasons(browser: Browser, number: str) -> None:
    page = browser.new_context(viewport={"width": 900, "height": 900}, offline=True).new_page()
    page.set_content(page_of(quiz(number)))
    root = page.locator(".labsim-quiz")
    for one in questions(number):
        for i, option in enumerate(one.options):
            page.locator(".labsim-quiz-option").nth(i).click()
            expect(page.get_by_role("status")).to_contain_text("✓ Right" if option.right else "✗ Not this one")
            box = root.bounding_box()
            assert box["height"] <= MOST, f"{one.id}, option {i + 1}: {box['height']:.0f} pixels high"
            code = page.locator("pre")
            assert not one.code or code.evaluate("e => e.scrollWidth <= e.clientWidth"), f"{one.id}: code too wide"
        page.keyboard.press("ArrowRight")
    expect(page.locator(".labsim-quiz-score")).to_contain_text(
        f"{len(questions(number))} of {len(questions(number))} ans"
    )
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast_on_its_own_ground(browser: Browser, screenshots: Path, scheme: str) -> None:
    """The colours that JupyterLab's dark theme sets are given here by hand; axe-core judges whole pages elsewhere."""
    page = browser.new_context(viewport={"width": 900, "height": 700}, offline=True).new_page()
    dark = "<style>:root{--jp-content-font-color1:#fff;--jp-content-font-color2:#bdbdbd;--jp-layout-color0:#111;"
    dark += "--jp-layout-color1:#212121;--jp-layout-color2:#424242;--jp-border-color2:#616161}</style>"
    page.set_content((dark if scheme == "dark" else "") + page_of(quiz("10")))
    for i in range(2):
        page.locator(".labsim-quiz-option").nth(i).click()
    ratios = page.evaluate(CONTRAST)
    page.screenshot(path=screenshots / f"quiz-{scheme}.png")
    assert len(ratios) > 8
    assert min(ratio for _, ratio in ratios) >= 4.5, sorted(ratios, key=lambda one: one[1])[:3]
    page.context.close()


CONTRAST = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = channels(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('.labsim-quiz *')]
    .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) && e.checkVisibility()
      && !e.closest('[aria-disabled=true]'))
    .map((e) => {
      const [a, b] = [light(channels(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
      return [e.textContent.slice(0, 30), (a + 0.05) / (b + 0.05)];
    });
}"""


def answered(kept: Path) -> dict[str, int]:
    """Questions in a progress file, which the tests of one server share."""
    return json.loads(kept.read_text())["quiz"] if kept.exists() else {}


def test_in_jupyterlab_keys_choose_and_the_answer_is_kept(lab_server: LabServer, page: Page, screenshots: Path) -> None:
    write(lab_server.root / "quiz.ipynb", ['from labsim.lab.quiz import quiz\n\nquiz("10")', "1 + 1"])
    run_all_cells(page, lab_server.open("quiz.ipynb"))
    shown = page.locator(".labsim-quiz")
    first = questions("10")[0]
    right = next(iter(first.right))
    shown.locator(".labsim-quiz-option").first.focus()
    for i in (0 if right else 1, right):  # JupyterLab's own keys would change or leave the cell
        page.keyboard.press(str(i + 1))
    expect(shown.get_by_role("status")).to_contain_text("✓ Right")
    expect(shown.get_by_role("status")).to_contain_text(first.options[right].why[:40])
    shown.screenshot(path=screenshots / "quiz-in-lab.png")
    kept, end = lab_server.root.parent / "labsim" / "progress.json", time.monotonic() + 20
    while "10.q1" not in answered(kept) and time.monotonic() < end:
        time.sleep(0.1)
    assert answered(kept)["10.q1"] == 2
    assert failures(page) == []
