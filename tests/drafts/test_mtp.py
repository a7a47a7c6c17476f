"""MTP: served as it is trained in the own-branch form, and not in the public one. (The equality itself, for every
kernel, and the decoding loop are in test_eagle.py and test_eagle_drafter.py.)"""

from __future__ import annotations

import pytest
import torch

from labsim.drafts.mtp import MTPConfig, MTPDraft
from labsim.drafts.recurrent import Pair

from .eagle_cases import make, text
from .test_eagle import LENGTH, STEPS, by_depth, by_reference, by_ttt


def dense_public_form(draft: MTPDraft, tokens: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """FastMTP's training forward: every step is a whole causal layer over the previous step's states, at the same
    positions. Written as STEPS separate texts, each of one step."""
    found, states = [], features
    for step in range(STEPS):
        shifted = torch.nn.functional.pad(tokens[:, step:], (0, step + 1))[:, : tokens.shape[1] + 1]
        (only,) = draft.ttt_forward(shifted, states, 1)
        found.append(draft.logits(only.output_BLH))
        states = only.state_BLH
    return torch.stack(found, dim=2)


@torch.no_grad()
def test_the_public_form_is_one_step_applied_to_its_own_states() -> None:
    draft = make("mtp").draft
    tokens, features = text(draft, 2, LENGTH)
    assert torch.allclose(
        by_ttt(draft, tokens, features, branch="step"), dense_public_form(draft, tokens, features), atol=1e-12
    )


def test_the_public_form_is_right_at_depth_1_and_something_else_from_depth_2() -> None:
    case = make("mtp")
    tokens, features = text(case.draft, 2, LENGTH)
    right = by_reference(case.reference, tokens, features)
    change = by_depth(by_ttt(case.draft, tokens, features, branch="step"), right)
    assert change[0] < 1e-12 and min(change[1:]) > 0.05
    assert max(by_depth(by_ttt(case.draft, tokens, features, branch="own"), right)) < 1e-12


class RawFeedback(MTPDraft):
    def leave(self, raw_BLH: torch.Tensor) -> Pair:
        return super().leave(raw_BLH)[0], raw_BLH


class HiddenFirst(MTPDraft):
    def enter(self, embeds_BLH: torch.Tensor, state_BLH: torch.Tensor) -> Pair:
        layer = self.layer
        joined = layer.input_proj(
            torch.cat([layer.hidden_layernorm(state_BLH), layer.token_layernorm(embeds_BLH)], dim=-1)
        )
        return layer.input_layernorm(joined), joined


@pytest.mark.parametrize(("bug", "first_depth"), [(RawFeedback, 2), (HiddenFirst, 1)])
def test_it_would_show_if_the_wiring_differed(bug: type[MTPDraft], first_depth: int) -> None:
    """`hidden_layernorm` norms whatever is fed back, so only the weight of the final norm tells its two sides apart."""
    case = make("mtp", kind=bug)
    tokens, features = text(case.draft, 2, LENGTH)
    change = by_depth(by_ttt(case.draft, tokens, features), by_reference(case.reference, tokens, features))
    print(bug.__name__, " ".join(f"{c:.2g}" for c in change))
    assert all(c < 1e-12 for c in change[: first_depth - 1]) and min(change[first_depth - 1 :]) > 0.02


def test_an_mtp_module_needs_its_targets_width_and_vocabulary() -> None:
    sizes = {
        "vocab_size": 31,
        "draft_vocab_size": 31,
        "hidden_size": 24,
        "target_hidden_size": 24,
        "intermediate_size": 36,
        "num_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 8,
        "feature_layers": (8,),
    }
    assert MTPConfig(**sizes).kind == "mtp"
    for change in ({"target_hidden_size": 20}, {"draft_vocab_size": 17}, {"feature_layers": (1, 8)}):
        with pytest.raises(ValueError, match="shares its target's width and head"):
            MTPConfig(**(sizes | change))
