"""Do the draft's sizes fit the target, and is config.json's description of the layer one that can be computed?

`described` reads the config with everything that depends on the target or on feature layers taken out, so that one
wrong value there does not hide the shapes of all tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..drafts.eagle_dialects import LAYER_IDS, DraftConfig, read_config
from ..models.config import ModelConfig
from .check import Check, fault, ok
from .on_disk import OnDisk
from .target import TargetFacts

NEUTRAL_LAYERS = 36  # of a stand-in target: enough for any usual choice of feature layers


def described(disk: OnDisk) -> DraftConfig:
    """The draft's own config, whatever its target. ValueError where it describes no draft."""
    raw = {key: value for key, value in disk.raw.items() if key != LAYER_IDS}
    for key in ("eagle_config", "labsim"):
        if isinstance(raw.get(key), dict):
            raw[key] = {name: value for name, value in raw[key].items() if name not in (LAYER_IDS, "feature_layers")}
    sizes = disk.sizes
    wide = raw.get("target_hidden_size") or sizes.get("hidden_size")
    # The smallest target that agrees with the draft; only its vocabulary, width and depth are looked at.
    stand_in = ModelConfig(
        "llama", sizes.get("vocab_size") or 1, wide or 1, 1, NEUTRAL_LAYERS, 1, 1, 2, 2048, 1e-6, False
    )  # fmt: skip
    return read_config(raw, disk.kind or "", stand_in, f"{disk.directory}/config.json")


def size_checks(disk: OnDisk, target: TargetFacts) -> tuple[DraftConfig | None, list[Check]]:
    """The config where it can be read, and what is said about sizes."""
    try:
        config = described(disk)
    except (ValueError, TypeError, KeyError) as error:
        return None, [
            fault(
                "config.json: values",
                str(error),
                "an engine refuses the file, or fills in its own default and computes another layer",
                "correct the named value; the shapes of the tensors say what it was",
            )
        ]
    found = list(against_target(config, target))
    if not found:
        found.append(
            ok("sizes", f"vocabulary {config.vocab_size} and width {target.config.hidden_size} are the target's")
        )
    return config, found


def against_target(config: DraftConfig, target: TargetFacts) -> Iterator[Check]:
    """What the draft and its target must share."""
    if config.vocab_size != target.config.vocab_size:
        yield fault(
            "sizes: vocabulary",
            f"vocab_size is {config.vocab_size}, and {target.name} has {target.config.vocab_size} tokens",
            "the ids mean other tokens: an engine stops at the embedding, or accepts next to nothing",
            "serve it with the target it was trained for; a padded embedding counts as another vocabulary",
        )
    width = getattr(config, "target_hidden_size", config.hidden_size)
    if width != target.config.hidden_size:
        yield fault(
            "sizes: target width",
            f"it reads states of width {width}, and those of {target.name} are {target.config.hidden_size} wide",
            "fc cannot multiply the states: the engine stops at the first request",
            "serve it with the target it was trained for, or set target_hidden_size where it differs from hidden_size",
        )


def fitted(config: DraftConfig, layers: tuple[int, ...]) -> DraftConfig:
    """The same config reading these layers. ValueError where their number does not fit."""
    return replace(config, feature_layers=layers)
