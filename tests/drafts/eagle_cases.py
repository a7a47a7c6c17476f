"""Tiny drafts with random weights, and the reference that belongs to each. Norm weights are drawn around 1: at
exactly 1 a norm applied twice looks like one applied once."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from labsim.drafts.eagle import EagleDraft
from labsim.drafts.eagle_config import EagleConfig
from labsim.drafts.mtp import MTPConfig, MTPDraft
from labsim.drafts.recurrent import RecurrentDraft

from .eagle_reference import Reference

VOCAB, DRAFT_VOCAB, SIZE, TARGET_SIZE = 31, 17, 24, 20
VARIANTS: dict[str, tuple[str, ...]] = {
    "eagle1": (),
    "eagle3": (),
    "eagle3.1": ("fc_norm", "norm_output"),
    "eagle3 fc_norm": ("fc_norm",),
    "eagle3 norm_output": ("norm_output",),
    "eagle3 gpt-oss": ("norm_before_fc", "norm_before_residual"),
    "eagle3 biased": ("attention_bias",),
    "mtp": (),
}


@dataclass(frozen=True)
class Case:
    draft: RecurrentDraft
    reference: Reference


def kind_of(variant: str) -> str:
    return variant.split()[0].replace("3.1", "3")


def config_of(variant: str, heads: int = 4, kv_heads: int = 2) -> EagleConfig | MTPConfig:
    third = kind_of(variant) == "eagle3"
    sizes = {
        "vocab_size": VOCAB,
        "draft_vocab_size": DRAFT_VOCAB if third else VOCAB,
        "hidden_size": SIZE,
        "target_hidden_size": TARGET_SIZE if third else SIZE,
        "intermediate_size": 36,
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "head_dim": 8,
        "feature_layers": (2, 4, 5) if third else (8,),
    }
    if kind_of(variant) == "mtp":
        return MTPConfig(**sizes)
    if kind_of(variant) == "eagle1":
        return EagleConfig(**sizes, generation=1, final_norm=False, fc_bias=True)
    return EagleConfig(**sizes, **dict.fromkeys(VARIANTS[variant], True))


def randomise(module: torch.nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            wide = parameter.ndim > 1
            parameter.copy_(drawn * 1.5 / parameter.shape[-1] ** 0.5 if wide else 1 + 0.3 * drawn)


def make(variant: str, *, heads: int = 4, kv_heads: int = 2, seed: int = 0, kind: type | None = None) -> Case:
    """A float64 draft of that variant (of the class `kind`, to plant a bug in it) and its reference."""
    config = config_of(variant, heads, kv_heads)
    generator = torch.Generator().manual_seed(seed + 100)
    embedding, head = (torch.randn(VOCAB, SIZE, generator=generator, dtype=torch.float64) for _ in range(2))
    make_draft = kind or (MTPDraft if isinstance(config, MTPConfig) else EagleDraft)
    draft = make_draft(config, embedding, head / SIZE**0.5).double()
    randomise(draft, seed)
    reference = Reference(
        kind_of(variant),
        {name: tensor.detach() for name, tensor in draft.state_dict().items()},
        embedding,
        heads,
        kv_heads,
        8,
        flags=frozenset(VARIANTS[variant]),
        target_head=head / SIZE**0.5,
    )
    return Case(draft, reference)


def text(draft: RecurrentDraft, batch: int, length: int, seed: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens (B, L) and float64 features (B, L, F) whose scale differs by layer, as real ones do."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(VOCAB, (batch, length), generator=generator)
    shape = (batch, length, draft.config.feature_size)
    scale = torch.linspace(0.5, 3, draft.config.feature_size, dtype=torch.float64)
    return tokens, scale * torch.randn(shape, generator=generator, dtype=torch.float64)
