"""A fresh draft beside its target, started from what the target already knows."""

from __future__ import annotations

from collections.abc import Sequence

from ...drafts.eagle import EagleDraft
from ...drafts.eagle_checkpoint import TrainedDraft
from ...drafts.eagle_config import EagleConfig
from ...drafts.heads import HeadsConfig, ParallelHeads
from ...drafts.mtp import MTPConfig, MTPDraft
from ...drafts.rotary import rope_settings
from ...drafts.vocabulary import DraftVocabulary, count_tokens, most_frequent
from ...models.config import read_json
from ...models.load import Target
from .data import Document
from .recipe import TTTRecipe


def build(recipe: TTTRecipe, target: Target, documents: Sequence[Document]) -> tuple[TrainedDraft, DraftVocabulary]:
    """Draft and vocabulary. A head of its own starts from the target's rows, a final norm from the target's.

    The draft vocabulary is the most frequent tokens of the documents' answers. EAGLE-1 and MTP speak through the
    target's head, so theirs is the target's.
    """
    model = target.model
    config, embedding_VH = model.config, model.embedding_VE.float()
    head_VH = model.head.weight_OI.float()
    rope = rope_settings(read_json(target.directory / "config.json"))
    layers = {"feature_layers": recipe.feature_layers} if recipe.feature_layers else {}
    whole = recipe.draft in ("eagle1", "mtp")
    vocabulary = (
        DraftVocabulary.whole(config.vocab_size) if whole else answer_vocabulary(documents, recipe, config.vocab_size)
    )
    sizes = {"draft_vocab_size": len(vocabulary)} | layers
    if recipe.draft == "heads":
        draft: TrainedDraft = ParallelHeads(HeadsConfig.beside(config, num_heads=recipe.ttt, **sizes))
        return draft.initialise(recipe.seed, head_VH[vocabulary.ids_N.to(head_VH.device)]).to(model.device), vocabulary
    if recipe.draft == "mtp":
        draft = MTPDraft(MTPConfig.mtp(config, rope=rope, **layers), embedding_VH, head_VH)
    elif recipe.draft == "eagle1":
        draft = EagleDraft(EagleConfig.eagle1(config, rope=rope, **layers), embedding_VH, head_VH)
    else:
        make = EagleConfig.eagle31 if recipe.draft == "eagle3.1" else EagleConfig.eagle3
        draft = EagleDraft(make(config, rope=rope, **sizes), embedding_VH)
    draft.initialise(recipe.seed)
    if recipe.draft.startswith("eagle3"):
        draft.start_from_target(head_VH, vocabulary, model.norm.float())
    return draft.to(model.device), vocabulary


def answer_vocabulary(documents: Sequence[Document], recipe: TTTRecipe, vocab_size: int) -> DraftVocabulary:
    """The most frequent answer tokens."""
    counts_V = count_tokens((document.tokens[document.answer_start :] for document in documents), vocab_size)
    return most_frequent(counts_V, min(recipe.draft_vocab_size, vocab_size))
