"""A draft directory as it lies there, read without trusting any of it.

The loader (`labsim.drafts.eagle_checkpoint`) stops at the first thing that does not fit: right for decoding, useless
for a diagnosis. Here whatever can be read is read, and what cannot is a finding. Pickles (.bin, .pt) are never opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..drafts.eagle_checkpoint import our_name
from ..drafts.eagle_config import FEATURES
from ..drafts.eagle_dialects import FIXED_SWITCHES, kind_of
from ..models.config import read_json
from ..models.fields import short, shown
from ..models.load import directory_called
from ..models.weights import opened
from .check import Check, fault, listed, ok, warning

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")


@dataclass(frozen=True)
class OnDisk:
    """What could be read.

    Attributes:
        raw: config.json; empty where it cannot be read.
        tensors: under this package's names (`midlayer.`); of a tensor that is there twice, the first one.
        kind: as `labsim.drafts.eagle_dialects.kind_of`; None where config.json does not say.
        dialect: whose config.json it is, in words.
        checks: findings about the files themselves.
    """

    directory: Path
    raw: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    kind: str | None
    dialect: str
    checks: tuple[Check, ...]

    @property
    def eagle3(self) -> bool:
        return (self.kind or "").startswith("eagle3")

    @property
    def sizes(self) -> dict[str, Any]:
        """The object that holds the layer's sizes: the whole file, or `transformer_layer_config`."""
        inner = self.raw.get("transformer_layer_config")
        return inner if isinstance(inner, dict) and inner else self.raw


def read_directory(directory: str | Path) -> OnDisk:
    """ValueError only where there is no such directory: everything else is a finding."""
    name, directory = directory, directory_called(str(directory))
    if directory is None:
        raise ValueError(f"draft {shown(name)} is no directory; right is one with config.json and .safetensors")
    checks: list[Check] = []
    raw: dict[str, Any] = {}
    try:
        raw = read_json(directory / "config.json")
        if not raw:
            raise ValueError(f"{directory}/config.json is an empty object")
    except ValueError as error:
        checks.append(
            fault(
                "config.json: unreadable",
                str(error),
                "no engine loads the directory",
                "copy config.json again from the training's output; the weights alone do not say the norm flags",
            )
        )
    tensors, found = read_tensors(directory, raw)
    checks += found
    kind = None
    if raw:
        try:
            kind = kind_of(raw, tensors, f"{directory}/config.json")
        except ValueError as error:
            checks.append(
                fault(
                    "config.json: kind",
                    str(error),
                    "an engine takes it for another kind of draft, or refuses it",
                    "set architectures (or speculators_model_type) to the kind that was trained",
                )
            )
    dialect = dialect_of(raw, kind)
    if raw and (kind or "").startswith("eagle3"):
        checks += engine_keys(raw)
    if raw and kind is not None:
        checks.append(ok("config.json", f"a draft of the kind {kind}, written as {dialect}"))
    return OnDisk(directory, raw, tensors, kind, dialect, tuple(checks))


def engine_keys(raw: dict[str, Any]) -> Iterator[Check]:
    """What an engine chooses and sizes the model's class by, and this package does not need."""
    names = raw.get("architectures")
    if not isinstance(names, list) or not any("eagle3" in str(name).lower() for name in names):
        yield fault(
            "config.json: architectures",
            f"architectures is {short(names)}, and engines choose the model's class by it",
            "the engine refuses the directory, or loads it as a plain Llama",
            'write ["LlamaForCausalLMEagle3"], or ["Eagle3DraftModel"] in the layout of speculators',
        )
    features = raw.get("num_aux_hidden_states")
    if features is not None and features != FEATURES:
        yield fault(
            "config.json: num_aux_hidden_states",
            f"num_aux_hidden_states is {short(features)} where EAGLE-3 fuses {FEATURES} layers",
            "fc is made for another number of layers: a shape error, or a part of it is filled",
            f"write {FEATURES}, or leave it out",
        )


