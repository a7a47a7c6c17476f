"""Tables: rows of numbers on the page, and the measured ones that the course ships."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from ..sim.errors import unknown_name

_NUMBER = re.compile(r"[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?( ?%|x)?|True|False")
DATA = Path(__file__).resolve().parents[2] / "data"


def read_table(name: str) -> list[dict[str, str]]:
    """Rows of `data/<name>.csv`; lines that start with # (the file's source) are left out.

    ValueError with the nearest match for a name that is not there.
    """
    path = DATA / f"{name}.csv"
    if not path.exists():
        known = [str(p.relative_to(DATA).with_suffix("")) for p in DATA.rglob("*.csv")]
        raise unknown_name("table", name, known)
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def table(rows: Sequence[Mapping[str, Any]], caption: str = "") -> None:
    """Show rows as a table, the first row's keys as header; numbers to four digits, aligned right at their points."""
    if not rows:
        raise ValueError("rows is empty; allowed: at least one row")
    names = list(rows[0])
    cells = [list(row) for row in zip(*(_texts([row[name] for row in rows]) for name in names), strict=True)]
    if not InteractiveShell.initialized():
        print(caption, *(", ".join(row) for row in [names, *cells]), sep="\n")
        return
    # A word in a column of numbers, such as "does not fit", stands where they stand; a list such as "1, 2" is words.
    numeric = [
        any(_NUMBER.fullmatch(text) for text in column) and not any(", " in text for text in column)
        for column in zip(*cells, strict=True)
    ]
    style = [f"text-align:{'right' if number else 'left'};padding:2px 10px" for number in numeric]
    head = "".join(f'<th style="{s}">{html.escape(n)}</th>' for n, s in zip(names, style, strict=True))
    body = "".join(
        "<tr>" + "".join(f'<td style="{s}">{html.escape(c)}</td>' for c, s in zip(row, style, strict=True)) + "</tr>"
        for row in cells
    )
    title = f'<caption style="text-align:left;padding:2px 10px">{html.escape(caption)}</caption>' if caption else ""
    page = f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    plain = "\n".join([caption, *("  ".join(row) for row in [names, *cells])])
    display({"text/html": page, "text/plain": plain}, raw=True)


def _texts(column: Sequence[Any]) -> list[str]:
    """The cells of a column, written alike so that they can be compared downwards.

    Its floats have equally many decimals, four at most; an exact zero stays 0, and a column of very small or very large
    numbers is left as it is. Where an integer has five digits, thousands are set apart.
    """
    floats = [value for value in column if isinstance(value, float)]
    short = [f"{value:.4g}" for value in floats]
    alike = not any("e" in text for text in short) and all(abs(value) >= 1e-3 for value in floats if value)
    places = min(4, max((len(text.partition(".")[2]) for text in short), default=0))
    integers = [value for value in column if isinstance(value, int)]
    comma = "," if any(abs(value) >= 10_000 for value in integers) else ""

    def text(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:z.{places}f}" if value and alike else f"{value:z.4g}"  # z: no minus before 0.00
        return f"{value:{comma}}" if isinstance(value, int) and not isinstance(value, bool) else str(value)

    return [text(value) for value in column]
