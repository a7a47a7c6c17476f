"""Verdicts: what a check says about an answer, in words.

A verdict is one headline, a few lines of evidence and, when the mistake is a known one, its name. It is data first: the
notebook shows `to_html()`, a terminal shows `to_text()`, and the runner reads `to_json()` under the MIME type
`EXERCISE_MIME` to assert that every exercise of a solved notebook passes.

Lines may hold `code` between backticks and a *stressed* word between asterisks; everything else is shown literally.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

EXERCISE_MIME = "application/vnd.labsim.exercise+json"


class Status(StrEnum):
    """The six things a check can say."""

    PASSED = "passed"
    NOT_ATTEMPTED = "not attempted"
    MISCONCEPTION = "misconception"
    WRONG = "wrong"
    ERROR = "error"
    TOO_SLOW = "too slow"


# A mark and a word beside the colour: the verdict survives colour blindness and a black-and-white print.
_MARKS = {
    Status.PASSED: ("✓", "passed", "#009E73"),
    Status.NOT_ATTEMPTED: ("○", "not attempted yet", "#8a8a8a"),
    Status.MISCONCEPTION: ("✗", "not yet", "#D55E00"),
    Status.WRONG: ("✗", "not yet", "#D55E00"),
    Status.ERROR: ("!", "your code raised an error", "#D55E00"),
    Status.TOO_SLOW: ("…", "stopped", "#D55E00"),
}


_EMPHASIS = re.compile(r"(?<![\w*])\*([^\s*](?:[^*]*[^\s*])?)\*(?![\w*])")  # never a product such as a*b*c


@dataclass(frozen=True)
class Verdict:
    """One answer, judged. `misconception` is the name of a known mistake, else None."""

    status: Status
    headline: str
    details: tuple[str, ...] = ()
    misconception: str | None = None

    @property
    def passed(self) -> bool:
        """True for a right answer."""
        return self.status is Status.PASSED

    def with_details(self, *lines: str) -> Verdict:
        """The same verdict with further lines of detail; empty lines are dropped."""
        return replace(self, details=(*self.details, *(line for line in lines if line)))

    def to_json(self, exercise_id: str) -> dict[str, str | None]:
        """The record that the runner reads: id, status and the named misconception."""
        return {"id": exercise_id, "status": str(self.status), "misconception": self.misconception}

    def to_text(self, label: str = "") -> str:
        """Plain text: `label: ✗ not yet. Headline`, then one indented line per detail."""
        mark, word, _ = _MARKS[self.status]
        first = f"{label}: {mark} {word}. {self.headline}" if label else f"{mark} {word}. {self.headline}"
        return "\n".join([first, *(_indent(line) for line in self.details)])

    def to_html(self, label: str = "") -> str:
        """A small card; colours follow JupyterLab's theme and fall back to a light page."""
        mark, word, colour = _MARKS[self.status]
        name = f"{html.escape(label)}: " if label else ""
        if label.endswith("?"):
            name, word = f"{html.escape(label)} ", word.capitalize()
        body = "".join(f'<div style="margin-top:.3em">{markup(line)}</div>' for line in self.details)
        return (
            f'<div role="status" style="border-left:.4em solid {colour};padding:.45em .9em;margin:.3em 0;'
            "max-width:52em;background:var(--jp-layout-color1,#fff);color:var(--jp-content-font-color1,#1a1a1a);"
            'font-family:var(--jp-content-font-family,system-ui,sans-serif);line-height:1.5">'
            f"<div><strong>{mark} {name}{word}.</strong> {markup(self.headline)}</div>{body}</div>"
        )

    def __str__(self) -> str:
        return self.to_text()


def collect_statuses(notebook: Mapping[str, Any]) -> dict[str, str]:
    """Status by exercise id in an executed notebook (NotebookNode or parsed JSON); the last verdict counts."""
    bundles = (
        output.get("data", {}).get(EXERCISE_MIME) for cell in notebook["cells"] for output in cell.get("outputs", ())
    )
    return {bundle["id"]: bundle["status"] for bundle in bundles if bundle is not None}


def markup(line: str) -> str:
    """HTML of one line: escaped, with `code` spans, *emphasis* and line breaks kept."""
    escaped = html.escape(line).replace("\n", "<br>")
    parts = re.split(r"`([^`]+)`", escaped)  # every second one stood between backticks
    parts[::2] = [_EMPHASIS.sub(r"<em>\1</em>", part) for part in parts[::2]]
    style = "font-family:var(--jp-code-font-family,monospace);font-size:.93em;white-space:pre-wrap"
    parts[1::2] = [f'<code style="{style}">{part}</code>' for part in parts[1::2]]
    return "".join(parts)


def _indent(line: str) -> str:
    return "\n".join(f"    {part}" for part in line.splitlines())
