"""Probes on attention built by hand, and on a draft whose attention is computed densely."""

from __future__ import annotations

import pytest
import torch

from labsim.drafts.eagle import EagleDraft
from labsim.drafts.eagle_config import EagleConfig
from labsim.models.config import ModelConfig
from labsim.train.probes import MassProbe, drift

TARGET = ModelConfig("llama", 50, 16, 24, 8, 4, 2, 4, 256, 1e-5, True)


def heads(keys: list[float]) -> torch.Tensor:
    """(1, 1, L, 2): keys along one axis."""
    return torch.tensor(keys)[None, None, :, None] * torch.tensor([1.0, 0.0])


def test_masses_by_hand() -> None:
    """Scores ln 8, 0, 0 on the history: the sink has 8/10 at the third place, the place itself 1/10."""
    unit = 2**0.5  # undoes the scale 1/sqrt(2)
    q = heads([1.0, 1.0, 1.0]) * unit
    k = heads([torch.log(torch.tensor(8.0)).item(), 0.0, 0.0])
    probe = MassProbe(torch.tensor([2]))
    probe(q, k, torch.zeros_like(k))
    assert probe.sink == pytest.approx([0.8])
    assert probe.own == pytest.approx([0.1])
    # A branch of two keys with scores ln 5 and 0 beside it: 8 + 1 + 1 + 5 + 1 = 16.
    branch = [(heads([0.0, 0.0, 5.0]).log().nan_to_num(neginf=0.0), torch.zeros_like(k)), (heads([0.0] * 3), k)]
    probe(q, k, torch.zeros_like(k), branch)
    assert probe.sink[1] == pytest.approx(8 / 16)
    assert probe.own[1] == pytest.approx(6 / 16)


def test_a_mean_runs_over_heads_and_places() -> None:
    q = torch.cat([heads([1.0, 1.0]), heads([0.0, 0.0])], dim=1) * 2**0.5
    k = heads([torch.log(torch.tensor(3.0)).item(), 0.0])
    probe = MassProbe(torch.tensor([0, 1]))
    probe(q, k, torch.zeros_like(k))
    # Head 0: 1 and 3/4, head 1: 1 and 1/2.
    assert probe.sink == pytest.approx([(1 + 0.75 + 1 + 0.5) / 4])


@pytest.mark.parametrize("post_norm", [False, True])
def test_the_norm_is_that_of_the_state_handed_on(post_norm: bool) -> None:
    """With unit weights a normed state has a root mean square of one at every depth; another one does not."""
    config = EagleConfig.eagle31(TARGET) if post_norm else EagleConfig.eagle3(TARGET)
    draft = EagleDraft(config, torch.randn(50, 16, generator=torch.Generator().manual_seed(0))).initialise(1)
    features_TF = 3 * torch.randn(20, 48, generator=torch.Generator().manual_seed(2))
    found = drift(draft, list(range(20)), 5, features_TF, 4)
    assert len(found.hidden_norm) == len(found.sink_mass) == len(found.self_mass) == 4
    assert all(abs(norm - 1) < 1e-3 for norm in found.hidden_norm) == post_norm
    assert all(0 < mass < 1 for mass in (*found.sink_mass, *found.self_mass))


def test_an_answer_too_short_for_the_depth_is_named() -> None:
    draft = EagleDraft(EagleConfig.eagle3(TARGET), torch.zeros(50, 16)).initialise(1)
    with pytest.raises(ValueError, match="an answer of 3 tokens has no place for chains of 7"):
        drift(draft, list(range(8)), 5, torch.zeros(8, 48), 7)
