"""Pictures of trees: where nodes stand, what is written, and what is told to those who do not see them."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from labsim.lab.plots import png
from labsim.lab.style import GREEN, GREY, ORANGE, contrast
from labsim.lab.tree_plot import MAX_TEXT, describe, draw_mask, draw_tree, layout, visible

TOKENS = ["The", " cat", " dog", "\n", " $x_1$ and more"]
PARENTS = [-1, 0, 0, 1, 2]


def boxes(fig: Figure) -> dict[str, object]:
    return {
        text.get_text(): text
        for text in fig.axes[0].texts
        if text.get_bbox_patch().get_boxstyle().__class__.__name__ == "Round"
    }


def edges(fig: Figure) -> list[tuple[str, float, str]]:
    return [
        (to_hex(line.get_color()).upper(), line.get_linewidth(), line.get_linestyle()) for line in fig.axes[0].lines
    ]


def test_depth_goes_right_and_leaves_stand_apart() -> None:
    places = layout(PARENTS)
    assert [x for x, _ in places] == [1, 2, 2, 3, 3]
    leaves = [places[3][1], places[4][1]]
    assert leaves == [0, -1]
    assert places[0][1] == pytest.approx(-0.5)


def test_no_two_nodes_share_a_place() -> None:
    parents = [-1, -1, 0, 0, 1, 2, 2, 5, 6, 7, 7]
    assert len(set(layout(parents))) == len(parents)


def test_a_chain_is_a_straight_line() -> None:
    assert layout([-1, 0, 1]) == [(1, 0), (2, 0), (3, 0)]


def test_accepted_rejected_and_added_differ_by_more_than_colour() -> None:
    fig = draw_tree(TOKENS, PARENTS, (0, 2), root="<s>", added=" ran")
    drawn = edges(fig)
    assert drawn.count((GREEN.upper(), 2.6, "-")) == 2
    assert drawn.count((GREY.upper(), 1.0, "-")) == 3
    assert drawn.count((ORANGE.upper(), 2.2, "--")) == 1
    assert set(boxes(fig)) == {"<s>", "The ✓", "·dog ✓", "·cat", "⏎", "·$x_1$·and·m…"[: MAX_TEXT - 1] + "…", "·ran +"}


def test_the_added_token_hangs_below_the_end_of_the_path() -> None:
    fig = draw_tree(["a", "b"], [-1, 0], (0, 1), added="c")
    last = fig.axes[0].lines[-1]
    assert list(last.get_xdata()) == [2, 3]
    fig = draw_tree(["a", "b"], [-1, 0], (), added="c")
    assert list(fig.axes[0].lines[-1].get_xdata()) == [0, 1]


def test_each_edge_carries_its_chance() -> None:
    fig = draw_tree(TOKENS, PARENTS, (), [0.9, 0.5, 0.25, 0.125, 1.0], added="x")
    numbers = [text.get_text() for text in fig.axes[0].texts if text.get_text()[:2] in ("0.", "1.")]
    assert numbers == ["0.90", "0.50", "0.25", "0.12", "1.00"]


def test_a_token_that_looks_like_mathematics_is_drawn_as_it_stands() -> None:
    """As mathematics, the first would lose its dollars and the second would be an error."""
    tokens = ["$x$", "$^_$"]
    for fig in (draw_tree(tokens, [-1, -1]), draw_mask(tokens, [[True, False], [False, True]], [3, 3])):
        texts = [text for text in fig.findobj(Text) if "$" in text.get_text() and text.get_visible()]
        assert {token for token in tokens if any(token in text.get_text() for text in texts)} == set(tokens)
        assert not any(text.get_parse_math() for text in texts)
        assert png(fig).startswith(b"\x89PNG")


def test_an_empty_draft_still_shows_what_the_target_says() -> None:
    fig = draw_tree([], [], root="a", added="b")
    assert set(boxes(fig)) == {"a", "b +"}
    assert png(fig).startswith(b"\x89PNG")


def test_lengths_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match="1 tokens and 2 parents"):
        draw_tree(["a"], [-1, 0])
    with pytest.raises(ValueError, match="2 tokens and 2 parents"):
        draw_tree(["a", "b"], [-1, 0], chances=[0.5])


def test_the_words_say_what_the_picture_shows() -> None:
    said = describe(TOKENS, PARENTS, (0, 2), added=" ran")
    assert said == (
        "A draft tree of 5 nodes and depth 3. Accepted path: The, ·dog; 3 nodes were drafted in vain. "
        "The target adds ·ran."
    )
    assert "Accepted path: nothing; 5 nodes" in describe(TOKENS, PARENTS)


def test_the_mask_fills_exactly_what_is_seen() -> None:
    mask = [[True, False, False], [True, True, False], [False, False, True]]
    fig = draw_mask(["a", "b", "c"], mask, [7, 8, 7])
    white = [patch.get_facecolor()[:3] == (1.0, 1.0, 1.0) for patch in fig.axes[0].patches]
    assert white == [not seen for row in mask for seen in row]
    hatched = [bool(patch.get_hatch()) for patch in fig.axes[0].patches]
    assert [i for i, yes in enumerate(hatched) if yes] == [0, 4, 8]
    assert [label.get_text() for label in fig.axes[0].get_yticklabels()] == ["a  @7", "b  @8", "c  @7"]


@pytest.mark.parametrize(
    ("token", "shown"),
    [(" a b", "·a·b"), ("  ", "␣␣"), ("\n\t", "⏎⇥"), ("", ""), (None, ""), ("x" * 30, "x" * 11 + "…")],
)
def test_blanks_are_visible_and_long_tokens_cut(token: str | None, shown: str) -> None:
    assert visible(token) == shown


def test_lines_stand_out_from_the_page() -> None:
    assert contrast(GREEN, "#ffffff") > 3 and contrast(GREY, "#ffffff") > 3
