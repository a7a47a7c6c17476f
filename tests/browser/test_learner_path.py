"""A learner's way through a notebook, in a real browser: to the first exercise, wrong, a hint, right, to the end, quiz.

`make test` walks the notebooks of SHORT; `make test-full` all of them. Pictures lie in build/screenshots/learner.
"""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from labsim.lab.exercise import exercise, find_exercise
from labsim.lab.notebooks import read_notebook
from labsim.lab.questions import questions
from labsim.lab.solutions import exercise_cells
from labsim.lab.verdict import EXERCISE_MIME

from .conftest import OF_ANYWIDGET, REPOSITORY, LabServer, page_of
from .lab_page import CELLS, FINISHED, failures, open_notebook, run_menu, write_and_run
from .learner_answers import FirstExercise, first_exercise

NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("[0-9][0-9]_*.ipynb"))
SHORT = ("00", "01", "15")
IN_NOTEBOOK_7 = ("00", "01")
# Notebook 7.6 raises it whenever it loads its settings, whatever notebook is opened.
OF_NOTEBOOK_7 = "Cannot read properties of undefined (reading 'schema')"
WALK = [pytest.mark.browser, pytest.mark.timeout(900)]


def walks(numbers: tuple[str, ...], short: tuple[str, ...]) -> list:
    """The notebooks with these numbers; those that are not short are left to the full run."""
    chosen = [path for path in NOTEBOOKS if not numbers or path.name[:2] in numbers]
    return [
        pytest.param(path, id=path.stem, marks=WALK if path.name[:2] in short else [*WALK, pytest.mark.full])
        for path in chosen
    ]


