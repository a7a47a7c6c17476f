"""Training sees what serving will compute: logits of TTT step k equal those of autoregressive drafting at depth k + 1.

The other side is `eagle_reference.Reference`, which drafts one token at a time without any of this package's code. Each
planted bug shows at the depth where it should, and most show nothing at depth 1."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from labsim.attention.ttt import ttt_attention
from labsim.drafts.eagle import EagleDraft
from labsim.drafts.recurrent import Pair, RecurrentDraft
from labsim.models.linear import Linear

from .eagle_cases import DRAFT_VOCAB, VARIANTS, VOCAB, make, text
from .eagle_reference import Reference

STEPS, LENGTH = 5, 12


@torch.no_grad()
def by_ttt(draft: RecurrentDraft, tokens: torch.Tensor, features: torch.Tensor, **options: object) -> torch.Tensor:
    """(B, L, K, N)."""
    steps = draft.ttt_forward(tokens, features, STEPS, **options)
    return torch.stack([draft.logits(step.output_BLH) for step in steps], dim=2)


@torch.no_grad()
def by_reference(reference: Reference, tokens: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """The same, for the positions at which every depth has a token: (B, L - K, K, N)."""
    last = tokens.shape[1] - STEPS
    return torch.stack(
        [
            torch.stack([reference.chain(row.tolist(), states, t + 1, STEPS) for t in range(last)])
            for row, states in zip(tokens, features, strict=True)
        ]
    )


def by_depth(found: torch.Tensor, right: torch.Tensor) -> list[float]:
    """Relative change of the logits at depth 1, 2, ..."""
    found = found[:, : right.shape[1]]
    return [float((found[:, :, d] - right[:, :, d]).norm() / right[:, :, d].norm()) for d in range(STEPS)]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)], ids=["fp64", "fp32"])
@pytest.mark.parametrize("kernel", ["reference", "cpu_flash"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (4, 4), (4, 1)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_ttt_step_is_a_depth_of_drafting(
    variant: str, heads: int, kv_heads: int, kernel: str, dtype: torch.dtype, tolerance: float
) -> None:
    case = make(variant, heads=heads, kv_heads=kv_heads)
    tokens, features = text(case.draft, 2, LENGTH)
    right = by_reference(case.reference, tokens, features)
    found = by_ttt(case.draft.to(dtype), tokens, features.to(dtype), kernel=kernel)
    assert found.shape == (2, LENGTH, STEPS, case.draft.config.draft_vocab_size)
    error_K = (found[:, : right.shape[1]].double() - right).abs().amax((0, 1, 3))
    # EAGLE-1 has no norm anywhere in its loop, so random weights let its logits grow with depth.
    assert float((error_K / right.abs().amax((0, 1, 3)).clamp(min=1)).max()) < tolerance
    assert float(right.std()) > 0.3, "logits near zero would be equal whatever was computed"


# --- planted bugs ---------------------------------------------------------------------------------------------------


class PreNormFeedback(EagleDraft):
    """What a released trainer did under the name 3.1."""

    def leave(self, raw_BLH: torch.Tensor) -> Pair:
        return self.norm(raw_BLH), raw_BLH


class RopeStandsStill(EagleDraft):
    def block(self, tokens: torch.Tensor, state: torch.Tensor, positions: torch.Tensor, attend: object) -> tuple:
        return super().block(tokens, state, positions - positions.min(), attend)


class HiddenFirst(EagleDraft):
    def enter(self, embeds_BLH: torch.Tensor, state_BLH: torch.Tensor) -> Pair:
        joined, residual = super().enter(embeds_BLH, state_BLH)
        embedding, hidden = joined.chunk(2, dim=-1)
        return torch.cat([hidden, embedding], dim=-1), residual


def branch_left_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, branch: Sequence[Pair]) -> torch.Tensor:
    return ttt_attention(q, k, v)


def own_step_left_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, branch: Sequence[Pair]) -> torch.Tensor:
    return ttt_attention(q, k, v, branch[:-1])


WIRING = {
    "feedback before the norm": (PreNormFeedback, {}),
    "rope not advanced": (RopeStandsStill, {}),
    "branch keys left out": (EagleDraft, {"attention": branch_left_out}),
    "the step's own key left out": (EagleDraft, {"attention": own_step_left_out}),
    "public MTP form": (EagleDraft, {"branch": "step"}),
}


@pytest.mark.parametrize("bug", WIRING)
def test_a_wiring_fault_is_invisible_at_depth_1_and_large_from_depth_2(bug: str) -> None:
    kind, options = WIRING[bug]
    case = make("eagle3.1", kind=kind)
    tokens, features = text(case.draft, 2, LENGTH)
    change = by_depth(by_ttt(case.draft, tokens, features, **options), by_reference(case.reference, tokens, features))
    print(f"{bug}: {' '.join(f'{c:.2g}' for c in change)}")
    assert change[0] < 1e-12
    assert min(change[1:]) > 0.03
    if bug != "the step's own key left out":
        assert change[1] < change[-1], "the fault feeds on itself"


@pytest.mark.parametrize("bug", ["features one position late", "hidden before embedding"])
def test_an_input_fault_is_large_at_every_depth(bug: str) -> None:
    case = make("eagle3.1", kind=HiddenFirst if bug == "hidden before embedding" else EagleDraft)
    tokens, features = text(case.draft, 2, LENGTH)
    given = features.roll(1, dims=1) if bug == "features one position late" else features
    change = by_depth(by_ttt(case.draft, tokens, given), by_reference(case.reference, tokens, features))
    print(f"{bug}: {' '.join(f'{c:.2g}' for c in change)}")
    assert min(change) > 0.5


def test_a_norm_weight_of_one_hides_half_of_the_feedback_fault() -> None:
    """RMSNorm(RMSNorm(a)) = RMSNorm(a) if the inner weight is 1: at the start of training only the residual differs."""
    changes = []
    for unit in (False, True):
        case = make("eagle3.1", kind=PreNormFeedback)
        if unit:
            torch.nn.init.ones_(case.draft.norm.weight)
            case.reference.weights["norm.weight"] = torch.ones_like(case.reference.weights["norm.weight"])
        tokens, features = text(case.draft, 2, LENGTH)
        found = by_ttt(case.draft, tokens, features)
        changes.append(by_depth(found, by_reference(case.reference, tokens, features)))
    assert changes[1][1] < changes[0][1]


# --- what 3.1 changes -----------------------------------------------------------------------------------------------


def test_norm_output_changes_depth_2_and_not_depth_1() -> None:
    plain, normed = make("eagle3 fc_norm").draft, make("eagle3.1").draft
    normed.load_state_dict(plain.state_dict())
    tokens, features = text(plain, 2, LENGTH)
    a, b = (by_ttt(draft, tokens, features) for draft in (plain, normed))
    assert torch.equal(a[:, :, 0], b[:, :, 0])
    assert float((a[:, :, 1] - b[:, :, 1]).abs().max()) > 0.1


def test_the_fed_back_state_keeps_its_size_in_3_1_and_grows_in_3() -> None:
    """With unit weights the size after a norm is exactly 1 at every depth."""
    sizes = {}
    for variant in ("eagle3", "eagle3.1"):
        draft = make(variant).draft
        torch.nn.init.ones_(draft.norm.weight)
        tokens, features = text(draft, 2, LENGTH)
        with torch.no_grad():
            states = [step.state_BLH for step in draft.ttt_forward(tokens, features, STEPS)]
        sizes[variant] = [float(state.pow(2).mean(-1).sqrt().mean()) for state in states]
    assert sizes["eagle3.1"] == pytest.approx([1.0] * STEPS, abs=1e-4)
    assert sizes["eagle3"] == sorted(sizes["eagle3"]) and sizes["eagle3"][-1] > 1.5 * sizes["eagle3"][0]


# --- gradients and the forward's options ----------------------------------------------------------------------------


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("variant", ["eagle1", "eagle3", "eagle3.1", "mtp"])
def test_gradients_are_those_of_drafting_step_by_step(variant: str, checkpointing: bool) -> None:
    """Every parameter's gradient, back through all depths, against autograd through the reference."""
    case = make(variant)
    tokens, features = text(case.draft, 1, LENGTH - 3)
    pull = torch.randn(len(tokens[0]) - STEPS, STEPS, case.draft.config.draft_vocab_size, dtype=torch.float64)
    steps = case.draft.ttt_forward(tokens, features, STEPS, checkpointing=checkpointing)
    found = torch.stack([case.draft.logits(step.output_BLH) for step in steps], dim=2)[0]
    (found[: len(pull)] * pull).sum().backward()
    weights = case.reference.weights
    for name in weights:
        weights[name] = weights[name].clone().requires_grad_()
    right = torch.stack([case.reference.chain(tokens[0].tolist(), features[0], t + 1, STEPS) for t in range(len(pull))])
    (right * pull).sum().backward()
    for name, parameter in case.draft.named_parameters():
        assert float(weights[name].grad.abs().max()) > 1e-3, name
        assert float((parameter.grad - weights[name].grad).abs().max()) < 1e-9 * max(
            1.0, float(weights[name].grad.abs().max())
        ), name


