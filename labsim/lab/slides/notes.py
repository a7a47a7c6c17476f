"""Speaker notes: what a teacher wants to know at an exercise and at an explorer.

Both are read off what the course holds anyway: an exercise has its minutes, hints, named mistakes and last sentence; an
explorer says under each of its pictures what is to be seen there.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from ..exercise import find_exercise


def exercise_note(exercise_id: str) -> str:
    """Markdown: how long, the mistakes that the check calls by name, the hints, the sentence to end on."""
    found = find_exercise(exercise_id)
    parts = [f"**Exercise {found.id}, {found.title}**: {found.minutes} minutes, {found.difficulty}."]
    if mistakes := found.check.misconceptions:
        parts.append("Mistakes to expect:")
        parts.append("\n".join(f"- **{one.name}**: {one.explain}" for one in mistakes))
    parts.append("Hints:")
    parts.append("\n".join(f"{number}. {hint}" for number, hint in enumerate(found.hints, start=1)))
    parts += [f"To end on: {found.takeaway}"] if found.takeaway else []
    return "\n\n".join(parts)


def widget_note(state: Mapping[str, Any]) -> str:
    """Markdown for a widget's saved state: what can be moved, and what is then to be seen. Empty for other widgets."""
    if "sliders" in state.get("spec", {}):
        return _explorer_note(state)
    if "texts" in (state.get("data") or [{}])[0]:
        return _stepper_note(state)
    return ""


def _explorer_note(state: Mapping[str, Any]) -> str:
    """Where it opens, and for each slider, the others unmoved, its end that is farthest from there."""
    sliders, frames, at = state["spec"]["sliders"], state["grid"]["frames"], state["index"]
    sizes = [len(slider["texts"]) for slider in sliders]

    def seen(index: list[int]) -> str:
        frame = frames[sum(one * prod(sizes[n + 1 :]) for n, one in enumerate(index))]
        return frame["text"] or frame["alt"]

    lines = [f"Opens with {', '.join(_setting(s, one) for s, one in zip(sliders, at, strict=True))}: {seen(at)}"]
    for number, (slider, size) in enumerate(zip(sliders, sizes, strict=True)):
        end = size - 1 if size - 1 - at[number] >= at[number] else 0
        moved = [*at[:number], end, *at[number + 1 :]]
        if size > 1:
            lines.append(f"Then, {_setting(slider, end)}: {seen(moved)}")
    return "\n\n".join([f"**Explorer: {state['spec']['title']}**", "\n".join(f"- {line}" for line in lines)])


def _setting(slider: Mapping[str, Any], at: int) -> str:
    unit = f" {slider['unit']}" if slider["unit"] else ""
    return f"*{slider['label']}* at {slider['texts'][at]}{unit}"


def _stepper_note(state: Mapping[str, Any]) -> str:
    runs, run, position = state["data"], state.get("run", 0), state.get("position", 0)
    lines = [
        f"Opens on *{runs[run]['name']}*: {runs[run]['texts'][position]}",
        "Arrow keys step through propose, verify and accept; the list changes the run: "
        + "; ".join(f"*{one['name']}*, {len(one['steps'])} steps" for one in runs),
    ]
    return "\n\n".join([f"**Explorer: {state['title']}**", "\n".join(f"- {line}" for line in lines)])
