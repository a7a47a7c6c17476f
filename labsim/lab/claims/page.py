"""The claims page: `docs/claims.md`, written from findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..notebooks import read_notebook
from .findings import Verdict
from .judge import Judged
from .store import NotebookMetrics
from .table import SOURCES

_MARKS = {
    Verdict.REPRODUCED: "✓",
    Verdict.TREND: "≈",
    Verdict.NOT: "–",
    Verdict.REFUTED: "✗",
    Verdict.NOT_YET: "…",
}
_INTRODUCTION = """# Claims under test

Three texts make claims about speculative decoding; each is checked here against numbers that this course computes. This
page is written by `make claims` from metrics that the notebooks record, and a test fails when it says anything else: no
number on it is typed.

| verdict | means |
|---|---|
| ✓ reproduced | the figure is found here, within its interval or the tolerance of the claim's rule |
| ≈ trend only | the sign or the kind holds, in another size or under a condition that the claim does not name |
| – not reproduced | this target or this page does not show it, or the interval leaves it open |
| ✗ refuted | a count or a closed form contradicts it |
| … not yet measured | no recorded metric speaks to it |

Intervals are 95 %. Figures are those of `scale="ci"` and seed 0 unless another scale is named: what is measured on
`nano`, a model of 7 million parameters, says nothing about the size of an effect in an 8B model. Closed forms, counts
and the cost model do not depend on the scale. The rules stand in [labsim/lab/claims](../labsim/lab/claims), the claims
in [data/claims.csv](../data/claims.csv), the metrics in [data/metrics](../data/metrics).
"""


@dataclass(frozen=True)
class Place:
    """A section of a notebook in which something is computed: the heading above the cell, as every viewer shows it."""

    notebook: str
    heading: str

    @property
    def link(self) -> str:
        """The notebook with the section's anchor, as GitHub and the site make it."""
        return f"{self.notebook}#{anchor(self.heading)}"


def places(judged: Judged, recorded: Mapping[str, NotebookMetrics], notebooks: Path) -> list[Place]:
    """The sections that record what a claim's rule uses, as the notebooks stand now, in their order.

    Raises:
        ValueError: a recorded cell is no longer in its notebook.
    """
    found: dict[Place, int] = {}
    for use in judged.uses:
        number, name = use.split(".", 1)
        run = recorded.get(number)
        if run is not None and name in run.metrics:
            place, cell = _place(notebooks / run.notebook, run.metrics[name].cell, use)
            found[place] = min(cell, found.get(place, cell))
    first = {notebook: n for n, notebook in reversed([*enumerate(place.notebook for place in found)])}
    return sorted(found, key=lambda place: (first[place.notebook], found[place]))


def anchor(heading: str) -> str:
    """The anchor that GitHub and the site give to a heading."""
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in "_- ")
    return kept.replace(" ", "-")


def page(
    all_judged: Sequence[Judged], recorded: Mapping[str, NotebookMetrics], notebooks: Path, link: str = "../notebooks"
) -> str:
    """The page as Markdown. `link` is the path from the page to the notebooks."""
    counts = Counter(one.finding.verdict for one in all_judged)
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    parts = [_INTRODUCTION, f"{len(all_judged)} claims: {summary}.\n"]
    for key, name in SOURCES.items():
        rows = [_row(one, recorded, notebooks, link) for one in all_judged if one.claim.source == key]
        parts.append(f"## {name[0].upper()}{name[1:]}\n")
        parts.append(
            "| claim | published | measured here | verdict | where |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    return "\n".join(parts)


def _row(one: Judged, recorded: Mapping[str, NotebookMetrics], notebooks: Path, link: str) -> str:
    claim, found = one.claim, one.finding
    here = f"{found.here} ({one.basis})" if found.here else ""
    for scale, beside in one.at_scale.items():
        same = beside.here == found.here and beside.verdict == found.verdict
        here += f"<br>at scale {scale} {'the same' if same else f'{beside.here}: {beside.verdict}'}"
    where = "; ".join(_links(places(one, recorded, notebooks), link)) if found.here else ""
    cells = (
        f"**{claim.id}** {claim.claim} ({claim.section})",
        claim.number,
        here,
        f"{_MARKS[found.verdict]} **{found.verdict}**: {found.why}",
        where,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _links(found: Iterable[Place], link: str) -> list[str]:
    by_notebook: dict[str, list[Place]] = {}
    for place in found:
        by_notebook.setdefault(place.notebook, []).append(place)
    return [
        f"{notebook[:2]}: " + ", ".join(f"[{place.heading}]({link}/{place.link})" for place in there)
        for notebook, there in by_notebook.items()
    ]


def _place(path: Path, cell_id: str, use: str) -> tuple[Place, int]:
    """The section of a cell, and the cell's number."""
    heading = ""
    for number, cell in enumerate(read_notebook(path)["cells"]):
        if cell["cell_type"] == "markdown":
            heads = [line.lstrip("# ") for line in cell["source"].splitlines() if line.startswith("#")]
            heading = heads[-1] if heads else heading
        if cell.get("id") == cell_id:
            return Place(path.name, heading), number
    raise ValueError(
        f"{path.name} has no cell {cell_id}, where {use} was recorded; record again with labsim run --metrics"
    )
