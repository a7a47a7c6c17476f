"""`labsim export`: a draft in a public layout, looked at before and after, written whole or not at all.

    source --doctor--> tensors and flags --names and dialect of the format--> beside OUT --doctor--> renamed to OUT

A faulty source is refused: an export that renames a fault hands it to somebody who cannot see it any more. The result
is examined as a stranger's file would be, by its public parts alone.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from ..drafts.eagle_dialects import DraftConfig
from ..drafts.heads import HeadsConfig
from ..models.files import emptied_on_failure, write_atomically
from ..models.paths import expanded
from ..models.weights import DTYPES, opened, tensor_bytes, weight_files
from .doctor import examine
from .layers import inside, read_layers
from .on_disk import PICKLES, OnDisk, read_directory
from .public_files import check_exportable, method, public_config, public_tensors
from .sizes import described, fitted
from .target import TargetFacts, target_facts

EMBEDDING = "model.embed_tokens.weight"
# Endings of what engines take weights from; an index says which files, and hides all others.
WEIGHTS = (".safetensors", ".index.json", *(pattern.removeprefix("*") for pattern in PICKLES))


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        format: `vllm` or `speculators`.
        tensors: names in model.safetensors; `bytes` is the size of that file.
        command: the `vllm serve` line that uses it.
    """

    format: str
    kind: str
    out: Path
    tensors: tuple[str, ...]
    bytes: int
    dtype: str
    command: str


def export(
    directory: str | Path,
    out: str | Path,
    form: str,
    *,
    target_name: str | None = None,
    dtype: str = "fp16",
    force: bool = False,
    k: int = 3,
) -> Exported:
    """Write the draft in `directory` to `out`.

    Args:
        target_name: the target; by default the one that the draft names.
        dtype: `fp16`, `bf16` or `fp32`.
        force: replace config.json and model.safetensors of an `out` that is there.
        k: drafted tokens per step, for the command line and speculators' proposal.

    Raises:
        ValueError: a draft that no engine reads in this format, a source or a result with a fault, weights that do
            not fit into `dtype`, an `out` that is not empty, a target that is not named or cannot be read.
    """
    out = expanded(out)
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is not known; right is {', '.join(DTYPES)}")
    if not 1 <= k <= 64:
        raise ValueError(f"k is {k}; right is 1 to 64 drafted tokens")
    disk = read_directory(directory)
    directory = disk.directory
    check_free(out, directory, force)
    name = target_name or inside(disk.raw, "labsim", "target")
    if not name:
        raise ValueError(f"{directory} does not name its target: give it (--target)")
    target = target_facts(name)
    config = readable(disk, target)
    check_exportable(config, disk.tensors, form)
    embedding_VH = target_embedding(target) if form == "speculators" else None
    tensors = public_tensors(config, disk.tensors, embedding_VH, form)
    cast = {name: cast_tensor(name, tensor, dtype) for name, tensor in tensors.items()}
    document = public_config(config, target, form, str(DTYPES[dtype]).removeprefix("torch."), k)
    data = tensor_bytes(cast, {"format": "pt"})
    write(out, data, document, target, check=not isinstance(config, HeadsConfig))
    return Exported(
        form, config.kind, out, tuple(sorted(cast)), len(data), dtype, serve_line(out, target, method(config), k)
    )


def readable(disk: OnDisk, target: TargetFacts) -> DraftConfig:
    """The source's config. ValueError with the first fault of its static examination."""
    if disk.kind == "small":
        raise ValueError(
            f"{disk.directory} is a small draft that reads its target's embedding and says a part of its tokens; "
            "engines serve whole models as drafts, so there is no format for it"
        )
    refuse_faults(disk.directory, target.name, "has a fault and is not exported")
    layers = read_layers(disk, target.config.num_layers)
    read = layers.read if layers and disk.eagle3 else (target.config.num_layers,)
    if read is None:
        raise ValueError(f"{disk.directory} names no feature layers, and there is no usual choice for its target")
    return fitted(described(disk), read)


