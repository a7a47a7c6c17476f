"""Numbers in the text: what counts as one, what backs it, and that a false one shows."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from labsim.lab.claims.store import NotebookMetrics, load_directory, metrics_directory
from labsim.lab.claims.table import read_claims
from labsim.lab.notebooks import read_notebook
from labsim.lab.prose import Backed, Stated, backing, stated_numbers, unbacked

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
RECORDED = load_directory(metrics_directory() / "ci")


def page(text: str, code: str = "", **constants: str) -> dict[str, Any]:
    """A section: one Markdown cell and one code cell."""
    labsim = {"labsim": {"constants": constants}} if constants else {}
    return {
        "cells": [
            {"cell_type": "markdown", "source": text, "metadata": labsim},
            {"cell_type": "code", "source": code, "metadata": {}},
        ]
    }


def recorded(path: Path) -> NotebookMetrics:
    if path.name[:2] not in RECORDED:
        pytest.fail(f"no recorded metrics of {path.name}: labsim run --solve --metrics data/metrics/ci {path}")
    return RECORDED[path.name[:2]]


def figures(run: NotebookMetrics) -> list[float]:
    """The published numbers of the claims that a notebook's metrics speak to."""
    tested = {one.claim for one in run.metrics.values()}
    return [figure for claim in read_claims().values() if claim.id in tested for figure in claim.figures]


def found(notebook: dict[str, Any], run: NotebookMetrics) -> list[Backed | Stated]:
    return backing(notebook, {name: one.value for name, one in run.metrics.items()}, figures(run))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_number_of_the_course_is_backed(path: Path) -> None:
    run = recorded(path)
    metrics = {name: one.value for name, one in run.metrics.items()}
    assert unbacked(read_notebook(path), metrics, figures(run)) == []


def test_a_false_number_shows() -> None:
    """Three false figures in place of each number that a metric backs; a coincidence lets one pass now and then."""
    planted = caught = 0
    for path in NOTEBOOKS:
        notebook = read_notebook(path)
        all_found = found(notebook, recorded(path))
        before = sum(isinstance(one, Stated) for one in all_found)
        for one in all_found:
            if isinstance(one, Stated) or one.by != "metric":
                continue
            for false in falsified(one.stated.text):
                wrong = copy.deepcopy(notebook)
                cell = wrong["cells"][one.stated.cell - 1]
                cell["source"] = cell["source"].replace(one.stated.text, false, 1)
                planted += 1
                caught += sum(isinstance(other, Stated) for other in found(wrong, recorded(path))) > before
    assert planted >= 20, "the course states numbers that metrics back"
    assert caught / planted >= 0.75, f"{caught} of {planted} false numbers caught"


def falsified(text: str) -> list[str]:
    """The number with another last digit, another first digit, and of twice the size."""
    digits = [index for index, letter in enumerate(text) if letter.isdigit()]
    last, first = digits[-1], next((index for index in digits if text[index] != "0"), digits[0])
    swapped = [text[:at] + str((int(text[at]) + 3) % 9 + 1) + text[at + 1 :] for at in (last, first)]
    decimals = len(text.partition(".")[2])
    return [one for one in (*swapped, f"{2 * float(text.replace(',', '')):.{decimals}f}") if one != text]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It gains 1.41x and loses 12 % of 1,024 tokens.", ["1.41", "12", "1,024"]),
        ("from 0.45-0.55, so .5 of it", ["0.45", "0.55", ".5"]),
        ("3x faster, 8 times, 4 ms", ["3", "8", "4"]),
        ("step 1, K = 3, depth 8 and 10 tokens are names", []),
        ("eleven is a word, 11 is not", ["11"]),
        ("H100, P99, EAGLE-3.1, Llama-3.1-8B, bf16, 4 x GB200, DeepSeek-V4-Pro, SmolLM2-135M-Instruct", []),
        ("notebooks 08 to 12, exercise 04.1, vllm#9565, issue 339, 2026-05-26, arXiv 2601.11580, Chen (2023)", []),
        ("`x = 17`, $2^{17}$, [the 17th](a/17.md), <b title='17'>", []),
        ("text\n\n    indented = 17\n\n```\nfenced 17\n```\n", []),
        ("## 11 A title of a notebook\nTime: 45 minutes.", []),
        ("it says 17.\n\nSources: A 2211.17192 · B 17", ["17"]),
        ("1. first\n12. twelfth", []),
        ("| [11 Ulysses](11_u.ipynb) | asks |", []),
    ],
)
def test_what_counts_as_a_stated_number(text: str, numbers: list[str]) -> None:
    assert [one.text for one in stated_numbers(page(text))] == numbers


@pytest.mark.parametrize(
    ("text", "metric", "backed"),
    [
        ("a gain of 1.41x", 1.4142, True),
        ("a gain of 1.42x", 1.4142, False),
        ("a gain of 1.4x", 1.4142, True),
        ("down 25 %", -0.2497, True),
        ("down 24 %", -0.2497, False),
        ("25 % of it", 25, False),
        ("0.10 of it", 0.103, True),
        ("0.1 of it", 0.103, False),
        ("0.1 of it", 0.1, True),
        ("64 users", 64, True),
        ("64 users", 63.8, False),
        ("18 ms", 17.74, True),
        ("1 ms", 0.9, False),
        ("some 9,100 tokens", 9105, True),
        ("some 9,100 tokens", 9160, False),
        ("9,105 tokens", 9106, False),
        ("1,000 tokens", 1040, True),
        ("1,000 tokens", 1060, False),
        ("1,024 tokens", 1024, True),
        ("12 times", True, False),
    ],
)
def test_rounded_as_written(text: str, metric: object, backed: bool) -> None:
    (one,) = backing(page(text), {"m": metric}, ())
    assert isinstance(one, Backed) is backed


def test_what_else_may_stand_behind_a_number() -> None:
    by = [
        backing(page("of 0.55"), {}, [0.55]),
        backing(page("## A\nslices of 512", "budget = 512"), {}, ()),
        backing(page("## A\n70 % chat", "share = 0.7"), {}, ()),
        backing(page("a row of 32,000", "", **{"32,000": "a public draft's vocabulary"}), {}, ()),
    ]
    assert [one.by for (one,) in by] == ["claim", "input", "input", "constant"]


def test_an_input_counts_in_its_own_section_only() -> None:
    notebook = page("## A\nslices of 512", "x = 1")
    notebook["cells"] += page("## B\nno number", "budget = 512")["cells"]
    assert len(unbacked(notebook, {}, ())) == 1


def test_what_is_said_of_a_bare_number_and_of_a_bad_constant() -> None:
    assert (
        "cell 1: 1.41 x in '... a gain of 1.41x ...' has no metric behind it"
        in unbacked(page("a gain of 1.41x"), {}, ())[0]
    )
    stale = page("nothing", "", **{"17": "a size of nothing"})
    assert "lists '17', which the text does not state" in unbacked(stale, {}, ())[0]
    terse = page("it has 17 rows", "", **{"17": "size"})
    assert "has the reason 'size'; say what it is" in unbacked(terse, {}, ())[0]
