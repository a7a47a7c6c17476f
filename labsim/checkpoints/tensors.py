"""Is every tensor there, once, of its shape, filled in?

Public loaders read drafts with `strict=False`: a tensor that is missing, or named otherwise, keeps its initial value
in silence. So the doctor compares with the full list that the config implies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from ..drafts.eagle import EagleDraft
from ..drafts.eagle_config import FEATURES, EagleConfig
from ..drafts.eagle_dialects import DraftConfig
from ..drafts.heads import HeadsConfig, ParallelHeads
from ..drafts.mtp import MTPConfig, MTPDraft
from ..models.weights import WEIGHT_TYPES
from .check import Check, fault, listed, ok, warning
from .on_disk import OnDisk

MAPPING = ("d2t", "t2d")
OWN_EMBEDDING = "embed_tokens.weight"
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def expected_shapes(config: DraftConfig) -> dict[str, tuple[int, ...]]:
    """Every trained tensor of such a draft. Nothing is allocated: the module is made on the meta device."""
    plain_rope = {"rope_theta": 10000.0, "rope_scaling": None}
    with torch.device("meta"):
        if isinstance(config, HeadsConfig):
            module: torch.nn.Module = ParallelHeads(config)
        else:
            embedding = torch.empty(config.vocab_size, config.hidden_size)
            make = MTPDraft if isinstance(config, MTPConfig) else EagleDraft
            module = make(replace(config, rope=plain_rope), embedding)
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def tensor_checks(disk: OnDisk, config: DraftConfig) -> list[Check]:
    """Missing, surplus, of another shape; norms' own presence is judged by `norms`."""
    wanted = expected_shapes(config)
    found = {name: tensor for name, tensor in disk.tensors.items() if name not in (*MAPPING, OWN_EMBEDDING)}
    checks = []
    if missing := {name for name in wanted.keys() - found.keys() if not is_switched_norm(name)}:
        checks.append(
            fault(
                "tensors: missing",
                f"{listed(missing)}",
                "non-strict loading leaves them as they were initialised: norms at 1, matrices random; acceptance "
                "low or nothing",
                "export again from the training's own weights; a renamed prefix is the usual cause",
            )
        )
    if surplus := {name for name in found.keys() - wanted.keys() if not is_switched_norm(name)}:
        checks.append(
            fault(
                "tensors: surplus",
                f"{listed(surplus)}, which this kind does not have",
                "engines skip them or stop; a skipped one is a part of the draft that is not computed",
                "a flag that is missing in config.json, or another kind of draft: see architectures",
            )
        )
    shaped = found | {name: disk.tensors[name] for name in (OWN_EMBEDDING,) if name in disk.tensors}
    if isinstance(config, EagleConfig | MTPConfig):
        wanted = wanted | {OWN_EMBEDDING: (config.vocab_size, config.hidden_size)}
    wrong = [
        f"{name} is {tuple(shaped[name].shape)}, not {wanted[name]}"
        for name in sorted(shaped.keys() & wanted.keys())
        if tuple(shaped[name].shape) != wanted[name]
    ]
    if wrong:
        checks.append(
            fault(
                "tensors: shape",
                "; ".join(wrong[:3]),
                "the engine stops while loading, or takes a slice",
                "config.json and weights are of two drafts, or a size in config.json was edited",
            )
        )
    return checks or [ok("tensors", f"all {len(wanted)} that the config implies" if OWN_EMBEDDING in shaped else
                         f"all {len(wanted) - (OWN_EMBEDDING in wanted)} that the config implies")]  # fmt: skip


def is_switched_norm(name: str) -> bool:
    """Norms that a flag of config.json switches on: flag and tensor are compared elsewhere."""
    return name in (*(f"fc_norm.{index}.weight" for index in range(FEATURES)), "input_norm.weight", "norm.weight")


def value_checks(disk: OnDisk) -> list[Check]:
    """Not a number, all zero, types."""
    checks: list[Check] = []
    floats = {name: tensor for name, tensor in disk.tensors.items() if name not in MAPPING}
    if wrong := {name for name, tensor in floats.items() if tensor.dtype not in WEIGHT_TYPES}:
        checks.append(
            fault(
                "values: type",
                f"{listed(f'{name} ({floats[name].dtype})' for name in wrong)}",
                "quantised or damaged weights: the engine stops, or reads the codes as weights",
                "export in float16, bfloat16 or float32",
            )
        )
    floats = {name: tensor for name, tensor in floats.items() if name not in wrong}
    bad = {name for name, tensor in floats.items() if not bool(torch.isfinite(tensor).all())}
    if bad:
        never = OWN_EMBEDDING in bad or "lm_head.weight" in bad
        checks.append(
            fault(
                "values: not numbers",
                f"{listed(bad)} hold NaN or infinity",
                "every logit is NaN; engines draft token 0, acceptance length 1",
                "speculators marks embedding and head with NaN until the target's rows are loaded: load them before "
                "saving" if never else "the training diverged, or float16 overflowed: save an earlier one, or bfloat16",
            )
        )  # fmt: skip
    if zero := {name for name, tensor in floats.items() if tensor.numel() and not bool(tensor.any())
                and not name.endswith("bias")}:  # fmt: skip
        checks.append(
            fault(
                "values: zero",
                f"{listed(zero)} hold nothing but zeros",
                "a part of the draft says nothing",
                "it was allocated and never filled: export again",
            )
        )
    return checks + list(dtype_checks(disk, floats)) or [ok("values", "all finite, none of the tensors zero")]


def dtype_checks(disk: OnDisk, floats: dict[str, torch.Tensor]) -> Iterator[Check]:
    """One type throughout, the one that config.json names."""
    kinds = {str(tensor.dtype).removeprefix("torch.") for tensor in floats.values()}
    said = disk.raw.get("torch_dtype") or disk.raw.get("dtype")
    if len(kinds) > 1:
        yield warning(
            "dtype: mixed",
            f"weights in {', '.join(sorted(kinds))}",
            "engines cast to one type: not the numbers that were trained",
            "export in one type",
        )
    elif kinds and isinstance(said, str) and said.removeprefix("torch.") not in kinds:
        yield warning(
            "dtype: not the named one",
            f"config.json says {said}, the weights are {next(iter(kinds))}",
            "the engine casts on loading; float32 cast to float16 may overflow",
            "name the type that is stored",
        )
    elif kinds and not kinds <= {str(dtype).removeprefix("torch.") for dtype in DTYPES}:
        yield warning(
            "dtype: unusual",
            f"weights in {next(iter(kinds))}",
            "engines cast them, or refuse",
            "export in float16 or bfloat16",
        )


def embedding_checks(disk: OnDisk, config: DraftConfig) -> list[Check]:
    """Ties, and whose embedding it is."""
    if isinstance(config, HeadsConfig):
        return []
    tied = any(part.get("tie_word_embeddings") is True for part in (disk.raw, disk.sizes))
    if tied and ("lm_head.weight" in disk.tensors or config.draft_vocab_size != config.vocab_size):
        return [
            fault(
                "embeddings: tied",
                "tie_word_embeddings is true, and the draft has a head of its own",
                "an engine that ties puts the embedding in the trained head's place: acceptance near nothing, or a "
                "shape error",
                "set tie_word_embeddings to false (a copy of the target's config.json often brings it along)",
            )
        ]
    kept = "stored with the draft" if OWN_EMBEDDING in disk.tensors else "the target's"
    return [ok("embeddings", f"not tied; the embedding is {kept}")]
