"""Reading a small draft, as strictly as the drafts that read states: every tensor accounted for, every value checked.

A small draft is the directory of a Llama-family model that may store less: no embedding (`labsim.embedding` is
"target": it reads its target's), and a head over a draft vocabulary only (`draft_vocab_size`, `d2t`, `t2d`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..models.config import ModelConfig, read_json
from ..models.fields import Fields
from ..models.weights import check_model, read_weights
from .eagle_checkpoint import read_vocabulary
from .eagle_dialects import about
from .vocabulary import DraftVocabulary


@dataclass(frozen=True)
class SmallCheckpoint:
    """A draft as it lies on disk.

    Attributes:
        raw: its config.json; `config` the sizes in it.
        weights: under Hugging Face's names, without d2t and t2d.
        target: the name of the target it was trained for, None where it is not said.
        borrows_embedding: it reads its target's.
    """

    raw: dict[str, Any]
    config: ModelConfig
    weights: dict[str, torch.Tensor]
    vocabulary: DraftVocabulary
    target: str | None
    borrows_embedding: bool


def read_small(directory: Path, target: ModelConfig, target_name: str) -> SmallCheckpoint:
    """The draft in `directory`, for this target. ValueError naming file, key or tensor where it does not fit."""
    raw = read_json(directory / "config.json")
    file = f"{directory}/config.json"
    own = about(raw, file)
    trained_for = own.text("target", None)
    if trained_for not in (None, target_name):
        raise ValueError(f"{directory} was trained for {trained_for!r}, and the target is {target_name!r}")
    config = ModelConfig.from_dict(raw, str(directory))
    if config.vocab_size != target.vocab_size:
        raise ValueError(
            f"{directory} drafts for a vocabulary of {config.vocab_size}, and {target_name} has {target.vocab_size}"
        )
    embedding = own.text("embedding", None)
    if embedding not in (None, "target"):
        raise own.wrong("embedding", "'target', or no such key where the draft stores its own")
    if embedding and config.hidden_size != target.hidden_size:
        raise ValueError(
            f"{file}: hidden_size is {config.hidden_size}; right is {target.hidden_size}, the width of the target's "
            "embedding, which this draft reads"
        )
    size = Fields(raw, file).whole("draft_vocab_size", 1, config.vocab_size, None) or config.vocab_size
    weights = read_weights(directory)
    vocabulary = read_vocabulary(
        weights.pop("d2t", None), weights.pop("t2d", None), size, config.vocab_size, str(directory)
    )
    borrows = embedding is not None
    check_model(weights, config, str(directory), borrows_embedding=borrows, head_rows=size)
    return SmallCheckpoint(raw, config, weights, vocabulary, trained_for, borrows)
