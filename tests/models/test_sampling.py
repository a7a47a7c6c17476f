"""Temperature, top-k and top-p give what transformers' own filters give."""

from __future__ import annotations

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from labsim.models.sampling import Sampling, distribution


def by_transformers(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    logits = TemperatureLogitsWarper(sampling.temperature)(None, logits)
    if sampling.top_k:
        logits = TopKLogitsWarper(sampling.top_k)(None, logits)
    if sampling.top_p < 1:
        logits = TopPLogitsWarper(sampling.top_p)(None, logits)
    return logits.softmax(-1)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("top_k", [0, 1, 7, 500])
@pytest.mark.parametrize("top_p", [1.0, 0.95, 0.5, 1e-6])
def test_the_distribution_is_transformers(temperature: float, top_k: int, top_p: float) -> None:
    logits = 4 * torch.randn(20, 100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sampling = Sampling(temperature, top_k, top_p)
    torch.testing.assert_close(distribution(logits, sampling), by_transformers(logits, sampling), rtol=1e-9, atol=0)


def test_greedy_is_a_point_mass() -> None:
    p = distribution(torch.tensor([[0.0, 3.0, 1.0]]), Sampling())
    assert p.tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"temperature": -1}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": float("inf")}, "temperature is inf"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_p": 0}, "top_p is 0"),
        ({"top_p": 1.5}, "top_p is 1.5"),
    ],
)
def test_wrong_values_are_named(values: dict[str, float], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Sampling(**values)
