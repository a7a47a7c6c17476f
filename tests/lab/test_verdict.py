"""Marks in a verdict's lines: code and stress, and nothing that only looks like them."""

from __future__ import annotations

import re

import pytest

from labsim.lab.verdict import markup


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("one *of* two", "one <em>of</em> two"),
        ("*more than* that.", "<em>more than</em> that."),
        ("2*h*h and a * b * c", "2*h*h and a * b * c"),
        ("`*x*` in `a*b*c`", "<code>*x*</code> in <code>a*b*c</code>"),
        ("<b>\nnext", "&lt;b&gt;<br>next"),
        ("*open", "*open"),
    ],
)
def test_a_line_is_shown_literally_but_for_its_marks(line: str, shown: str) -> None:
    assert re.sub(r' style="[^"]*"', "", markup(line)) == shown
