"""Disturbed guesses: what changes is exactly what was asked for, in training-time test as in decoding."""

from __future__ import annotations

import pytest
import torch

from labsim.drafts.eagle import EagleDraft
from labsim.drafts.eagle_config import EagleConfig
from labsim.drafts.recurrent import Pair
from labsim.models.config import ModelConfig
from labsim.train.probes.disturbed import Disturbance, Disturbed

TARGET = ModelConfig("llama", 50, 256, 24, 8, 4, 2, 64, 256, 1e-5, True)
DEPTH, LENGTH = 4, 12


class Noting(EagleDraft):
    """A draft that remembers what enters its layer."""

    entered: list[Pair]

    def enter(self, embeds_BLH: torch.Tensor, state_BLH: torch.Tensor) -> Pair:
        self.entered.append((embeds_BLH.clone(), state_BLH.clone()))
        return super().enter(embeds_BLH, state_BLH)


@pytest.fixture
def draft() -> Noting:
    embedding_VH = torch.randn(50, 256, generator=torch.Generator().manual_seed(0))
    made = Noting(EagleConfig.eagle3(TARGET), embedding_VH)
    made.initialise(1)
    made.entered = []
    return made


FEATURES = 3 * torch.randn(LENGTH, 3 * 256, generator=torch.Generator().manual_seed(2))
TEXT = torch.arange(LENGTH + DEPTH)[None]


def size(x: torch.Tensor) -> torch.Tensor:
    return (x**2).mean(-1).sqrt()


def walk(draft: EagleDraft | Disturbed, noting: Noting) -> tuple[list[torch.Tensor], list[Pair]]:
    """(logits by depth, inputs by depth) of one training-time test."""
    noting.entered = []
    with torch.no_grad():
        logits = [draft.logits(step.output_BLH) for step in draft.ttt_forward(TEXT, FEATURES[None], DEPTH)]
    return logits, noting.entered


def test_nothing_asked_nothing_changed(draft: Noting) -> None:
    plain, _ = walk(draft, draft)
    same, _ = walk(Disturbed(draft, Disturbance()), draft)
    assert all(torch.equal(one, other) for one, other in zip(plain, same, strict=True))


@pytest.mark.parametrize(("which", "name"), [(0, "embedding_noise"), (1, "state_noise")])
def test_noise_has_the_size_asked_for(draft: Noting, which: int, name: str) -> None:
    """Depth 2 is the first guess: there the other input is untouched, and the noise can be told by subtraction."""
    _, clean = walk(draft, draft)
    logits, noisy = walk(Disturbed(draft, Disturbance(**{name: 0.5}, seed=7)), draft)
    assert torch.equal(noisy[0][0], clean[0][0]), "depth 1 reads the truth"
    assert torch.equal(noisy[0][1], clean[0][1]), "depth 1 reads the truth"
    assert torch.equal(noisy[1][1 - which], clean[1][1 - which])
    added = noisy[1][which] - clean[1][which]
    assert (size(added) / size(clean[1][which])).mean().item() == pytest.approx(0.5, rel=0.05)
    cosine = torch.nn.functional.cosine_similarity(added, clean[1][which], dim=-1)
    assert abs(float(cosine.mean())) < 0.1, "noise has no direction"
    again, _ = walk(Disturbed(draft, Disturbance(**{name: 0.5}, seed=7)), draft)
    other, _ = walk(Disturbed(draft, Disturbance(**{name: 0.5}, seed=8)), draft)
    assert torch.equal(logits[-1], again[-1])
    assert not torch.equal(logits[-1], other[-1])


def test_a_pinned_state_keeps_its_direction(draft: Noting) -> None:
    _, clean = walk(draft, draft)
    _, pinned = walk(Disturbed(draft, Disturbance(pinned=2.5)), draft)
    assert torch.equal(pinned[0][1], clean[0][1])
    for _, state in pinned[1:]:
        assert size(state).flatten().tolist() == pytest.approx([2.5] * LENGTH, rel=1e-4)
    cosine = torch.nn.functional.cosine_similarity(pinned[1][1], clean[1][1], dim=-1)
    assert float(cosine.min()) > 0.9999


def test_decoding_is_disturbed_as_training_time_test_is(draft: Noting) -> None:
    """A pin is without chance, so the chain drafted through the cache must have the very same logits."""
    disturbed = Disturbed(draft, Disturbance(pinned=2.5))
    trained, _ = walk(disturbed, draft)
    plain, _ = walk(draft, draft)
    prefix = 5
    cache = disturbed.new_cache(1, prefix + 1 + DEPTH)
    with torch.no_grad():
        state = disturbed.fuse(FEATURES[None, : prefix + 1])
        output, state = disturbed.forward_cached(TEXT[:, 1 : prefix + 2], state, cache)
        cache.keep([range(prefix + 1)])
        found = [disturbed.logits(output[0, -1])]
        for depth in range(1, DEPTH):
            token = TEXT[:, prefix + 1 + depth : prefix + 2 + depth]
            output, state = disturbed.forward_cached(token, state[:, -1:], cache, parents_BQ=[[depth - 2]])
            found.append(disturbed.logits(output[0, -1]))
    for depth, logits in enumerate(found):
        assert torch.allclose(logits, trained[depth][0, prefix], atol=1e-5), depth
    assert not torch.allclose(found[2], plain[2][0, prefix], atol=1e-3), "the pin must show"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"state_noise": -0.1}, "state_noise is -0.1"),
        ({"embedding_noise": float("nan")}, "embedding_noise is nan"),
        ({"pinned": 0.0}, "pinned is 0.0"),
    ],
)
def test_what_cannot_be_is_named(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Disturbance(**wrong)
