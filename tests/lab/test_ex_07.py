"""Notebook 07: the rules by hand are the package's, the planted curves look as the exercise says, one path for both."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
import torch

from labsim.checkpoints.faults import faults
from labsim.drafts.eagle import EagleDraft
from labsim.drafts.eagle_config import EagleConfig
from labsim.drafts.recurrent import RMSNorm
from labsim.features.source import Online
from labsim.lab.answered import answered
from labsim.lab.drift_lab import loads_without_flags, served_alike, told_apart
from labsim.lab.drift_plot import draw_drafts
from labsim.lab.exercises import drift_by_hand as hand
from labsim.lab.planted_curves import HEALTHY, first_guesses_changed, planted_curves
from labsim.models.config import ModelConfig
from labsim.models.load import Target, load_target
from labsim.models.paths import data_directory
from labsim.train.probes.attention import AttentionProbe
from labsim.train.probes.drift import rms

SMALL = ModelConfig("llama", 50, 16, 24, 8, 4, 2, 4, 256, 1e-5, True)
SHIPPED = data_directory() / "drafts" / "nano-eagle3.1"
EARLIER = data_directory() / "ttt" / "nano" / "eagle3-ttt4"


@pytest.fixture(scope="module")
def nano() -> Target:
    return load_target("nano", device="cpu")


def test_sizes_and_norms_by_hand_are_the_packages() -> None:
    rng = random.Random(0)
    for _ in range(20):
        x = hand.some_state(rng)
        weight = [rng.uniform(0.5, 2) for _ in x]
        assert hand.rms(x) == pytest.approx(rms(torch.tensor(x)), rel=1e-5)
        norm = RMSNorm(len(x), 1e-12).double()
        norm.weight.data = torch.tensor(weight, dtype=torch.float64)
        assert hand.rms_norm(x, weight) == pytest.approx(norm(torch.tensor(x, dtype=torch.float64)).tolist())


@pytest.mark.parametrize("generation", ["eagle3", "eagle31"])
def test_what_is_read_and_handed_on_is_what_the_draft_does(generation: str) -> None:
    config = getattr(EagleConfig, generation)(SMALL, rms_norm_eps=1e-12)
    draft = EagleDraft(config, torch.zeros(50, 16)).double()
    draft.initialise(0)
    rng = random.Random(1)
    with torch.no_grad():
        draft.norm.weight.uniform_(0.5, 2, generator=torch.Generator().manual_seed(0))
        layers = [hand.some_state(rng, 16, scale) for scale in (0.5, 3.0, 40.0)]
        read = hand.fused_input(*layers) if config.fc_norm else [v for part in layers for v in part]
        fused = draft.fuse(torch.tensor([[[v for part in layers for v in part]]], dtype=torch.float64))
        assert fused[0, 0].tolist() == pytest.approx(
            (draft.fc.weight @ torch.tensor(read, dtype=torch.float64)).tolist(), rel=1e-6
        )
        raw = hand.some_state(rng, 16, 5.0)
        head, state = draft.leave(torch.tensor(raw, dtype=torch.float64))
    by_hand = hand.handed_on(raw, draft.norm.weight.tolist(), config.norm_output)
    assert (head.tolist(), state.tolist()) == (pytest.approx(by_hand[0]), pytest.approx(by_hand[1]))


def test_shares_by_hand_are_the_probes() -> None:
    """A query whose scores are the logarithms of the weights attends by exactly those weights."""
    rng = random.Random(2)
    for _ in range(20):
        weights, steps, window, sink = hand.some_weights(rng)
        prefix = len(weights) - steps
        keys = torch.tensor([math.log(w) for w in weights])[None, None, :, None] * torch.tensor([1.0, 0.0])
        q = torch.tensor([2**0.5, 0.0]).expand(1, 1, prefix, 2)
        branch = [(keys[:, :, prefix + n : prefix + n + 1].expand(1, 1, prefix, 2), q) for n in range(steps)]
        probe = AttentionProbe(torch.tensor([prefix - 1]), sink, window)
        probe(q, keys[:, :, :prefix].contiguous(), torch.zeros(1, 1, prefix, 2), branch)
        found = hand.shares([w / sum(weights) for w in weights], steps, window, sink)
        assert found == pytest.approx((probe.sink[0], probe.recent[0], probe.own[0]), abs=1e-5)


def test_the_letters_are_faults_that_run() -> None:
    known = {fault.name: fault for fault in faults("checkpoint")}
    for curves, causes in ((hand.CURVES, hand.CAUSES), (hand.MORE_CURVES, hand.MORE_CAUSES)):
        assert set(curves.values()) < set(causes) <= set(known)
        assert all(known[name].runs for name in causes)
    assert len({*hand.CURVES.values(), *hand.MORE_CURVES.values(), *hand.TRAINING_CURVES.values()}) == 10


def test_the_curves_look_as_the_hints_say(nano: Target) -> None:
    texts = answered(nano, {"chat": 4, "code": 4, "agent": 4}, "held_out", max_new_tokens=40, longest=200)
    curves = planted_curves(nano, texts, 4)
    by_fault = {name: curves[letter].survival for letter, name in hand.CURVES.items()}
    healthy = curves[HEALTHY].survival
    assert by_fault["feedback-flag"][0] == healthy[0]
    assert by_fault["feedback-flag"][1] < 0.8 * healthy[1] and by_fault["feedback-flag"][2] < healthy[2] / 3
    assert max(by_fault["d2t-zeros"]) < 0.02
    assert 0.1 < by_fault["fc-norm-flag-off"][0] < healthy[0] / 2
    assert by_fault["fc-norm-flag-off"][3] > 2 * by_fault["feedback-flag"][3]
    with pytest.raises(ValueError, match=r"no eagle3\.1 draft is shipped for 'nanoo'"):
        planted_curves(Target("nanoo", nano.directory, nano.model, nano.tokenizer, nano.stop_ids), texts, 4)


def test_the_five_more_can_be_told_apart(nano: Target) -> None:
    texts = answered(nano, {"chat": 4, "code": 4, "agent": 4}, "held_out", max_new_tokens=40, longest=200)
    curves = planted_curves(nano, texts, 4, hand.MORE_CURVES, "eagle3")
    healthy = curves[HEALTHY]
    by_fault = {name: curves[letter] for letter, name in hand.MORE_CURVES.items()}
    changed = {name: first_guesses_changed(curve, healthy) for name, curve in by_fault.items()}
    assert by_fault["template-differs"].survival == healthy.survival and changed["template-differs"] == 0
    assert changed["layers-one-off"] > 0
    sums = {name: sum(curve.survival) for name, curve in by_fault.items()}
    assert sums["residual-flag"] < sums["layers-one-off"] - 0.5 < sum(healthy.survival) - 0.7
    behind = {name: curve.survival[1] / curve.survival[0] for name, curve in by_fault.items() if curve.survival[0]}
    held = healthy.survival[1] / healthy.survival[0]
    assert behind["layers-one-off"] > 0.85 * held and behind["residual-flag"] < 0.7 * held
    assert 0.05 < by_fault["halves-swapped"].survival[0] < healthy.survival[0] / 2
    assert by_fault["halves-swapped"].survival[1] < 0.05
    assert by_fault["d2t-stale"].survival[0] < 0.03


def test_two_generations_on_one_path(nano: Target) -> None:
    prompts = [nano.encode_chat(text) for text in ("What is rain?", "Name three animals.")]
    served = served_alike(nano, {"old": EARLIER, "new": SHIPPED}, prompts, k=3, max_new_tokens=16)
    assert [one.kind for one in served] == ["eagle3", "eagle3.1"]
    assert [one.flags for one in served] == [(), ("fc_norm", "norm_output")]
    assert all(one.identical and one.tokens_per_step >= 1 for one in served)
    apart = told_apart(EARLIER, SHIPPED)
    assert {"fc_norm", "norm_output"} <= set(apart["config"])
    assert apart["tensors"] == [f"fc_norm.{n}.weight" for n in range(3)]
    assert told_apart(SHIPPED, SHIPPED) == {"config": [], "tensors": []}


def test_a_config_without_the_flags_is_an_eagle_3(nano: Target) -> None:
    """Struck from an EAGLE-3 config nothing changes; struck from a 3.1 config, its norms are surplus tensors."""
    tokens = nano.encode_chat("Tell me about the sea, the sky and the land between them.")
    [states] = Online(nano.model, (2, 4, 5)).read([tokens])
    assert loads_without_flags(nano, EARLIER, tokens, states.features_TF) == 0
    with pytest.raises(ValueError, match="fc_norm"):
        loads_without_flags(nano, SHIPPED, tokens, states.features_TF)


def test_the_drawing_follows_the_configs(tmp_path: Path) -> None:
    pair = [EagleConfig.eagle3(SMALL), EagleConfig.eagle31(SMALL)]
    fig = draw_drafts(pair, ["EAGLE-3", "EAGLE-3.1"])
    words = [[text.get_text() for text in ax.texts] for ax in fig.axes]
    assert [said.count("RMSNorm") for said in words] == [0, 3]
    assert [any(said.startswith("norm(a)") for said in side) for side in words] == [False, True]
    assert all("(after 2 layers)" in side[0] for side in words)
    # Attention's output reaches a beside the feed-forward, too: two sums, and two lines that end at them.
    assert all({"+  =  r", "+  =  a"} <= set(side) for side in words)
    greys = [[line for line in ax.lines if line.get_color() == "#777777"] for ax in fig.axes]
    assert [len(lines) for lines in greys] == [2, 2]
    fig.savefig(tmp_path / "both.png")
    with pytest.raises(ValueError, match="eagle1 cannot be drawn"):
        draw_drafts([EagleConfig.eagle1(SMALL)], ["EAGLE-1"])
