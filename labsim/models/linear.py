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
is measured once per shape, precision and process.

MKL knows Intel's processors better than AMD's. The same products on two cores of a Xeon with AVX-512:

    rows          1     2     3     4     5     8    16
    linear       21    22    23    37    38    49    51
    packed       28    27    26    26    27    32    39

Plain decoding would be a third slower there with `packed`, and every speedup one over a slow baseline. So the layers of
a model that no cache holds (`paths_of_model`) are measured once per process, and where a few rows are clearly faster
with `linear` they keep the weights in both layouts: twice the memory, each forward in the faster way. Different choices
differ in the last bits; a name (`paths="packed"`) fixes it.

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
# The unusual path must be this much faster before it is taken, so that timing noise does not choose.
CLEARLY = 1.15
REPEATS = 4
# Timed are the products of so many different matrices in a row, as in a model, whose layers push each other out of the
# caches. A single product after a flush pays for waking the threads too, and not every kernel alike.
STREAMED_BYTES = 64 << 20
# From this size on, three rows are read faster than one or two (measured; smaller matrices pay more for the copy).
PADDED_BYTES = 2 << 20
PADDED_ROWS = 3
LARGEST_UNSPLIT_INPUT = 1024
# A smaller model is read from a cache, where `packed` does well; a larger one is too large to be kept twice.
IN_CACHE_BYTES = 128 << 20
KEPT_TWICE_BYTES = 2 << 30
# What speaks for a whole model: the largest matrix of SmolLM2's layers.
MEASURED_SHAPE = (3072, 576)


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
    def paths(self) -> set[str]:
        """Every path that some number of rows takes."""
        return {path for _, path in self.steps}


class Linear:
    """y = x W^T + b along the last dimension, without gradients.

    Args:
        weight_OI: fp32, bf16 or fp16. A layer that is only packed keeps no reference to it.
        bias_O: optional.
        paths: "auto" or "fastest" (see `choose_plan`), or one of `PATHS` for every number of rows. On a GPU always
            `linear`.

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
        self._weights = {path: pack(weight_OI) if path == "packed" else weight_OI for path in self.plan.paths}

    def __call__(self, x_I: torch.Tensor) -> torch.Tensor:
        """(..., I) -> (..., O)."""
        x_RI = x_I.reshape(-1, self.shape[1])
        path = self.plan.path(x_RI.shape[0])
        return KERNELS[path](x_RI, self._weights[path], self.bias_O).view(*x_I.shape[:-1], self.shape[0])

    @property
    def weight_OI(self) -> torch.Tensor:
        """The weights; of a layer that is only packed an unpacked copy, made anew each time."""
        plain = [weight for path, weight in self._weights.items() if path != "packed"]
        return plain[0] if plain else self._weights["packed"].to_dense()

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
    of threads. "fastest" also takes `linear` for the numbers of rows for which it is clearly faster, measured on one
    shape for all. ValueError for an unknown path, or for `packed` where it does not exist.
    """
    known = ("auto", "fastest", *PATHS)
    if paths not in known:
        near = get_close_matches(paths, known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown path {paths!r}; {hint}known: {', '.join(known)}")
    if torch.device(device).type != "cpu" or dtype == torch.float64:  # fp64 is for reference, not for speed
        return Plan(((1, "linear"),))
    packable = can_pack(dtype)
    if paths == "packed" and not packable:
        raise ValueError(f"path 'packed' needs oneDNN for {dtype} on this CPU; use 'auto', 'transposed' or 'linear'")
    if paths == "fastest" and packable:
        return _fastest_plan(dtype, torch.get_num_threads())
    if paths == "auto" and packable:
        paths = "packed"
    if paths in PATHS:
        return Plan(((1, paths),))
    return _measured_plan(tuple(shape_OI), dtype, torch.get_num_threads())


def paths_of_model(weight_bytes: int) -> str:
    """The `paths` of every layer of a model of that size: "fastest" for one that no cache holds, if it fits twice."""
    return "fastest" if IN_CACHE_BYTES <= weight_bytes <= KEPT_TWICE_BYTES else "auto"


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
    return plan_from(measure_paths(shape_OI, dtype, paths=("linear", "transposed")))


@cache
def _fastest_plan(dtype: torch.dtype, threads: int) -> Plan:
    return plan_from(measure_paths(MEASURED_SHAPE, dtype, paths=("packed", "linear"), rows=(1, 2, 3, 4, 16)))


def plan_from(seconds: dict[tuple[str, int], float]) -> Plan:
    """The first measured path, but the other one for numbers of rows where it is clearly faster.

    `seconds` is keyed by (path, rows).
    """
    usual, other = dict.fromkeys(path for path, _ in seconds)
    rows = sorted({rows for _, rows in seconds})
    best = [other if CLEARLY * seconds[other, n] < seconds[usual, n] else usual for n in rows]
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
    streamed_bytes: int = STREAMED_BYTES,
) -> dict[tuple[str, int], float]:
    """Seconds of one product by (path, rows) on the CPU: the fastest of `repeats`, interleaved.

    Each repeat reads `streamed_bytes` of different matrices; more than the last cache holds is as in a large model.
    Paths that this machine lacks are left out.
    """
    paths = [path for path in paths if path != "packed" or can_pack(dtype)]
    copies = max(1, streamed_bytes // (shape_OI[0] * shape_OI[1] * dtype.itemsize))
    plain = [torch.ones(shape_OI, dtype=dtype) for _ in range(copies)]
    packed = [pack(weight_OI) for weight_OI in plain] if "packed" in paths else []
    inputs = {number: torch.ones(number, shape_OI[1], dtype=dtype) for number in rows}
    best: dict[tuple[str, int], float] = {}
    # The first round warms up: threads, primitives, pages.
    for repeat in range(repeats + 1):
        for number, x_RI in inputs.items():
            for path in paths:
                weights = packed if path == "packed" else plain
                start = time.perf_counter()
                for weight in weights:
                    KERNELS[path](x_RI, weight, None)
                elapsed = (time.perf_counter() - start) / copies
                if repeat:
                    best[path, number] = min(elapsed, best.get((path, number), elapsed))
    return best
