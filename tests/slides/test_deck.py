"""What a deck holds of a notebook, and the gates that read files: each goes red on a planted fault."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_output

from labsim.lab.exercise import find_exercise
from labsim.lab.explorer import Frame, Series, Slider, explore
from labsim.lab.slides import static
from labsim.lab.slides.deck import make_deck
from labsim.lab.slides.gates import judge_files
from labsim.lab.slides.notes import widget_note
from labsim.lab.slides.palette import MINIMUM, distance, seen, too_close
from labsim.lab.stepper import RunView, Stepper, StepView
from labsim.lab.style import LOOKS

from .conftest import code, markdown, tiny

MakeDeck = Callable[..., Path]


def soup_of(deck: Path) -> BeautifulSoup:
    return BeautifulSoup(deck.read_text(encoding="utf-8"), "html.parser")


def test_a_clean_deck_passes(deck_of: MakeDeck) -> None:
    assert judge_files([], [deck_of()]) == []


def test_cells_become_slides_and_what_is_skipped_stays_away(deck_of: MakeDeck) -> None:
    soup = soup_of(deck_of())
    columns = soup.select(".slides > section")
    assert [len(column.find_all("section")) for column in columns] == [2, 1, 1]
    assert "k: int" not in soup.get_text()
    assert soup.select_one("section section:nth-of-type(2) .kicker").get_text() == "01 A title"
    assert [one.get_text() for one in soup.select(".fragment > .jp-Cell p")] == ["Said last."]


def test_a_solution_waits_for_the_next_key(deck_of: MakeDeck) -> None:
    """In a student's deck the empty form stands there from the beginning."""
    assert ["def f" in one.get_text() for one in soup_of(deck_of()).select(".fragment")] == [True, False]
    theirs = soup_of(deck_of(student=True))
    assert ["def f" in one.get_text() for one in theirs.select(".fragment")] == [False]
    assert "def f" in theirs.get_text()


def test_code_is_folded_but_that_of_an_exercise(deck_of: MakeDeck) -> None:
    more = (code("task('01.1')"), code("shown = 1", tags=["show-input"]), code("hidden = 1", tags=["hide-input"]))
    soup = soup_of(deck_of(*more, code("\n".join(["long = 1"] * 30), text="x")))
    folded = [one.get_text() for one in soup.select("details.code")]
    assert [text.split() for text in folded[:3]] == [
        ["code", "1", "+", "1"],
        ["code", "a", "+", "b"],
        ["code", "widget"],
    ]
    everything = " ".join(one.get_text() for one in soup.select(".highlight"))
    assert "def f" in everything and "shown" in everything
    assert "hidden" not in everything and "task" not in everything
    assert ["long" in one["class"] for one in soup.select("details.code")] == [False, False, True, True]


def test_lines_that_only_record_are_not_shown(deck_of: MakeDeck) -> None:
    shown = code(
        'a = 1\nrecord(\n    "a",\n    a,\n)\nfor b in "xy":\n    record_interval(b, 1, 0, 2)\n'
        'if a:\n    record("a", a)\nelse:\n    a = 2\nfor c in "xy":\n    record(c, 1)\n    print(c)',
        tags=["show-input"],
    )
    (text,) = [one.get_text() for one in soup_of(deck_of(shown)).select(".highlight") if "a = 1" in one.get_text()]
    assert text.strip() == 'a = 1\nif a:\n    record("a", a)\nelse:\n    a = 2\nfor c in "xy":\n    print(c)'


def test_code_that_only_shows_something_is_not_shown_beside_it(deck_of: MakeDeck) -> None:
    sources = ("show_source(f)\nshow_source(g)", 'from a import b\n\nquiz("01")', "show_source(f)\nx = 1", "import a")
    text = " ".join(one.get_text() for one in soup_of(deck_of(*(code(one, html="a") for one in sources))).select("pre"))
    assert "show_source(g)" not in text and "quiz" not in text and "x = 1" in text and "import a" in text


