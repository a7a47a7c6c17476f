"""The house style of figures: one place for colours, dashes and markers, used by matplotlib and by the explorers,
and the frame that all widgets stand in.

The hues are those of Okabe and Ito ("Color Universal Design", 2008), ordered so that the first five keep a contrast of
3:1 or more on a white page *and* on JupyterLab's dark one. Hue never stands alone: each series also has its own dashes
and its own marker, so that a figure survives colour blindness, a projector and a black-and-white print.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
GREY, ORANGE, SKY, YELLOW = "#757575", "#E69F00", "#56B4E9", "#F0E442"


@dataclass(frozen=True)
class Look:
    """How the n-th series of a figure is drawn. `dash` is in points (empty: solid); `marker` is matplotlib's name."""

    colour: str
    dash: tuple[float, ...]
    marker: str


LOOKS = (
    Look(BLUE, (), "o"),
    Look(VERMILLION, (7, 3), "s"),
    Look(GREEN, (2, 2), "^"),
    Look(PURPLE, (8, 3, 2, 3), "D"),
    Look(GREY, (4, 2, 1, 2, 1, 2), "v"),
    Look(ORANGE, (12, 3), "P"),
    Look(SKY, (3, 5), "X"),
)


def look(index: int) -> Look:
    """The look of series `index`, starting over after the last."""
    return LOOKS[index % len(LOOKS)]


def widget_css(name: str) -> str:
    """Style sheet of a widget: the common frame, then its own `name`.css. One text, so that it travels in the state."""
    folder = Path(__file__).parent
    return "".join((folder / f"{part}.css").read_text(encoding="utf-8") for part in ("widget", name))


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two #rrggbb colours, 1 to 21 (WCAG 2.2, relative luminance)."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
