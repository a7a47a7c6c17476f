"""The symptoms of notebook 07: curves of drafts with a fault, under letters, and the curve of the healthy one.

The faults are those of `labsim.checkpoints.faults`, planted in a draft that comes with the course; a curve is what
serving it would show. Nothing tells the learner which is which but the curves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..checkpoints.curve import Curve
from ..checkpoints.faults import plant, symptom
from ..models.load import Target
from ..models.paths import data_directory
from ..train.ttt.data import Document
from .exercises.drift_by_hand import CURVES

HEALTHY = "healthy"


def planted_curves(
    target: Target, texts: Sequence[Document], k: int, faults: Mapping[str, str] = CURVES, kind: str = "eagle3.1"
) -> dict[str, Curve]:
    """By letter, the healthy draft first: how chains of k fare from every place of these greedy answers.

    ValueError when the course ships no draft of the kind for the target.
    """
    healthy = data_directory() / "drafts" / f"{target.name}-{kind}"
    if not healthy.is_dir():
        raise ValueError(f"no {kind} draft is shipped for {target.name!r}; there is nothing to plant a fault in")
    found = {HEALTHY: symptom(healthy, target, texts, k=k)}
    with tempfile.TemporaryDirectory(prefix="labsim-planted-") as scratch:
        for letter, name in faults.items():
            found[letter] = symptom(plant(name, healthy, Path(scratch) / name), target, texts, k=k)
    return found


def first_guesses_changed(curve: Curve, healthy: Curve) -> float:
    """Share of the places where one of the two first guesses is accepted and the other is not."""
    return float(((curve.runs_P > 0) != (healthy.runs_P > 0)).double().mean())
