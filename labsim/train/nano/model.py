"""The model (transformers' Llama) and its optimisers.

Matrices inside the layers learn with Muon (Jordan et al., 2024: momentum whose update is made orthogonal), which needs
about half of AdamW's tokens for the same loss at this size; embeddings and norms learn with AdamW.
"""

from __future__ import annotations

import math

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from .recipe import Recipe


def build_model(recipe: Recipe, seed: int) -> LlamaForCausalLM:
    """A fresh model in fp32. The projections back into the residual stream start smaller, by 1/sqrt(2 layers)."""
    config = LlamaConfig(
        vocab_size=recipe.vocab_size,
        hidden_size=recipe.hidden_size,
        num_hidden_layers=recipe.num_layers,
        num_attention_heads=recipe.num_heads,
        num_key_value_heads=recipe.num_kv_heads,
        head_dim=recipe.hidden_size // recipe.num_heads,
        intermediate_size=recipe.intermediate_size,
        max_position_embeddings=recipe.max_positions,
        rope_parameters={"rope_type": "default", "rope_theta": recipe.rope_theta},
        tie_word_embeddings=True,
        initializer_range=0.02,
        attn_implementation="sdpa",
        use_cache=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.mul_(1 / math.sqrt(2 * recipe.num_layers))
    return model


def build_optimizers(model: LlamaForCausalLM, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """AdamW for embeddings and norms (and for all, with `matrix_optimizer="adamw"`), Muon for the layers' matrices."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    adamw = {"betas": recipe.betas, "lr": recipe.learning_rate, "eps": 1e-8}
    optimizers: list[torch.optim.Optimizer] = [torch.optim.AdamW(others, weight_decay=0.0, **adamw)]
    if recipe.matrix_optimizer == "muon":
        # Two halves of the same optimiser, so that two cores can work on them.
        for half in (matrices[::2], matrices[1::2]):
            optimizers.append(
                torch.optim.Muon(
                    half,
                    lr=recipe.matrix_learning_rate,
                    weight_decay=recipe.weight_decay,
                    momentum=0.95,
                    adjust_lr_fn="match_rms_adamw",
                )
            )
    elif recipe.matrix_optimizer == "adamw":
        optimizers.append(torch.optim.AdamW(matrices, weight_decay=recipe.weight_decay, **adamw))
    else:
        raise ValueError(f"matrix_optimizer = {recipe.matrix_optimizer!r} is not known (known: muon, adamw)")
    return optimizers


def next_token_loss(model: LlamaForCausalLM, tokens_BT: torch.Tensor, bf16: bool) -> torch.Tensor:
    """Mean cross-entropy in nats of each token given the ones before it in its row; matmuls in bf16 if asked."""
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        logits_BTV = model(input_ids=tokens_BT, use_cache=False).logits[:, :-1]
    return torch.nn.functional.cross_entropy(logits_BTV.flatten(0, 1).float(), tokens_BT[:, 1:].flatten())
