"""Rotary positions: does every engine turn the draft's keys by the same angles, and how far?

Three keys say it. Older engines read `rope_theta` and `rope_scaling`, transformers 5 writes `rope_parameters`. A file
with one way only is read as the default (theta 10,000, no scaling) by the other side: right for short texts, wrong
further on.

`max_position_embeddings` of public drafts is often 2048. vLLM overrides it by the target's; an engine that does not
reads its table of angles out of bounds, or stops drafting there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..drafts.rotary import ADAPTIVE, frequencies, rope_settings
from ..models.config import LONGEST_CONTEXT, read_heads
from ..models.fields import Fields, short
from .check import Check, fault, ok, warning
from .on_disk import OnDisk
from .target import TargetFacts

DEFAULT_THETA = 10000.0
FAR = "acceptance falls with the length of the text"


def position_checks(disk: OnDisk, target: TargetFacts) -> list[Check]:
    """Rope in its two spellings, against the target's, and the longest position."""
    sizes = disk.sizes
    try:
        own = rope_settings(sizes)
        theirs = rope_settings(target.raw)
    except (ValueError, TypeError, AttributeError) as error:
        return [
            fault(
                "rope: unreadable",
                f"rope_theta, rope_scaling or rope_parameters is no such value ({short(str(error))})",
                "the engine stops, or uses theta 10000",
                "copy the target's",
            )
        ]
    rope = list(computed(disk, own)) + list(spellings(sizes, own)) + list(against(own, theirs, target))
    if not rope:
        rope.append(ok("rope", f"theta {own['rope_theta']:g}, scaling {kind(own)}: as the target"))
    return rope + list(longest(sizes, target))


def computed(disk: OnDisk, own: dict[str, Any]) -> Iterator[Check]:
    """Values that no angles can be made of."""
    sizes = Fields(disk.sizes, f"{disk.directory}/config.json")
    try:
        head_dim, longest = read_heads(sizes)[2], sizes.whole("max_position_embeddings", 1, LONGEST_CONTEXT, 2048)
    except ValueError:
        return  # named with the other sizes
    if kind(own) in ADAPTIVE:
        return  # angles that depend on the text are compared with the target's
    try:
        frequencies(own, head_dim, longest)
    except ValueError as error:
        yield fault(
            "rope: cannot be computed",
            str(error),
            "the engine stops while loading, or turns keys by no angle",
            "copy the target's rope_theta, rope_scaling and rope_parameters, if it was trained with them",
        )


def kind(rope: dict[str, Any]) -> str:
    scaling = rope["rope_scaling"]
    return "none" if not scaling else str(scaling.get("rope_type", scaling.get("type")))


def comparable(rope: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Theta and scaling, whichever spelling."""
    scaling = dict(rope["rope_scaling"] or {})
    named = scaling.pop("type", None)
    scaling.setdefault("rope_type", named or "default")
    scaling.pop("rope_theta", None)
    return float(rope["rope_theta"]), {key: value for key, value in scaling.items() if value is not None}


def spellings(sizes: dict[str, Any], own: dict[str, Any]) -> Iterator[Check]:
    """rope_parameters against rope_theta and rope_scaling."""
    together = sizes.get("rope_parameters")
    apart = "rope_theta" in sizes or bool(sizes.get("rope_scaling"))
    theta, scaling = comparable(own)
    plain = theta == DEFAULT_THETA and scaling["rope_type"] == "default"
    if together and apart:
        new = comparable(rope_settings({"rope_parameters": together}))
        old = comparable(rope_settings({key: sizes.get(key) for key in ("rope_theta", "rope_scaling")}))
        if new != old:
            yield fault(
                "rope: disagrees with itself",
                f"rope_parameters says theta {new[0]:g} and {new[1]['rope_type']}, rope_theta and rope_scaling say "
                f"{old[0]:g} and {old[1]['rope_type']}",
                f"right in one engine and wrong in the other: {FAR}",
                "write both from the training's own values",
            )
    elif together and not apart and not plain:
        yield warning(
            "rope: new spelling only",
            f"theta {theta:g} and {scaling['rope_type']} stand in rope_parameters alone",
            f"an engine that reads rope_theta takes 10000 without scaling: {FAR}",
            "write rope_theta and rope_scaling too",
        )


def against(own: dict[str, Any], theirs: dict[str, Any], target: TargetFacts) -> Iterator[Check]:
    """A draft may turn by angles of its own, but nobody trains one so by intention."""
    mine, other = comparable(own), comparable(theirs)
    if mine[0] != other[0]:
        yield warning(
            "rope: theta",
            f"rope_theta is {mine[0]:g}, and that of {target.name} is {other[0]:g}",
            f"if it was trained with the target's: {FAR}, at depth 1 already",
            "compare with the training's config; a value that an export filled in is often 10000",
        )
    if mine[1] != other[1]:
        yield warning(
            "rope: scaling",
            f"scaling is {mine[1]['rope_type']}, and that of {target.name} is {other[1]['rope_type']}"
            + (" with other values" if mine[1]["rope_type"] == other[1]["rope_type"] else ""),
            FAR,
            "compare with the training's config; Model-Optimizer's export writes yarn over 2048 where training had "
            "the default",
        )


def longest(sizes: dict[str, Any], target: TargetFacts) -> Iterator[Check]:
    """How far the draft's positions go."""
    said, context = sizes.get("max_position_embeddings"), target.config.max_positions
    if not isinstance(said, int):
        yield warning(
            "max positions: absent",
            "config.json names no max_position_embeddings",
            "an engine takes its default, often 2048",
            f"write the target's, {context}",
        )
    elif said < context:
        yield warning(
            "max positions: below the target's",
            f"max_position_embeddings is {said}, and {target.name} reads {context}",
            f"vLLM overrides it by the target's; others read out of bounds or stop drafting past {said}. If {said} is "
            f"also how long the training texts were, {FAR}: 2.3 at 2 k tokens and 1.1 at 20 k were reported",
            f"write {context}; angles need no training, but long texts do: train on them if you serve them",
        )
    else:
        yield ok("max positions", f"{said}, the target's context is {context}")
