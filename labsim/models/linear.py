"""A linear layer whose cost hardly grows from one row to six: what makes speculation pay on a CPU.

Decoding one token multiplies every weight matrix by one row. The multiplication is over long before the weights have
arrived from memory, so a few more rows should be free: that is what speculative decoding lives on, K drafted tokens
being verified in one forward. Whether they *are* free is a property of the kernel too. All products of a 135M-parameter
model (576 wide, fp32, two cores of an EPYC 9004), milliseconds:

    rows          1     2     3     5     8    16    64
    linear       43    75    95    54    55    66   130      F.linear(x, W)
    transposed   43    16    23    29    38    55   115      (W @ x.T).T
    packed       19    17    17    19    23    30    87      weights reordered once into the layout of the kernel

With `linear` a draft of a single token makes the forward 1.7 times as long. With `packed` six rows cost what one row
costs, and one row costs less than half of `linear`'s.

`packed` is oneDNN's prepacked matrix product. It has a second virtue: in fp32 a row's result does not depend on how
many rows are beside it, to the last bit. (The one exception known, a single row of more than 1,024 inputs, is sent
along with two copies of itself; one or two rows of a large matrix are too, since three rows are read faster than one.)
The other paths round differently for every number of rows, by some 1e-7 of the result.

So a layer takes `packed` for every number of rows where this machine has it. Elsewhere the choice between the other two
is measured once per shape, precision and process: different choices differ in the last bits, and a name
(`paths="linear"`) fixes it.

Shapes: O outputs, I inputs, R rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from itertools import pairwise

import torch
from torch.nn.functional import linear

PATHS = ("packed", "transposed", "linear")
MEASURED_ROWS = (1, 5, 16)
# `transposed` must be this much faster than `linear` before it is taken, so that timing noise does not choose.
CLEARLY = 1.25
REPEATS = 3
# Larger than most last-level caches, read before each timing: in a model each layer's weights push out the others'.
FLUSHED_BYTES = 48 << 20
# From this size on, three rows are read faster than one or two (measured; smaller matrices pay more for the copy).
PADDED_BYTES = 2 << 20
PADDED_ROWS = 3
LARGEST_UNSPLIT_INPUT = 1024


@dataclass(frozen=True)
class Plan:
    """Which path a layer takes.

    Attributes:
        steps: (highest number of rows, path), ascending; the last path serves all larger numbers.
        seconds: the measured time by (path, rows); empty where nothing was measured.
    """

    steps: tuple[tuple[int, str], ...]
    seconds: dict[tuple[str, int], float] = field(default_factory=dict)

    def path(self, rows: int) -> str:
        """Name of the path that `rows` rows take."""
        for highest, path in self.steps:
            if rows <= highest:
                return path
        return self.steps[-1][1]

    @property
    def packs(self) -> bool:
        """True when the layer keeps its weights in the kernel's layout."""
        return any(path == "packed" for _, path in self.steps)


class Linear:
    """y = x W^T + b along the last dimension, without gradients.

    Args:
        weight_OI: fp32, bf16 or fp16. A packed layer keeps no reference to it.
        bias_O: optional.
        paths: "auto" (see `choose_plan`), or one of `PATHS` for every number of rows. On a GPU always `linear`.

    ValueError for shapes that do not fit, an unknown path, or `packed` where this machine has no such kernel.
    """

    def __init__(self, weight_OI: torch.Tensor, bias_O: torch.Tensor | None = None, *, paths: str = "auto") -> None:
        if weight_OI.ndim != 2:
            raise ValueError(f"weight_OI has shape {tuple(weight_OI.shape)}; a matrix (outputs, inputs) is needed")
        self.shape = (int(weight_OI.shape[0]), int(weight_OI.shape[1]))
        if bias_O is not None and tuple(bias_O.shape) != self.shape[:1]:
            raise ValueError(f"bias_O has shape {tuple(bias_O.shape)}; weight_OI has {self.shape[0]} outputs")
        self.bias_O = bias_O
        self.dtype, self.device = weight_OI.dtype, weight_OI.device
        self.plan = choose_plan(self.shape, self.dtype, self.device, paths=paths)
        self._weight_OI = pack(weight_OI) if self.plan.packs else weight_OI

    def __call__(self, x_I: torch.Tensor) -> torch.Tensor:
        """(..., I) -> (..., O)."""
        x_RI = x_I.reshape(-1, self.shape[1])
        kernel = KERNELS[self.plan.path(x_RI.shape[0])]
        return kernel(x_RI, self._weight_OI, self.bias_O).view(*x_I.shape[:-1], self.shape[0])

    @property
    def weight_OI(self) -> torch.Tensor:
        """The weights; of a packed layer an unpacked copy, made anew each time."""
        return self._weight_OI.to_dense() if self.plan.packs else self._weight_OI

    @property
    def weight_bytes(self) -> int:
        """Bytes that one product reads at least."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize


def pack(weight_OI: torch.Tensor) -> torch.Tensor:
    """`weight_OI` in the layout of oneDNN's kernel: an opaque tensor of the same size."""
    # The row number is a hint for the layout; on AVX2 and AVX-512 machines all small ones give the same.
    return torch.ops.mkldnn._reorder_linear_weight(weight_OI.contiguous(), 8)


