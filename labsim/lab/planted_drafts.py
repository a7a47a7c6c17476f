"""Wirings that load without an error and are wrong: a trained draft, spoilt on purpose, to decode with.

Two of them are faults of a checkpoint (`labsim.checkpoints.faults`, which has many more), two of the loader that reads
it, one of the engine that serves it. Decoding stays lossless with each, since the target judges every token. What falls
is the acceptance.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from ..checkpoints.faults import plant
from ..drafts.eagle import EagleDraft
from ..drafts.eagle_drafter import EagleDrafter
from ..drafts.protocol import Draft
from ..drafts.shape import Chain, Shape
from ..drafts.vocabulary import DraftVocabulary
from ..models.load import Target
from ..models.sampling import Sampling
from .page_draft import PageDraft
from .ttt_lab import open_draft

BUGS = (
    "state first, embedding second",
    "d2t taken for absolute ids",
    "feature layers one off",
    "high before low",
    "branch keys kept after the verdict",
)
PLANTED = {BUGS[0]: "halves-swapped", BUGS[3]: "layers-reversed"}


def spoilt(page: PageDraft, target: Target, bug: str) -> EagleDrafter:
    """A drafter with the bug. ValueError for a bug not in BUGS, or a draft that is no EAGLE-3."""
    if bug not in BUGS:
        raise ValueError(f"bug is {bug!r}; allowed: {', '.join(BUGS)}")
    draft, vocabulary = copy.deepcopy(page.draft), page.vocabulary
    drafter = EagleDrafter
    if not isinstance(draft, EagleDraft) or draft.config.generation != 3:
        raise ValueError(f"{page.name} is a {draft.config.kind}; the bugs are those of an EAGLE-3 draft")
    if bug in PLANTED:
        with tempfile.TemporaryDirectory(prefix="labsim-spoilt-") as scratch:
            loaded = open_draft(plant(PLANTED[bug], page.directory, Path(scratch) / "draft"), target)
        draft, vocabulary = loaded.draft, loaded.vocabulary
    elif bug == BUGS[1]:
        vocabulary = taken_for_ids(vocabulary)
    elif bug == BUGS[4]:
        drafter = KeepsBranch
    else:
        draft.config = replace(draft.config, feature_layers=tuple(layer - 1 for layer in draft.config.feature_layers))
    return drafter(draft.to(target.model.dtype).pack(head=target.model.head), vocabulary)


class KeepsBranch(EagleDrafter):
    """Right guesses stay in the cache as they were guessed, with the draft's own states where the target's belong.

    Only what was never run gets its true state: the target's own token, and the last guess of a chain that was right to
    its end. Chains only.
    """

    def select(self, rows: Sequence[int]) -> None:
        self.features = [self.features[row] for row in rows]
        if self.cache is not None:
            self.cache.select(rows)  # with what is pending

    def propose(
        self,
        texts: Sequence[Sequence[int]],
        shape: Shape,
        sampling: Sampling,
        generators: Sequence[torch.Generator],
    ) -> list[Draft]:
        if not isinstance(shape, Chain):
            raise ValueError(f"shape is {shape}; a branch is kept of chains only")
        if self.cache is not None:
            fresh = [len(text) - 1 - length for text, length in zip(texts, self.cache.lengths, strict=True)]
            right = [min(count - 1, self.cache.pending) for count in fresh]  # all but the target's own token
            self.cache.keep([range(count) for count in right])
            self.features = [[torch.cat(states)[count:]] for states, count in zip(self.features, right, strict=True)]
        return super().propose(texts, shape, sampling, generators)


def taken_for_ids(vocabulary: DraftVocabulary) -> DraftVocabulary:
    """What a loader makes of d2t when it forgets to add the draft id. Several draft ids then name one token."""
    return DraftVocabulary(vocabulary.d2t.clone(), vocabulary.draft_id_V)
