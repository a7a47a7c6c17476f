"""The attention matrix, drawn: who computes which part of it, and at which hop."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..parallel.layout import Layout, blocks
from .plots import _RC
from .style import look

HATCHES = ("", "//", "..", "xx", "--", "\\\\", "++")


def computed_at(layout: Layout) -> list[tuple[int, int, int, int]]:
    """(query position, key position, rank, hop) of every pair that is computed, causal."""
    found = []
    for rank in range(layout.ring):
        queries = layout.ring_positions(rank).tolist()
        for hop in range(layout.ring):
            owner = (rank - hop) % layout.ring
            keys = layout.ring_positions(owner).tolist()
            for block in blocks(layout, rank, owner):
                for row, query in enumerate(queries[block.queries]):
                    columns = keys[block.keys]
                    seen = columns[: row + 1] if block.causal else columns
                    found += [(query, key, rank, hop) for key in seen]
    return found


def draw_matrix(layouts: Sequence[Layout], titles: Sequence[str]) -> Figure:
    """Each layout's matrix: colour and hatch say which rank computes a pair, the number at which hop."""
    with rc_context(_RC):
        fig = Figure(figsize=(5.4 * len(layouts), 5.7), layout="constrained")
        for number, (layout, title) in enumerate(zip(layouts, titles, strict=True), start=1):
            ax = fig.add_subplot(1, len(layouts), number)
            ax.grid(False)
            ax.set_aspect("equal")
            for query, key, rank, _ in computed_at(layout):
                ax.add_patch(
                    Rectangle(
                        (key - 0.5, query - 0.5), 1, 1, facecolor=look(rank).colour, hatch=HATCHES[rank % 7],
                        edgecolor="white", linewidth=0.4,
                    )
                )  # fmt: skip
            for query, key, hop in chunk_labels(layout):
                ax.text(
                    key, query, str(hop), ha="center", va="center", fontsize=13,
                    bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"},
                )  # fmt: skip
            end = layout.padded - 0.5
            size = layout.padded // layout.chunk_count
            borders = [at * size - 0.5 for at in range(layout.chunk_count + 1)]
            for at in borders:
                ax.plot([-0.5, end], [at, at], color="#444444", linewidth=0.5)
                ax.plot([at, at], [-0.5, end], color="#444444", linewidth=0.5)
            owners = {chunk.start // size: rank for rank in range(layout.ring) for chunk in layout.chunks(rank)}
            middles = [at * size + (size - 1) / 2 for at in range(layout.chunk_count)]
            names = [f"rank {owners[at]}" for at in range(layout.chunk_count)]
            ax.set(xlim=(-0.5, end), ylim=(end, -0.5), xlabel="keys, held by", ylabel="queries, held by")
            ax.set_xticks(middles, names, rotation=90 if layout.chunk_count > 4 else 0, fontsize=12)
            ax.set_yticks(middles, names, fontsize=12)
            ax.tick_params(length=0)
            ax.set_title(title)
    return fig


def chunk_labels(layout: Layout) -> list[tuple[float, float, int]]:
    """(query, key, hop) in the middle of each rectangle of chunks that is computed."""
    size = layout.padded // layout.chunk_count
    places: dict[tuple[int, int], tuple[list[int], list[int], int]] = {}
    for query, key, _, hop in computed_at(layout):
        rows, columns, _ = places.setdefault((query // size, key // size), ([], [], hop))
        rows.append(query)
        columns.append(key)
    return [(sum(rows) / len(rows), sum(columns) / len(columns), hop) for rows, columns, hop in places.values()]
