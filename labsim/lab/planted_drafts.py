"""Wirings that load without an error and are wrong: a trained draft, spoilt on purpose.

Decoding stays lossless with each of them, since the target judges every token. What falls is the acceptance.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import torch

from ..drafts.eagle import EagleDraft
from ..drafts.eagle_drafter import EagleDrafter
from ..drafts.vocabulary import DraftVocabulary
from ..models.load import Target
from .page_draft import PageDraft

BUGS = ("state first, embedding second", "d2t taken for absolute ids", "feature layers one off", "high before low")


def spoilt(page: PageDraft, target: Target, bug: str) -> EagleDrafter:
    """A drafter with the bug. ValueError for a bug not in BUGS, or a draft that is no EAGLE-3."""
    if bug not in BUGS:
        raise ValueError(f"bug is {bug!r}; allowed: {', '.join(BUGS)}")
    draft = copy.deepcopy(page.draft)
    if not isinstance(draft, EagleDraft) or draft.config.generation != 3:
        raise ValueError(f"{page.name} is a {draft.config.kind}; the bugs are those of an EAGLE-3 draft")
    vocabulary = page.vocabulary
    if bug == BUGS[0]:
        swap_entry(draft)
    elif bug == BUGS[1]:
        vocabulary = taken_for_ids(vocabulary)
    elif bug == BUGS[2]:
        draft.config = replace(draft.config, feature_layers=tuple(layer - 1 for layer in draft.config.feature_layers))
    else:
        draft.config = replace(draft.config, feature_layers=draft.config.feature_layers[::-1])
    return EagleDrafter(draft.to(target.model.dtype).pack(head=target.model.head), vocabulary)


@torch.no_grad()
def swap_entry(draft: EagleDraft) -> None:
    """Feed every projection the two halves of its input in the other order: the same as swapping its columns."""
    attention = draft.midlayer.self_attn
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        embedding, state = projection.weight.chunk(2, dim=1)
        projection.weight.copy_(torch.cat([state, embedding], dim=1))


def taken_for_ids(vocabulary: DraftVocabulary) -> DraftVocabulary:
    """What a loader makes of d2t when it forgets to add the draft id. Several draft ids then name one token."""
    return DraftVocabulary(vocabulary.d2t.clone(), vocabulary.draft_id_V)
