"""Peak memory, counted: bytes of all tensor storages alive at once.

The resident size of a process tells of allocators, libraries and the past. What a computation needs is the sum of the
storages that live at its worst moment: on CUDA the allocator counts it; on a CPU a dispatch mode sees every operation
and notes the storages of its results until they die. Views share a storage and count once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class LiveBytes(TorchDispatchMode):
    """Context that counts storages born inside: `live` now, `peak` so far, in bytes. Slows each operation down."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        # Weak references keep a storage's number from being given to another one.
        self._before: dict[int, StorageWeakRef] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for tensor in tree_iter((args, kwargs)):
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                key = tensor.untyped_storage()._cdata
                if key not in self._alive and key not in self._before:
                    self._before[key] = StorageWeakRef(tensor.untyped_storage())
        result = function(*args, **kwargs)
        for key in [key for key, (reference, _) in self._alive.items() if reference.expired()]:
            self.live -= self._alive.pop(key)[1]
        for tensor in tree_iter(result):
            if isinstance(tensor, torch.Tensor):
                self._note(tensor)
        self.peak = max(self.peak, self.live)
        return result

    def _note(self, tensor: torch.Tensor) -> None:
        if tensor.layout != torch.strided:  # oneDNN's packed weights have no storage of their own
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._before or key in self._alive:
            return
        self._alive[key] = (StorageWeakRef(storage), storage.nbytes())
        self.live += storage.nbytes()


def peak_bytes(work: Callable[[], object], device: torch.device | str = "cpu") -> int:
    """Bytes at the worst moment of `work`, above what was alive before it."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with LiveBytes() as counted:
        work()
    return counted.peak
