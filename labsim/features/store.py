"""Target states on disk: computed once, read in every epoch.

    DIR/features.json                            whose states, of which layers, in which precision
    DIR/features-00000-3f2a91c07be4.safetensors  a shard: some dozens of documents

A shard is written beside its place and renamed, and carries the beginning of its own sha256 in its name: it is there
and whole, or not there. No index can disagree with the files. In a shard the documents lie one behind the other in
`features` and `last`; the header names them by the sha256 of their tokens, so that a changed text is a missing one,
never a wrong one.

A token costs (F + E) * 2 bytes in bf16: 4.6 kB for SmolLM2 with three feature layers, 32 kB for an 8B model.

Shapes: T tokens of a document, F width of the concatenated feature layers, E the target's hidden size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import safe_open

from ..models.config import read_json
from ..models.files import digest, write_atomically
from ..models.weights import tensor_bytes
from .source import StateSource, TargetStates

DOCUMENTS_PER_SHARD = 32
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


@dataclass(frozen=True)
class FeatureSettings:
    """What all states of a directory have in common.

    Attributes:
        target: the target's name; `weights` is a fingerprint of its weights.
        feature_layers: by the number of layers behind them, in the order of concatenation.
    """

    target: str
    weights: str
    feature_layers: tuple[int, ...]
    dtype: Literal["bf16", "fp16", "fp32"] = "bf16"


class FeatureStore:
    """A directory of states, and a source of them.

    ValueError when the directory holds states made with other settings, or a damaged shard.
    """

    def __init__(self, directory: Path, settings: FeatureSettings) -> None:
        if settings.dtype not in DTYPES:
            raise ValueError(f"dtype {settings.dtype!r} is unknown; right is one of {', '.join(DTYPES)}")
        self.directory, self.settings = directory, settings
        path = directory / "features.json"
        wanted = json.loads(json.dumps(asdict(settings)))
        if path.exists():
            found = read_json(path)
            if differing := [
                f"{key} {found.get(key)}, not {wanted[key]}" for key in wanted if found.get(key) != wanted[key]
            ]:
                raise ValueError(f"{directory} holds target states of another kind: {'; '.join(differing)}")
        else:
            directory.mkdir(parents=True, exist_ok=True)
            write_atomically(path, (json.dumps(wanted, indent=2) + "\n").encode())
        self.places: dict[str, tuple[Path, int, int]] = {}
        for shard in sorted(directory.glob("features-*-*.safetensors")):
            self._learn(shard)
        self._open: dict[Path, Any] = {}

    def _learn(self, shard: Path) -> None:
        found = digest(shard.read_bytes())
        if not shard.stem.endswith(f"-{found}"):
            raise ValueError(f"{shard} is damaged: its sha256 begins with {found}; delete it, and it is made again")
        with safe_open(shard, "pt") as file:
            records = json.loads(file.metadata()["documents"])
        start = 0
        for name, length in records:
            self.places[name] = (shard, start, start + length)
            start += length

    def fill(
        self,
        source: StateSource,
        documents: Iterable[Sequence[int]],
        *,
        tokens_per_forward: int = 4096,
        done: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Compute and write what is missing, in batches of documents of similar length; `done` hears of each shard."""
        missing = {name_of(document): document for document in documents}
        missing = {name: document for name, document in missing.items() if name not in self.places}
        ordered = sorted(missing.items(), key=lambda item: len(item[1]))
        for first in range(0, len(ordered), DOCUMENTS_PER_SHARD):
            part = ordered[first : first + DOCUMENTS_PER_SHARD]
            states: list[TargetStates] = []
            for group in grouped([document for _, document in part], tokens_per_forward):
                states += source.read(group)
            self._write([name for name, _ in part], states)
            done(len(part))

    def _write(self, names: Sequence[str], states: Sequence[TargetStates]) -> None:
        dtype = DTYPES[self.settings.dtype]
        tensors = {
            "features": torch.cat([part.features_TF for part in states]).to("cpu", dtype),
            "last": torch.cat([part.last_TE for part in states]).to("cpu", dtype),
        }
        for name, tensor in tensors.items():
            if not bool(torch.isfinite(tensor).all()):
                raise ValueError(f"the target's {name} states do not fit {self.settings.dtype}; store them in bf16")
        records = [[name, len(part.last_TE)] for name, part in zip(names, states, strict=True)]
        data = tensor_bytes(tensors, {"documents": json.dumps(records)})
        number = 1 + max(
            (int(p.name.split("-")[1]) for p in self.directory.glob("features-*-*.safetensors")), default=-1
        )
        path = self.directory / f"features-{number:05d}-{digest(data)}.safetensors"
        write_atomically(path, data)
        self._learn(path)

    def holds(self, document: Sequence[int]) -> bool:
        """Whether this text's states are there."""
        return name_of(document) in self.places

    def read(self, documents: Sequence[Sequence[int]]) -> list[TargetStates]:
        """From the files. ValueError for a document that is not there."""
        states = []
        for document in documents:
            file, start, stop = self._place(document)
            states.append(TargetStates(file.get_slice("features")[start:stop], file.get_slice("last")[start:stop]))
        return states

    def read_at(self, document: Sequence[int], features_at: torch.Tensor, last_at: torch.Tensor) -> TargetStates:
        """Reads these positions only. ValueError for a document that is not there."""
        file, start, _ = self._place(document)

        def some(name: str, places: torch.Tensor) -> torch.Tensor:
            part = file.get_slice(name)
            runs = [part[start + first : start + end] for first, end in runs_of(places.tolist())]
            return torch.cat(runs) if runs else part[start:start]

        return TargetStates(some("features", features_at), some("last", last_at))

    def _place(self, document: Sequence[int]) -> tuple[Any, int, int]:
        """(open shard, first row, end)."""
        place = self.places.get(name_of(document))
        if place is None:
            raise ValueError(f"{self.directory} holds no states of this document of {len(document)} tokens")
        shard, start, stop = place
        if shard not in self._open:
            self._open[shard] = safe_open(shard, "pt")
        return self._open[shard], start, stop


def runs_of(places: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbouring places as (first, end).

    >>> runs_of([3, 4, 5, 9])
    [(3, 6), (9, 10)]
    """
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and runs[-1][1] == place:
            runs[-1] = runs[-1][0], place + 1
        else:
            runs.append((place, place + 1))
    return runs


def name_of(document: Sequence[int]) -> str:
    """What a document is called: the sha256 of its token ids."""
    return sha256(np.asarray(document, np.int64).tobytes()).hexdigest()[:32]


def grouped(documents: Sequence[Sequence[int]], tokens: int) -> list[list[Sequence[int]]]:
    """Neighbours together, while all rows padded to the longest stay within so many tokens."""
    groups: list[list[Sequence[int]]] = []
    for document in documents:
        longest = max(len(document), *(len(other) for other in groups[-1])) if groups else len(document)
        if not groups or (len(groups[-1]) + 1) * longest > tokens:
            groups.append([])
        groups[-1].append(document)
    return groups


def fingerprint(directory: Path) -> str:
    """A name for a target's weights: over the bytes of its safetensors files."""
    total = sha256()
    for path in sorted(directory.glob("*.safetensors")):
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                total.update(block)
    return total.hexdigest()[:32]
