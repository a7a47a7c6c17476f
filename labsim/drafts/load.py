"""A drafter by its name: `none`, `ngram`, `small`, or the directory of a trained draft."""

from __future__ import annotations

import difflib
from pathlib import Path

from ..models.config import read_json
from ..models.load import Target
from ..models.paths import data_directory
from .ngram import NgramDrafter
from .protocol import Drafter
from .small import SmallModelDrafter

NAMED = ("none", "ngram", "small")


def load_drafter(name: str, target: Target) -> Drafter | None:
    """The drafter for `target`; None for `none`. ValueError for a name, kind or target that does not fit."""
    if name == "none":
        return None
    if name == "ngram":
        return NgramDrafter()
    directory = shipped(name, target) if name in NAMED else Path(name).expanduser()
    if not directory.is_dir():
        close = difflib.get_close_matches(name.lower(), NAMED, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"draft {name!r} is neither {', '.join(NAMED)} nor a directory{hint}")
    kind = read_json(directory / "config.json").get("labsim", {}).get("kind", "small")
    if kind != "small":
        raise ValueError(f"{directory} holds a draft of the kind {kind!r}; this version decodes with: small")
    return SmallModelDrafter.from_directory(directory, target)


def shipped(kind: str, target: Target) -> Path:
    """Directory of the draft that the project ships for a target. ValueError when it ships none."""
    directory = data_directory() / "drafts" / f"{target.name}-{kind}"
    if not directory.is_dir():
        raise ValueError(
            f"no {kind} draft is shipped for {target.name!r}; train one with "
            f"`labsim train-{kind} --target {target.name} ...` and give its directory"
        )
    return directory
