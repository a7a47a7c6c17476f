"""Numbers in a notebook's text, and what stands behind each.

A sentence that states a number must rest on something that fails when the number is wrong. For every number in a
Markdown cell one of these must hold, looked for in this order:

    constant   the cell's metadata lists it with a reason, in `labsim.constants`: definitions, sizes of public models,
               published figures with their source, suggestions to try
    metric     a recorded metric of this notebook (`data/metrics`) rounds to it, as it is written
    claim      it stands in a published figure of a claim that this notebook tests (`data/claims.csv`)
    input      it is a literal in a code cell of the same section: what the text names as an input, the code uses

`unbacked` returns the others. What is no statement of a number is not looked at: code, formulas, links, sources, names
(H100, P99, EAGLE-3.1), references to notebooks, exercises and issues, dates, the time that a notebook takes, and whole
numbers up to ten without a unit of measure, which name things (step 1, K = 3) far more often than they measure them.

A number can be backed by coincidence: the lint does not understand sentences. Hence a metric backs a number of one
digit only if it is that number, and a percentage only as a share. `tests/lab/test_prose.py` plants false numbers in the
course's own sentences and counts how many are caught.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_UNIT = r"%|times\b|(?<=\d)x(?![\w(])|(?:per cent|ms|µs|GB/s|GB|MB|MiB|kB|TB|GiB|tokens?|users?|requests?)\b"
_NUMBER = re.compile(
    rf"(?<![\w.#/^_=])(?<!\w-)(\d[\d,]*\.?\d*|\.\d+)(?![\d.,]*\d)(?:[ -]?({_UNIT}))?(?![\w/]|-[A-Za-z])"
)
_RANGE = re.compile(r"(?<=\d)-(?=\.?\d)")
# What is no statement: dropped before numbers are looked for.
_DROPPED = (
    re.compile(r"^```.*?^```", re.M | re.S),
    re.compile(r"^ {4,}.*$", re.M),
    re.compile(r"^(?:Sources|Further reading):.*", re.M | re.S),
    re.compile(r"\$\$.*?\$\$", re.S),
    re.compile(r"\$[^$\n]+\$"),
    re.compile(r"`[^`]*`"),
    re.compile(r"\[\d\d (?=[^]]*\]\()"),
    re.compile(r"\]\([^)]*\)"),
    re.compile(r"<[^>]+>"),
    re.compile(r"\barXiv[: ]?\d{4}\.\d{4,5}|\b\d{4}\.\d{4,5}\b"),
    re.compile(r"\b\d{4}-\d\d-\d\d\b"),
    re.compile(r"\([12]\d{3}\)"),
    re.compile(r"\b(?:issue|PR) \d+|[\w./-]*#\d+"),
    re.compile(r"\b[Nn]otebooks? \d\d(?:(?:,| to| and) \d\d)*"),
    re.compile(r"\b[Ee]xercises? \d\d\.\d"),
    re.compile(r"^#+ \d\d\b", re.M),
    re.compile(r"\bTime: (?:about )?\d+ minutes"),
    re.compile(r"^ *\d+\. ", re.M),
    re.compile(
        r"\b(?:Llama|Qwen\d?|Kimi|SmolLM\d?|EAGLE|DeepSeek|vLLM|SGLang|Python|EPYC)[ -][\w.-]*\d[\w.]*(?:-\w+)*"
    ),
    re.compile(r"\b3\.1 over 3\b|\b3 and 3\.1\b|(?<![\d.])3\.1(?= (?:is|are|mend|against|less|where|only|does|has)\b)"),
)
_PERCENT = ("%", "per cent")
_COUNTS = ("token", "tokens", "user", "users", "request", "requests")


@dataclass(frozen=True)
class Stated:
    """One number in the text: as written, its unit if it has one, and where."""

    text: str
    unit: str
    cell: int
    around: str

    @property
    def value(self) -> Decimal:
        """What it says."""
        return Decimal(self.text.replace(",", ""))

    @property
    def names_a_thing(self) -> bool:
        """A small whole number without a unit of measure."""
        return self.unit in ("", *_COUNTS) and "." not in self.text and self.value <= 10

    def backed_by(self, value: float) -> bool:
        """Whether a metric's value is this number, as far as it is written; its sign is said in words."""
        given, written = Decimal(repr(abs(float(value)))), self.value
        if self.unit in _PERCENT:
            given *= 100
        digits = len(written.as_tuple().digits)
        counted = "." not in self.text and self.unit in ("", *_COUNTS)
        rounded = counted and written >= 1000  # "some 9,100 tokens": its zeros are not stated, two digits are
        if (counted and not rounded) or digits < 2:
            return given == written
        plain = self.text.replace(",", "")
        zeros = min(len(plain) - len(plain.rstrip("0")), digits - 2) if rounded else 0
        step = Decimal(1).scaleb(zeros if rounded else written.as_tuple().exponent)
        return abs(given - written) <= step * Decimal("0.5000001")


