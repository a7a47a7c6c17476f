"""Explorer of notebook 07: every probe by depth, for EAGLE-3, 3.1 and each of the two changes alone.

Each frame is read off the course's figures (`labsim.lab.drift_grid`): nothing is modelled.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..drift_arms import DRIFT_ARMS, LONG_ARMS, POST, PRE
from ..drift_causes import PROBES, by_depth
from ..drift_grid import DriftGrid
from ..explorer import Explorer, Frame, Series, Slider, explore
from ..ttt_arms import KIND_NAMES, Arm

COMPARED: Mapping[str, tuple[Arm, ...]] = {
    "EAGLE-3 and EAGLE-3.1": (PRE, POST),
    "one change at a time": DRIFT_ARMS,
    "more steps in training": LONG_ARMS,
}
DEPTHS = (2, 3, 4, 6, 8)


def probe_by_probe(grid: DriftGrid) -> Explorer:
    """Sliders: the probe, the drafts that are compared, the depth.

    Comparisons whose drafts the grid lacks, or has once only, are left out. ValueError when none remains.
    """
    seeds = {arm: sum(one.arm == arm for one in grid.drafts) for group in COMPARED.values() for arm in group}
    compared = {name: arms for name, arms in COMPARED.items() if all(seeds[arm] > 1 for arm in arms)}
    if not compared:
        raise ValueError("these figures have no arm with two seeds or more; there is no interval to draw")

    def frame(probe: str, drafts: str, depth: int) -> Frame:
        arms, series, said = compared[drafts], [], []
        for arm in arms:
            spreads = by_depth(grid, arm, probe)[:depth]
            x = list(range(1, len(spreads) + 1))
            columns = [[None if s is None else getattr(s, end) for s in spreads] for end in ("mean", "low", "high")]
            series.append(Series(KIND_NAMES[arm.kind], x, *columns))
            known = [(at, s) for at, s in zip(x, spreads, strict=True) if s is not None]
            said.append(
                f"{KIND_NAMES[arm.kind]} {known[0][1].mean:.2f} at depth 1, {known[-1][1].mean:.2f} at {known[-1][0]}"
            )
        trained = arms[0].ttt
        text = f"{probe[0].upper()}{probe[1:]} ({PROBES[probe][0]}), trained for {trained} steps: {'; '.join(said)}."
        if probe == "conditional acceptance":
            # Chains that are alive stand at easy places, so this share may rise while guesses get worse.
            ends = {KIND_NAMES[arm.kind]: by_depth(grid, arm, "right guesses (marginal)")[:depth] for arm in arms}
            fallen = "; ".join(f"{kind} {s[0].mean:.2f} to {s[-1].mean:.2f}" for kind, s in ends.items())
            text += f" Only chains still alive count. Of all places are right: {fallen}."
        return Frame(
            series,
            text=text,
            alt=f"{len(arms)} curves over depth in the draft, with bands over trainings. {text}",
            mark=(trained, f"trained to depth {trained}") if trained <= depth else None,
        )

    return explore(
        frame,
        {
            "probe": Slider("probe", tuple(PROBES)),
            "drafts": Slider("drafts", tuple(compared)),
            "depth": Slider("down to depth", DEPTHS, value=8),
        },
        title="What changes with depth",
        x_label="depth in the draft",
        y_label="value of the probe (unit below)",
        y_range="frame",
    )
