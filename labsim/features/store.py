"""Target states on disk: computed once, read in every epoch.

    DIR/features.json                            whose states, of which layers, in which precision
    DIR/features-00000-3f2a91c07be4.safetensors  a shard: some dozens of documents

A shard is written beside its place and renamed, and carries the beginning of its own sha256 in its name: it is there
and whole, or not there. No index can disagree with the files. In a shard the documents lie one behind the other in
`features` and `last`; the header names them by the sha256 of their tokens, so that a changed text is a missing one,
never a wrong one.

States of long texts are hundreds of gigabytes. So a training reads the positions that it needs and nothing else. Every
byte is looked at once, by one of several ranks: `checked.json` notes which files were whole, by size and by time of
change. And they take hours: of two trainings that need the same ones, the second waits (`kept`) and reads them.

A token costs (F + E) * 2 bytes in bf16: 4.6 kB for SmolLM2 with three feature layers, 32 kB for an 8B model.

Shapes: T tokens of a document, F width of the concatenated feature layers, E the target's hidden size.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from ..models.config import read_json
from ..models.files import DIGEST_LETTERS, digest, write_atomically
from ..models.weights import DTYPES, opened, tensor_bytes
from .source import StateSource, TargetStates

DOCUMENTS_PER_SHARD, TOKENS_PER_SHARD = 32, 1 << 17


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

    Args:
        check: look at every byte of shards that nobody has looked at yet; False where another rank does.

    ValueError when the directory holds states made with other settings, or a damaged shard.
    """

    def __init__(self, directory: Path, settings: FeatureSettings, *, check: bool = True) -> None:
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
        self._open: dict[Path, Any] = {}
        if check:
            self._check()
        self.refresh()

    def refresh(self) -> None:
        """Take in what is there now: other ranks fill the same directory."""
        known = {shard for shard, _, _ in self.places.values()}
        for shard in self.shards():
            if shard not in known:
                self._learn(shard)

    def shards(self) -> list[Path]:
        return sorted(self.directory.glob("features-*-*.safetensors"))

    def _check(self) -> None:
        """ValueError for a shard whose bytes are not those that it was written with."""
        path = self.directory / "checked.json"
        before: dict[str, Any] = {}
        with suppress(ValueError):  # absent or damaged: everything is looked at again
            before = read_json(path)
        # One listing: other trainings may be writing here.
        shards = self.shards()
        found = {shard.name: [shard.stat().st_size, shard.stat().st_mtime_ns] for shard in shards}
        for shard in shards:
            if before.get(shard.name) == found[shard.name]:
                continue
            with shard.open("rb") as file:
                begins = file_digest(file, "sha256").hexdigest()[:DIGEST_LETTERS]
            if not shard.stem.endswith(f"-{begins}"):
                raise ValueError(
                    f"{shard} is damaged: its sha256 begins with {begins}; delete it, and it is made again"
                )
        if found != before:
            with suppress(OSError):  # a directory that is only read is looked at each time
                write_atomically(path, (json.dumps(found) + "\n").encode())

    def _learn(self, shard: Path) -> None:
        places, start = {}, 0
        with opened(shard) as file:
            try:
                for name, length in json.loads(file.metadata()["documents"]):
                    places[name] = (shard, start, start + length)
                    start += length
                rows = {file.get_slice(name).get_shape()[0] for name in ("features", "last")}
            except (SafetensorError, KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{shard} is no shard of target states; delete it") from error
        if rows != {start}:
            raise ValueError(f"{shard} names {start} tokens and holds states of {max(rows)}; delete it")
        self.places |= places

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
        ordered = sorted(missing.values(), key=len)
        dtype = DTYPES[self.settings.dtype]
        for part in shares(ordered, TOKENS_PER_SHARD, DOCUMENTS_PER_SHARD):
            states = [
                # Off the GPU at once: a shard's states are gigabytes.
                TargetStates(one.features_TF.to("cpu", dtype), one.last_TE.to("cpu", dtype))
                for group in grouped(part, tokens_per_forward)
                for one in source.read(group)
            ]
            self._write([name_of(document) for document in part], states)
            done(len(part))

    def _write(self, names: Sequence[str], states: Sequence[TargetStates]) -> None:
        tensors = {
            "features": torch.cat([part.features_TF for part in states]),
            "last": torch.cat([part.last_TE for part in states]),
        }
        for name, tensor in tensors.items():
            if not bool(torch.isfinite(tensor).all()):
                raise ValueError(f"the target's {name} states do not fit {self.settings.dtype}; store them in bf16")
        records = [[name, len(part.last_TE)] for name, part in zip(names, states, strict=True)]
        data = tensor_bytes(tensors, {"documents": json.dumps(records)})
        number = 1 + max((int(shard.name.split("-")[1]) for shard in self.shards()), default=-1)
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


@contextmanager
def kept(directory: Path) -> Iterator[None]:
    """The directory is this process's to fill; another one waits here, and then finds what this one has written.

    Of several ranks that fill it together one keeps it for all. Where nothing can be written, or the file system knows
    no locks, it is not kept.
    """
    from filelock import FileLock, Timeout

    directory.mkdir(parents=True, exist_ok=True)
    lock = FileLock(directory / ".lock")
    with suppress(OSError, NotImplementedError):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            print(f"{directory}: another training is filling it; this one waits", file=sys.stderr, flush=True)
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


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


def shares(documents: Sequence[Sequence[int]], tokens: int, most: int) -> list[list[Sequence[int]]]:
    """Neighbours together, while they have so many tokens in all, and are at most so many; a longer one is alone."""
    found: list[list[Sequence[int]]] = []
    held = 0
    for document in documents:
        if not found or len(found[-1]) == most or held + len(document) > tokens:
            found.append([])
            held = 0
        found[-1].append(document)
        held += len(document)
    return found


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
