"""Tables on a page: numbers of a column can be compared downwards."""

from __future__ import annotations

import pytest

from labsim.lab.tables import table


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ([0.2, 0.24, 0.5], ["0.20", "0.24", "0.50"]),
        ([0.0, 0.5087, 0.4], ["0", "0.5087", "0.4000"]),
        ([-0.0, -0.5], ["0", "-0.5"]),
        ([1036.24, 9.66, 0.25], ["1036.24", "9.66", "0.25"]),
        ([0.02222, 0.5172], ["0.0222", "0.5172"]),
        ([0.00012, 3.0], ["0.00012", "3"]),
        ([1e9, 0.5], ["1e+09", "0.5"]),
        ([1, 0.5, "does not fit", None], ["1", "0.5", "does not fit", "None"]),
        ([float("inf"), 0.25], ["inf", "0.25"]),
        ([512, 4096], ["512", "4096"]),
        ([4096, 131_072], ["4,096", "131,072"]),
        ([True, 20_000, 0.5], ["True", "20,000", "0.5"]),
    ],
)
def test_cells_of_a_column_are_written_alike(
    column: list[object], shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    table([{"n": number, "value": value} for number, value in enumerate(column)], caption="a caption")
    assert capsys.readouterr().out.splitlines() == [
        "a caption",
        "n, value",
        *(f"{n}, {v}" for n, v in enumerate(shown)),
    ]
