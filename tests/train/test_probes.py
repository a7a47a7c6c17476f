"""Probes on attention built by hand, and on drafts whose attention is computed densely."""

from __future__ import annotations

from functools import partial
from math import log

import pytest
import torch

from labsim.attention.ttt import ttt_attention
from labsim.drafts.eagle import EagleDraft
from labsim.drafts.eagle_config import EagleConfig
from labsim.models.config import ModelConfig
from labsim.train.probes.attention import AttentionProbe
from labsim.train.probes.drift import Drift, drift

TARGET = ModelConfig("llama", 50, 16, 24, 8, 4, 2, 4, 256, 1e-5, True)
UNIT = 2**0.5  # undoes the scale 1/sqrt(2) of a head of two dimensions


def heads(keys: list[float]) -> torch.Tensor:
    """(1, 1, L, 2): keys along one axis."""
    return torch.tensor(keys)[None, None, :, None] * torch.tensor([1.0, 0.0])


def test_masses_by_hand() -> None:
    """Scores ln 8, 0, 0 on the history: the sink has 8/10 at the third place, the place itself 1/10."""
    q = heads([1.0, 1.0, 1.0]) * UNIT
    k = heads([log(8), 0.0, 0.0])
    probe = AttentionProbe(torch.tensor([2]), window=2)
    probe(q, k, torch.zeros_like(k))
    assert probe.sink == pytest.approx([0.8])
    assert probe.own == pytest.approx([0.1])
    assert probe.recent == pytest.approx([0.2])
    assert probe.entropy == pytest.approx([0.8 * log(10 / 8) + 0.2 * log(10)])
    # A branch of two keys with scores ln 5 and 0 beside it: 8 + 1 + 1 + 5 + 1 = 16.
    branch = [(heads([0.0, 0.0, log(5)]), torch.zeros_like(k)), (heads([0.0] * 3), k)]
    probe(q, k, torch.zeros_like(k), branch)
    assert probe.sink[1] == pytest.approx(8 / 16)
    assert probe.own[1] == pytest.approx(6 / 16)
    # The query stands at position 4, its branch at 3 and 4, the prefix ends at 2.
    assert probe.recent[1] == pytest.approx(6 / 16)
    assert probe.entropy[1] == pytest.approx(8 / 16 * log(2) + 5 / 16 * log(16 / 5) + 3 / 16 * log(16))


def test_another_token_may_be_the_sink() -> None:
    q, k = heads([1.0] * 4) * UNIT, heads([0.0, log(7), 0.0, 0.0])
    probe = AttentionProbe(torch.tensor([2, 3]), sink_token=1)
    probe(q, k, torch.zeros_like(k))
    assert probe.sink == pytest.approx([(7 / 9 + 7 / 10) / 2])
    with pytest.raises(ValueError, match="sink_token is 1, and the first query stands at 0"):
        AttentionProbe(torch.tensor([0, 3]), sink_token=1)


@pytest.mark.parametrize(
    ("steps", "window", "recent"), [(0, 4, 4 / 11), (3, 4, 4 / 14), (3, 2, 2 / 14), (3, 9, 9 / 14)]
)
def test_even_attention(steps: int, window: int, recent: float) -> None:
    """With equal scores each of the 11 + steps keys has the same share, and the window counts keys."""
    q = k = torch.zeros(1, 2, 20, 4)
    probe = AttentionProbe(torch.tensor([10]), window=window)
    probe(q, k, k, [(k, k)] * steps)
    assert probe.recent == pytest.approx([recent])
    assert probe.entropy == pytest.approx([log(11 + steps)])
    assert probe.own == pytest.approx([max(1, steps) / (11 + steps)])


def test_all_on_one_key_has_no_entropy() -> None:
    q, k = heads([1.0] * 3) * UNIT, heads([200.0, 0.0, 0.0])
    probe = AttentionProbe(torch.tensor([2]))
    probe(q, k, k)
    assert probe.entropy == pytest.approx([0.0], abs=1e-6)


def test_a_mean_runs_over_heads_and_places() -> None:
    q = torch.cat([heads([1.0, 1.0]), heads([0.0, 0.0])], dim=1) * UNIT
    k = heads([log(3), 0.0])
    probe = AttentionProbe(torch.tensor([0, 1]))
    probe(q, k, torch.zeros_like(k))
    # Head 0: 1 and 3/4, head 1: 1 and 1/2.
    assert probe.sink == pytest.approx([(1 + 0.75 + 1 + 0.5) / 4])


def small_draft(post_norm: bool = False, seed: int = 1) -> EagleDraft:
    config = EagleConfig.eagle31(TARGET) if post_norm else EagleConfig.eagle3(TARGET)
    embedding_VH = torch.randn(50, 16, generator=torch.Generator().manual_seed(0))
    return EagleDraft(config, embedding_VH).initialise(seed)