def test_notes_hold_what_a_teacher_needs_and_nothing_of_it_in_a_student_s_deck(deck_of: MakeDeck) -> None:
    found = find_exercise("01.1")
    notes = " ".join(one.get_text(" ") for one in soup_of(deck_of()).select("aside.notes"))
    assert "Say this aloud." in notes and f"{found.minutes} minutes" in notes and found.title in notes
    theirs = " ".join(one.get_text(" ") for one in soup_of(deck_of(student=True)).select("aside.notes"))
    assert "Say this aloud." in theirs and found.title not in theirs
    for mistake in found.check.misconceptions:
        assert mistake.name in notes and mistake.name not in theirs
    assert "Explorer: A line" in notes and "Explorer: A line" not in theirs
    notes = " ".join(notes.split())
    assert "Opens with K at 1: The line ends at 3. Then, K at 5: The line ends at 15." in notes


def test_an_explorers_note_moves_one_slider_at_a_time_to_its_farther_end() -> None:
    made = explore(
        lambda a, b: Frame([Series("s", [1, 2], [0, 1])], text=f"a {a}, b {b}"),
        {"a": Slider("first", (1, 2, 3), value=3, unit="m"), "b": Slider("second", ("x", "y"))},
        title="Two",
        x_label="x",
        y_label="y",
    )
    assert widget_note(made.get_state()).splitlines() == [
        "**Explorer: Two**",
        "",
        "- Opens with *first* at 3 m, *second* at x: a 3, b x",
        "- Then, *first* at 1 m: a 1, b x",
        "- Then, *second* at y: a 3, b y",
    ]


def test_a_steppers_note_says_where_it_opens_and_other_widgets_have_none() -> None:
    run = RunView("by hand", "q", "a", True, (StepView((), "b", 0.5, "corrected"),))
    stepper = Stepper([run, run], title="Steps", run=1, position=3)
    note = widget_note(stepper.get_state())
    assert note.startswith("**Explorer: Steps**") and f"Opens on *by hand*: {stepper.text}" in note
    assert widget_note({"data": []}) == widget_note({}) == ""


def test_a_number_and_its_per_cent_stay_on_one_line(deck_of: MakeDeck) -> None:
    text = soup_of(deck_of(markdown("A mean of 41 % and a % of 3."))).get_text()
    assert "of 41\N{NO-BREAK SPACE}% and a % of" in text


def test_links_lead_from_deck_to_deck(deck_of: MakeDeck) -> None:
    assert [one["href"] for one in soup_of(deck_of(decks=("02_more",))).select("p a")] == ["02_more.slides.html"]
    soup = soup_of(deck_of())
    assert soup.select("p a") == [] and "The next one, words." in soup.get_text()


def test_a_widget_whose_state_was_not_saved_is_an_error(deck_of: MakeDeck, tmp_path: Path) -> None:
    deck_of()
    notebook = nbformat.read(tmp_path / "01_tiny.ipynb", as_version=4)
    del notebook.metadata["widgets"]
    nbformat.write(notebook, tmp_path / "01_tiny.ipynb")
    with pytest.raises(ValueError, match="a widget's state is not saved"):
        make_deck(tmp_path / "01_tiny.ipynb", tmp_path, decks=())


def test_no_directory_of_this_machine_is_told(deck_of: MakeDeck) -> None:
    page = deck_of(code("x", text=f"at {Path.home()}/somewhere\n")).read_text(encoding="utf-8")
    assert "at ~/somewhere" in page and f"{Path.home()}/" not in page


def test_progress_leaves_nothing_not_even_a_blank_line(deck_of: MakeDeck) -> None:
    told = code("widget", "slide", html="<i>drawn</i>")
    told.outputs = [new_output("stream", name="stderr", text=text) for text in ("\r3 of 4", "\r4 of 4", "\n")]
    told.outputs.append(new_output("display_data", data={"text/html": "<i>drawn</i>"}))
    *_, last = soup_of(deck_of(told)).select(".slides > section")
    assert len(last.select(".jp-OutputArea-child")) == 1


