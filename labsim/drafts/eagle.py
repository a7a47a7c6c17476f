"""EAGLE-1, EAGLE-3 and EAGLE-3.1: one class, three configurations.

EAGLE-3, in the order in which EAGLE, SpecForge and vLLM compute it:

    g    = fc [low; mid; high]                          depth 1 only; 3.1 norms each layer first (`fc_norm`)
    x    = [input_layernorm(embedding); hidden_norm(g)]      2H wide, the embedding first
    r    = g + W_o attention(rope(W_qkv x))             the residual starts *before* hidden_norm
    a    = r + MLP(post_attention_layernorm(r))
    logits = lm_head(norm(a))
    next g = a          EAGLE-3: before the norm
             norm(a)    EAGLE-3.1 (`norm_output`): after it

That last line is the whole of 3.1's feedback, and the loss does not show when it is wrong (it moves by 5e-4): a
released trainer fed back `a` under the name 3.1, and served by an engine that feeds back norm(a) its drafts are right
at depth 1 and off from depth 2 on.

EAGLE-1 joins by a linear layer at every depth, x = r = fc [embedding; f], without norms at entry and exit; its output
predicts the target's next last state, which the target's head turns into logits.

(Li et al., arXiv 2401.15077 and 2503.01840; Eldenk et al., arXiv 2605.09992.)

Shapes: B rows, L positions, F feature width, H hidden size.
"""

from __future__ import annotations

import torch
from torch import nn

from .eagle_config import EagleConfig
from .recurrent import MLP, Attention, Pair, RecurrentDraft, RMSNorm
from .vocabulary import DraftVocabulary


class EagleLayer(nn.Module):
    """The decoder layer; EAGLE-3's has two norms at its entry and projections of 2H inputs."""

    def __init__(self, config: EagleConfig) -> None:
        super().__init__()
        size, eps, third = config.hidden_size, config.rms_norm_eps, config.generation == 3
        if third:
            self.input_layernorm = RMSNorm(size, eps)
            self.hidden_norm = RMSNorm(size, eps)
        self.self_attn = Attention(config, 2 * size if third else size)
        self.post_attention_layernorm = RMSNorm(size, eps)
        self.mlp = MLP(config)


class EagleDraft(RecurrentDraft):
    """An EAGLE draft. Its `state_dict` has the names of the public layout (`midlayer.`, `fc`, `norm`, `lm_head`)."""

    config: EagleConfig

    def __init__(self, config: EagleConfig, embedding_VH: torch.Tensor, head_VH: torch.Tensor | None = None) -> None:
        super().__init__(config, embedding_VH, head_VH)
        size, eps = config.hidden_size, config.rms_norm_eps
        inputs = config.feature_size if config.generation == 3 else 2 * size
        self.fc = nn.Linear(inputs, size, bias=config.fc_bias)
        if config.fc_norm:
            self.fc_norm = nn.ModuleList(RMSNorm(config.target_hidden_size, eps) for _ in config.feature_layers)
        if config.norm_before_fc:
            self.input_norm = RMSNorm(config.feature_size, eps)
        self.midlayer = EagleLayer(config)
        if config.final_norm:
            self.norm = RMSNorm(size, eps)
        if config.generation == 3:
            self.lm_head = nn.Linear(size, config.draft_vocab_size, bias=False)

    @property
    def layer(self) -> nn.Module:
        return self.midlayer

    def fuse(self, features_BLF: torch.Tensor) -> torch.Tensor:
        """(B, L, F), low, mid and high one after the other, to (B, L, H). EAGLE-1 takes the last state as it is."""
        if self.config.generation == 1:
            return features_BLF
        if self.config.fc_norm:
            parts = features_BLF.split(self.config.target_hidden_size, dim=-1)
            features_BLF = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], dim=-1)
        if self.config.norm_before_fc:
            features_BLF = self.input_norm(features_BLF)
        return self.project("fc", self.fc, features_BLF)

    def enter(self, embeds_BLH: torch.Tensor, state_BLH: torch.Tensor) -> Pair:
        """(attention's input, start of the residual stream)."""
        if self.config.generation == 1:
            joined = self.project("fc", self.fc, torch.cat([embeds_BLH, state_BLH], dim=-1))
            return joined, joined
        normed = self.midlayer.hidden_norm(state_BLH)
        joined = torch.cat([self.midlayer.input_layernorm(embeds_BLH), normed], dim=-1)
        return joined, normed if self.config.norm_before_residual else state_BLH

    def leave(self, raw_BLH: torch.Tensor) -> Pair:
        """(what the head reads, what the next depth consumes)."""
        output_BLH = self.norm(raw_BLH) if self.config.final_norm else raw_BLH
        return output_BLH, output_BLH if self.config.norm_output else raw_BLH

    @torch.no_grad()
    def start_from_target(
        self, head_VH: torch.Tensor, vocabulary: DraftVocabulary, norm_H: torch.Tensor | None = None
    ) -> EagleDraft:
        """Start the own head from the target's rows, and the final norm from the target's: a gift on small data."""
        if self.config.generation == 1:
            raise ValueError("EAGLE-1 speaks through the target's head as it is; there is none to start")
        if len(vocabulary) != self.config.draft_vocab_size or head_VH.shape[1] != self.config.hidden_size:
            raise ValueError(
                f"a head of {len(vocabulary)} rows of {head_VH.shape[1]} for a draft of "
                f"{self.config.draft_vocab_size} tokens and width {self.config.hidden_size}"
            )
        self.lm_head.weight.copy_(head_VH[vocabulary.ids_N.to(head_VH.device)])
        if norm_H is not None and self.config.final_norm:
            self.norm.weight.copy_(norm_H)
        return self
