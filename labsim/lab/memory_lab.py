"""Notebook 08: the memory of a training step, predicted and measured side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..models.load import Target
from ..train.ttt.memory import DraftShape, StepSetting
from ..train.ttt.memory_measure import measure, random_case, real_case, recipe_of
from ..train.ttt.memory_peak import peak
from .naive_attention import naive_attention

WEIGHTS = ("parameters", "optimizer", "gradients")


@dataclass(frozen=True)
class Point:
    """One step that was run. Bytes above what lies there before it: weights, moments and states are not among them."""

    value: Any
    measured: float
    predicted: float

    @property
    def off(self) -> float:
        """How far the prediction is off, as a share of the measured figure."""
        return self.predicted / self.measured - 1


def compared(
    shape: DraftShape,
    setting: StepSetting,
    value: Any = None,
    *,
    seed: int = 0,
    layers: int = 8,
    target: Target | None = None,
) -> Point:
    """Run one step and predict it: a random draft of that shape beside a made-up target of `layers` layers on the CPU,
    or, with a `target`, a draft for it where it lies.
    """
    if target is None:
        case = random_case(shape, setting, seed=seed, layers=layers)
    else:
        recipe = recipe_of(shape.kind, setting, shape.draft_vocab)
        case = real_case(target, recipe, setting.positions, seed=seed)
    found = measure(case, attention=naive_attention if setting.attention == "naive" else None)
    predicted = peak(shape, case.setting(setting.attention))
    # The measured step ends with the backward.
    step = max(total for name, total in predicted.moments.items() if name != "optimizer") - predicted.resident
    return Point(value, found.peak, step)


def sweep(
    shape: DraftShape,
    setting: StepSetting,
    name: str,
    values: Sequence[Any],
    *,
    seed: int = 0,
    target: Target | None = None,
) -> list[Point]:
    """Steps with one field of the setting (or the shape's `draft_vocab`) at several values."""
    found = []
    for value in values:
        this = replace(shape, draft_vocab=value) if name == "draft_vocab" else shape
        changed = setting if name == "draft_vocab" else replace(setting, **{name: value})
        found.append(compared(this, changed, value, seed=seed, target=target))
    return found


def grouped(parts: dict[str, float]) -> dict[str, float]:
    """Parts of a `StepBytes` as a figure shows them: weights with their gradients and moments, then what a row adds."""
    rest = {name: amount for name, amount in parts.items() if name not in WEIGHTS}
    return {"weights": sum(parts[name] for name in WEIGHTS)} | rest
