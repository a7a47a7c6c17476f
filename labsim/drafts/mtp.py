"""Multi-token prediction: one module on the target's last state, applied to itself.

    x      = input_proj [token_layernorm(embedding); hidden_layernorm(h)]      2H -> H, the embedding first
    r      = x + W_o attention(rope(W_qkv input_layernorm(x)))
    a      = r + MLP(post_attention_layernorm(r))
    logits = the target's head (final_layernorm(a))
    next h = final_layernorm(a)

It reads one layer where EAGLE-3 reads three, and uses the target's embedding and head. Feeding back the normed state,
it already has half of EAGLE-3.1. The form is DeepSeek-V3's (arXiv 2412.19437, section 2.2) as FastMTP writes it
(arXiv 2509.18362).

Native MTP modules are trained for one step on true history, `ttt_forward(..., steps=1)`, and then applied recursively
to states they never saw. Public trainers that unroll more steps let step k attend to the keys of step k alone,
positions standing still (`branch="step"`), which is not what a serving cache holds. `branch="own"` is this project's
form: the same unrolling as for EAGLE-3, equal to serving at every depth.

Shapes: B rows, L positions, H hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from ..models.config import ModelConfig
from .eagle_config import BlockConfig
from .recurrent import MLP, Attention, Pair, RecurrentDraft, RMSNorm


@dataclass(frozen=True, kw_only=True)
class MTPConfig(BlockConfig):
    """Sizes of one MTP module: as wide as its target, and with the target's whole vocabulary."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feature_size != self.hidden_size or self.draft_vocab_size != self.vocab_size:
            raise ValueError(
                f"an MTP module shares its target's width and head: hidden_size {self.hidden_size} for features of "
                f"{self.feature_size}, draft_vocab_size {self.draft_vocab_size} of {self.vocab_size}"
            )

    @property
    def kind(self) -> str:
        return "mtp"

    @classmethod
    def mtp(cls, target: ModelConfig, **settings: Any) -> Self:
        """On the target's last normed state."""
        return cls.beside(target, **({"feature_layers": (target.num_layers,)} | settings))


class MTPLayer(nn.Module):
    """A standard decoder layer with the joining of token and state before it."""

    def __init__(self, config: MTPConfig) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        self.token_layernorm = RMSNorm(size, eps)
        self.hidden_layernorm = RMSNorm(size, eps)
        self.input_proj = nn.Linear(2 * size, size, bias=False)
        self.input_layernorm = RMSNorm(size, eps)
        self.self_attn = Attention(config, size)
        self.post_attention_layernorm = RMSNorm(size, eps)
        self.mlp = MLP(config)
        self.final_layernorm = RMSNorm(size, eps)


class MTPDraft(RecurrentDraft):
    """An MTP module; its parameters carry the names of public checkpoints (`mtp_layers.0.`)."""

    config: MTPConfig

    def __init__(self, config: MTPConfig, embedding_VH: torch.Tensor, head_VH: torch.Tensor | None = None) -> None:
        super().__init__(config, embedding_VH, head_VH)
        self.mtp_layers = nn.ModuleList([MTPLayer(config)])

    @property
    def layer(self) -> nn.Module:
        return self.mtp_layers[0]

    @property
    def fc(self) -> nn.Linear:
        """The joining projection, by the name under which `pack` looks for it."""
        return self.layer.input_proj

    def fuse(self, features_BLF: torch.Tensor) -> torch.Tensor:
        """The target's last state as it is."""
        return features_BLF

    def enter(self, embeds_BLH: torch.Tensor, state_BLH: torch.Tensor) -> Pair:
        """(attention's input, start of the residual stream)."""
        layer = self.layer
        normed = torch.cat([layer.token_layernorm(embeds_BLH), layer.hidden_layernorm(state_BLH)], dim=-1)
        joined_BLH = self.project("fc", layer.input_proj, normed)
        return layer.input_layernorm(joined_BLH), joined_BLH

    def leave(self, raw_BLH: torch.Tensor) -> Pair:
        """The normed state, for the head and for the next depth."""
        output_BLH = self.layer.final_layernorm(raw_BLH)
        return output_BLH, output_BLH
