"""Drafting with EAGLE and MTP, written out from their descriptions: one text, one entry at a time, no batch, no cache
class, no kernel, complex numbers for the rotation. It reads weights by their public names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

Weights = dict[str, torch.Tensor]


def rms(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight


def turn(heads: torch.Tensor, position: int, theta: float) -> torch.Tensor:
    """(heads, D): element i and element i + D/2 are one complex number."""
    half = heads.shape[-1] // 2
    speed = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    turned = torch.complex(heads[:, :half], heads[:, half:]) * torch.exp(1j * position * speed)
    return torch.cat([turned.real, turned.imag], dim=-1)


@dataclass
class Reference:
    """`kind` is eagle1, eagle3 or mtp; `flags` the norms' switches that are on."""

    kind: str
    weights: Weights
    embedding: torch.Tensor
    heads: int
    kv_heads: int
    head_dim: int
    taps: int = 3
    flags: frozenset[str] = frozenset()
    target_head: torch.Tensor | None = None
    eps: float = 1e-5
    theta: float = 10000.0
    keys: list[torch.Tensor] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)

    @property
    def prefix(self) -> str:
        return "mtp_layers.0." if self.kind == "mtp" else "midlayer."

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return rms(x, self.weights[f"{name}.weight"], self.eps)

    def times(self, x: torch.Tensor, name: str) -> torch.Tensor:
        y = self.weights[f"{name}.weight"] @ x
        return y + self.weights[f"{name}.bias"] if f"{name}.bias" in self.weights else y

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        if self.kind != "eagle3":
            return features
        if "fc_norm" in self.flags:
            parts = features.chunk(self.taps)
            features = torch.cat([self.norm(part, f"fc_norm.{i}") for i, part in enumerate(parts)])
        if "norm_before_fc" in self.flags:
            features = self.norm(features, "input_norm")
        return self.times(features, "fc")

    def entry(self, state: torch.Tensor, token: int, position: int) -> torch.Tensor:
        """The layer's output for one (state, token), which also enters the keys and values."""
        p, embedded = self.prefix, self.embedding[token]
        if self.kind == "eagle3":
            normed = self.norm(state, f"{p}hidden_norm")
            x = torch.cat([self.norm(embedded, f"{p}input_layernorm"), normed])
            stream = normed if "norm_before_residual" in self.flags else state
        elif self.kind == "eagle1":
            x = stream = self.times(torch.cat([embedded, state]), "fc")
        else:
            both = [self.norm(embedded, f"{p}token_layernorm"), self.norm(state, f"{p}hidden_layernorm")]
            stream = self.times(torch.cat(both), f"{p}input_proj")
            x = self.norm(stream, f"{p}input_layernorm")
        q, k, v = (
            self.times(x, f"{p}self_attn.{name}_proj").view(count, self.head_dim)
            for name, count in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads))
        )
        self.keys.append(turn(k, position, self.theta))
        self.values.append(v)
        q, mixed = turn(q, position, self.theta), []
        for head in range(self.heads):
            group = head // (self.heads // self.kv_heads)
            scores = torch.stack([q[head] @ key[group] for key in self.keys]) / math.sqrt(self.head_dim)
            shares = scores.softmax(0)
            mixed.append(sum(share * value[group] for share, value in zip(shares, self.values, strict=True)))
        stream = stream + self.times(torch.cat(mixed), f"{p}self_attn.o_proj")
        inner = self.norm(stream, f"{p}post_attention_layernorm")
        gate, up = self.times(inner, f"{p}mlp.gate_proj"), self.times(inner, f"{p}mlp.up_proj")
        return stream + self.times(gate * gate.sigmoid() * up, f"{p}mlp.down_proj")

    def normed(self, raw: torch.Tensor) -> torch.Tensor:
        if self.kind == "eagle1":
            return raw
        return self.norm(raw, "norm" if self.kind == "eagle3" else f"{self.prefix}final_layernorm")

    def logits(self, raw: torch.Tensor) -> torch.Tensor:
        head = self.weights["lm_head.weight"] if self.kind == "eagle3" else self.target_head
        return head @ self.normed(raw)

    def handed_over(self, raw: torch.Tensor) -> torch.Tensor:
        return self.normed(raw) if self.kind == "mtp" or "norm_output" in self.flags else raw

    def chain(self, tokens: Sequence[int], features: torch.Tensor, prefix: int, depth: int) -> torch.Tensor:
        """Logits (depth, N) of the chain drafted after entries 0..prefix-1, on the text's own tokens."""
        self.keys, self.values = [], []
        for t in range(prefix):
            raw = self.entry(self.fuse(features[t]), tokens[t + 1], t)
        found = [self.logits(raw)]
        for step in range(1, depth):
            raw = self.entry(self.handed_over(raw), tokens[prefix + step], prefix - 1 + step)
            found.append(self.logits(raw))
        return torch.stack(found)
