"""Tables on the page: a column with numbers in it lines up on the right, words stay on the left."""

from __future__ import annotations

import re

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from labsim.lab.tables import table


@pytest.fixture(autouse=True)
def shell(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    yield shell
    InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    ("column", "side"),
    [
        (["0.09", "does not fit"], "right"),
        (["1, 2, 4", "1"], "left"),
        ([16, "nowhere"], "right"),
        ([0.25, 1e-17], "right"),
        (["12.5%", "3e-16"], "right"),
        (["+1.2 %", "131,072"], "right"),
        (["1.79x"], "right"),
        ([True, False], "right"),
        (["2 x 8", "16 x 1"], "left"),
        (["1.2 to 1.4"], "left"),
        (["4 x h200", "K2"], "left"),
        (["h200", "-"], "left"),
    ],
)
def test_a_column_with_a_number_in_it_is_aligned_right(column, side):
    with capture_output() as captured:
        table([{"name": "word", "it": value} for value in column])
    page = captured.outputs[0].data["text/html"]
    sides = re.findall(r"<t[hd] style=\"text-align:(\w+)", page)
    assert sides[0::2] == ["left"] * (1 + len(column))
    assert sides[1::2] == [side] * (1 + len(column))