def dialect_of(raw: dict[str, Any], kind: str | None) -> str:
    """Whose way of writing config.json it is."""
    if not raw:
        return "unknown"
    inner = raw.get("eagle_config")
    switches = set(FIXED_SWITCHES) | {"use_last_layernorm"}
    names = raw.get("architectures")
    if "speculators_model_type" in raw or "transformer_layer_config" in raw:
        return "dialect 2 (speculators)"
    if kind is None or not kind.startswith("eagle3"):
        return "a Llama's config (EAGLE-1)" if kind == "eagle1" else "labsim's own config"
    if isinstance(inner, dict) and (switches - {"use_aux_hidden_state"}) & set(inner):
        return "dialect 3 (Model-Optimizer)"
    if isinstance(names, list) and "LlamaEagle3DraftModel" in names:
        return "dialect 1 (NeMo)"
    return "dialect 1 (EAGLE, SpecForge, TorchSpec)"


def read_tensors(directory: Path, raw: dict[str, Any]) -> tuple[dict[str, torch.Tensor], list[Check]]:
    """All tensors that can be read, and what is wrong with the files."""
    checks: list[Check] = []
    files = sorted(directory.glob("*.safetensors"))
    pickled = sorted(path.name for pattern in PICKLES for path in directory.glob(pattern))
    if not files:
        only = f"only {listed(pickled)}, pickles, which can run code when opened" if pickled else "no weights at all"
        checks.append(
            fault(
                "weights: no safetensors",
                f"{directory} holds {only}",
                "nothing can be loaded safely",
                "convert it where it was trained, with safetensors.torch.save_file; pickles are not opened here",
            )
        )
    elif pickled:
        checks.append(
            warning(
                "weights: pickles beside them",
                f"{listed(pickled)} beside {files[0].name}; not opened",
                "an engine may prefer the pickle, and its content is unknown",
                "delete the pickles before serving",
            )
        )
    checks += missing_shards(directory)
    tensors: dict[str, torch.Tensor] = {}
    twice: set[str] = set()
    read = 0
    for path in files:
        try:
            with opened(path) as file:
                pairs = [(name, file.get_tensor(name)) for name in file.keys()]  # noqa: SIM118 (not a dict)
        except ValueError as error:
            checks.append(damaged(path, error))
            continue
        read += 1
        for public, tensor in pairs:
            name = our_name(public, eagle=not is_foreign(raw))
            if name is None:
                continue
            if name in tensors:
                twice.add(name)
            else:
                tensors[name] = tensor
    if twice:
        checks.append(
            fault(
                "tensors: twice",
                f"{listed(twice)} stand twice, in two files or under two layouts' names (midlayer. and layers.0.)",
                "which of the two is loaded depends on the engine and the order of the files",
                "keep the copy that the training wrote last, and one layout",
            )
        )
    if read and not tensors:
        checks.append(
            fault(
                "weights: empty",
                f"{listed(path.name for path in files)}: whole, with no tensor inside",
                "non-strict loading leaves everything as it was initialised: acceptance length about 1",
                "export again from the training's own weights",
            )
        )
    elif read:
        bytes_ = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        checks.append(ok("weights", f"{len(tensors)} tensors, {bytes_ / 1e6:.1f} MB in {read} safetensors file(s)"))
    return tensors, checks


def is_foreign(raw: dict[str, Any]) -> bool:
    """Whether the tensors' names are not EAGLE's: MTP, heads and small drafts, which only this package writes so."""
    own = raw.get("labsim")
    return isinstance(own, dict) and own.get("kind") in ("mtp", "heads", "small")


def damaged(path: Path, error: Exception) -> Check:
    return fault(
        "weights: damaged",
        str(error),
        "the engine stops while loading, or loads half of the tensors",
        f"fetch or export {path.name} again, and compare its size with the source's",
    )


def missing_shards(directory: Path) -> Iterator[Check]:
    """Files that an index names and the directory does not hold."""
    there = {path.name for path in directory.iterdir() if path.is_file()}
    for index in sorted(directory.glob("*.safetensors.index.json")):
        try:
            shards = read_json(index).get("weight_map")
        except ValueError as error:
            yield damaged(index, error)
            continue
        named = {str(one) for one in shards.values()} if isinstance(shards, dict) else set()
        if lacking := {name for name in named if Path(name).name not in there}:
            yield fault(
                "weights: shard missing",
                f"{index.name} names {listed(lacking)}, which is not there",
                "tensors of the missing file keep their initial values under non-strict loading",
                "copy the missing files, or write all tensors into one file (a draft fits)",
            )
