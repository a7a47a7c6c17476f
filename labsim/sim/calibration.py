"""Measured coefficients: what replaces or completes the roofline.

Two kinds. **Published** coefficients describe the whole step of one model on one GPU in one engine; with them no
datasheet figure is used. **Overheads** complete the roofline with what no datasheet tells: launches, all-reduces, the
scheduler, the accept kernel. `benchmarks/fit_calibration.py` fits them to the public measurements in
`data/calibration` and writes `calibration.json` beside this module: one pooled set, and refinements per model, GPU
and engine. Nothing is looked up by benchmark or by measurement.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources

ENGINES = ("vllm", "sglang", "trtllm")


@dataclass(frozen=True)
class Overheads:
    """Seconds that the roofline does not know.

    `step_s` per step outside the forward; `layer_s` per layer of the target (launches, routing); `allreduce_s` per
    all-reduce (two per layer) when the model is split over GPUs; `spec_s` per speculative step, plus
    `verify_layer_factor` times the target's whole layer overhead; `draft_forward_s` per draft forward; `tree_s` per
    step with more than one branch; `row_layer_s` per row and MoE layer (routing, dispatch, uneven experts).
    `expert_spread`: see `CostModel`.
    """

    step_s: float
    layer_s: float
    allreduce_s: float
    spec_s: float
    verify_layer_factor: float
    draft_forward_s: float
    tree_s: float
    row_layer_s: float
    expert_spread: float


@dataclass(frozen=True)
class Published:
    """Coefficients of T = fixed + token * batched_tokens + kv * kv_tokens for target and draft, plus an overhead."""

    gpu: str
    model: str
    dtype: str
    engine: str
    source: str
    fixed_s: float
    token_s: float
    kv_token_s: float
    draft_fixed_s: float
    draft_token_s: float
    draft_kv_token_s: float
    draft_k: int
    overhead_s: float
    ngram_verify_fraction: float


@dataclass(frozen=True)
class Fitted:
    """Overheads fitted to measurements of one model on one GPU in one engine, all at one batch size."""

    gpu: str
    model: str
    engine: str
    tensor_parallel: int
    batch: int
    overheads: Overheads
    source: str


@dataclass(frozen=True)
class Table:
    """All fitted coefficients: pooled overheads per class ("dense", "moe") and the refinements."""

    dense: Overheads
    moe: Overheads
    fitted: tuple[Fitted, ...]

    def pooled(self, is_moe: bool, engine: str | None = None) -> Overheads:
        """Overheads for a model without coefficients of its own.

        They were fitted on SGLang, where a speculative step pays the layer overhead a second time. vLLM replays the
        verify pass from the same CUDA graphs as decoding, and its published fit has one constant for both; what
        speculation adds there is the time per draft forward, `VLLM_DRAFT_FORWARD_S`. (The split was made on seeing the
        Kimi-K2.6 points of `reference_points`; its values come from SpecDecode-Bench alone.)
        """
        overheads = self.moe if is_moe else self.dense
        if engine == "vllm":
            return replace(overheads, spec_s=0.0, verify_layer_factor=0.0, draft_forward_s=VLLM_DRAFT_FORWARD_S)
        return overheads

    def find(self, gpu: str, model: str, engine: str | None) -> Fitted | None:
        """The refinement for `model` in `engine` (None: any): on this GPU, else on another one, since launches and
        schedulers depend on the engine far more than on the GPU; None if there is neither.
        """
        same = [f for f in self.fitted if f.model == model and engine in (None, f.engine)]
        exact = [f for f in same if f.gpu == gpu]
        return (exact or same or [None])[0]


NGRAM_VERIFY_FRACTION = 0.005875  # SpecDecode-Bench (arXiv 2601.11580): n-gram draft time over verify time

# A third of the published draft constant (2.135 ms at K = 3) less reading the EAGLE head: 424.7M bf16 parameters at
# 81 % of 3.35 TB/s take 0.313 ms.
VLLM_DRAFT_FORWARD_S = 2.13526175e-03 / 3 - 0.313e-03

PUBLISHED = (
    Published(
        gpu="h100",
        model="Llama-3.1-8B",
        dtype="bf16",
        engine="vllm",
        source="SpecDecode-Bench (arXiv 2601.11580), Llama-3.1-8B bf16, 1 x H100, vLLM 0.10.1, EAGLE at K=3",
        fixed_s=5.88590713e-03,
        token_s=2.10103129e-05,
        kv_token_s=3.92645679e-08,
        draft_fixed_s=2.13526175e-03,
        draft_token_s=8.41429603e-07,
        draft_kv_token_s=2.37768493e-09,
        draft_k=3,
        overhead_s=1.20683946e-03,
        ngram_verify_fraction=NGRAM_VERIFY_FRACTION,
    ),
)


def find_published(
    gpu: str, model: str, dtype: str, kv_dtype: str, engine: str | None, tensor_parallel: int | None
) -> Published | None:
    """The published coefficients for this pair, or None."""
    for entry in PUBLISHED:
        same = (entry.gpu, entry.model, entry.dtype) == (gpu, model, dtype)
        if same and kv_dtype in ("bf16", "fp16") and engine in (None, entry.engine) and tensor_parallel in (None, 1):
            return entry
    return None


@lru_cache(maxsize=1)
def load_table() -> Table:
    """The table shipped as `calibration.json`."""
    return table_from_json(json.loads(resources.files(__package__).joinpath("calibration.json").read_text("utf-8")))


def table_from_json(document: dict) -> Table:
    """A `Table` from the document that `benchmarks/fit_calibration.py` writes."""
    pooled = {name: Overheads(**values) for name, values in document["pooled"].items()}
    fitted = tuple(Fitted(**{**entry, "overheads": Overheads(**entry["overheads"])}) for entry in document["fitted"])
    return Table(pooled["dense"], pooled["moe"], fitted)


def table_to_json(table: Table, provenance: Iterable[str]) -> dict:
    """The document of `table`; `provenance` are lines that say how it was fitted."""
    return {
        "provenance": list(provenance),
        "pooled": {"dense": vars(table.dense), "moe": vars(table.moe)},
        "fitted": [{**vars(f), "overheads": vars(f.overheads)} for f in table.fitted],
    }