def test_long_output_is_cut_and_says_so(deck_of: MakeDeck) -> None:
    text = soup_of(deck_of(code("x", text="\n".join(f"row {n}" for n in range(100))))).get_text()
    assert "row 24" in text and "row 25\n" not in text and "and 75 more lines, in the notebook" in text


def test_a_cell_without_a_slide_type_is_found() -> None:
    notebook = tiny(markdown("fine"))
    assert static.without_slide_type(notebook) == []
    notebook.cells[2].metadata.pop("slideshow")
    notebook.cells[3].metadata.slideshow.slide_type = "slyde"
    assert [one.partition(":")[0] for one in static.without_slide_type(notebook)] == ["cell 3", "cell 4"]


@pytest.mark.parametrize(
    "planted",
    [
        '<script src="https://cdn.example/a.js"></script>',
        '<link rel="stylesheet" href="//cdn.example/a.css">',
        '<img alt="a" src="http://cdn.example/a.png">',
        '<iframe title="a" src="https://cdn.example/"></iframe>',
        '<style>p { background: url("https://cdn.example/a.png"); }</style>',
        '<style>@import "https://cdn.example/a.css";</style>',
        '<p style="background: url(//cdn.example/a.png)">a</p>',
        '<script type="module">import x from "https://cdn.example/a.js";</script>',
        '<script type="module">const x = await import("https://cdn.example/a.js");</script>',
        '<script>fetch(`https://cdn.example/a.json`)</script>',
        '<svg><use xlink:href="https://cdn.example/a.svg#b"></use></svg>',
    ],
)  # fmt: skip
def test_an_address_on_another_host_is_found(planted: str, deck_of: MakeDeck) -> None:
    assert [f.gate for f in judge_files([], [deck_of(code("x", html=planted))])] == ["external address"]


def test_a_hyperlink_loads_nothing(deck_of: MakeDeck) -> None:
    assert (
        judge_files([], [deck_of(markdown("[paper](https://arxiv.org/abs/2211.17192), see https://example.org"))]) == []
    )


def test_an_address_in_the_assets_is_found(deck_of: MakeDeck) -> None:
    deck = deck_of()
    (deck.parent / "assets" / "more.css").write_text("@font-face { src: url(https://cdn.example/a.woff) }")
    (deck.parent / "assets" / "more.js").write_text('import("https://cdn.example/a.js")')
    assert [f.text for f in judge_files([], [deck])] == [
        "more.css: https://cdn.example/a.woff",
        "more.js: https://cdn.example/a.js",
    ]


def test_a_missing_file_and_a_picture_without_words_are_found(deck_of: MakeDeck) -> None:
    deck = deck_of(code("x", html='<img src="data:,"><img alt=" " src="data:,"><a href="nowhere.html">a</a>'))
    gates = [finding.gate for finding in judge_files([], [deck])]
    assert sorted(gates) == ["alternative text", "alternative text", "missing file"]
    next((deck.parent / "assets").rglob("reveal.js")).unlink()
    assert any(re.match(r"assets/.*/reveal\.js$", one) for one in static.missing_files(deck))


def test_colours_that_some_eyes_cannot_tell_apart_are_found() -> None:
    assert too_close() == []
    red, green = "#D1495B", "#8A7F3F"
    assert distance(red, green) > 2 * MINIMUM  # most people see two colours
    assert any("for deutan sight" in one for one in too_close([red, green]))


# Vienot, Brettel and Mollon 1999, in linear light: another way to the same eyes.
VIENOT = {
    "protan": ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0)),
    "deutan": ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0)),
}


@pytest.mark.parametrize("eye", VIENOT)
def test_the_simulation_agrees_with_an_independent_one(eye: str) -> None:
    def other(colour: str) -> str:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        mixed = [min(1, max(0, sum(a * b for a, b in zip(row, light, strict=True)))) for row in VIENOT[eye]]
        coded = [12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in mixed]
        return "#" + "".join(f"{round(255 * c):02x}" for c in coded)

    for look in LOOKS:
        apart, unseen = distance(seen(look.colour, eye), other(look.colour)), distance(look.colour, other(look.colour))
        assert apart < 12 and (apart < 0.7 * unseen or unseen < 1)
