"""Memory: how many requests fit on the GPUs at all.

A cost model prices any batch; a GPU holds only those whose KV cache fits beside the weights of target and draft. At
long contexts that limit comes long before speculation stops paying.
"""

from __future__ import annotations

from .cost import choose_tensor_parallel, weight_bytes
from .drafts import Draft, find_draft
from .errors import check_whole
from .hardware import BYTES_PER_WEIGHT, Gpu, check_dtype, find_gpu
from .targets import Model, find_model, split_model_name

USABLE = 0.95  # share of the memory for weights and cache; the rest is activations and the engine's own


def requests_that_fit(
    gpu: str | Gpu,
    model: str | Model,
    context: int,
    *,
    draft: str | Draft | Model = "eagle3",
    tensor_parallel: int | None = None,
    dtype: str | None = None,
    kv_dtype: str = "bf16",
    engine: str | None = None,
) -> int:
    """Requests of `context` tokens each whose cache fits beside the weights; 0 when the weights alone do not.

    Arguments as in `labsim.sim.cost.cost_model`. The draft's weights are counted without the embedding table that it
    shares with the target.
    """
    chip, shape, context = find_gpu(gpu), find_model(model), check_whole("context", context)
    head = find_draft(draft, shape)
    named = split_model_name(model)[1] if isinstance(model, str) else None
    stored = check_dtype(dtype or named or shape.dtype)
    tp = choose_tensor_parallel(chip, shape, stored, engine, tensor_parallel)
    free = USABLE * tp * chip.memory_gb * 1e9 - weight_bytes(shape, stored) - 2 * head.read_parameters
    per_token = shape.kv_bytes_per_token(BYTES_PER_WEIGHT[check_dtype(kv_dtype)]) + head.kv_bytes_per_token
    return max(0, int(free / (per_token * context)))