def _packed(x_RI: torch.Tensor, weight: torch.Tensor, bias_O: torch.Tensor | None) -> torch.Tensor:
    rows, inputs = x_RI.shape
    if 0 < rows < PADDED_ROWS and (
        inputs > LARGEST_UNSPLIT_INPUT or weight.shape[0] * inputs * x_RI.element_size() >= PADDED_BYTES
    ):
        x_RI = torch.cat((x_RI, x_RI[:1]) if rows == 2 else (x_RI, x_RI, x_RI))
        return torch.ops.mkldnn._linear_pointwise.default(x_RI, weight, bias_O, "none", [], "")[:rows]
    return torch.ops.mkldnn._linear_pointwise.default(x_RI, weight, bias_O, "none", [], "")


def _transposed(x_RI: torch.Tensor, weight_OI: torch.Tensor, bias_O: torch.Tensor | None) -> torch.Tensor:
    y_OR = weight_OI @ x_RI.t() if bias_O is None else torch.addmm(bias_O[:, None], weight_OI, x_RI.t())
    return y_OR.t().contiguous()


KERNELS: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]] = {
    "packed": _packed,
    "transposed": _transposed,
    "linear": linear,
}


def choose_plan(
    shape_OI: tuple[int, int], dtype: torch.dtype, device: torch.device | str = "cpu", *, paths: str = "auto"
) -> Plan:
    """The plan of a layer of that shape.

    "auto" is `packed` where this machine has it, else measured, at most once per process, shape, precision and number
    of threads. ValueError for an unknown path, or for `packed` where it does not exist.
    """
    if paths != "auto" and paths not in PATHS:
        near = get_close_matches(paths, ("auto", *PATHS), n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown path {paths!r}; {hint}known: auto, {', '.join(PATHS)}")
    if torch.device(device).type != "cpu" or dtype == torch.float64:  # fp64 is for reference, not for speed
        return Plan(((1, "linear"),))
    packable = can_pack(dtype)
    if paths == "packed" and not packable:
        raise ValueError(f"path 'packed' needs oneDNN for {dtype} on this CPU; use 'auto', 'transposed' or 'linear'")
    if packable and paths == "auto":
        paths = "packed"
    if paths != "auto":
        return Plan(((1, paths),))
    return _measured_plan(tuple(shape_OI), dtype, torch.get_num_threads())


@cache
def can_pack(dtype: torch.dtype) -> bool:
    """True when this CPU and this build of torch have the prepacked product for `dtype`."""
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return False
    try:
        _packed(torch.ones(4, 8, dtype=dtype), pack(torch.ones(8, 8, dtype=dtype)), None)
    except (RuntimeError, NotImplementedError):  # "fp16 path needs the cpu support avx512_fp16", and the like
        return False
    return True


@cache
def _measured_plan(shape_OI: tuple[int, int], dtype: torch.dtype, threads: int) -> Plan:
    return plan_from(measure_paths(shape_OI, dtype, paths=("transposed", "linear")))


def plan_from(seconds: dict[tuple[str, int], float]) -> Plan:
    """`linear`, but `transposed` for numbers of rows where it is clearly faster; `seconds` is keyed by (path, rows)."""
    rows = sorted({rows for _, rows in seconds})
    best = ["transposed" if CLEARLY * seconds["transposed", n] < seconds["linear", n] else "linear" for n in rows]
    # A measured number of rows speaks for the numbers nearest to it.
    borders = [low if low == 1 else (low + high) // 2 for low, high in pairwise(rows)]
    return Plan(tuple(zip([*borders, rows[-1]], best, strict=True)), seconds)


def measure_paths(
    shape_OI: tuple[int, int],
    dtype: torch.dtype = torch.float32,
    *,
    paths: Sequence[str] = PATHS,
    rows: Sequence[int] = MEASURED_ROWS,
    repeats: int = REPEATS,
) -> dict[tuple[str, int], float]:
    """Seconds by (path, rows) on the CPU: the fastest of `repeats`, interleaved, with the weights not in the cache.

    Paths that this machine lacks are left out.
    """
    paths = [path for path in paths if path != "packed" or can_pack(dtype)]
    weight_OI = torch.ones(shape_OI, dtype=dtype)
    weights = {path: pack(weight_OI) if path == "packed" else weight_OI for path in paths}
    flush = torch.ones(FLUSHED_BYTES // 4) if weight_OI.nbytes < FLUSHED_BYTES else torch.ones(1)
    inputs = {number: torch.ones(number, shape_OI[1], dtype=dtype) for number in rows}
    best: dict[tuple[str, int], float] = {}
    # The first round warms up: threads, primitives, pages.
    for repeat in range(repeats + 1):
        for number, x_RI in inputs.items():
            for path, weight in weights.items():
                flush.sum()
                start = time.perf_counter()
                KERNELS[path](x_RI, weight, None)
                elapsed = time.perf_counter() - start
                if repeat:
                    best[path, number] = min(elapsed, best.get((path, number), elapsed))
    return best
