"""Reading a checkpoint: every tensor of a directory's safetensors files, by name. Nothing is ever unpickled."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file


def read_weights(directory: Path, device: torch.device | str = "cpu") -> dict[str, torch.Tensor]:
    """All tensors of `directory/*.safetensors`. ValueError when there are none or a file is damaged."""
    files = sorted(directory.glob("*.safetensors"))
    if not files:
        pickled = sorted(path.name for path in [*directory.glob("*.bin"), *directory.glob("*.pt")])
        hint = f"; {pickled[0]} is a pickle, which can run code when opened, so it is not read" if pickled else ""
        raise ValueError(f"{directory} holds no .safetensors file{hint}")
    tensors: dict[str, torch.Tensor] = {}
    for path in files:
        try:
            tensors |= load_file(path, device=str(device))
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} is not a whole safetensors file ({error}); fetch it again") from error
    return tensors
