"""Explorer of notebook 06: acceptance depth by depth, by architecture, unrolled steps and chain length.

Each frame is read off a grid of trainings (`labsim.lab.ttt_grid`): nothing is modelled.
"""

from __future__ import annotations

from ..explorer import Explorer, Frame, Series, Slider, explore
from ..ttt_arms import DEPTHS, KIND_NAMES, Arm
from ..ttt_causes import by_depth, lengths, over_seeds
from ..ttt_grid import Grid

DRAWN = ("conditional", "survival", "marginal")


def depth_by_depth(grid: Grid, domain: str = "all") -> Explorer:
    """Conditional, joint and marginal share by depth. Sliders: architecture, unrolled steps, chain length.

    ValueError when the grid lacks an arm or has one seed only.
    """
    arms = sorted({one.arm for one in grid.trials if one.arm.branch == "own"}, key=lambda arm: (arm.kind, arm.ttt))
    kinds = tuple(dict.fromkeys(arm.kind for arm in arms))
    trained = tuple(sorted({arm.ttt for arm in arms}))

    def frame(architecture: str, ttt: int, depth: int) -> Frame:
        arm = Arm(next(kind for kind in kinds if KIND_NAMES[kind] == architecture), ttt)
        series = []
        for figure in DRAWN:
            spreads = by_depth(grid, arm, figure, domain)[:depth]
            x = [at for at, one in enumerate(spreads, start=1)]
            columns = [
                [None if one is None else getattr(one, end) for one in spreads] for end in ("mean", "low", "high")
            ]
            series.append(Series(figure, x, *columns))
        length = over_seeds(lengths(grid, arm, depth, domain))
        first, last = (by_depth(grid, arm, "conditional", domain)[at] for at in (0, depth - 1))
        alive = "too few chains get there" if last is None else f"{last.mean:.0%} of the chains alive survive"
        text = (
            f"{arm.name}, chains of {depth}: {length.mean:.2f} tokens per verify step "
            f"({length.low:.2f} to {length.high:.2f} over {len(grid.of(arm))} trainings). At depth 1, {first.mean:.0%} "
            f"survive; at depth {depth}, {alive}."
        )
        return Frame(
            series,
            text=text,
            alt=f"Three curves over depth in the draft, with bands over trainings: the conditional share, the share of "
            f"whole chains below it, and the marginal share of right guesses. {text}",
            mark=(min(ttt, DEPTHS), f"trained to depth {ttt}"),
        )

    return explore(
        frame,
        {
            "architecture": Slider("architecture", tuple(KIND_NAMES[kind] for kind in kinds)),
            "ttt": Slider("unrolled steps in training", trained, value=trained[0]),
            "depth": Slider("chain length K", tuple(range(1, DEPTHS + 1)), value=DEPTHS, unit="tokens"),
        },
        title="Depth by depth",
        x_label="depth in the draft",
        y_label="share",
        y_range=(0.0, 1.0),
    )
