"""From logits to the distribution that is actually sampled: temperature, top-k, top-p, in that order.

Lossless means lossless with respect to *this* distribution, so target and draft go through the same function.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

# Outside these, logits divided by the temperature leave the range of fp32.
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 1e-4, 1e4


@dataclass(frozen=True)
class Sampling:
    """How a next token is chosen. `temperature` 0 is greedy; `top_k` 0 and `top_p` 1 switch those filters off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if self.temperature != 0 and not LOWEST_TEMPERATURE <= self.temperature <= HIGHEST_TEMPERATURE:
            raise ValueError(
                f"temperature is {self.temperature}; right is 0 (greedy) or a number such as 0.8, "
                f"from {LOWEST_TEMPERATURE} to {HIGHEST_TEMPERATURE:.0f}"
            )
        if self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}; right is 0 (off) or a number of tokens such as 50")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; right is above 0 and at most 1 (off)")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


GREEDY = Sampling()


def distribution(logits_NV: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Probabilities (N, V) in float32 or better. Greedy gives all the mass to the largest logit."""
    logits = logits_NV if logits_NV.dtype == torch.float64 else logits_NV.float()
    if sampling.greedy:
        return torch.zeros_like(logits).scatter_(-1, logits.argmax(-1, keepdim=True), 1.0)
    logits = logits / sampling.temperature
    if 0 < sampling.top_k < logits.shape[-1]:
        logits = logits.masked_fill(logits < logits.topk(sampling.top_k, dim=-1).values[..., -1:], float("-inf"))
    if sampling.top_p < 1:
        ordered, order = logits.sort(dim=-1, descending=True)
        mass = ordered.softmax(-1).cumsum(-1)
        # A token stays while the mass *before* it is below top_p, so the one that crosses the line stays too.
        drop = (mass - ordered.softmax(-1)) >= sampling.top_p
        logits = logits.masked_fill(drop.scatter(-1, order, drop), float("-inf"))
    return logits.softmax(-1)