def refuse_faults(directory: Path, target_name: str, verb: str) -> None:
    faults = examine(directory, target_name, run=False).faults
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise ValueError(f"{directory} {verb}: {faults[0].name}: {faults[0].finding}{more}; {faults[0].remedy}")


def cast_tensor(name: str, tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    """Mappings stay whole numbers; weights must survive the cast."""
    if not tensor.is_floating_point():
        return tensor.contiguous().clone()
    narrow = tensor.to(DTYPES[dtype]).contiguous().clone()
    if not bool(torch.isfinite(narrow).all()):
        raise ValueError(f"{name} does not fit into {dtype}: its largest value is {float(tensor.abs().max()):.3g}")
    return narrow


def target_embedding(target: TargetFacts) -> torch.Tensor | None:
    """The one tensor of the target that speculators keeps with the draft; None where the target has no weights."""
    try:
        files = weight_files(target.directory)
    except ValueError:
        return None
    for path in files:
        with opened(path) as file:
            if EMBEDDING in file.keys():  # noqa: SIM118 (not a dict)
                return file.get_tensor(EMBEDDING)
    return None


def check_free(out: Path, source: Path, force: bool) -> None:
    """ValueError unless `out` can be made, or replaced where that was asked for."""
    if out.exists() and out.resolve() == source.resolve():
        raise ValueError(f"--out {out} is the draft's own directory; give another one")
    if os.path.lexists(out) and not out.is_dir():
        what = "a file" if out.exists() else "a link to what is not there"
        raise ValueError(f"--out {out} is {what}; right is a directory that is not there yet")
    above = next(one for one in (out, *out.parents) if os.path.lexists(one))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        why = "cannot be written" if above.is_dir() else "is no directory"
        raise ValueError(f"--out {out} cannot be made: {above} {why}")
    there = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    if there and not force:
        raise ValueError(
            f"--out {out} is not empty ({there[0]}); give a new directory, or --force to replace the draft"
        )
    strangers = [name for name in there if name.endswith(WEIGHTS) and name != "model.safetensors"]
    if strangers:
        raise ValueError(f"--out {out} holds {strangers[0]}, which an engine would read too; remove it first")


def write(out: Path, data: bytes, document: dict[str, object], target: TargetFacts, *, check: bool) -> None:
    """Write beside `out`, examine, move. Nothing of it is left where that fails; an OSError names `out`."""
    try:
        with emptied_on_failure(out.parent):
            out.parent.mkdir(parents=True, exist_ok=True)
            write_beside(out, data, document, target, check=check)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(out)) from error


def write_beside(out: Path, data: bytes, document: dict[str, object], target: TargetFacts, *, check: bool) -> None:
    # A directory that is there may lie on another disk than its parent, or be the only one that can be written.
    scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out if out.is_dir() else out.parent))
    files = {"model.safetensors": data, "config.json": (json.dumps(document, indent=2) + "\n").encode()}
    try:
        for name, content in files.items():
            write_atomically(scratch / name, content)
        if check:  # Medusa's names are not read back by this package
            refuse_faults(scratch, target.name, "is what would have been written, and it has a fault")
        scratch.chmod(0o755)
        if out.is_dir():
            # The weights first: old weights under a new config would be read as a damaged draft, and say so.
            for name in files:
                os.replace(scratch / name, out / name)
        else:
            os.replace(scratch, out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def serve_line(out: Path, target: TargetFacts, how: str, k: int) -> str:
    """The command that serves it with vLLM; the target by its hub id or its directory."""
    model = target.name if target.known_by_name and "/" in target.name else str(target.directory)
    settings = {"model": str(out.resolve()), "method": how, "num_speculative_tokens": k}
    return shlex.join(["vllm", "serve", model, "--speculative-config", json.dumps(settings)])