@pytest.fixture(scope="session")
def pictures() -> Path:
    folder = REPOSITORY / "build" / "screenshots" / "learner"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def notebook_page(browser: Browser, notebook_server: LabServer) -> Iterator[Page]:
    with page_of(browser, notebook_server, OF_NOTEBOOK_7) as opened:
        yield opened


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_the_learner_types_is_the_known_mistake(notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = first_exercise(notebook)
    exec(first.wrong, {"exercise": exercise})  # outside a kernel the verdict is printed
    said = capsys.readouterr().out
    assert find_exercise(first.id).judge(first.function).headline in said
    head = re.search(r"def .*?\)", first.stub)
    assert head and head[0] in first.wrong, "the same name and the same arguments as in the stub"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_verdict_offers_can_be_called(notebook: Path) -> None:
    content = read_notebook(notebook)
    above = content["cells"][: min(exercise_cells(content).values())]
    imported = {
        alias.asname or alias.name
        for cell in above
        if cell["cell_type"] == "code"
        for node in ast.walk(ast.parse(cell["source"]))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {"exercise", "hint", "solution"} - imported == set()


@pytest.mark.parametrize("notebook", walks((), SHORT))
def test_in_jupyterlab(lab_server: LabServer, page: Page, pictures: Path, notebook: Path) -> None:
    walk(lab_server, page, notebook, pictures, notebook.name[:2])


@pytest.mark.parametrize("notebook", walks(IN_NOTEBOOK_7, ("00",)))
def test_in_notebook_7(notebook_server: LabServer, notebook_page: Page, pictures: Path, notebook: Path) -> None:
    walk(notebook_server, notebook_page, notebook, pictures, f"{notebook.name[:2]}-notebook7")


@pytest.mark.browser
@pytest.mark.full
@pytest.mark.timeout(900)
def test_on_a_slow_page(lab_server: LabServer, page: Page, pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    at_full_speed = open_notebook

    def open_and_slow_down(page: Page, address: str) -> None:
        at_full_speed(page, address)
        page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 12})

    monkeypatch.setitem(globals(), "open_notebook", open_and_slow_down)
    walk(lab_server, page, NOTEBOOKS[1], pictures, "01-slow")
    assert OF_ANYWIDGET in said, "not slow enough to see what a busy machine does"


def walk(server: LabServer, page: Page, notebook: Path, pictures: Path, name: str) -> None:
    first = first_exercise(notebook)
    open_notebook(page, server.open(notebook.name))
    cell = exercise_cell(page, first)
    cell.locator(".cm-content").click()
    run_menu(page, "Run All Above Selected Cell")
    above = f"{CELLS}.slice(0, {CELLS}.findIndex({is_the_stub(first)}))"
    page.wait_for_function(f"() => {above}.every(cell => cell.execution_count !== null)", timeout=300_000, polling=200)
    assert failures(page) == []

    write_and_run(page, cell, first.wrong)
    headline = find_exercise(first.id).judge(first.function).headline
    expect(cell.get_by_role("status")).to_contain_text(shown(headline), timeout=60_000)
    assert verdict(page, first) == {"id": first.id, "status": "misconception", "misconception": first.misconception}
    cell.screenshot(path=pictures / f"{name}-1-wrong.png")

    write_and_run(page, cell, f'{first.wrong}\n\nhint("{first.id}")')
    expect(cell).to_contain_text(f"{first.id}, hint 1 of 3", timeout=60_000)
    expect(cell).to_contain_text(shown(find_exercise(first.id).hints[0]))
    cell.screenshot(path=pictures / f"{name}-2-hint.png")

    write_and_run(page, cell, first.right)
    expect(cell.get_by_role("status")).to_contain_text("passed", timeout=60_000)
    assert verdict(page, first)["status"] == "passed"
    cell.screenshot(path=pictures / f"{name}-3-right.png")

    cell.locator(".cm-content").click()
    run_menu(page, "Run Selected Cell and All Below")
    page.wait_for_function(FINISHED, timeout=600_000, polling=500)
    assert failures(page) == []
    assert page.evaluate(f"{CELLS}.at(-1).execution_count") is not None

    answer_the_quiz(page, notebook.name[:2], pictures / f"{name}-4-quiz.png")
    kept = kept_progress(server, f"{notebook.name[:2]}.q1")
    assert first.id in kept["solved"]
    if notebook.name.startswith("00"):
        table = page.locator(".jp-CodeCell", has=page.locator(".jp-InputArea", has_text="progress()")).last
        table.locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        expect(table.get_by_role("row", name="00 Start here 1 of 1")).to_contain_text("1 of 3")
    page.screenshot(path=pictures / f"{name}-5-end.png")
    assert failures(page) == []


def answer_the_quiz(page: Page, number: str, picture: Path) -> None:
    """The first question: one wrong choice, then all right ones."""
    asked = questions(number)[0]
    quiz = page.locator(".labsim-quiz")
    quiz.scroll_into_view_if_needed()
    wrong = next(i for i in range(len(asked.options)) if i not in asked.right)
    for i, mark in ((wrong, "✗ Not this one."), *((i, "✓ Right.") for i in sorted(asked.right))):
        quiz.locator(".labsim-quiz-option").nth(i).click()
        expect(quiz.get_by_role("status")).to_contain_text(mark)
        expect(quiz.get_by_role("status")).to_contain_text(shown(asked.options[i].why))
    quiz.screenshot(path=picture)


def kept_progress(server: LabServer, question: str) -> dict:
    """What the kernel has written, once the browser's choice has arrived there."""
    path, end = server.root.parent / "labsim" / "progress.json", time.monotonic() + 30
    while time.monotonic() < end:
        kept = json.loads(path.read_text())
        if question in kept.get("quiz", {}):
            return kept
        time.sleep(0.1)
    pytest.fail(f"the answer to {question} has not arrived in {path}")


def exercise_cell(page: Page, first: FirstExercise) -> Locator:
    """The exercise's cell, by its place: what it holds changes on the way."""
    at = page.evaluate(f"{CELLS}.findIndex({is_the_stub(first)})")
    return page.locator(".jp-NotebookPanel:visible .jp-CodeCell").nth(at)


def is_the_stub(first: FirstExercise) -> str:
    return f"cell => (cell.metadata.labsim || {{}}).exercise === {json.dumps(first.id)}"


def verdict(page: Page, first: FirstExercise) -> dict:
    """The last verdict in the exercise's cell, as data."""
    outputs = page.evaluate(f"{CELLS}.find({is_the_stub(first)}).outputs")
    return [one["data"][EXERCISE_MIME] for one in outputs if EXERCISE_MIME in one.get("data", {})][-1]


def shown(text: str) -> str:
    """A text as the page shows it: without the marks of code and stress, white space as one blank."""
    return re.sub(r"\s+", " ", re.sub(r"`([^`]+)`|\*([^*\s][^*]*)\*", r"\1\2", text)).strip()