def some_features(length: int = 20) -> torch.Tensor:
    return 3 * torch.randn(length, 48, generator=torch.Generator().manual_seed(2))


def test_against_one_dense_softmax() -> None:
    """All queries against all keys of all steps at once, under the mask of training-time test, in fp64."""
    draft, length, start, depth, window = small_draft().double(), 20, 6, 5, 3
    with torch.no_grad():
        for projection in (draft.midlayer.self_attn.q_proj, draft.midlayer.self_attn.k_proj):
            projection.weight.mul_(60)  # else attention is even and every wrong share looks right
    features_TF, seen = some_features(length).double(), []

    def noting(q, k, v, branch=()):
        seen.append((q[0], [k[0], *(key[0] for key, _ in branch)]))
        return ttt_attention(q, k, v, branch)

    list(draft.ttt_forward(torch.arange(length)[None], features_TF[None], depth, attention=noting))
    expected = {"sink_mass": [], "recent_mass": [], "self_mass": [], "entropy": []}
    for step, (q_ALD, keys) in enumerate(seen):
        k_AXD = torch.cat(keys, dim=1).repeat_interleave(2, dim=0)
        at = torch.arange(length)
        block, j = torch.arange(step + 1).repeat_interleave(length), at.repeat(step + 1)
        sees = torch.where(block[None] == 0, j[None] <= at[:, None], j[None] == at[:, None])
        w = (q_ALD @ k_AXD.transpose(1, 2) / 2).masked_fill(~sees, -torch.inf).softmax(-1)
        w = w[:, start - 1 : length - 1 - depth]
        query, key = at[start - 1 : length - 1 - depth, None] + step, (j + block)[None]
        own = (block[None] > 0) if step else (j[None] == query)
        expected["sink_mass"].append(w[..., 2].mean().item())
        expected["recent_mass"].append((w * (query - key < window)).sum(-1).mean().item())
        expected["self_mass"].append((w * own).sum(-1).mean().item())
        expected["entropy"].append(-(w * w.clamp_min(1e-300).log()).sum(-1).mean().item())
    found = drift(draft, list(range(length)), start, features_TF, depth, sink_token=2, window=window)
    for name, values in expected.items():
        assert getattr(found, name) == pytest.approx(values, abs=1e-5), name
        assert max(values) - min(values) > 0.01, "the case must tell depths apart"


@pytest.mark.parametrize("post_norm", [False, True])
def test_the_norm_is_that_of_the_state_handed_on(post_norm: bool) -> None:
    """With unit weights a normed state has a root mean square of one at every depth; another one does not."""
    found = drift(small_draft(post_norm), list(range(20)), 5, some_features(), 4)
    by_depth = (found.hidden_norm, found.sink_mass, found.self_mass, found.recent_mass, found.entropy)
    assert [len(values) for values in by_depth] == [4] * 5
    assert all(abs(norm - 1) < 1e-3 for norm in found.hidden_norm) == post_norm
    assert all(0 < mass < 1 for mass in (*found.sink_mass, *found.self_mass))


def test_sizes_of_what_the_draft_reads() -> None:
    """Layers of size 1, 10 and 100 at the answer's places; other places have another size and do not count."""
    draft = small_draft()
    sizes = torch.tensor([1.0, 10.0, 100.0]).repeat_interleave(16)
    features_TF = torch.sign(some_features()) * sizes
    features_TF[:4] *= 50
    features_TF[-5:] *= 50
    found = drift(draft, list(range(20)), 5, features_TF, 4)
    assert found.feature_norm == pytest.approx([1.0, 10.0, 100.0])
    g_PH = features_TF[4:15] @ draft.fc.weight.T
    assert found.fused_norm == pytest.approx([(g_PH**2).mean(1).sqrt().mean().item()], rel=1e-5)


def test_a_mean_over_conversations() -> None:
    draft = small_draft()
    one = partial(drift, draft, list(range(20)), features_TF=some_features(), depth=3)
    a, b = one(answer_start=5), one(answer_start=9)
    mean = Drift.mean([a, b])
    assert mean.sink_mass[2] == pytest.approx((a.sink_mass[2] + b.sink_mass[2]) / 2)
    assert mean.fused_norm[0] == pytest.approx((a.fused_norm[0] + b.fused_norm[0]) / 2)
    with pytest.raises(ValueError, match="no conversation was probed"):
        Drift.mean([])


def test_an_answer_too_short_for_the_depth_is_named() -> None:
    with pytest.raises(ValueError, match="an answer of 3 tokens has no place for chains of 7"):
        drift(small_draft(), list(range(8)), 5, torch.zeros(8, 48), 7)
