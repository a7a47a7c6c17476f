"""Two drafts side by side, drawn from their configs: what differs is drawn in another colour."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ..drafts.eagle_config import EagleConfig
from .plots import _RC
from .style import BLUE, GREEN, VERMILLION

WIDTH, HEIGHT = 1.5, 0.56


def draw_drafts(configs: Sequence[EagleConfig], names: Sequence[str]) -> Figure:
    """One column per draft, from the target's layers at the bottom to the draft's head at the top.

    ValueError for a config that is not of EAGLE-3's family.
    """
    if wrong := next((config for config in configs if config.generation != 3), None):
        raise ValueError(f"a config of the kind {wrong.kind} cannot be drawn here; right is EAGLE-3 or EAGLE-3.1")
    with rc_context(_RC):
        fig = Figure(figsize=(4.9 * len(configs), 7.4), layout="constrained")
        for column, (config, name) in enumerate(zip(configs, names, strict=True)):
            ax = fig.add_subplot(1, len(configs), column + 1)
            ax.grid(False)
            ax.set(xlim=(-0.4, 6.9), ylim=(-0.7, 10.9), xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
            ax.set_title(name)
            draw_draft(ax, config)
    return fig


def draw_draft(ax: Axes, config: EagleConfig) -> None:
    """One draft, in the order in which it computes."""
    places = (0.75, 2.5, 4.25)
    for x, word, layer in zip(places, ("low", "middle", "high"), config.feature_layers, strict=True):
        box(ax, x, 0.0, f"{word}\n(after {layer} layers)", "#e8eef5", height=0.9)
        if config.fc_norm:
            arrow(ax, (x, 0.45), (x, 0.97))
            box(ax, x, 1.25, "RMSNorm", GREEN, bold=True)
            arrow(ax, (x, 1.53), (2.5 + (x - 2.5) * 0.35, 2.22))
        else:
            arrow(ax, (x, 0.45), (2.5 + (x - 2.5) * 0.35, 2.22))
    if config.norm_before_fc:
        ax.text(4.9, 2.5, "one norm over all", fontsize=9, color=GREEN)
    box(ax, 2.5, 2.5, "concat, fc", "#d6e4f0")
    arrow(ax, (2.5, 2.78), (2.5, 3.34))
    ax.text(2.62, 3.0, "depth 1", fontsize=9, color="#444444")
    box(ax, 2.5, 3.62, "state", "white", bold=True)
    box(ax, 0.45, 3.62, "token", "white", bold=True, width=1.1)
    arrow(ax, (0.45, 3.9), (1.2, 4.56))
    arrow(ax, (2.5, 3.9), (2.5, 4.56))
    box(ax, 1.7, 4.84, "norm each, concat", "#d6e4f0", width=2.9)
    arrow(ax, (1.7, 5.12), (1.7, 5.58))
    box(ax, 1.7, 5.82, "attention, o_proj", "#d6e4f0", width=2.9, height=0.4)
    arrow(ax, (1.7, 6.05), (1.7, 6.44))
    box(ax, 1.7, 6.7, "+  =  r", "white", bold=True, width=1.3, height=0.46)
    arrow(ax, (1.7, 6.95), (1.7, 7.34))
    box(ax, 1.7, 7.57, "norm, SwiGLU", "#d6e4f0", width=2.9, height=0.4)
    arrow(ax, (1.7, 7.8), (1.7, 8.2))
    box(ax, 1.7, 8.5, "+  =  a", "white", bold=True, width=1.3)
    # The residual stream passes both blocks by: the state round attention, their sum r round the feed-forward.
    residual(ax, [(3.25, 3.62), (3.75, 3.62), (3.75, 6.65)], (2.38, 6.65))
    ax.text(3.85, 5.1, "residual", fontsize=9, color="#777777", rotation=90, va="center")
    residual(ax, [(2.38, 6.8), (3.35, 6.8), (3.35, 8.4)], (2.38, 8.4))
    arrow(ax, (1.7, 8.8), (1.7, 9.18))
    box(ax, 1.7, 9.48, "final norm", "#d6e4f0")
    arrow(ax, (1.7, 9.78), (1.7, 10.16))
    box(ax, 1.7, 10.46, "head", "white", bold=True, width=1.1)
    start = 9.48 if config.norm_output else 8.6
    colour = GREEN if config.norm_output else VERMILLION
    words = "norm(a)\nfeeds the\nnext depth" if config.norm_output else "a, raw,\nfeeds the\nnext depth"
    left = 2.45 if config.norm_output else 2.35
    line = {"color": colour, "linewidth": 2.4}
    ax.plot([left, 5.2, 5.2, 3.9], [start, start, 3.42, 3.42], **line)
    ax.annotate("", (3.27, 3.42), (3.95, 3.42), arrowprops={"arrowstyle": "-|>", **line})
    ax.text(5.32, 6.2, words, fontsize=10, color=colour, fontweight="bold", va="center")


def residual(ax: Axes, way: Sequence[tuple[float, float]], end: tuple[float, float]) -> None:
    """A grey line along `way`, ending in an arrow."""
    line = {"color": "#777777", "linewidth": 1.4}
    ax.plot(*zip(*way, strict=True), **line)
    ax.annotate("", end, way[-1], arrowprops={"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, **line})


def box(
    ax: Axes,
    x: float,
    y: float,
    words: str,
    colour: str,
    *,
    width: float = WIDTH,
    height: float = HEIGHT,
    bold: bool = False,
) -> None:
    """A rounded box around its centre."""
    ax.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - height / 2),
            width,
            height,
            boxstyle="round,pad=0.02,rounding_size=0.08",
            facecolor=colour,
            edgecolor=BLUE if colour != GREEN else GREEN,
            linewidth=1.2,
        )
    )
    light = colour == GREEN
    ax.text(
        x, y, words, ha="center", va="center", fontsize=9 if "\n" in words else 10,
        color="white" if light else "#111111", fontweight="bold" if bold else "normal",
    )  # fmt: skip


def arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "#555555", "linewidth": 1.2})
