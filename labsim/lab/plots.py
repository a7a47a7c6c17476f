"""Figures for the notebooks: matplotlib with the house style, and alt text that cannot be forgotten.

    fig, ax = axes("concurrency (requests)", "speed-up (x)", title="Speculation stops paying")
    line(ax, concurrency, speedup, "K = 3")
    band(ax, concurrency, mean, low, high, "Monte Carlo, 95 %")
    reference(ax, 1.0, "no gain")
    show(fig, alt="Speed-up falls from 1.9 at concurrency 1 to 0.8 at 256 and crosses 1 at about 90.")

Figures are made without pyplot: no global state, nothing drawn twice, nothing left open.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from .style import look

# Sizes are chosen for a projector: 12 pt in a figure 7 inches wide.
_RC = {
    "font.size": 12,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    # No frame, but a ground: the grid does not run through its words.
    "legend.edgecolor": "none",
    "legend.fancybox": False,
    "legend.framealpha": 0.85,
    "legend.handlelength": 3.2,
    "lines.linewidth": 2.0,
    "lines.markersize": 6,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


def axes(
    x_label: str,
    y_label: str,
    title: str = "",
    *,
    columns: int = 1,
    size: tuple[float, float] | None = None,
    x_scale: str = "linear",
    y_scale: str = "linear",
) -> tuple[Figure, Any]:
    """A figure with one pair of axes, or a list of `columns` of them side by side.

    Labels carry the unit: "time (ms)", "speed-up (x)". ValueError for an empty one.
    """
    if not x_label or not y_label:
        raise ValueError(f"x_label, y_label are {x_label!r}, {y_label!r}; allowed: a quantity with its unit, not empty")
    with rc_context(_RC):
        fig = Figure(figsize=size or (7.0 if columns == 1 else 4.6 * columns, 4.2), layout="constrained")
        found = [fig.add_subplot(1, columns, i + 1) for i in range(columns)]
        for ax in found:
            ax.set(xlabel=x_label, ylabel=y_label, xscale=x_scale, yscale=y_scale)
        if title and columns == 1:
            found[0].set_title(title)
        elif title:
            fig.suptitle(title, fontweight="bold")
    return fig, found[0] if columns == 1 else found


def line(ax: Axes, x: Sequence[float], y: Sequence[float], label: str, *, index: int | None = None, **options: Any):
    """A line in the look of series `index` (default: the next one on these axes)."""
    style = look(_next(ax) if index is None else index)
    with rc_context(_RC):
        (drawn,) = ax.plot(
            x,
            y,
            label=label,
            color=style.colour,
            dashes=style.dash or (None, None),
            marker=style.marker if len(x) <= 40 else None,
            **options,
        )
    _legend(ax)
    return drawn


def points(ax: Axes, x: Sequence[float], y: Sequence[float], label: str, *, index: int | None = None, **options: Any):
    """Markers without a line: measured values beside a predicted curve."""
    style = look(_next(ax) if index is None else index)
    with rc_context(_RC):
        (drawn,) = ax.plot(
            x, y, label=label, color=style.colour, marker=style.marker, linestyle="none", markersize=8, **options
        )
    _legend(ax)
    return drawn


def band(
    ax: Axes,
    x: Sequence[float],
    mean: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    label: str,
    *,
    index: int | None = None,
):
    """A line with its uncertainty: `low` and `high` are the ends of the interval. ValueError where they exclude it."""
    for i, (lower, middle, upper) in enumerate(zip(low, mean, high, strict=True)):
        if not lower <= middle <= upper:
            raise ValueError(f"band {label!r}: mean[{i}] is {middle}; allowed: between low {lower} and high {upper}")
    drawn = line(ax, x, mean, label, index=index)
    ax.fill_between(x, low, high, color=drawn.get_color(), alpha=0.2, linewidth=0)
    return drawn


def bars(ax: Axes, x: Sequence[Any], heights: Sequence[float], label: str = "", *, index: int | None = None, **options):
    """Bars in the look of series `index`, hatched from the second on."""
    number = _next(ax) if index is None else index
    with rc_context(_RC):
        hatch = ("", "//", "..", "xx", "--", "\\\\", "++")[number % 7]
        drawn = ax.bar(
            x, heights, label=label or None, color=look(number).colour, hatch=hatch, edgecolor="white", **options
        )
        ax.grid(axis="x", visible=False)
    if label:
        _legend(ax)
    return drawn


def reference(ax: Axes, y: float, label: str) -> None:
    """A thin horizontal line with its meaning written on it, such as 1.0 "no gain"."""
    ax.axhline(y, color="#444444", linewidth=1.2, linestyle=(0, (1, 2)))
    ax.annotate(
        label, (1, y), xycoords=("axes fraction", "data"), xytext=(-4, 4), textcoords="offset points",
        ha="right", va="bottom", fontsize=11, color="#444444",
    )  # fmt: skip


def png(fig: Figure, dpi: int = 110) -> bytes:
    """The figure as PNG bytes, without time stamps: the same figure gives the same bytes."""
    stream = io.BytesIO()
    fig.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
    return stream.getvalue()


def show(fig: Figure, alt: str) -> None:
    """Display the figure with its alt text, one or two sentences that say what the picture shows.

    The image goes out as an `<img alt=...>`: neither JupyterLab nor nbconvert 7.17 takes alt text from the metadata of
    an image/png output. ValueError for an empty alt text.
    """
    if not alt or not alt.strip():
        raise ValueError(f"alt is {alt!r}; allowed: a sentence that says what the figure shows")
    for axis in (one for ax in fig.axes for one in (ax.xaxis, ax.yaxis)):
        if isinstance(axis.get_major_locator(), FixedLocator):  # a logarithm's own small ticks do not go with these
            axis.set_minor_locator(NullLocator())
    data = base64.b64encode(png(fig)).decode("ascii")
    width = round(fig.get_figwidth() * 96)
    page = (
        f'<img alt="{html.escape(alt.strip(), quote=True)}" src="data:image/png;base64,{data}" '
        f'style="max-width:100%;width:{width}px;height:auto;background:#fff">'
    )
    if InteractiveShell.initialized():
        display({"text/html": page, "text/plain": alt.strip()}, raw=True)
    else:
        print(alt.strip())


def _next(ax: Axes) -> int:
    """How many series the axes have: labelled lines and bar groups."""
    lines = [one for one in ax.get_lines() if not one.get_label().startswith("_")]
    return len(lines) + sum(isinstance(one, BarContainer) for one in ax.containers)


def _legend(ax: Axes) -> None:
    with rc_context(_RC):
        ax.legend()