@dataclass(frozen=True)
class Backed:
    """A number and what stands behind it: metric, claim, input or constant, and which."""

    stated: Stated
    by: str
    what: str


def stated_numbers(notebook: Mapping[str, Any]) -> Iterator[Stated]:
    """Every number that a Markdown cell states. `cell` counts from 1."""
    for position, cell in enumerate(notebook["cells"], start=1):
        if cell["cell_type"] != "markdown":
            continue
        text = _RANGE.sub(" - ", _statements("".join(cell["source"])))
        for match in _NUMBER.finditer(text):
            around = " ".join(text[max(0, match.start() - 50) : match.end() + 30].split())
            one = Stated(match[1].rstrip(",."), match[2] or "", position, around)
            if not one.names_a_thing:
                yield one


def backing(
    notebook: Mapping[str, Any], metrics: Mapping[str, object], figures: Iterable[float]
) -> list[Backed | Stated]:
    """Each stated number with what backs it; a bare `Stated` where nothing does.

    Args:
        notebook: the source notebook.
        metrics: value by name, of this notebook.
        figures: the published numbers of the claims that this notebook tests.
    """
    values = {name: one for name, one in metrics.items() if isinstance(one, int | float) and not isinstance(one, bool)}
    figures = tuple(figures)
    sections = _section_literals(notebook)
    found: list[Backed | Stated] = []
    for one in stated_numbers(notebook):
        name = next((name for name, value in values.items() if one.backed_by(value)), None)
        constants = _constants(notebook["cells"][one.cell - 1])
        if one.text in constants:
            found.append(Backed(one, "constant", constants[one.text]))
        elif name is not None:
            found.append(Backed(one, "metric", name))
        elif any(float(one.value) == figure for figure in figures):
            found.append(Backed(one, "claim", one.text))
        elif any(float(one.value) in (literal, 100 * literal) for literal in sections[one.cell - 1]):
            found.append(Backed(one, "input", one.text))
        else:
            found.append(one)
    return found


def unbacked(notebook: Mapping[str, Any], metrics: Mapping[str, object], figures: Iterable[float]) -> list[str]:
    """One line per number that nothing stands behind, and per constant that the text does not state."""
    all_found = backing(notebook, metrics, figures)
    problems = [
        f"cell {one.cell}: {one.text}{one.unit and ' ' + one.unit} in '... {one.around} ...' has no metric behind "
        f"it; record it, or say in the cell's metadata what it is: labsim.constants {{{one.text!r}: reason}}"
        for one in all_found
        if isinstance(one, Stated)
    ]
    for position, cell in enumerate(notebook["cells"], start=1):
        for text, reason in _constants(cell).items():
            if text not in cell["source"]:
                problems.append(
                    f"cell {position}: labsim.constants lists {text!r}, which the text does not state; remove it"
                )
            if not isinstance(reason, str) or len(reason) < 8:
                problems.append(f"cell {position}: labsim.constants {text!r} has the reason {reason!r}; say what it is")
    return problems


def _constants(cell: Mapping[str, Any]) -> Mapping[str, str]:
    return cell["metadata"].get("labsim", {}).get("constants", {})


def _statements(source: str) -> str:
    """The text without what states no number."""
    for pattern in _DROPPED:
        source = pattern.sub(" ", source)
    return source


def _section_literals(notebook: Mapping[str, Any]) -> list[frozenset[float]]:
    """Per cell, the number literals in the code of its section: from a heading to the next one."""
    from IPython.core.inputtransformer2 import TransformerManager

    section, of_cell, literals = -1, [], {-1: set()}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and re.search(r"^#+ ", source, re.M):
            section += 1
            literals[section] = set()
        of_cell.append(section)
        if cell["cell_type"] == "code" and "parameters" not in cell["metadata"].get("tags", ()):
            try:
                tree = ast.parse(TransformerManager().transform_cell(source))
            except SyntaxError:
                continue  # the notebook lint names it
            literals[section] |= {
                abs(float(node.value))
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant)
                and isinstance(node.value, int | float)
                and not isinstance(node.value, bool)
            }
    return [frozenset(literals[section]) for section in of_cell]
