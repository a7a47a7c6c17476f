"""Pictures of draft trees: the tree with its accepted path, and the mask with which one forward verifies it.

A node shows its token, an edge the draft's chance for it. The accepted path is drawn thick and green with a tick,
rejected nodes grey, and what the target adds at the end of the path orange and dashed: shape, line and mark say the
same as colour.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .plots import _RC
from .style import GREEN, GREY, ORANGE

ACCEPTED, REJECTED, ADDED = "accepted", "rejected", "added"
_BOX = {
    ACCEPTED: {"facecolor": "#d8f3ea", "edgecolor": GREEN, "linewidth": 2.6, "linestyle": "-"},
    REJECTED: {"facecolor": "white", "edgecolor": GREY, "linewidth": 1.0, "linestyle": "-"},
    ADDED: {"facecolor": "#fdf1d8", "edgecolor": ORANGE, "linewidth": 2.2, "linestyle": "--"},
}
MAX_TEXT = 12


def layout(parents: Sequence[int]) -> list[tuple[float, float]]:
    """(x, y) of each node: x is its depth, leaves stand one below the other, a parent in the middle of its children."""
    children: dict[int, list[int]] = {node: [] for node in range(-1, len(parents))}
    for node, parent in enumerate(parents):
        children[parent].append(node)
    place: dict[int, tuple[float, float]] = {}
    leaves = 0

    def put(node: int, depth: int) -> float:
        nonlocal leaves
        below = [put(child, depth + 1) for child in children[node]]
        if not below:
            y, leaves = -float(leaves), leaves + 1
        else:
            y = (below[0] + below[-1]) / 2
        place[node] = (float(depth), y)
        return y

    put(-1, 0)
    return [place[node] for node in range(len(parents))]


def draw_tree(
    tokens: Sequence[str],
    parents: Sequence[int],
    path: Sequence[int] = (),
    chances: Sequence[float] | None = None,
    *,
    root: str = "",
    added: str | None = None,
    title: str = "",
) -> Figure:
    """A figure of one draft.

    Args:
        tokens, parents: the nodes; parents as in `labsim.drafts.protocol.Draft`.
        path: the accepted nodes, from the root on.
        chances: per node the draft's chance for it, given its parent.
        root: the text's last token.
        added: the target's own token after the accepted path; None when there is none.
    """
    if len(tokens) != len(parents) or (chances is not None and len(chances) != len(parents)):
        raise ValueError(f"{len(tokens)} tokens and {len(parents)} parents: right is one of each per node")
    end = path[-1] if len(path) else -1
    all_parents = [*parents, end] if added is not None else list(parents)
    places = layout(all_parents)
    origin = (0.0, _middle([y for (_, y), parent in zip(places, all_parents, strict=True) if parent < 0]))
    rows, depth = 1 - min([y for _, y in places], default=0.0), max([x for x, _ in places], default=0.0)
    with rc_context(_RC):
        fig = Figure(figsize=(max(6.5, min(1.9 + 1.75 * depth, 13.0)), 1.0 + 0.52 * rows), layout="constrained")
        ax = fig.add_subplot()
        ax.axis("off")
        ax.set_xlim(-0.45, depth + 0.5)
        ax.set_ylim(-rows + 0.4, 0.6)
        if title:
            ax.set_title(title)
        accepted = set(path)
        for node, parent in enumerate(all_parents):
            kind = ADDED if node == len(parents) else ACCEPTED if node in accepted else REJECTED
            start = places[parent] if parent >= 0 else origin
            label = None if chances is None or node == len(parents) else f"{chances[node]:.2f}"
            _edge(ax, start, places[node], kind, label)
        _node(ax, origin, visible(root) or "text", ACCEPTED, mark="")
        for node, (place, token) in enumerate(zip(places, [*tokens, added], strict=False)):
            kind = ADDED if node == len(parents) else ACCEPTED if node in accepted else REJECTED
            _node(ax, place, visible(token), kind, mark={ACCEPTED: " ✓", REJECTED: "", ADDED: " +"}[kind])
        fig.text(
            0.01, 0.02, "✓ accepted   + the target's own token   thin: drafted in vain   numbers: the draft's chance",
            fontsize=9, color="#444444",
        )  # fmt: skip
        fig.get_layout_engine().set(rect=(0, 0.32 / fig.get_figheight(), 1, 1 - 0.32 / fig.get_figheight()))
    return fig


def describe(
    tokens: Sequence[str], parents: Sequence[int], path: Sequence[int] = (), *, added: str | None = None
) -> str:
    """The picture in words, for its alt text."""
    depth = max((int(x) for x, _ in layout(parents)), default=0)
    said = f"A draft tree of {len(tokens)} nodes and depth {depth}."
    taken = ", ".join(visible(tokens[node]) for node in path) if len(path) else "nothing"
    said += f" Accepted path: {taken}; {len(tokens) - len(path)} nodes were drafted in vain."
    return said if added is None else f"{said} The target adds {visible(added)}."


def draw_mask(
    tokens: Sequence[str], mask: Sequence[Sequence[bool]], positions: Sequence[int], title: str = ""
) -> Figure:
    """Who sees whom: a filled square where the node of the row attends to the node of the column."""
    count = len(tokens)
    with rc_context(_RC):
        side = 1.9 + 0.42 * count
        fig = Figure(figsize=(side + 1.0, side), layout="constrained")
        ax = fig.add_subplot()
        ax.grid(False)
        ax.set_aspect("equal")
        for i in range(count):
            for j in range(count):
                own = {"facecolor": GREEN, "hatch": "//"} if i == j else {"facecolor": "#0072B2"}
                look = own if mask[i][j] else {"facecolor": "white"}
                ax.add_patch(_square(j, i, **look))
        ax.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5), xlabel="is seen", ylabel="looks, @ its position")
        labels = [visible(token) for token in tokens]
        ax.set_xticks(range(count), labels, rotation=60, ha="right", rotation_mode="anchor", fontsize=10)
        ax.set_yticks(
            range(count), [f"{label}  @{at}" for label, at in zip(labels, positions, strict=True)], fontsize=10
        )
        for label in [*ax.get_xticklabels(), *ax.get_yticklabels()]:
            label.set_parse_math(False)
        ax.spines[["left", "bottom"]].set_visible(False)
        ax.tick_params(length=0)
        if title:
            ax.set_title(title)
    return fig


def visible(token: str | None) -> str:
    """A token's text with its blanks made visible, cut to what fits into a box."""
    blank = "␣" if token and not token.strip(" ") else "·"  # a lone dot could be read as a full stop
    text = (token or "").replace("\n", "⏎").replace("\t", "⇥").replace(" ", blank)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _middle(values: Sequence[float]) -> float:
    return (values[0] + values[-1]) / 2 if values else 0.0


def _square(x: int, y: int, **look: str):
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.44, y - 0.44), 0.88, 0.88, edgecolor="#bbbbbb", linewidth=0.8, **look)


def _edge(ax: Axes, start: tuple[float, float], end: tuple[float, float], kind: str, label: str | None) -> None:
    box = _BOX[kind]
    ax.plot(
        *zip(start, end, strict=True),
        color=box["edgecolor"],
        linewidth=box["linewidth"],
        linestyle=box["linestyle"],
        zorder=1,
    )
    if label is not None:
        x, y = (a + 0.5 * (b - a) for a, b in zip(start, end, strict=True))
        ax.text(
            x, y, label, fontsize=9, ha="center", va="center", zorder=2,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        )  # fmt: skip


def _node(ax: Axes, place: tuple[float, float], text: str, kind: str, mark: str) -> None:
    ax.text(
        *place, text + mark, ha="center", va="center", fontsize=10, zorder=3, parse_math=False,
        fontweight="bold" if kind == ACCEPTED else "normal",
        bbox={"boxstyle": "round,pad=0.3", **_BOX[kind]},
    )  # fmt: skip
