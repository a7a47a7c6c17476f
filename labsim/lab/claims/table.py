"""The claims under test: who says what, where, and in which figure. Read from `data/claims.csv`."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, fields
from pathlib import Path

from ...models.paths import data_directory

# The three texts under test, by their key in the file.
SOURCES = {
    "guide": 'a production guide, "EAGLE-3 speculative decoding in production" (a course lesson, in Chinese)',
    "article": "a report on DiDi's EAGLE-3 drafts and their USP training (in Chinese, with its reader's analysis)",
    "blog": "the vLLM blog on EAGLE 3.1 (2026-05-26), and the attention drift paper behind it (arXiv 2605.09992)",
}
_NUMBER = re.compile(r"(?<![\w.])\d*\.?\d+")


@dataclass(frozen=True)
class Claim:
    """One claim. `number` is the published figure as its source writes it."""

    id: str
    source: str
    section: str
    claim: str
    number: str
    test: str

    @property
    def figures(self) -> tuple[float, ...]:
        """The numbers of the published figure, in order."""
        return tuple(float(number) for number in _NUMBER.findall(self.number))


def claims_file() -> Path:
    """Where the claims stand."""
    return data_directory() / "claims.csv"


def read_claims(path: Path | None = None) -> dict[str, Claim]:
    """All claims by id, in the order of the file.

    Raises:
        ValueError: other columns than those of `Claim`, an id twice, an unknown source, or an empty cell.
    """
    path = path or claims_file()
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        wanted = [field.name for field in fields(Claim)]
        if reader.fieldnames != wanted:
            raise ValueError(f"{path}: columns are {reader.fieldnames}; right is {', '.join(wanted)}")
        claims: dict[str, Claim] = {}
        for line, row in enumerate(reader, start=2):
            if None in row or not all(row.values()):
                raise ValueError(f"{path}, line {line}: {row} has an empty cell or one too many")
            claim = Claim(**row)
            if claim.id in claims:
                raise ValueError(f"{path}, line {line}: claim {claim.id} stands there twice")
            if claim.source not in SOURCES:
                raise ValueError(f"{path}, line {line}: source is {claim.source!r}; known: {', '.join(SOURCES)}")
            claims[claim.id] = claim
    return claims
