"""A draft as an engine would serve it: loaded without strictness, whatever is wrong with it.

`labsim.drafts.eagle_checkpoint` refuses what does not fit. Public engines do not, and that is where symptoms come
from: a norm that is missing stays at 1, a tensor nobody asked for is skipped, a mapping that is missing is the
identity, an id out of range is never right. This loader does the same, so that a fault can be *seen*, as a curve.

Shapes: N draft vocabulary, V target vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from ..drafts.eagle import EagleDraft
from ..drafts.eagle_checkpoint import TrainedDraft
from ..drafts.eagle_config import EagleConfig
from ..drafts.eagle_dialects import DraftConfig
from ..drafts.heads import HeadsConfig, ParallelHeads
from ..drafts.mtp import MTPConfig, MTPDraft
from ..models.load import Target
from .layers import read_layers
from .on_disk import OnDisk, read_directory
from .sizes import described, fitted
from .tensors import MAPPING, OWN_EMBEDDING


@dataclass(frozen=True)
class Served:
    """A draft and what its ids mean.

    Attributes:
        layers: target states that it is given, "after i layers", in the order of concatenation.
        ids_N: target id of each draft id; values outside 0..V-1 are never right.
        late: each position is given the state of `late` positions before it (negative: after it).
        left_out: tensors that were missing and kept their initial value, or were there and not read.
    """

    draft: TrainedDraft
    layers: tuple[int, ...]
    ids_N: torch.Tensor
    late: int = 0
    left_out: tuple[str, ...] = ()


def serve(directory: str | Path, target: Target) -> Served:
    """Load in float32, for a float64 target in float64. ValueError where no engine could run it."""
    disk = read_directory(Path(directory))
    if not disk.raw or disk.kind in (None, "small"):
        raise ValueError(f"{directory} holds no draft that reads its target's states")
    return served(disk, described(disk), target)


def served(disk: OnDisk, config: DraftConfig, target: Target) -> Served:
    """See `serve`."""
    model = target.model
    layers = read_layers(disk, model.config.num_layers)
    if layers is None or layers.read is None:
        raise ValueError("its feature layers cannot be told")
    read = layers.read if disk.eagle3 or layers.own else (model.config.num_layers,)
    if any(not 0 <= layer <= model.config.num_layers for layer in read):
        raise ValueError(f"it reads layers {list(read)} of a target that has {model.config.num_layers}")
    config = fitted(config, read)
    if config.vocab_size != model.config.vocab_size:
        raise ValueError(f"it drafts for {config.vocab_size} tokens, and the target has {model.config.vocab_size}")
    width = config.feature_size // len(read)
    if width != model.config.hidden_size:
        raise ValueError(f"it reads states of width {width}, and the target's are {model.config.hidden_size} wide")
    precision = torch.float64 if model.dtype == torch.float64 else torch.float32
    draft = empty(config, disk, target, precision)
    wanted, left_out = draft.state_dict(), []
    for name, initial in wanted.items():
        tensor = disk.tensors.get(name)
        if tensor is not None and tensor.shape == initial.shape:
            wanted[name] = tensor.to(precision)
        elif initial.ndim == 1 and tensor is None:
            left_out.append(name)
        else:
            raise ValueError(f"{name} is missing or has another shape, and no engine can run without it")
    draft.load_state_dict(wanted)
    left_out += sorted(disk.tensors.keys() - wanted.keys() - {*MAPPING, OWN_EMBEDDING})
    return Served(draft.to(model.device).eval(), read, target_ids(disk, config), left_out=tuple(left_out))


def empty(config: DraftConfig, disk: OnDisk, target: Target, precision: torch.dtype) -> TrainedDraft:
    """The module with norms at 1 and the embedding that it would be given."""
    if isinstance(config, HeadsConfig):
        return ParallelHeads(config).to(precision)
    own = disk.tensors.get(OWN_EMBEDDING)
    fits = own is not None and own.shape == (config.vocab_size, config.hidden_size)
    embedding_VH = own if fits else target.model.embedding_VE
    if isinstance(config, EagleConfig) and config.generation == 3:
        return EagleDraft(config, embedding_VH.to(precision)).to(precision)
    head_VH = target.model.head.weight_OI.to(precision)
    make = MTPDraft if isinstance(config, MTPConfig) else EagleDraft
    return make(config, embedding_VH.to(precision), head_VH).to(precision)


def target_ids(disk: OnDisk, config: DraftConfig) -> torch.Tensor:
    """(N,) i + d2t[i], as engines compute it; the identity where d2t is missing or is no such list."""
    ids_N = torch.arange(config.draft_vocab_size)
    d2t = disk.tensors.get("d2t")
    if d2t is None or d2t.shape != ids_N.shape or d2t.is_floating_point():
        return ids_N
    return ids_N + d2t.long()
