"""The sizes of a draft beside a target that is only named: no weights are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..models.config import ModelConfig
    from ..train.ttt.memory import DraftShape

DRAFT_VOCABULARY = {"nano": 4096, "smollm2": 4096}  # what their shipped drafts have
LARGE_DRAFT_VOCABULARY = 32_000  # of the public drafts for models of this size


def shape_of(name: str, kind: str, draft_vocab: int | None) -> tuple[DraftShape, float]:
    """(the draft's sizes beside a target, bytes of the target's weights as published; bf16 for a directory).

    ValueError for a name that is no target, no directory and no known model.
    """
    from ..models.config import ModelConfig, read_json
    from ..models.load import directory_called, locate
    from ..sim.cost import weight_bytes
    from ..sim.drafts import draft_layer
    from ..sim.targets import find_model, split_model_name
    from ..train.ttt.memory import DraftShape

    if name in DRAFT_VOCABULARY or directory_called(name) is not None:
        config = ModelConfig.from_dict(read_json(locate(name) / "config.json"), name)
        width = config.head_dim * (config.num_heads + config.num_kv_heads)
        layer = 2 * config.hidden_size * width + 3 * config.hidden_size * config.intermediate_size
        tables = config.vocab_size * config.hidden_size * (1 if config.tied else 2)
        return shape_of_config(config, name, kind, draft_vocab), 2.0 * (config.num_layers * layer + tables)
    try:
        model = find_model(name)
    except ValueError as error:
        raise ValueError(f"{error}; and nano, smollm2, or a directory with a config.json") from error
    ffn, kv_heads, head_dim = draft_layer(model)
    layer = kind != "heads"
    return DraftShape(
        kind=kind,
        hidden=model.hidden,
        target_hidden=model.hidden,
        vocab=model.vocab,
        draft_vocab=vocabulary(name, draft_vocab, model.vocab),
        features=3 if kind.startswith("eagle3") else 1,
        heads=model.heads if layer else 0,
        kv_heads=kv_heads if layer else 0,
        head_dim=head_dim if layer else 0,
        intermediate=ffn if layer else 0,
    ), weight_bytes(model, split_model_name(name)[1] or model.dtype)


def shape_of_config(config: ModelConfig, name: str, kind: str, draft_vocab: int | None) -> DraftShape:
    """The sizes of a draft as `labsim train` builds it beside a target of that config."""
    from ..train.ttt.memory import DraftShape

    return DraftShape.beside(config, kind, vocabulary(name, draft_vocab, config.vocab_size))


def vocabulary(name: str, asked: int | None, whole: int) -> int:
    """The draft's vocabulary: as asked for, or what public drafts for such a target have."""
    if asked is None:
        return min(DRAFT_VOCABULARY.get(name, LARGE_DRAFT_VOCABULARY), whole)
    if asked > whole:
        raise ValueError(f"--draft-vocab-size is {asked}; {name} has {whole} tokens")
    return asked
