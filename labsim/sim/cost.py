"""Seconds of one engine step: an additive roofline, or coefficients somebody measured.

A decode step of `batch` requests that each verify K+1 tokens takes

    T = weights / bandwidth  +  rows * FLOPs / peak  +  kv_tokens * KV bytes / bandwidth  +  draft  +  overhead

The terms **add**; they are not max()-ed. Kernels of a decode step alternate between weight-bound GEMMs and KV-bound
attention, and a linear fit of a real engine recovers each term on its own: Llama-3.1-8B on H100 (SpecDecode-Bench,
arXiv 2601.11580) shows 81 % of the weight bandwidth, 77 % of peak FLOP/s and 100 % of the KV bandwidth. Those three
are the efficiencies below.

From T follow the only figures that decide about speculation:

    R = T(K) / T(0)        speedup = AL / R        break-even alpha_d = (R - 1) / K

Batch and K move the compute term (and, for an MoE, how many experts are read), context moves the KV term of target
and draft: long context makes the step memory bound again, so R falls.

`cost_model` builds a `CostModel`: published coefficients where there are some for the pair of model and GPU,
otherwise the roofline with engine overheads fitted per model and GPU, otherwise with the pooled overheads of its class
(dense or MoE). `source` says which.

What the sum does not know: the staircase of captured CUDA graphs and the cliff beyond the largest one, attention among
the tokens of a long prefill, and most of what an MoE pays per row at large batch. Its row cost was fitted at 8 to 64
rows; DeepSeek-V4-Pro on 8 x B300 pays 56 us per further request between 128 and 256 (data/calibration, no-spec arm),
where this model gives 30 us for a Kimi-K2 there. Break-even figures of an MoE beyond concurrency 64 are therefore
optimistic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from . import calibration
from .calibration import Overheads
from .drafts import Draft, find_draft
from .errors import check_whole, out_of_range, unknown_name
from .hardware import BYTES_PER_WEIGHT, GPUS, Gpu, check_dtype, find_gpu
from .targets import MODELS, Model, find_model, split_model_name

WEIGHT_EFFICIENCY = 0.81  # arXiv 2601.11580 coefficients: 16.06 GB / 3.35 TB/s over the fitted constant 5.886 ms
FLOP_EFFICIENCY = 0.77  # same: 2 * 8.03e9 / 989e12 over 21.01 us per token
KV_EFFICIENCY = 1.0  # same: 131,072 B / 3.35 TB/s over 39.26 ns per token of context


@dataclass(frozen=True)
class DraftCost:
    """Seconds of drafting in one step.

    forwards * (forward_s + kv_s * kv_tokens) + token_s * batched_tokens + later_row_s * batch * width * (forwards-1)
    + verify_fraction * target time. `batched_tokens` are the rows of the verify pass: the first draft forward runs over
    all of them to fill its own cache; the later ones run over `width` rows per request.
    """

    kind: str
    chain: bool
    forward_s: float = 0.0
    token_s: float = 0.0
    later_row_s: float = 0.0
    kv_s: float = 0.0
    verify_fraction: float = 0.0
    experts: int = 0
    experts_per_token: int = 0
    expert_s: float = 0.0

    def forwards(self, draft_steps: int) -> int:
        if not self.forward_s:
            return 0
        return draft_steps if self.chain else 1


@dataclass(frozen=True)
class CostModel:
    """Step time as a sum of terms, all in seconds.

    `fixed_s` what every step reads and launches, `token_s` per row of the batch, `kv_token_s` per token of context,
    `expert_s` reading all routed experts once, `overhead_s` outside the forward (scheduler, sampler; with and without
    speculation), `spec_s` once per speculative step, `tree_s` once per step with more than one branch.
    `expert_spread` in (0, 1] is the share of a request's further tokens that choose their experts independently of
    its first one (1: the textbook formula).
    """

    source: str
    fixed_s: float
    token_s: float
    kv_token_s: float
    overhead_s: float
    draft: DraftCost
    spec_s: float = 0.0
    tree_s: float = 0.0
    expert_s: float = 0.0
    experts: int = 0
    experts_per_token: int = 0
    expert_spread: float = 1.0

    def step_seconds(self, batch: int, num_speculative_tokens: int, kv_tokens: int, prefill_tokens: int = 0) -> float:
        """Seconds of one step: `batch` requests verify a chain of `num_speculative_tokens` drafts (0: plain decode).

        `kv_tokens` is the context summed over the batch, `prefill_tokens` are prompt tokens in the same step.
        """
        if num_speculative_tokens == 0:
            _check_load(batch, kv_tokens, prefill_tokens)
            return self._target(batch, 1, kv_tokens, prefill_tokens) + self.overhead_s
        return self.tree_step_seconds(
            batch, num_speculative_tokens, 1, num_speculative_tokens + 1, kv_tokens, prefill_tokens
        )

    def tree_step_seconds(
        self,
        batch: int,
        draft_steps: int,
        draft_width: int,
        verify_tokens: int,
        kv_tokens: int,
        prefill_tokens: int = 0,
    ) -> float:
        """Seconds of one speculative step: `draft_steps` draft forwards over `draft_width` rows per request, then one
        target pass over `verify_tokens` nodes per request. A chain of K is (K, 1, K + 1).
        """
        _check_load(batch, kv_tokens, prefill_tokens)
        if draft_steps < 1 or draft_width < 1 or verify_tokens < 1:
            raise ValueError(
                f"draft_steps, draft_width, verify_tokens are {draft_steps}, {draft_width}, {verify_tokens}; "
                "allowed: each at least 1 (num_speculative_tokens 0 means no speculation)"
            )
        target = self._target(batch, verify_tokens, kv_tokens, prefill_tokens)
        draft = self.draft
        rows = batch * verify_tokens + prefill_tokens
        forwards = draft.forwards(draft_steps)
        if batch == 0:  # a step that only prefills: the draft fills its cache once, nothing is proposed or accepted
            forwards = min(1, forwards)
        time = forwards * (draft.forward_s + draft.kv_s * kv_tokens) + draft.token_s * rows
        if forwards > 1:
            time += draft.later_row_s * batch * draft_width * (forwards - 1)
        if draft.experts:
            miss = 1.0 - draft.experts_per_token / draft.experts
            time += draft.expert_s * (1.0 - miss**rows)
            time += draft.expert_s * (1.0 - miss ** (batch * draft_width)) * max(0, forwards - 1)
        time += draft.verify_fraction * target
        if batch > 0:
            time += self.spec_s + (self.tree_s if draft_width > 1 else 0.0)
        return target + time + self.overhead_s

    def step_ratio(self, batch: int, num_speculative_tokens: int, kv_tokens: int) -> float:
        """R = time of a speculative step over time of a plain step at the same load."""
        plain = self.step_seconds(batch, 0, kv_tokens)
        return self.step_seconds(batch, num_speculative_tokens, kv_tokens) / plain

    def _target(self, batch: int, tokens_per_request: int, kv_tokens: int, prefill_tokens: int) -> float:
        rows = batch * tokens_per_request + prefill_tokens
        time = self.fixed_s + self.token_s * rows + self.kv_token_s * kv_tokens
        if self.experts:
            independent = batch * (1.0 + self.expert_spread * (tokens_per_request - 1)) + prefill_tokens
            time += self.expert_s * (1.0 - (1.0 - self.experts_per_token / self.experts) ** independent)
        return time


class BreakEven(NamedTuple):
    """`alpha_breakeven` is accepted/drafted at which speculation neither wins nor loses; above 1 it cannot win."""

    alpha_breakeven: float
    step_ratio: float


def break_even(cost: CostModel, k: int, batch: int, context: int) -> BreakEven:
    """Break-even alpha_d = (R - 1)/K and R at `batch` concurrent requests of `context` tokens each."""
    k, batch = check_whole("k", k), check_whole("batch", batch)
    context = check_whole("context", context, lowest=0)
    ratio = cost.step_ratio(batch, k, batch * context)
    return BreakEven((ratio - 1.0) / k, ratio)


def cost_model(
    gpu: str | Gpu = "h100",
    model: str | Model = "llama-3.1-8b",
    draft: str | Draft | Model = "eagle3",
    *,
    tensor_parallel: int | None = None,
    dtype: str | None = None,
    kv_dtype: str = "bf16",
    engine: str | None = None,
    calibrated: bool = True,
    overheads: Overheads | None = None,
) -> CostModel:
    """The step cost of `model` with `draft` on `tensor_parallel` x `gpu`.

    `dtype` is how the weights are stored (default: as the model's name or its published checkpoint says), `kv_dtype`
    the cache. `engine` ("vllm", "sglang", "trtllm") picks among calibrations; None takes the published one first.
    `calibrated=False` gives the roofline with pooled overheads, `overheads` sets them. Raises ValueError for unknown
    names (with the nearest match) and values out of range.
    """
    chip, shape = find_gpu(gpu), find_model(model)
    head = find_draft(draft, shape)
    engine = _check_engine(engine)
    named = split_model_name(model)[1] if isinstance(model, str) else None
    weight_dtype = check_dtype(dtype or named or shape.dtype)
    cache_dtype = check_dtype(kv_dtype)
    wanted_tp = None if tensor_parallel is None else check_whole("tensor_parallel", tensor_parallel)
    # A user's own GPU, model or draft may carry a known name with other figures: measurements are not theirs.
    known = GPUS.get(chip.name) == chip and MODELS.get(shape.name.lower()) == shape
    if known and calibrated and overheads is None and head.kind in ("eagle", "eagle3", "ngram"):
        published = calibration.find_published(chip.name, shape.name, weight_dtype, cache_dtype, engine, wanted_tp)
        if published is not None and head == find_draft(head.kind, shape):
            return _from_published(published, head)
    table = calibration.load_table()
    entry = table.find(chip.name, shape.name, engine) if known and calibrated and overheads is None else None
    kind = "MoE" if shape.is_moe else "dense"
    if overheads is not None:
        source = "roofline with the caller's overheads"
    elif entry is not None:
        overheads, source = entry.overheads, f"roofline with fitted overheads: {entry.source}"
    elif calibrated:
        overheads = table.pooled(shape.is_moe, engine)
        source = f"roofline, uncalibrated for this model and engine (pooled {kind} overheads)"
    else:
        overheads, source = table.pooled(shape.is_moe, engine), f"roofline with pooled {kind} overheads"
    tp = choose_tensor_parallel(chip, shape, weight_dtype, engine, wanted_tp, entry)
    return roofline(chip, shape, head, tp, weight_dtype, cache_dtype, overheads, source)


def choose_tensor_parallel(
    gpu: Gpu,
    model: Model,
    dtype: str,
    engine: str | None = None,
    wanted: int | None = None,
    entry: calibration.Fitted | None = None,
) -> int:
    """GPUs per replica: as `wanted`, else as measured for this pair, else as few as hold the weights."""
    if wanted is not None:
        return wanted
    entry = entry or calibration.load_table().find(gpu.name, model.name, engine)
    measured = entry is not None and entry.gpu == gpu.name and GPUS.get(gpu.name) == gpu
    return entry.tensor_parallel if measured else default_tensor_parallel(gpu, model, dtype)


def default_tensor_parallel(gpu: Gpu, model: Model, dtype: str) -> int:
    """Smallest power of two of GPUs whose memory holds the weights with a fifth left for the cache; a node of 8 also
    serves with a twentieth left.
    """
    weights = weight_bytes(model, dtype)
    tp = 1
    while weights > (0.95 if tp == 8 else 0.8) * tp * gpu.memory_gb * 1e9:
        tp *= 2
    return tp


def _expert_dtype(model: Model, dtype: str) -> str:
    return model.expert_dtype if model.expert_dtype and dtype == model.dtype else dtype


def weight_bytes(model: Model, dtype: str) -> float:
    """Bytes of all weights of `model` stored as `dtype` (routed experts as `Model.expert_dtype` where it has one)."""
    dense = (model.parameters - model.routed_parameters) * BYTES_PER_WEIGHT[dtype]
    return dense + model.routed_parameters * BYTES_PER_WEIGHT[_expert_dtype(model, dtype)]


def roofline(
    gpu: Gpu, model: Model, draft: Draft, tp: int, dtype: str, kv_dtype: str, overheads: Overheads, source: str
) -> CostModel:
    """The additive roofline of `draft` and `model` on `tp` x `gpu` with given overheads (no look-up of any kind)."""
    read = gpu.bandwidth * tp * WEIGHT_EFFICIENCY
    compute = gpu.flops(dtype) * tp * FLOP_EFFICIENCY
    cache = gpu.bandwidth * tp * KV_EFFICIENCY
    draft_flops = gpu.flops("bf16") * tp * FLOP_EFFICIENCY  # heads are published in bf16 whatever the target's dtype
    draft_row_s = 2 * draft.read_parameters / draft_flops
    launched = draft.layers > 0
    # The fitted draft_forward_s holds launches and all-reduce of a one-layer head; a deeper draft pays per layer.
    layer = overheads.layer_s + (2 * overheads.allreduce_s if tp > 1 else 0.0)
    draft_launch_s = overheads.draft_forward_s + max(0, draft.layers - 1) * layer
    return CostModel(
        source=source,
        fixed_s=model.always_read_parameters * BYTES_PER_WEIGHT[dtype] / read
        + overheads.layer_s * model.layers
        + (overheads.allreduce_s * 2 * model.layers if tp > 1 else 0.0),
        token_s=2 * model.active_parameters / compute
        + 2 * model.layers * _allreduce_bytes_per_row(model.hidden, tp) / gpu.link_bandwidth
        + overheads.row_layer_s * (model.layers - model.dense_layers if model.is_moe else 0),
        kv_token_s=model.kv_bytes_per_token(BYTES_PER_WEIGHT[kv_dtype]) / cache,
        overhead_s=overheads.step_s,
        spec_s=overheads.spec_s + overheads.verify_layer_factor * overheads.layer_s * model.layers,
        tree_s=overheads.tree_s,
        expert_s=model.routed_parameters * BYTES_PER_WEIGHT[_expert_dtype(model, dtype)] / read,
        experts=model.experts,
        experts_per_token=model.experts_per_token,
        expert_spread=overheads.expert_spread,
        draft=DraftCost(
            kind=draft.kind,
            chain=draft.chain,
            forward_s=draft.read_parameters * 2 / read + draft_launch_s if launched else 0.0,
            token_s=draft_row_s,
            later_row_s=draft_row_s,
            kv_s=draft.kv_bytes_per_token / cache,
            verify_fraction=0.0 if launched else calibration.NGRAM_VERIFY_FRACTION,
            experts=draft.experts,
            experts_per_token=draft.experts_per_token,
            expert_s=draft.expert_parameters * 2 / read,
        ),
    )


def _allreduce_bytes_per_row(hidden: int, tensor_parallel: int) -> float:
    """Bytes each GPU sends to all-reduce one bf16 row: a ring passes 2 (n - 1)/n of it."""
    return 2.0 * hidden * 2 * (tensor_parallel - 1) / tensor_parallel


def _from_published(published: calibration.Published, draft: Draft) -> CostModel:
    if draft.kind == "ngram":
        draft_cost = DraftCost("ngram", chain=False, verify_fraction=published.ngram_verify_fraction)
    else:
        # The coefficients were fitted at K = 3 and charge the draft once per step. A chain head runs K forwards, so
        # the constant and the KV term are divided by 3 and charged per forward: exact at K = 3, proportional elsewhere.
        draft_cost = DraftCost(
            draft.kind,
            chain=True,
            forward_s=published.draft_fixed_s / published.draft_k,
            token_s=published.draft_token_s,
            kv_s=published.draft_kv_token_s / published.draft_k,
        )
    return CostModel(
        source=f"published calibration: {published.source}",
        fixed_s=published.fixed_s,
        token_s=published.token_s,
        kv_token_s=published.kv_token_s,
        overhead_s=published.overhead_s,
        draft=draft_cost,
    )


def _check_engine(engine: str | None) -> str | None:
    if engine is None:
        return None
    key = str(engine).strip().lower().replace("-", "").replace("_", "")
    key = {"tensorrtllm": "trtllm"}.get(key, key)
    if key not in calibration.ENGINES:
        raise unknown_name("engine", str(engine), calibration.ENGINES)
    return key


def _check_load(batch: int, kv_tokens: int, prefill_tokens: int) -> None:
    if batch < 0 or (batch == 0 and prefill_tokens == 0):
        raise out_of_range("batch", batch, "at least 1 (0 only in a step that prefills)")
    if kv_tokens < 0:
        raise out_of_range("kv_tokens", kv_tokens, "at least 0")
    if prefill_tokens < 0:
        raise out_of_range("prefill_tokens", prefill_tokens, "at least 0")
