"""One training step to measure: sizes, weights and inputs, drawn from a seed, the same in every process.

Needs torch alone, because it also runs in a peer's environment. Weights have the names of the public EAGLE layout.
Inputs are aligned as every trainer aligns them: position t holds the target's features at t, reads token t + 1, and its
teacher is the target's last state at t + 1; TTT step k reads token t + 1 + k and takes the teacher k further on.

Shapes: L positions, T = L + 1 tokens, H hidden size of draft and target, F = 3 H features, V target vocabulary, N draft
vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

EPS, ROPE_THETA = 1e-5, 10000.0


@dataclass(frozen=True)
class Sizes:
    """A draft's layer. `intermediate` is the MLP's width, `head` that of one attention head."""

    hidden: int
    heads: int
    kv_heads: int
    head: int
    intermediate: int
    vocab: int
    draft_vocab: int

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of all trained tensors, by public name."""
        hidden, q, kv = self.hidden, self.heads * self.head, self.kv_heads * self.head
        return {
            "fc.weight": (hidden, 3 * hidden),
            "midlayer.input_layernorm.weight": (hidden,),
            "midlayer.hidden_norm.weight": (hidden,),
            "midlayer.self_attn.q_proj.weight": (q, 2 * hidden),
            "midlayer.self_attn.k_proj.weight": (kv, 2 * hidden),
            "midlayer.self_attn.v_proj.weight": (kv, 2 * hidden),
            "midlayer.self_attn.o_proj.weight": (hidden, q),
            "midlayer.post_attention_layernorm.weight": (hidden,),
            "midlayer.mlp.gate_proj.weight": (self.intermediate, hidden),
            "midlayer.mlp.up_proj.weight": (self.intermediate, hidden),
            "midlayer.mlp.down_proj.weight": (hidden, self.intermediate),
            "norm.weight": (hidden,),
            "lm_head.weight": (self.draft_vocab, hidden),
        }


SIZES = {
    "tiny": Sizes(32, 4, 2, 8, 48, 97, 61),
    "smollm2": Sizes(576, 9, 3, 64, 1536, 49_152, 8192),  # SmolLM2-135M's width
    "llama-3.1-8b": Sizes(4096, 32, 8, 128, 14_336, 128_256, 32_000),
}


@dataclass(frozen=True)
class Case:
    """What a step is given.

    Attributes:
        weights: the trained tensors; `embedding_VH` and the teacher's norm and head are the target's and frozen.
        last_1LH: the target's last states, before its final norm, at positions 1..L.
        counts_1L: whether token t + 1 belongs to an answer: step k counts position t if counts_1L[t + k].
        decay: the loss of step k weighs decay**k.
    """

    sizes: Sizes
    ttt: int
    decay: float
    weights: dict[str, torch.Tensor]
    embedding_VH: torch.Tensor
    teacher_norm_H: torch.Tensor
    teacher_head_NH: torch.Tensor
    tokens_1T: torch.Tensor
    features_1LF: torch.Tensor
    last_1LH: torch.Tensor
    counts_1L: torch.Tensor

    @property
    def length(self) -> int:
        return self.counts_1L.shape[1]


def draw(
    name: str,
    length: int,
    ttt: int,
    *,
    decay: float = 0.8,
    answers: float = 1.0,
    device: str = "cpu",
    seed: int = 0,
) -> Case:
    """The case of this seed, in float32. `answers` is the share of tokens that belong to an answer."""
    sizes, generator = SIZES[name], torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return (torch.randn(shape, generator=generator) * scale).to(device)

    def drawn(shape: tuple[int, ...]) -> torch.Tensor:
        # Norm weights around 1: at exactly 1 a norm applied twice looks like one applied once.
        return normal(*shape, scale=shape[1] ** -0.5) if len(shape) == 2 else 1 + normal(*shape, scale=0.2)

    hidden = sizes.hidden
    return Case(
        sizes,
        ttt,
        decay,
        weights={name: drawn(shape) for name, shape in sizes.shapes().items()},
        embedding_VH=normal(sizes.vocab, hidden, scale=0.1),
        teacher_norm_H=drawn((hidden,)),
        teacher_head_NH=normal(sizes.draft_vocab, hidden, scale=2 * hidden**-0.5),
        tokens_1T=torch.randint(sizes.vocab, (1, length + 1), generator=generator).to(device),
        features_1LF=normal(1, length, 3 * hidden),
        last_1LH=normal(1, length, hidden),
        counts_1L=(torch.rand((1, length), generator=generator) < answers).to(device),
    )
