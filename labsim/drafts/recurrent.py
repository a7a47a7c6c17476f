"""A draft that feeds on its own output: one decoder layer, run once per drafted token.

At position t it holds a *state* and reads the token after it, and says what comes next:

    depth 1        state = fused target states at t          token x_{t+1}        drafts x_{t+2}
    depth d + 1    state = what depth d handed over          the token drafted    drafts the one after

There are two ways through the same layer.

`ttt_forward` is the training-time test: all positions at once, d after d, as if a draft started at every position.
The states stay in place and the tokens shift left by one per step, so step k at position t is depth k + 1 of the
chain drafted after the prefix 0..t. Its query sees the prefix (keys of step 0) and its own branch (its keys of steps
1..k), at rotary position t + k.

`forward_cached` is serving: the prefix lies in a KV cache, and one call runs one level of a draft tree.

They are the same function. *Logits of TTT step k at position t equal the logits of drafting at depth k + 1 after the
prefix 0..t, given the same tokens*: whoever breaks that trains one model and serves another, and depth 1 never shows
it. The public form of MTP training breaks it on purpose (`branch="step"`).

Shapes: B rows, L positions, Q new entries, F feature width, H hidden size, A query heads, K key/value heads, D head
dimension, V target vocabulary, N draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import torch
from torch import nn
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint

from ..attention.kernels import Kernel
from ..attention.ttt import ttt_attention
from ..models.cache import KVCache
from ..models.linear import Linear
from ..models.llama import Store
from ..models.tree_mask import newest
from .eagle_config import BlockConfig
from .rotary import frequencies, rotate

Pair = tuple[torch.Tensor, torch.Tensor]
# (q, k, v of step 0, branch keys and values) -> output, as `labsim.attention.ttt.ttt_attention`. One that takes place
# elsewhere (`labsim.attention.usp.USP`) has a method `enter`, which brings this step's q, k, v there first.
BranchAttention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Sequence[Pair]], torch.Tensor]


class StepView(Protocol):
    """What the steps of training-time test read where a process holds only some positions of the text."""

    positions_L: torch.Tensor

    def tokens(self, step: int) -> torch.Tensor:
        """(B, L): the token that step `step` reads at each position held, the one `step + 1` further on."""


@dataclass(frozen=True)
class WholeText:
    """The view of a process that holds positions `first`..`first + L - 1`, all of them."""

    tokens_BT: torch.Tensor
    positions_L: torch.Tensor

    def tokens(self, step: int) -> torch.Tensor:
        length = len(self.positions_L)
        padded = torch.nn.functional.pad(self.tokens_BT, (0, max(0, length + step + 1 - self.tokens_BT.shape[1])))
        return padded[:, 1 + step : 1 + step + length]


@dataclass(frozen=True)
class TTTStep:
    """One step of training-time test.

    Attributes:
        step: k, from 0; it trains depth k + 1.
        output_BLH: what the head reads; `draft.logits(output_BLH[chosen])` spares the other positions.
        state_BLH: what the next step consumes.
    """

    step: int
    output_BLH: torch.Tensor
    state_BLH: torch.Tensor


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich, arXiv 1910.07467)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Under autocast x may be narrower than the weight; norms are computed in the weight's precision.
        return rms_norm(x.to(self.weight.dtype), self.weight.shape, self.weight, self.eps)


class Attention(nn.Module):
    """Projections of grouped-query attention; `inputs` is 2H in EAGLE-3, which concatenates."""

    def __init__(self, config: BlockConfig, inputs: int) -> None:
        super().__init__()
        heads, kv, bias = (
            config.num_heads * config.head_dim,
            config.num_kv_heads * config.head_dim,
            config.attention_bias,
        )
        self.q_proj = nn.Linear(inputs, heads, bias=bias)
        self.k_proj = nn.Linear(inputs, kv, bias=bias)
        self.v_proj = nn.Linear(inputs, kv, bias=bias)
        self.o_proj = nn.Linear(heads, config.hidden_size, bias=False)


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)


class RecurrentDraft(nn.Module):
    """What all such drafts share; `fuse`, `enter` and `leave` are where they differ.

    Parameter names are those of the public checkpoints. Embedding and, where it is borrowed, the head are the target's:
    not trained and not stored.

    Args:
        config: sizes and switches.
        embedding_VH: the target's input embedding.
        head_VH: the target's head, for a draft without its own.
    """

    def __init__(self, config: BlockConfig, embedding_VH: torch.Tensor, head_VH: torch.Tensor | None = None) -> None:
        super().__init__()
        expected = (config.vocab_size, config.hidden_size)
        if tuple(embedding_VH.shape) != expected:
            raise ValueError(f"the embedding is {tuple(embedding_VH.shape)}; this draft reads one of {expected}")
        if head_VH is not None and tuple(head_VH.shape) != expected:
            raise ValueError(f"the borrowed head is {tuple(head_VH.shape)}; this draft reads one of {expected}")
        self.config = config
        self.register_buffer("embedding_VH", embedding_VH.detach(), persistent=False)
        self.register_buffer("head_VH", None if head_VH is None else head_VH.detach(), persistent=False)
        self.inverse_frequencies, self.rope_scale = frequencies(config.rope, config.head_dim, config.max_positions)
        self.packed: dict[str, Linear] = {}
        self.stores_embedding = False  # set for a checkpoint that brings its own, which is then written again

    # --- where drafts differ ---------------------------------------------------------------------------------------

    @property
    def layer(self) -> nn.Module:
        """The decoder layer: `self_attn`, `post_attention_layernorm`, `mlp`."""
        raise NotImplementedError

    def fuse(self, features_BLF: torch.Tensor) -> torch.Tensor:
        """Concatenated target states to the state of depth 1, (B, L, H)."""
        raise NotImplementedError

    def enter(self, embeds_BLH: torch.Tensor, state_BLH: torch.Tensor) -> Pair:
        """Token and state to (what attention projects, where the residual stream starts)."""
        raise NotImplementedError

    def leave(self, raw_BLH: torch.Tensor) -> Pair:
        """The layer's output to (what the head reads, what the next depth consumes)."""
        raise NotImplementedError

    # --- the layer ---------------------------------------------------------------------------------------------------

    def project(self, name: str, module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        packed = self.packed.get(name)
        return module(x) if packed is None else packed(x)

    def block(
        self,
        tokens_BL: torch.Tensor,
        state_BLH: torch.Tensor,
        positions_BL: torch.Tensor,
        attend: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor],
        enter: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Sequence[torch.Tensor]] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """One depth: (what the head reads, the next state, this depth's keys, its values).

        `attend` is given q (B, A, L, D), k and v (B, K, L, D), turned to their positions, and what `enter` made of
        them where attention takes place elsewhere; the keys and values returned are those that `attend` was given.
        """
        c, layer = self.config, self.layer
        embeds_BLH = nn.functional.embedding(tokens_BL, self.embedding_VH).to(state_BLH.dtype)
        x, residual_BLH = self.enter(embeds_BLH, state_BLH)
        attention = layer.self_attn
        if "qkv" in self.packed:
            sizes = [c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim, c.num_kv_heads * c.head_dim]
            parts = self.packed["qkv"](x).split(sizes, dim=-1)
        else:
            parts = attention.q_proj(x), attention.k_proj(x), attention.v_proj(x)
        q, k, v = (part.unflatten(-1, (-1, c.head_dim)).transpose(1, 2) for part in parts)
        angles = positions_BL.double()[..., None] * self.inverse_frequencies.to(positions_BL.device)
        angles = torch.cat([angles, angles], dim=-1)
        cos, sin = (turn.mul(self.rope_scale).to(x.dtype) for turn in (angles.cos(), angles.sin()))
        # Under autocast the projections are narrower than the angles; the kernel wants one type.
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        if enter is not None:
            q, k, v = enter(q, k, v)
        out_BLO = attend(q, k, v).transpose(1, 2).flatten(2)
        residual_BLH = residual_BLH + self.project("o", attention.o_proj, out_BLO)
        inner = layer.post_attention_layernorm(residual_BLH)
        if "gate_up" in self.packed:
            gate, up = self.packed["gate_up"](inner).chunk(2, dim=-1)
        else:
            gate, up = layer.mlp.gate_proj(inner), layer.mlp.up_proj(inner)
        raw_BLH = residual_BLH + self.project("down", layer.mlp.down_proj, silu(gate) * up)
        output_BLH, state_BLH = self.leave(raw_BLH)
        return output_BLH, state_BLH, k, v

    def logits(self, output: torch.Tensor, step: int = 0) -> torch.Tensor:
        """(..., H) to (..., N), from `TTTStep.output_BLH` or the first result of `forward_cached`.

        All steps speak through one head; `step` is there because parallel heads do not.
        """
        if "head" in self.packed:
            return self.packed["head"](output)
        own = getattr(self, "lm_head", None)
        if own is not None:
            return own(output)
        if self.head_VH is None:
            raise ValueError(f"this {self.config.kind} draft speaks through its target's head, and none was given")
        return linear(output, self.head_VH)

    # --- training ----------------------------------------------------------------------------------------------------

    def ttt_forward(
        self,
        tokens_BT: torch.Tensor,
        features_BLF: torch.Tensor,
        steps: int,
        *,
        branch: Literal["own", "step"] = "own",
        kernel: Kernel = "auto",
        attention: BranchAttention | None = None,
        first_position: int = 0,
        checkpointing: bool = False,
        view: StepView | None = None,
    ) -> Iterator[TTTStep]:
        """Training-time test: yields step 0, 1, ... so that a caller may drop each before the next.

        Args:
            tokens_BT: the text, T >= L: step k at position t reads token t + 1 + k, and 0 stands in where the text
                has none. Positions without a token, or without a target, are the caller's to mask.
            features_BLF: the target's states at positions 0..L-1, `feature_layers` concatenated.
            steps: how many depths, at least 1. One step is training without TTT.
            branch: "own" as described above. "step" is how public MTP trainers do it (FastMTP, arXiv 2509.18362):
                step k attends causally to the keys of step k alone, and positions do not advance. No cache computes
                that, so from depth 2 on such a draft is served differently from how it was trained.
            kernel, attention: the attention kernel, or another implementation of the same function.
            first_position: rotary position of entry 0; only differences of positions matter.
            checkpointing: recompute each layer in backward instead of keeping its activations.
            view: what each step reads, for a process that holds some of the positions; it stands in for `tokens_BT`
                and `first_position`, and `features_BLF` are those positions' own.

        Raises:
            ValueError: shapes that do not fit, no step, or a packed draft asked for gradients.
        """
        batch, length, width = features_BLF.shape
        if width != self.config.feature_size:
            raise ValueError(
                f"features of width {width}; {self.config.kind} reads {self.config.feature_size}: the target layers "
                f"{list(self.config.feature_layers)} of width {self.config.target_hidden_size}, concatenated"
            )
        if view is None and (tokens_BT.shape[0] != batch or tokens_BT.shape[1] < length):
            raise ValueError(f"tokens {tuple(tokens_BT.shape)} for features of {batch} rows and {length} positions")
        if steps < 1:
            raise ValueError(f"steps is {steps}; right is at least 1")
        if branch not in ("own", "step"):
            raise ValueError(f"branch is {branch!r}; right is 'own' or 'step'")
        if self.packed and torch.is_grad_enabled():
            raise ValueError("this draft is packed for decoding, which has no gradients; train one that is not")
        if attention is None:
            attention = partial(ttt_attention, kernel=kernel)
        run = partial(checkpoint, self.block, use_reentrant=False) if checkpointing else self.block
        entering = (attention.enter,) if hasattr(attention, "enter") else ()
        if view is None:
            places = torch.arange(first_position, first_position + length, device=features_BLF.device)
            view = WholeText(tokens_BT, places)
        positions_1L = view.positions_L[None]
        state = self.fuse(features_BLF).to(features_BLF.dtype)  # autocast narrows products, not the residual stream
        history: Pair | None = None
        own: list[Pair] = []
        for step in range(steps):
            follows = branch == "own" and step > 0
            attend = partial(attend_branch, attention, history if follows else None, own)
            turned_1L = positions_1L + (step if branch == "own" else 0)
            output, state, k, v = run(view.tokens(step), state, turned_1L, attend, *entering)
            if history is None:
                history = k, v
            elif branch == "own":
                own = [*own, (k, v)]
            yield TTTStep(step, output, state)

    # --- serving -----------------------------------------------------------------------------------------------------

    def new_cache(self, batch_size: int, capacity: int) -> KVCache:
        """An empty cache of one layer. Entry t holds the pair (state at t, token t + 1)."""
        c = self.config
        weight = self.layer.mlp.down_proj.weight
        return KVCache(1, batch_size, c.num_kv_heads, capacity, c.head_dim, device=weight.device, dtype=weight.dtype)

    @torch.no_grad()
    def forward_cached(
        self,
        tokens_BQ: torch.Tensor,
        states_BQH: torch.Tensor,
        cache: KVCache,
        *,
        parents_BQ: Sequence[Sequence[int]] | None = None,
    ) -> Pair:
        """Q entries per row on top of the cache, as its newest pending ones: (what the head reads, next states).

        `tokens_BQ[b, i]` is the token that follows the position of `states_BQH[b, i]`. `parents_BQ` as in
        `LanguageModel.forward`.
        """
        count = tokens_BQ.shape[1]
        cache.extend(count, parents_BQ)
        where = newest(cache, count)
        attend = partial(attend_cached, cache, Store(cache, where.starts, count), where)
        return self.block(tokens_BQ.to(cache.kv.device), states_BQH, where.positions_BQ, attend)[:2]

    def pack(self, head: Linear | None = None) -> RecurrentDraft:
        """Reorder the weights for few-row products (`labsim.models.linear`); `head` is the target's, if borrowed.

        The packed weights are copies: pack again after a change, `packed.clear()` before training on.
        """
        attention, mlp = self.layer.self_attn, self.layer.mlp
        qkv = (attention.q_proj, attention.k_proj, attention.v_proj)
        bias = torch.cat([part.bias for part in qkv]).detach() if self.config.attention_bias else None
        packed = {
            "qkv": Linear(torch.cat([part.weight for part in qkv]).detach(), bias),
            "gate_up": Linear(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).detach()),
        }
        single = {"o": attention.o_proj, "down": mlp.down_proj, "fc": getattr(self, "fc", None)}
        single["head"] = getattr(self, "lm_head", None)
        for name, module in single.items():
            if module is not None:
                packed[name] = Linear(module.weight.detach(), None if module.bias is None else module.bias.detach())
        if head is not None and "head" not in packed:
            packed["head"] = head
        self.packed = packed
        return self

    @torch.no_grad()
    def initialise(self, seed: int) -> RecurrentDraft:
        """Norms at 1, biases at 0, the rest normal(0, `initializer_range`), as SpecForge and NeMo do."""
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                drawn = torch.randn(parameter.shape, generator=generator) * self.config.initializer_range
                parameter.copy_(drawn)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
        return self


def attend_branch(
    attention: BranchAttention,
    history: Pair | None,
    own: Sequence[Pair],
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> torch.Tensor:
    """Step 0 is causal attention over itself; later steps see step 0's keys and their own branch, themselves last."""
    if history is None:
        return attention(q, k, v, ())
    return attention(q, *history, [*own, (k, v)])


def attend_cached(
    cache: KVCache, store: Store, where: object, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    """Write the new keys and values into the cache and attend to what each entry may see there."""
    store(0, k, v)
    return scaled_dot_product_attention(
        q,
        cache.kv[0, 0, :, :, : where.slots],
        cache.kv[0, 1, :, :, : where.slots],
        attn_mask=None if where.mask_BQS is None else where.mask_BQS[:, None],
        is_causal=where.causal,
        enable_gqa=q.shape[1] > k.shape[1],
    )
