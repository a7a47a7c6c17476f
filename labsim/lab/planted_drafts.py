"""Wirings that load without an error and are wrong: a trained draft, spoilt on purpose, to decode with.

Two of them are faults of a checkpoint (`labsim.checkpoints.faults`, which has many more), two of the loader that reads
it. Decoding stays lossless with each, since the target judges every token. What falls is the acceptance.
"""

from __future__ import annotations

import copy
import tempfile
from dataclasses import replace
from pathlib import Path

from ..checkpoints.faults import plant
from ..drafts.eagle import EagleDraft
from ..drafts.eagle_drafter import EagleDrafter
from ..drafts.vocabulary import DraftVocabulary
from ..models.load import Target
from .page_draft import PageDraft
from .ttt_lab import open_draft

BUGS = ("state first, embedding second", "d2t taken for absolute ids", "feature layers one off", "high before low")
PLANTED = {BUGS[0]: "halves-swapped", BUGS[3]: "layers-reversed"}


def spoilt(page: PageDraft, target: Target, bug: str) -> EagleDrafter:
    """A drafter with the bug. ValueError for a bug not in BUGS, or a draft that is no EAGLE-3."""
    if bug not in BUGS:
        raise ValueError(f"bug is {bug!r}; allowed: {', '.join(BUGS)}")
    draft, vocabulary = copy.deepcopy(page.draft), page.vocabulary
    if not isinstance(draft, EagleDraft) or draft.config.generation != 3:
        raise ValueError(f"{page.name} is a {draft.config.kind}; the bugs are those of an EAGLE-3 draft")
    if bug in PLANTED:
        with tempfile.TemporaryDirectory(prefix="labsim-spoilt-") as scratch:
            loaded = open_draft(plant(PLANTED[bug], page.directory, Path(scratch) / "draft"), target)
        draft, vocabulary = loaded.draft, loaded.vocabulary
    elif bug == BUGS[1]:
        vocabulary = taken_for_ids(vocabulary)
    else:
        draft.config = replace(draft.config, feature_layers=tuple(layer - 1 for layer in draft.config.feature_layers))
    return EagleDrafter(draft.to(target.model.dtype).pack(head=target.model.head), vocabulary)


def taken_for_ids(vocabulary: DraftVocabulary) -> DraftVocabulary:
    """What a loader makes of d2t when it forgets to add the draft id. Several draft ids then name one token."""
    return DraftVocabulary(vocabulary.d2t.clone(), vocabulary.draft_id_V)