def test_tokens_behind_the_features_are_read() -> None:
    """A shard's tokens go on into the next one; without them the last positions read padding."""
    draft = make("eagle3.1").draft
    tokens, features = text(draft, 2, LENGTH)
    whole = by_ttt(draft, tokens, features)
    part = by_ttt(draft, tokens, features[:, :7], first_position=40)
    assert torch.allclose(part, whole[:, :7], atol=1e-12), "only differences of positions matter"


def test_one_step_needs_no_branch_and_a_generator_gives_steps_one_by_one() -> None:
    draft = make("eagle3").draft
    tokens, features = text(draft, 1, LENGTH)
    steps = draft.ttt_forward(tokens, features, 3)
    assert [next(steps).step, next(steps).step, next(steps).step] == [0, 1, 2]
    with pytest.raises(StopIteration):
        next(steps)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": torch.zeros(1, 4, 59)}, "features of width 59; eagle3 reads 60: the target layers"),
        ({"tokens": torch.zeros(1, 3, dtype=torch.long)}, r"tokens \(1, 3\) for features of 1 rows and 4 positions"),
        ({"steps": 0}, "steps is 0; right is at least 1"),
        ({"branch": "all"}, "branch is 'all'; right is 'own' or 'step'"),
    ],
)
def test_wrong_input_is_named(change: dict, message: str) -> None:
    draft = make("eagle3").draft
    given = {"tokens": torch.zeros(1, 4, dtype=torch.long), "features": torch.zeros(1, 4, 60).double(), "steps": 2}
    given |= change
    with pytest.raises(ValueError, match=message):
        next(draft.ttt_forward(given.pop("tokens"), given.pop("features"), given.pop("steps"), **given))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)], ids=["fp64", "fp32"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_packing_changes_nothing(variant: str, dtype: torch.dtype, tolerance: float) -> None:
    draft = make(variant).draft.to(dtype)
    tokens, features = text(draft, 2, LENGTH)
    plain = by_ttt(draft, tokens, features.to(dtype))
    borrowed = None if hasattr(draft, "lm_head") else Linear(draft.head_VH)
    draft.pack(head=borrowed)
    draft.head_VH = None
    assert set(draft.packed) == {"qkv", "o", "gate_up", "down", "fc", "head"}
    packed = by_ttt(draft, tokens, features.to(dtype))
    assert float(((packed - plain).abs() / plain.abs().amax()).max()) < tolerance


def test_a_packed_draft_gives_no_gradients_and_says_so() -> None:
    draft = make("eagle3").draft.pack()
    tokens, features = text(draft, 1, LENGTH)
    with pytest.raises(ValueError, match="packed for decoding"):
        next(draft.ttt_forward(tokens, features, 2))


def test_untrained_weights_follow_the_seed() -> None:
    first, again, other = (
        make("eagle3.1", seed=seed).draft.initialise(start) for seed, start in ((0, 7), (1, 7), (0, 8))
    )
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.fc.weight, other.fc.weight)
    assert torch.equal(first.norm.weight, torch.ones_like(first.norm.weight))
    assert float(first.fc.weight.detach().std()) == pytest.approx(first.config.initializer_range, rel=0.1)


def test_the_head_starts_from_the_targets_rows() -> None:
    from labsim.drafts.vocabulary import DraftVocabulary

    draft = make("eagle3").draft
    ids = list(range(3, 3 + DRAFT_VOCAB))
    head = torch.randn(VOCAB, 24, dtype=torch.float64)
    draft.start_from_target(head, DraftVocabulary.of(ids, VOCAB), torch.full((24,), 2.0))
    assert torch.equal(draft.lm_head.weight, head[3 : 3 + DRAFT_VOCAB])
    assert torch.equal(draft.norm.weight, torch.full((24,), 2.0, dtype=torch.float64))
