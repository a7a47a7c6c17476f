"""The mask of one TTT step, drawn: queries down, the keys of step 0, 1, ... side by side."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .plots import _RC
from .style import BLUE, GREEN


def draw_unrolled_mask(
    words: Sequence[str], mask: Sequence[Sequence[bool]], positions: Sequence[int], title: str = ""
) -> Figure:
    """A filled square where the query of the row sees the key of the column; own branch hatched.

    ValueError when the mask has no whole number of blocks.
    """
    length = len(words)
    if any(len(row) % length for row in mask) or len(mask) != length:
        raise ValueError(f"a mask of {len(mask)} rows for {length} words needs blocks of {length} keys")
    blocks = len(mask[0]) // length
    with rc_context(_RC):
        fig = Figure(figsize=(2.2 + 0.3 * length * blocks, 1.7 + 0.32 * length), layout="constrained")
        ax = fig.add_subplot()
        ax.grid(False)
        ax.set_aspect("equal")
        for t, row in enumerate(mask):
            for at, seen in enumerate(row):
                block, j = divmod(at, length)
                look = {"facecolor": "white"}
                if seen:
                    look = {"facecolor": BLUE} if block == 0 else {"facecolor": GREEN, "hatch": "//"}
                place = (j + block * (length + 0.6) - 0.44, t - 0.44)
                ax.add_patch(Rectangle(place, 0.88, 0.88, edgecolor="#bbbbbb", linewidth=0.8, **look))
        right = blocks * (length + 0.6) - 0.6
        ax.set(xlim=(-0.6, right - 0.4), ylim=(length - 0.4, -0.6), ylabel="query: prefix up to")
        ticks = [(j + block * (length + 0.6), words[j]) for block in range(blocks) for j in range(length)]
        ax.set_xticks([at for at, _ in ticks], [word for _, word in ticks], rotation=90, fontsize=10)
        ax.set_yticks(range(length), [f"{word} @{at}" for word, at in zip(words, positions, strict=True)], fontsize=10)
        for block in range(blocks):
            name = "keys of step 0: true states" if block == 0 else f"keys of step {block}"
            middle = block * (length + 0.6) + (length - 1) / 2
            ax.text(middle, -0.75, name, ha="center", va="bottom", fontsize=10)
        for label in [*ax.get_xticklabels(), *ax.get_yticklabels()]:
            label.set_parse_math(False)
        ax.spines[["left", "bottom"]].set_visible(False)
        ax.tick_params(length=0)
        if title:
            ax.set_title(title, pad=24)
    return fig
