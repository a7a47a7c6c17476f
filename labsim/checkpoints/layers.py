"""Which target layers does the draft read, and would every engine agree?

One list, two numberings. "Input of layer i" (EAGLE, vLLM, speculators) and "output of layer i" (SpecForge, TorchSpec,
Model-Optimizer; SGLang adds one to what is stored) differ by one for the same tensor:

    usual choice for n layers      2, n//2, n-3      input of layer i, = after i layers
                                   1, n//2-1, n-4    output of layer i

vLLM takes the list at the top of config.json as it stands, and where there is none the one inside `eagle_config`.
A draft that is read one layer off works, a little worse: nothing but the acceptance shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..drafts.eagle_config import FEATURES, default_feature_layers
from ..drafts.eagle_dialects import LAYER_IDS
from .check import Check, fault, ok, unchecked, warning
from .on_disk import OnDisk
from .target import TargetFacts

NAME = "feature layers"
LOWER = "trains normally, acceptance a little lower at every depth"


@dataclass(frozen=True)
class Layers:
    """The lists as they stand, and as what they are taken.

    Attributes:
        top, inner, own: at the top, inside `eagle_config`, and in `labsim`'s own block; empty where absent.
        read: "after i layers"; None where there is no sound list.
        numbering: in which numbering the list that decides was read.
    """

    top: tuple[int, ...]
    inner: tuple[int, ...]
    own: tuple[int, ...]
    read: tuple[int, ...] | None
    numbering: str


def wholes(value: Any) -> tuple[int, ...] | None:
    """The list as it stands; () where absent; None where it is no list of whole numbers."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        return None
    return tuple(value)


def inside(raw: dict[str, Any], block: str, key: str) -> Any:
    part = raw.get(block)
    return part.get(key) if isinstance(part, dict) else None


def usual(num_layers: int) -> tuple[int, ...]:
    return default_feature_layers(num_layers) if num_layers >= 4 else ()


def minus(layers: tuple[int, ...], one: int) -> tuple[int, ...]:
    return tuple(layer - one for layer in layers)


def read_layers(disk: OnDisk, num_layers: int) -> Layers | None:
    """None where one of the lists is no list of whole numbers."""
    raw = disk.raw
    places = raw.get(LAYER_IDS), inside(raw, "eagle_config", LAYER_IDS), inside(raw, "labsim", "feature_layers")
    lists = [wholes(value) for value in places]
    if any(one is None for one in lists):
        return None
    top, inner, own = (one or () for one in lists)
    known = usual(num_layers)
    if own:
        return Layers(top, inner, own, own, "after i layers (labsim.feature_layers)")
    if top:
        as_output = num_layers >= 7 and top == minus(known, 1)
        read = minus(top, -1) if as_output else top
        return Layers(top, inner, own, read, "output of layer i" if as_output else "input of layer i")
    if inner:
        as_input = num_layers >= 7 and inner == known
        read = inner if as_input else minus(inner, -1)
        return Layers(top, inner, own, read, "input of layer i" if as_input else "output of layer i")
    return Layers(top, inner, own, known or None, "none is named: the usual choice")


def layer_checks(disk: OnDisk, target: TargetFacts) -> list[Check]:
    """EAGLE-3's three layers; the other kinds read the last state, which config.json need not say."""
    n = target.config.num_layers
    found = read_layers(disk, n)
    if found is None:
        return [
            fault(
                f"{NAME}: no list",
                f"{LAYER_IDS} is no list of whole numbers",
                "the engine falls back to its own choice of layers, or stops",
                f"write the layers that were trained, for example {list(usual(n) or (2, n // 2, n - 3))} at the top",
            )
        ]
    if not disk.eagle3:
        if found.own and found.own != (n,):
            return [
                fault(
                    f"{NAME}: not the last",
                    f"a draft of the kind {disk.kind} reads the target's last state ({n}), and config.json names "
                    f"{list(found.own)}",
                    "acceptance near nothing",
                    f"set labsim.feature_layers to [{n}]",
                )
            ]
        return [ok(NAME, f"the target's last state, after {n} layers")]
    if found.read is None:
        return [unchecked(NAME, f"none are named, and a target of {n} layers has no usual choice")]
    problems = [check for check in (count(found, n), range_(found, n)) if check is not None]
    problems += [] if problems else order(found, n)
    problems += numbering(found, n)
    if problems:
        return problems
    said = [
        f"{list(ids)} {place}"
        for ids, place in ((found.top, "at the top"), (found.inner, "inside eagle_config"))
        if ids
    ]
    return [
        ok(NAME, f"{list(found.read)} (after i layers of {n}); {'; '.join(said) or 'no list stands in config.json'}, "
           f"read as {found.numbering}")
    ]  # fmt: skip


