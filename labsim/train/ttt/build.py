"""A fresh draft beside its target, started from what the target already knows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from ...drafts.eagle import EagleDraft
from ...drafts.eagle_checkpoint import TrainedDraft, load_draft
from ...drafts.eagle_config import EagleConfig
from ...drafts.heads import HeadsConfig, ParallelHeads
from ...drafts.mtp import MTPConfig, MTPDraft
from ...drafts.rotary import rope_settings
from ...drafts.vocabulary import DraftVocabulary, count_tokens, coverage, most_frequent
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
    chosen = {"feature_layers": recipe.feature_layers, "intermediate_size": recipe.intermediate_size}
    chosen = {name: value for name, value in chosen.items() if value}
    whole = recipe.draft in ("eagle1", "mtp")
    vocabulary = (
        DraftVocabulary.whole(config.vocab_size) if whole else answer_vocabulary(documents, recipe, config.vocab_size)
    )
    sizes = {"draft_vocab_size": len(vocabulary)} | chosen
    if recipe.draft == "heads":
        sizes.pop("intermediate_size", None)
        draft: TrainedDraft = ParallelHeads(HeadsConfig.beside(config, num_heads=recipe.ttt, **sizes))
        return draft.initialise(recipe.seed, head_VH[vocabulary.ids_N.to(head_VH.device)]).to(model.device), vocabulary
    if recipe.draft == "mtp":
        draft = MTPDraft(MTPConfig.mtp(config, rope=rope, **chosen), embedding_VH, head_VH)
    elif recipe.draft == "eagle1":
        # Public EAGLE-1 drafts have a bias where the inputs join; vLLM serves only those without.
        draft = EagleDraft(EagleConfig.eagle1(config, rope=rope, fc_bias=False, **chosen), embedding_VH, head_VH)
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


def covered(documents: Sequence[Document], vocabulary: DraftVocabulary) -> float:
    """Share of the documents' answer tokens that a draft with this vocabulary can say."""
    answers = (document.tokens[document.answer_start :] for document in documents)
    return coverage(count_tokens(answers, len(vocabulary.draft_id_V)), vocabulary)


def start_from(directory: Path, recipe: TTTRecipe, target: Target) -> tuple[TrainedDraft, DraftVocabulary]:
    """A draft that was trained before, to be trained on. It keeps its vocabulary: head rows belong to tokens.

    ValueError when it is of another kind or was made for another target.
    """
    model = target.model
    loaded = load_draft(
        directory,
        target=model.config,
        embedding_VH=model.embedding_VE.float(),
        head_VH=model.head.weight_OI.float(),
        dtype=torch.float32,
    )
    if loaded.draft.config.kind != recipe.draft:
        raise ValueError(f"{directory} holds a draft of the kind {loaded.draft.config.kind!r}, not {recipe.draft!r}")
    if loaded.target not in (None, target.name):
        raise ValueError(f"{directory} was trained for {loaded.target!r}, and the target is {target.name!r}")
    return loaded.draft, loaded.vocabulary
