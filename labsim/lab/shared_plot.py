"""A row's losses drawn as a map: which position is wrong in which step, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .plots import _RC
from .shared_row import WRONG_FROM

SMALLEST, LARGEST = 1e-4, 1.0  # nats; the colours' ends, the same in all panels


def draw_symptoms(maps: Mapping[str, Sequence[Sequence[float]]], chunk: int) -> Figure:
    """One panel per name: positions across, steps down, colour by the difference in nats; right ones are white, and
    grey is where a step has no guess.

    Lines mark where chunks meet. A step has fewer guesses than the one before it.
    """
    with rc_context(_RC):
        fig = Figure(figsize=(9.6, 1.1 + 0.95 * len(maps)), layout="constrained")
        panels = fig.subplots(len(maps), 1, sharex=True, squeeze=False)[:, 0]
        for ax, (name, rows) in zip(panels, maps.items(), strict=True):
            width = len(rows[0])
            grid = np.full((len(rows), width), np.nan)
            for step, row in enumerate(rows):
                grid[step, : len(row)] = [off if off > WRONG_FROM else np.nan for off in row]
            drawn = ax.imshow(
                grid, cmap="cividis_r", norm=LogNorm(SMALLEST, LARGEST), aspect="auto", interpolation="none"
            )
            for step, row in enumerate(rows):
                none = Rectangle((len(row) - 0.5, step - 0.5), width - len(row), 1, facecolor="#cccccc", linewidth=0)
                ax.add_patch(none)
            for border in range(chunk, width, chunk):
                ax.axvline(border - 0.5, color="#444444", linewidth=0.8)
            ax.set_yticks(range(len(rows)))
            ax.set_ylabel("step")
            ax.set_title(name, fontsize=12)
            ax.grid(False)
        panels[-1].set_xlabel("position in the row")
        fig.colorbar(drawn, ax=list(panels), label="difference of the loss (nats)")
    return fig
