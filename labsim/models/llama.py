"""The target's forward: a Llama-family decoder, written for the few-token passes of speculative decoding.

Each layer adds two terms to the residual stream x:

    x = x + W_o attention(rope(W_qkv norm(x)))
    x = x + W_down (silu(W_gate norm(x)) * W_up norm(x))

It reads Hugging Face checkpoints and gives transformers' own logits, with two things the generic forward lacks: keys
and values go into a preallocated cache that can be cut back, and a call may carry a *tree* of tokens. Projections
that read the same input are one product, since at a handful of rows the time goes into fetching weights, not into
arithmetic.

Shapes: B rows, Q new tokens, S cached slots, V vocabulary, E hidden size, H query heads, K key/value heads, D head
dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch.nn.functional import embedding, rms_norm, scaled_dot_product_attention, silu

from .cache import KVCache
from .config import ModelConfig, first_line, read_json, transformers_config
from .linear import Linear, paths_of_model
from .rope import default_frequencies, rope_frequencies
from .tree_mask import newest
from .weights import check_model, read_weights

ENDS = ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight")


@dataclass(frozen=True)
class ModelOutput:
    """Result of one forward.

    Attributes:
        logits_BQV: next-token logits after each asked-for token; None when none were asked for.
        hidden: by layer index i the residual stream after i layers, (B, Q, E); i = num_layers is the normed last
            state that the head reads. The numbering of Hugging Face's `hidden_states`, and of "input of layer i".
    """

    logits_BQV: torch.Tensor | None
    hidden: dict[int, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Layer:
    """Weights of one decoder layer; `q_norm` and `k_norm` where the family has them (Qwen3)."""

    input_norm: torch.Tensor
    qkv: Linear
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    o: Linear
    post_norm: torch.Tensor
    gate_up: Linear
    down: Linear


class LanguageModel:
    """A causal language model with an explicit KV cache.

    Args:
        config: sizes.
        weights: tensors under Hugging Face's names; consumed, so that no second copy stays in memory.
        inverse_frequencies: (D/2,) rotary frequencies, and `rope_scale` the factor on cos and sin (YaRN).
        embedding_VE: the input embedding when the checkpoint stores none (a draft that reads its target's).
        layers: False leaves them out: embedding, last norm and head are what a draft's training reads of a target
            whose states lie on disk.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: dict[str, torch.Tensor],
        inverse_frequencies: torch.Tensor,
        *,
        rope_scale: float = 1.0,
        embedding_VE: torch.Tensor | None = None,
        layers: bool = True,
    ) -> None:
        self.config = config
        names = Names(weights, paths_of_model(sum(tensor.nbytes for tensor in weights.values())))
        own = names.take("model.embed_tokens.weight", optional=embedding_VE is not None)
        self.embedding_VE = own if own is not None else embedding_VE
        self.layers = [read_layer(names, index, config) for index in range(config.num_layers if layers else 0)]
        self.norm = names.take("model.norm.weight")
        head = names.take("lm_head.weight", optional=config.tied)
        self.head = Linear(self.embedding_VE if head is None else head, paths=names.paths)
        self.device, self.dtype = self.norm.device, self.norm.dtype
        # Angles in float64: at position 4,000 a float32 product is already off by 1e-4.
        angles = torch.outer(
            torch.arange(config.max_positions, dtype=torch.float64), inverse_frequencies.double().cpu()
        )
        angles = torch.cat([angles, angles], dim=-1)
        self.cos_PD = (angles.cos() * rope_scale).to(self.device, self.dtype)
        # rotate_half negates the first half; with the sign in the table, rotating is one roll.
        sign = torch.ones(config.head_dim, dtype=torch.float64)
        sign[: config.head_dim // 2] = -1
        self.sin_PD = (angles.sin() * sign * rope_scale).to(self.device, self.dtype)

    @classmethod
    def from_directory(
        cls,
        path: str | Path,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        weights: dict[str, torch.Tensor] | None = None,
        embedding_VE: torch.Tensor | None = None,
        head_rows: int | None = None,
        layers: bool = True,
    ) -> LanguageModel:
        """Load config.json and *.safetensors. By default on the GPU in bf16 if there is one, else on the CPU in fp32.

        For drafts: `weights` that are read already, the `embedding_VE` of the target, and the rows of a reduced head.
        Without `layers` the files' other tensors are not read at all, and the model has no forward.
        ValueError for an unknown architecture, a missing or damaged file, a value of config.json that cannot be, or
        a tensor that is missing, of the wrong shape or not a number.
        """
        directory = Path(path)
        raw = read_json(directory / "config.json")
        config = ModelConfig.from_dict(raw, str(path))
        device = default_device() if device is None else torch.device(device)
        dtype = dtype or default_dtype(device)
        frequencies = default_frequencies(raw, config.head_dim)
        settings = transformers_config(directory) if frequencies is None else None
        if weights is None:
            weights = read_weights(directory, device, only=None if layers else ENDS)
        borrows = embedding_VE is not None
        check_model(weights, config, str(path), borrows_embedding=borrows, head_rows=head_rows, layers=layers)
        try:
            angles, scale = frequencies or rope_frequencies(settings)
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise ValueError(f"{path}/config.json: rope_parameters cannot be used ({first_line(error)})") from error
        if angles.shape != (config.head_dim // 2,):
            raise ValueError(
                f"{path}/config.json turns {2 * len(angles)} of a head's {config.head_dim} dimensions "
                "(partial_rotary_factor); this forward turns all"
            )
        weights = {name: tensor.to(device, dtype) for name, tensor in weights.items()}
        return cls(config, weights, angles, rope_scale=float(scale), embedding_VE=embedding_VE, layers=layers)

    @property
    def weight_bytes(self) -> int:
        """Bytes of matrices that one forward reads from memory at least once: every layer and the head."""
        products = [self.head, *(p for layer in self.layers for p in (layer.qkv, layer.o, layer.gate_up, layer.down))]
        return sum(product.weight_bytes for product in products)

    def new_cache(self, batch_size: int, capacity: int) -> KVCache:
        """An empty cache with `capacity` slots per row: the context and, on top, the nodes of the widest draft tree."""
        c = self.config
        return KVCache(
            c.num_layers, batch_size, c.num_kv_heads, capacity, c.head_dim, device=self.device, dtype=self.dtype
        )

    @torch.no_grad()
    def forward(
        self,
        tokens_BQ: torch.Tensor,
        cache: KVCache,
        *,
        parents_BQ: Sequence[Sequence[int]] | None = None,
        hidden_layers: Sequence[int] = (),
        logits: Literal["all", "last", "none"] | Sequence[int] = "all",
    ) -> ModelOutput:
        """Run Q tokens per row on top of the cache; they become its newest *pending* tokens.

        Args:
            tokens_BQ: token ids, integer.
            parents_BQ: for each token the index, among the cache's pending tokens, of the one it follows; -1 for a
                child of the last committed token. None: each follows the one before it.
            hidden_layers: which residual streams to return, 0..num_layers.
            logits: after "all" tokens (B, Q, V), after the "last" one (B, 1, V), "none", or one token index per row
                (B, 1, V).

        Raises:
            ValueError: for ids outside the vocabulary, layers that do not exist or were not loaded, a full cache or a
                full context.
        """
        batch, count = tokens_BQ.shape
        self._check(tokens_BQ, cache, hidden_layers)
        cache.extend(count, parents_BQ)
        where = newest(cache, count)
        if where.last_position >= self.config.max_positions:
            cache.forget_pending()
            raise ValueError(
                f"position {where.last_position} lies beyond the context of {self.config.max_positions} tokens"
            )
        cos_BQD, sin_BQD = self.cos_PD[where.positions_BQ][:, None], self.sin_PD[where.positions_BQ][:, None]
        mask_B1QS = None if where.mask_BQS is None else where.mask_BQS[:, None]
        store = Store(cache, where.starts, count)
        c, hidden, kv_BKSD = self.config, {}, of_layers(cache, 0, where.slots)
        turned = (c.num_heads + c.num_kv_heads, c.num_kv_heads)
        x_BQE = embedding(tokens_BQ.to(self.device), self.embedding_VE).to(self.dtype)
        for index, layer in enumerate(self.layers):
            if index in hidden_layers:
                hidden[index] = x_BQE
            qkv = layer.qkv(rms_norm(x_BQE, x_BQE.shape[-1:], layer.input_norm, c.rms_norm_eps))
            # (B, Q, H + 2K, D) -> (B, H + 2K, Q, D): queries first, then keys, then values.
            heads = qkv.view(batch, count, -1, c.head_dim).transpose(1, 2)
            qk, v_BKQD = heads.split(turned, dim=1)
            if layer.q_norm is not None:
                q = rms_norm(qk[:, : c.num_heads], (c.head_dim,), layer.q_norm, c.rms_norm_eps)
                k = rms_norm(qk[:, c.num_heads :], (c.head_dim,), layer.k_norm, c.rms_norm_eps)
                qk = torch.cat([q, k], dim=1)
            # Queries and keys turn together: one rotation for both.
            qk = qk * cos_BQD + qk.roll(c.head_dim // 2, dims=-1) * sin_BQD
            q_BHQD, k_BKQD = qk.split((c.num_heads, c.num_kv_heads), dim=1)
            store(index, k_BKQD, v_BKQD)
            # Torch picks the kernel that the device has: flash or memory-efficient on CUDA, its fused one on a CPU.
            out_BHQD = scaled_dot_product_attention(
                q_BHQD,
                kv_BKSD[2 * index],
                kv_BKSD[2 * index + 1],
                attn_mask=mask_B1QS,
                is_causal=where.causal,
                enable_gqa=c.num_heads > c.num_kv_heads,
            )
            x_BQE = x_BQE + layer.o(out_BHQD.transpose(1, 2).reshape(batch, count, -1))
            gate, up = layer.gate_up(rms_norm(x_BQE, x_BQE.shape[-1:], layer.post_norm, c.rms_norm_eps)).split(
                c.intermediate_size, dim=-1
            )
            x_BQE = x_BQE + layer.down(silu(gate) * up)
        if isinstance(logits, str):
            wanted = {"all": x_BQE, "last": x_BQE[:, -1:], "none": None}[logits]
        else:
            wanted = x_BQE[torch.arange(batch), torch.tensor(logits)][:, None]
        if c.num_layers in hidden_layers:
            hidden[c.num_layers] = self._norm(x_BQE)
        return ModelOutput(None if wanted is None else self.head(self._norm(wanted)), hidden)

    __call__ = forward

    def _norm(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, x.shape[-1:], self.norm, self.config.rms_norm_eps)

    def _check(self, tokens_BQ: torch.Tensor, cache: KVCache, hidden_layers: Sequence[int]) -> None:
        if len(self.layers) < self.config.num_layers:
            raise ValueError("the model was loaded without its layers, so it has no forward: load it with layers=True")
        if tokens_BQ.shape[0] != cache.batch_size:
            raise ValueError(f"{tokens_BQ.shape[0]} rows of tokens for a cache of {cache.batch_size} rows")
        if tokens_BQ.numel() == 0:
            raise ValueError("a forward needs at least one token")
        low, high = (int(edge) for edge in torch.aminmax(tokens_BQ))
        size = self.embedding_VE.shape[0]
        if low < 0 or high >= size:
            raise ValueError(f"token id {low if low < 0 else high} is outside the vocabulary of {size}")
        for index in hidden_layers:
            if not 0 <= index <= self.config.num_layers:
                raise ValueError(
                    f"hidden layer {index} does not exist: 0 (embeddings) to {self.config.num_layers} (last)"
                )


class Store:
    """Write new keys and values behind each row's own length. Rows of one length are a slice, others a scatter."""

    def __init__(self, cache: KVCache, starts: tuple[int, ...], count: int) -> None:
        self.kv, ragged = cache.kv, len(set(starts)) > 1
        # Views of all layers at once: on a CPU every call counts in a decoding step.
        self.places = () if ragged else of_layers(cache, starts[0], starts[0] + count)
        if ragged:
            device = cache.kv.device
            self.rows_B1 = torch.arange(len(starts), device=device)[:, None]
            self.slots_BQ = torch.tensor(starts, device=device)[:, None] + torch.arange(count, device=device)

    def __call__(self, layer: int, k_BKQD: torch.Tensor, v_BKQD: torch.Tensor) -> None:
        for which, new_BKQD in enumerate((k_BKQD, v_BKQD)):
            if self.places:
                self.places[2 * layer + which].copy_(new_BKQD)
            else:
                # Indices around a slice move their axes to the front: (B, Q, K, D).
                self.kv[layer, which][self.rows_B1, :, self.slots_BQ] = new_BKQD.transpose(1, 2)


def of_layers(cache: KVCache, start: int, stop: int) -> tuple[torch.Tensor, ...]:
    """Slots start .. stop-1 as views (B, K, S, D): the keys of layer i at 2 i, its values at 2 i + 1."""
    # `view`, not `flatten`: it would rather fail than copy, and what is written to a copy is lost.
    return cache.kv.view(-1, *cache.kv.shape[2:])[:, :, :, start:stop].unbind(0)


class Names:
    """A checkpoint's tensors, handed out once each; what is missing is named. `paths` is that of its `Linear`s."""

    def __init__(self, weights: dict[str, torch.Tensor], paths: str) -> None:
        self.weights, self.paths = weights, paths

    def take(self, name: str, *, optional: bool = False) -> torch.Tensor | None:
        tensor = self.weights.pop(name, None)
        if tensor is None and not optional:
            raise ValueError(f"the checkpoint lacks the tensor {name}")
        return tensor

    def linear(self, prefix: str, *projections: str) -> Linear:
        """One Linear of several projections stacked: they read the same input."""
        weights = [self.take(f"{prefix}.{name}.weight") for name in projections]
        biases = [self.take(f"{prefix}.{name}.bias", optional=True) for name in projections]
        bias = None
        if any(b is not None for b in biases):
            bias = torch.cat(
                [w.new_zeros(w.shape[0]) if b is None else b for w, b in zip(weights, biases, strict=True)]
            )
        return Linear(weights[0] if len(weights) == 1 else torch.cat(weights), bias, paths=self.paths)


def read_layer(names: Names, index: int, config: ModelConfig) -> Layer:
    """Weights of layer `index`; ValueError for a missing tensor or one of another shape than the config says."""
    prefix = f"model.layers.{index}"
    attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
    layer = Layer(
        input_norm=names.take(f"{prefix}.input_layernorm.weight"),
        qkv=names.linear(attention, "q_proj", "k_proj", "v_proj"),
        q_norm=names.take(f"{attention}.q_norm.weight", optional=True),
        k_norm=names.take(f"{attention}.k_norm.weight", optional=True),
        o=names.linear(attention, "o_proj"),
        post_norm=names.take(f"{prefix}.post_attention_layernorm.weight"),
        gate_up=names.linear(mlp, "gate_proj", "up_proj"),
        down=names.linear(mlp, "down_proj"),
    )
    rows = (config.num_heads + 2 * config.num_kv_heads) * config.head_dim
    expected = {
        "qkv": (rows, config.hidden_size),
        "o": (config.hidden_size, config.num_heads * config.head_dim),
        "gate_up": (2 * config.intermediate_size, config.hidden_size),
        "down": (config.hidden_size, config.intermediate_size),
    }
    for name, shape in expected.items():
        found = getattr(layer, name).shape
        if found != shape:
            raise ValueError(f"layer {index}: the {name} weights are {found}, and config.json says {shape}")
    return layer


def default_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def default_dtype(device: torch.device) -> torch.dtype:
    """bf16 on a GPU; fp32 on a CPU, where bf16 products of a few rows are several times slower."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32
