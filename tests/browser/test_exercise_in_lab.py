"""A learner at an exercise: a wrong answer is named, a hint helps, the right answer passes."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from .conftest import LabServer
from .lab_page import cell_with, failures, run_all_cells, write_and_run

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

ANSWER = '@exercise("01.1")\ndef tokens_per_step(alpha, k):\n    return {answer}'


def test_a_wrong_answer_is_named_and_the_right_one_passes(lab_server: LabServer, page: Page, screenshots: Path) -> None:
    run_all_cells(page, lab_server.open("01_alpha_and_k.ipynb"))
    cell = cell_with(page, "def tokens_per_step")
    verdict = cell.get_by_role("status")
    expect(verdict).to_contain_text("not attempted yet")

    write_and_run(page, cell, ANSWER.format(answer="1 + k * alpha"))
    expect(verdict).to_contain_text("This is 1 + K * alpha")
    expect(verdict).to_contain_text("accepted/drafted")
    cell.screenshot(path=screenshots / "check.png")

    write_and_run(page, cell, ANSWER.format(answer="sum(alpha**i for i in range(k + 1))") + '\n\nhint("01.1")')
    expect(verdict).to_contain_text("passed")
    expect(cell).to_contain_text("hint 1 of 3")
    assert failures(page) == []