def count(found: Layers, n: int) -> Check | None:
    """Three, not four."""
    for ids in (found.read or (), found.top, found.inner):
        if ids and len(ids) != FEATURES:
            last = len(ids) == FEATURES + 1 and ids[-1] in (n, n - 1)
            why = "; the fourth is the last layer, which the teacher needs and the draft does not" if last else ""
            return fault(
                f"{NAME}: {len(ids)} of them",
                f"{list(ids)} names {len(ids)} layers where EAGLE-3 fuses {FEATURES}{why}",
                "a shape error in fc, or the wrong slice of the features",
                f"name the {FEATURES} layers that fc was trained on" + (", without the last" if last else ""),
            )
    return None


def range_(found: Layers, n: int) -> Check | None:
    """Layers that the target has."""
    wrong = [layer for ids in (found.read or (), found.top, found.inner) for layer in ids if not 0 <= layer <= n]
    if not wrong:
        return None
    return fault(
        f"{NAME}: out of range",
        f"layer {wrong[0]} of a target that has {n}",
        "the engine stops, or silently reads fewer layers",
        f"the usual choice is {list(usual(n))} as input of layer i" if usual(n) else f"name layers from 0 to {n}",
    )


def order(found: Layers, n: int) -> list[Check]:
    """Twice the same one, not from low to high, or the last one among them."""
    read = found.read or ()
    if len(set(read)) < len(read):
        return [
            fault(f"{NAME}: twice the same", f"{list(read)} names a layer twice", LOWER, "name three different layers")
        ]
    if list(read) != sorted(read):
        return [
            fault(
                f"{NAME}: not ascending",
                f"{list(read)}; fc's columns follow this order, and engines collect layers from low to high",
                "fc multiplies each slice by another layer's weights: acceptance near nothing",
                "sort the list, and fc's column blocks with it, unless the engine keeps the order",
            )
        ]
    if read and read[-1] == n:
        return [
            warning(
                f"{NAME}: last among them",
                f"{list(read)} holds the last of {n} layers; neither usual choice does, and Hugging Face's last state "
                "is already normed",
                "features of another size than in training where an engine gives the state before the norm",
                f"check against the training; the usual choice is {list(usual(n))}",
            )
        ]
    return []


def numbering(found: Layers, n: int) -> list[Check]:
    """Would an engine that takes the list literally read the layers that are meant?"""
    read, known, checks = found.read or (), usual(n), []
    remedy = f"write {list(read)} at the top and {list(minus(read, 1))} inside eagle_config: each place its numbering"
    if found.top and found.top != read:
        one_off = found.top in (minus(read, 1), minus(read, -1))
        checks.append(
            fault(
                f"{NAME}: {'one off' if one_off else 'places disagree'}",
                f"{list(found.top)} at the top, which vLLM reads as input of layer i; meant are {list(read)} "
                f"({found.numbering})",
                LOWER,
                remedy,
            )
        )
    if found.inner and found.inner not in (read, minus(read, 1)):
        checks.append(
            fault(
                f"{NAME}: places disagree",
                f"{list(found.inner)} inside eagle_config, which means {list(minus(found.inner, -1))}, beside "
                f"{list(read)} ({found.numbering})",
                "each engine reads other layers from the same file; acceptance lower in one of them",
                remedy,
            )
        )
    elif found.inner and n >= 7 and found.inner == read:
        checks.append(
            warning(
                f"{NAME}: one numbering in both places",
                f"{list(found.inner)} inside eagle_config, where SGLang adds 1, for the layers {list(read)}",
                LOWER,
                remedy,
            )
        )
    elif found.inner and not found.top:
        checks.append(
            warning(
                f"{NAME}: one place only",
                f"{list(found.inner)} inside eagle_config alone: read as output of layer i here and in SGLang, and "
                "literally, as input of layer i, where an engine looks there without adding 1",
                LOWER,
                remedy,
            )
        )
    if known and read in (minus(known, 1), minus(known, -1)):
        checks.append(
            fault(
                f"{NAME}: one off the usual",
                f"{list(read)}, each one {'before' if read[0] < known[0] else 'after'} the usual {list(known)}",
                LOWER,
                "if the training took the usual layers, its numbering was converted twice or not at all; let the "
                "doctor run the target: acceptance tells",
            )
        )
    return checks
