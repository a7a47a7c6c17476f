"""Random drafts of every kind beside a tiny target, and what they must say: one whole forward of the target over the
text, then the training-time forward. Nothing is cached, cut back or drafted."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from labsim.drafts.eagle import EagleDraft
from labsim.drafts.eagle_config import EagleConfig
from labsim.drafts.eagle_drafter import EagleDrafter
from labsim.drafts.heads import HeadsConfig, HeadsDrafter, ParallelHeads
from labsim.drafts.mtp import MTPConfig, MTPDraft
from labsim.drafts.protocol import Draft
from labsim.drafts.vocabulary import DraftVocabulary
from labsim.models.load import Target

from .eagle_cases import randomise

KNOWN = (0, 2, 3, 5, 6)  # what EAGLE-3 and the heads can say, of seven tokens
KINDS = ("eagle1", "eagle3", "eagle3.1", "mtp", "heads")
TrainedDraft = EagleDraft | MTPDraft | ParallelHeads


def build(kind: str, target: Target, seed: int = 1) -> tuple[TrainedDraft, DraftVocabulary]:
    """A float64 draft with random weights, and its vocabulary."""
    model, c = target.model, target.model.config
    reduced, whole = DraftVocabulary.of(KNOWN, c.vocab_size), DraftVocabulary.whole(c.vocab_size)
    head = model.head.weight_OI
    if kind == "heads":
        draft = ParallelHeads(HeadsConfig.beside(c, num_heads=4, draft_vocab_size=len(KNOWN)))
    elif kind == "mtp":
        draft = MTPDraft(MTPConfig.mtp(c), model.embedding_VE, head)
    elif kind == "eagle1":
        draft = EagleDraft(EagleConfig.eagle1(c), model.embedding_VE, head)
    else:
        make = EagleConfig.eagle31 if kind == "eagle3.1" else EagleConfig.eagle3
        draft = EagleDraft(make(c, draft_vocab_size=len(KNOWN)), model.embedding_VE)
    draft = draft.double()
    randomise(draft, seed)
    return draft, whole if kind in ("mtp", "eagle1") else reduced


def drafter_of(draft: TrainedDraft, vocabulary: DraftVocabulary) -> EagleDrafter | HeadsDrafter:
    return (HeadsDrafter if isinstance(draft, ParallelHeads) else EagleDrafter)(draft, vocabulary)


class Expected:
    """What a draft says after a text and a drafted path: the target's states, then TTT."""

    def __init__(self, draft: TrainedDraft, vocabulary: DraftVocabulary, target: Target) -> None:
        # transformers would do as well, but its norms are float32 even in a float64 model.
        self.draft, self.vocabulary, self.model = draft, vocabulary, target.model
        self.known: dict[tuple[int, ...], torch.Tensor] = {}

    @torch.no_grad()
    def states(self, text: tuple[int, ...]) -> torch.Tensor:
        """(1, n - 1, F): the last token's own state is not known when the draft is made."""
        if text not in self.known:
            layers, cache = self.draft.config.feature_layers, self.model.new_cache(1, len(text))
            hidden = self.model.forward(torch.tensor([text]), cache, hidden_layers=layers).hidden
            self.known[text] = torch.cat([hidden[layer][:, :-1] for layer in layers], dim=-1)
        return self.known[text]

    @torch.no_grad()
    def logits(self, text: Sequence[int], path: Sequence[int]) -> torch.Tensor:
        """(V,) after the text and the drafted path."""
        states = self.states(tuple(text))
        tokens = torch.tensor([[*text, *path]])
        *_, last = self.draft.ttt_forward(tokens, states, len(path) + 1)
        return self.vocabulary.widen(self.draft.logits(last.output_BLH[0, -1], last.step))

    def q(self, text: Sequence[int], path: Sequence[int], temperature: float) -> torch.Tensor:
        return (self.logits(text, path) / temperature).softmax(-1)


def path_to(draft: Draft, node: int) -> list[int]:
    """Tokens that lead to a node, without its own."""
    path, at = [], draft.parents[node]
    while at >= 0:
        path.append(draft.tokens[at])
        at = draft.parents[at]
    return path[::-1]
