"""A drafter by its name: `none`, `ngram`, the kind of a shipped draft, or the directory of a trained one."""

from __future__ import annotations

import difflib
from pathlib import Path

from ..models.fields import shown
from ..models.load import Target, directory_called
from ..models.paths import data_directory
from .ngram import NgramDrafter
from .protocol import Drafter
from .small import SmallModelDrafter

TRAINED = ("small", "eagle1", "eagle3", "eagle3.1", "mtp", "heads")
NAMED = ("none", "ngram", *TRAINED)


def load_drafter(name: str, target: Target) -> Drafter | None:
    """The drafter for `target`; None for `none`. ValueError for a name, kind or target that does not fit."""
    if name == "none":
        return None
    if name == "ngram":
        return NgramDrafter()
    directory = shipped(name, target) if name in NAMED else directory_called(name)
    if directory is None:
        close = difflib.get_close_matches(name.lower(), NAMED, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"draft {shown(name)} is neither {', '.join(NAMED)} nor a directory{hint}")
    from .eagle_checkpoint import draft_kind

    kind = draft_kind(directory)
    if kind not in TRAINED:
        raise ValueError(
            f"{directory} holds a draft of the kind {shown(kind)}; this version decodes {', '.join(TRAINED)}"
        )
    return SmallModelDrafter.from_directory(directory, target) if kind == "small" else trained(directory, target)


def trained(directory: Path, target: Target) -> Drafter:
    """A draft that reads its target's states, packed for decoding. ValueError when it was made for another target."""
    from .eagle_checkpoint import load_draft
    from .eagle_drafter import EagleDrafter
    from .heads import HeadsDrafter, ParallelHeads

    model = target.model
    loaded = load_draft(
        directory, target=model.config, embedding_VH=model.embedding_VE, device=model.device, dtype=model.dtype
    )
    if loaded.target not in (None, target.name):
        raise ValueError(f"{directory} was trained for {loaded.target!r}, and the target is {target.name!r}")
    if isinstance(loaded.draft, ParallelHeads):
        return HeadsDrafter(loaded.draft, loaded.vocabulary)
    return EagleDrafter(loaded.draft.pack(head=model.head), loaded.vocabulary)


def shipped(kind: str, target: Target) -> Path:
    """Directory of the draft that the project ships for a target. ValueError when it ships none."""
    directory = data_directory() / "drafts" / f"{target.name}-{kind}"
    if not directory.is_dir():
        command = "train-small" if kind == "small" else f"train --draft {kind}"
        raise ValueError(
            f"no {kind} draft is shipped for {target.name!r}; train one with "
            f"`labsim {command} --target {target.name} ...` and give its directory"
        )
    return directory
