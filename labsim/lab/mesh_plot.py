"""A mesh of ranks on nodes, drawn: who sends to whom, and which of it crosses nodes."""

from __future__ import annotations

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from .plots import _RC
from .style import look

HATCHES = {"all-to-all": "", "ring": "//"}


def talks(ring: int, ulysses: int, ulysses_inside: bool = True) -> dict[tuple[int, int], str]:
    """(sender, receiver) in order of the machines to what goes there: "ring" or "all-to-all"."""

    def place(r: int, u: int) -> int:
        return r * ulysses + u if ulysses_inside else u * ring + r

    found = {}
    for r in range(ring):
        for u in range(ulysses):
            found |= {(place(r, u), place(r, peer)): "all-to-all" for peer in range(ulysses) if peer != u}
            if ring > 1:
                found[place(r, u), place((r + 1) % ring, u)] = "ring"
    return found


def draw_talks(ring: int, ulysses: int, per_node: int) -> Figure:
    """Both orders of ranks side by side; thick lines are the borders of nodes."""
    world = ring * ulysses
    with rc_context(_RC):
        fig = Figure(figsize=(10.8, 6.0), layout="constrained")
        for column, inside in enumerate((True, False), start=1):
            ax = fig.add_subplot(1, 2, column)
            ax.grid(False)
            ax.set_aspect("equal")
            for (sender, receiver), kind in talks(ring, ulysses, inside).items():
                ax.add_patch(
                    Rectangle(
                        (receiver - 0.5, sender - 0.5), 1, 1, facecolor=look(list(HATCHES).index(kind)).colour,
                        hatch=HATCHES[kind], edgecolor="white", linewidth=0.6,
                    )
                )  # fmt: skip
            for border in range(per_node, world, per_node):
                ax.axhline(border - 0.5, color="#222222", linewidth=2)
                ax.axvline(border - 0.5, color="#222222", linewidth=2)
            ax.set(xlim=(-0.5, world - 0.5), ylim=(world - 0.5, -0.5), xlabel="to rank", ylabel="from rank")
            ax.set_xticks(range(0, world, 2))
            ax.set_yticks(range(0, world, 2))
            ax.set_title("Ulysses inside" if inside else "ring inside")
        handles = [
            Patch(facecolor=look(number).colour, hatch=hatch, edgecolor="white", label=name)
            for number, (name, hatch) in enumerate(HATCHES.items())
        ]
        fig.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return fig
