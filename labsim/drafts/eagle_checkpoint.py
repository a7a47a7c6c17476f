"""Reading and writing trained drafts: every tensor accounted for.

Public loaders read drafts with `strict=False`. A norm whose tensor is missing, or is named otherwise, then stays at
one, in silence, and the draft merely accepts less. Here a missing tensor, a surplus one and one of another shape are
errors that name it.

Two public layouts name the same layer `midlayer.` (EAGLE, SpecForge, TorchSpec) or `layers.0.` (speculators,
Model-Optimizer; NeMo under `model.`). Both are read; EAGLE-3 is written in the first, EAGLE-1 in the second, as its
authors do. Embedding and borrowed head are the target's and not stored. Files are safetensors and JSON, fp16, and are
written whole or not at all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch

from ..models.config import ModelConfig, read_json
from ..models.files import write_atomically
from ..models.weights import check_tensor, named, read_weights, tensor_bytes, tensor_names
from .eagle import EagleDraft
from .eagle_config import EagleConfig
from .eagle_dialects import KINDS, about, kind_of, read_config, write_config
from .heads import ParallelHeads
from .mtp import MTPConfig, MTPDraft
from .vocabulary import DraftVocabulary

TrainedDraft = EagleDraft | MTPDraft | ParallelHeads


@dataclass(frozen=True)
class LoadedDraft:
    """A draft with its vocabulary. `target` is the name of the target it was trained for, None where it is not said."""

    draft: TrainedDraft
    vocabulary: DraftVocabulary
    target: str | None


def draft_kind(directory: Path) -> str:
    """`small` or one of `KINDS`, from config.json and, where that leaves it open, the names of the tensors.

    ValueError naming the file that is missing, damaged or describes no draft.
    """
    return kind_of(read_json(directory / "config.json"), tensor_names(directory), f"{directory}/config.json")


def load_draft(
    directory: str | Path,
    *,
    target: ModelConfig,
    embedding_VH: torch.Tensor,
    head_VH: torch.Tensor | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> LoadedDraft:
    """Read a draft directory of any kind but `small`, ours or a public one.

    Args:
        directory: config.json and *.safetensors.
        target: of the model it drafts for.
        embedding_VH: the target's embedding, used unless the checkpoint stores its own.
        head_VH: the target's head, for the kinds that borrow it; a packed one may be given to `pack` instead.
        device, dtype: where to; by default those of the embedding.

    Raises:
        ValueError: naming what is missing, surplus, of the wrong shape, not a number, or meant for another target.
    """
    directory = Path(directory)
    device = embedding_VH.device if device is None else device
    dtype = embedding_VH.dtype if dtype is None else dtype
    raw = read_json(directory / "config.json")
    file = f"{directory}/config.json"
    kind = draft_kind(directory)
    if kind not in KINDS:
        raise ValueError(f"{directory} holds a draft of the kind {kind!r}; this loader reads {', '.join(KINDS)}")
    config = read_config(raw, kind, target, file)
    tensors = public_to_ours(read_weights(directory), config, str(directory))
    d2t, t2d = tensors.pop("d2t", None), tensors.pop("t2d", None)
    vocabulary = read_vocabulary(d2t, t2d, config.draft_vocab_size, config.vocab_size, str(directory))
    own_embedding = tensors.pop("embed_tokens.weight", None)
    if isinstance(config, EagleConfig | MTPConfig):
        if own_embedding is not None:
            check_tensor(own_embedding, (config.vocab_size, config.hidden_size), "embed_tokens.weight", str(directory))
            embedding_VH = own_embedding
        make = MTPDraft if isinstance(config, MTPConfig) else EagleDraft
        try:
            draft: TrainedDraft = make(config, embedding_VH, None if kind.startswith("eagle3") else head_VH)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from error
        draft.stores_embedding = own_embedding is not None
    else:
        draft = ParallelHeads(config)
    check_tensors(tensors, draft.state_dict(), str(directory))
    draft.load_state_dict(tensors)
    draft.to(device=device, dtype=dtype).eval()
    return LoadedDraft(draft, vocabulary, about(raw, file).text("target", None))


def save_draft(
    directory: str | Path,
    draft: TrainedDraft,
    vocabulary: DraftVocabulary,
    target_name: str,
    *,
    dtype: torch.dtype = torch.float16,
) -> None:
    """Write config.json and model.safetensors in the public layout.

    ValueError when a weight is not a number, or is too large for `dtype`.
    """
    directory = Path(directory)
    config = draft.config
    if len(vocabulary) != config.draft_vocab_size:
        raise ValueError(f"a vocabulary of {len(vocabulary)} tokens for a draft of {config.draft_vocab_size}")
    tensors = {name: tensor.detach() for name, tensor in draft.state_dict().items()}
    if getattr(draft, "stores_embedding", False):
        tensors["embed_tokens.weight"] = draft.embedding_VH
    tensors = {ours_to_public(name, config): tensor for name, tensor in tensors.items()}
    # `clone`: a tensor that shares memory with another cannot be written.
    tensors = {name: tensor.to("cpu", dtype).contiguous().clone() for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{name} holds values that are not numbers in {dtype}: the training has diverged")
    if len(vocabulary) < config.vocab_size or config.kind.startswith("eagle3"):
        tensors |= {"d2t": vocabulary.d2t, "t2d": vocabulary.t2d}
    directory.mkdir(parents=True, exist_ok=True)
    document = write_config(config, target_name, str(dtype).removeprefix("torch."))
    # The weights first: a directory with a config but no weights would look like a damaged draft.
    write_atomically(directory / "model.safetensors", tensor_bytes(tensors, {"format": "pt"}))
    write_atomically(directory / "config.json", (json.dumps(document, indent=2) + "\n").encode())


def read_vocabulary(
    d2t: torch.Tensor | None, t2d: torch.Tensor | None, size: int, vocab_size: int, name: str
) -> DraftVocabulary:
    """Which tokens the head says. ValueError when the mapping is missing or does not fit the head."""
    if d2t is None:
        if size != vocab_size:
            raise ValueError(f"{name} drafts {size} of {vocab_size} tokens and lacks d2t, which says which ones")
        return DraftVocabulary.whole(vocab_size)
    if d2t.shape != (size,):
        raise ValueError(f"{name}: d2t names {d2t.numel()} tokens, and config.json says draft_vocab_size {size}")
    return DraftVocabulary.from_public(d2t, vocab_size, t2d, name=name)


def public_to_ours(tensors: dict[str, torch.Tensor], config: object, name: str) -> dict[str, torch.Tensor]:
    """Tensors under this package's names, whichever layout they come in."""
    ours: dict[str, torch.Tensor] = {}
    for public, tensor in tensors.items():
        key = our_name(public, eagle=isinstance(config, EagleConfig))
        if key is None:
            continue
        if key in ours:
            raise ValueError(f"{name} holds {key} twice, under two layouts' names")
        ours[key] = tensor
    return ours


def our_name(public: str, *, eagle: bool) -> str | None:
    """This package's name of a public tensor; None for one that is derived from the config and not read."""
    if public.endswith("rotary_emb.inv_freq"):
        return None
    key = public.removeprefix("model.")
    return "midlayer." + key.removeprefix("layers.0.") if eagle and key.startswith("layers.0.") else key


def ours_to_public(name: str, config: object) -> str:
    if isinstance(config, EagleConfig) and config.generation == 1:
        return name.replace("midlayer.", "layers.0.", 1)
    return name


def check_tensors(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor], name: str) -> None:
    """ValueError unless the checkpoint holds exactly the tensors that the draft has."""
    named(f"{name} lacks", wanted.keys() - found.keys())
    named(f"{name} holds unknown", found.keys() - wanted.keys())
    for key, tensor in found.items():
        check_tensor(tensor, tuple(wanted[key].shape), key, name)
