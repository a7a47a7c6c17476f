"""The closed form of a training step's memory against the step itself, whose live bytes are counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labsim.lab.naive_attention import naive_attention
from labsim.train.ttt.loop import build_optimizers
from labsim.train.ttt.memory import DraftShape, StepSetting
from labsim.train.ttt.memory_measure import StepCase, measure, random_case
from labsim.train.ttt.memory_peak import peak, resident
from labsim.train.ttt.memory_remedies import USABLE, advise, longest
from labsim.train.ttt.recipe import KINDS

TOLERANCE = 0.10
BASE = StepSetting(positions=192, ttt=3, bf16=False, state_bytes=4, device="cpu")


def shape(kind: str, **sizes: int) -> DraftShape:
    whole = {"hidden": 64, "target_hidden": 64, "vocab": 500, "draft_vocab": 300, "heads": 4, "kv_heads": 2,
             "head_dim": 16, "intermediate": 160} | sizes  # fmt: skip
    if kind in ("eagle1", "mtp"):
        whole["draft_vocab"] = whole["vocab"]
    if kind == "heads":
        whole |= dict.fromkeys(("heads", "kv_heads", "head_dim", "intermediate"), 0)
    return DraftShape(kind=kind, features=3 if kind.startswith("eagle3") else 1, **whole)


def check(case: StepCase, *, attention: str = "fused") -> None:
    counted = measure(case, attention=naive_attention if attention == "naive" else None)
    setting = case.setting(attention)
    found = peak(case.shape, setting)
    step = max(total for name, total in found.moments.items() if name != "optimizer") - found.resident
    assert step == pytest.approx(counted.peak, rel=TOLERANCE), (found.moment, setting)


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize(
    "changed", [{}, {"checkpointing": True}, {"logit_chunk": 40}, {"checkpointing": True, "logit_chunk": 40}]
)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_and_remedy(kind: str, changed: dict[str, int], bf16: bool) -> None:
    check(random_case(shape(kind), replace(BASE, bf16=bf16, **changed)))


@pytest.mark.parametrize(
    ("kind", "sizes", "changed"),
    [
        ("eagle3", {}, {"ttt": 1}),
        ("eagle3", {"kv_heads": 1}, {"ttt": 7, "positions": 320}),
        ("eagle3", {"kv_heads": 4, "draft_vocab": 64}, {"positions": 512}),
        ("eagle3", {"vocab": 2000, "draft_vocab": 2000}, {"places": 60}),
        ("eagle3.1", {"heads": 8, "kv_heads": 2, "head_dim": 8, "intermediate": 256}, {"ttt": 5, "bf16": True}),
        ("eagle3", {"hidden": 96, "target_hidden": 96, "heads": 6}, {"checkpointing": True, "ttt": 6}),
        ("mtp", {"vocab": 900}, {"ttt": 2, "positions": 300}),
        ("eagle1", {"intermediate": 256}, {"ttt": 4, "places": 100}),
    ],
)
def test_other_shapes(kind: str, sizes: dict[str, int], changed: dict[str, int]) -> None:
    check(random_case(shape(kind, **sizes), replace(BASE, **changed)))


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(("positions", "ttt"), [(96, 3), (224, 2), (128, 5)])
def test_naive_attention(positions: int, ttt: int, checkpointing: bool, bf16: bool) -> None:
    changed = {"positions": positions, "ttt": ttt, "checkpointing": checkpointing, "bf16": bf16, "attention": "naive"}
    check(random_case(shape("eagle3"), replace(BASE, **changed)), attention="naive")


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_with_the_optimiser(optimizer: str) -> None:
    """A row so short that gradients and the update are what counts."""
    case = random_case(shape("eagle3", intermediate=512), replace(BASE, positions=12, ttt=2, optimizer=optimizer))
    found = peak(case.shape, case.setting())
    assert measure(case, update=True).peak == pytest.approx(found.step, rel=TOLERANCE)
    assert found.parts["gradients"] > 0.4 * found.step


def test_the_step_is_a_sum_and_no_product() -> None:
    """Measured: each step of k costs the same, each token the same, and the target's depth nothing."""

    def measured(positions: int, ttt: int, layers: int = 8) -> int:
        return measure(random_case(shape("eagle3"), replace(BASE, positions=positions, ttt=ttt), layers=layers)).peak

    assert measured(128, 4) - measured(128, 3) == pytest.approx(measured(128, 6) - measured(128, 5), rel=0.01)
    assert measured(256, 3) - measured(128, 3) == pytest.approx((measured(512, 3) - measured(256, 3)) / 2, rel=0.01)
    assert measured(128, 3, layers=8) == measured(128, 3, layers=40)
    # One more step costs one layer and one log-softmax per token; states and teacher are not paid again.
    norms, streams, joined, feed_forward, logits = 4 * 64, 3 * 64, 128, 4 * 160, 300
    attention = 2 * 64 + 2 * 32 + 4 + 2 * 16  # queries and output, keys and values, log-sum-exps, angles
    head_input = 64
    one_step = 4 * 256 * (norms + streams + joined + feed_forward + attention + head_input + logits)
    assert measured(256, 5) - measured(256, 4) == pytest.approx(one_step, rel=0.03)


def test_fused_grows_linearly_and_naive_by_its_score_matrices() -> None:
    def measured(positions: int, attention: str) -> int:
        case = random_case(shape("eagle3"), replace(BASE, positions=positions, attention=attention))
        return measure(case, attention=naive_attention if attention == "naive" else None).peak

    extra = {n: measured(n, "naive") - measured(n, "fused") for n in (128, 256)}
    for positions, found in extra.items():
        scores = sum(4 * (j + 1) * positions**2 * 4 for j in range(3))
        assert found >= scores * 0.8, "heads x L x (j + 1) L in step j, in float32"
    assert 3.3 < extra[256] / extra[128] < 4.7, "twice the length, four times the scores"


def test_parameters_and_moments_are_exact() -> None:
    for kind in KINDS:
        for optimizer in ("adamw", "muon"):
            case = random_case(shape(kind), replace(BASE, positions=32, optimizer=optimizer))
            setting = case.setting()
            trained = sum(p.numel() for p in case.draft.parameters())
            borrowed = sum(b.numel() for b in case.draft.buffers())
            assert case.shape.parameters(setting.ttt) == trained, kind
            assert resident(case.shape, setting)["parameters"] == 4 * (trained + borrowed), kind
            optimizers = build_optimizers(case.draft, case.recipe)
            for parameter in case.draft.parameters():
                parameter.grad = torch.zeros_like(parameter)
            for one in optimizers:
                one.step()
            states = [state for one in optimizers for state in one.state.values()]
            moments = sum(t.nbytes for state in states for name, t in state.items() if name != "step")
            assert resident(case.shape, setting)["optimizer"] == moments, (kind, optimizer)


LLAMA = DraftShape(
    kind="eagle3",
    hidden=4096,
    target_hidden=4096,
    vocab=128256,
    draft_vocab=32000,
    features=3,
    heads=32,
    kv_heads=8,
    head_dim=128,
    intermediate=14336,
)


def test_remedies_come_in_order_and_stop_when_the_step_fits() -> None:
    found = advise(LLAMA, StepSetting(positions=131072), 80e9)
    assert [remedy.name for remedy in found.remedies][:2] == ["chunked logits", "checkpointing"]
    assert found.remedies[2].name.startswith("sequence parallelism")
    totals = [remedy.bytes.total for remedy in (found.now, *found.remedies)]
    assert totals == sorted(totals, reverse=True)
    assert [remedy.fits for remedy in (found.now, *found.remedies)] == [False, False, False, True]
    assert found.enough and totals[-1] <= USABLE * 80e9 < totals[-2]
    short = advise(LLAMA, StepSetting(positions=2048), 80e9)
    assert short.now.fits and not short.remedies
    none = advise(LLAMA, StepSetting(positions=131072), 2e9)
    assert not none.enough and "not even" in none.sentence
    assert len(advise(LLAMA, StepSetting(positions=2048), 80e9, every=True).remedies) == 3


def test_ranks_divide_what_grows_with_the_row_and_nothing_else() -> None:
    one, eight = (peak(LLAMA, StepSetting(positions=131072, sequence_parallel=n)) for n in (1, 8))
    assert eight.parts["logits"] == pytest.approx(one.parts["logits"] / 8)
    assert eight.parts["parameters"] == one.parts["parameters"] == 4 * (LLAMA.parameters(7) + 128256 * 4096)


def test_the_longest_row_fits_and_the_next_does_not() -> None:
    setting = StepSetting(positions=8, logit_chunk=1024)
    most = longest(LLAMA, setting, 80e9)
    assert peak(LLAMA, replace(setting, positions=most)).total <= USABLE * 80e9
    assert peak(LLAMA, replace(setting, positions=most + 1)).total > USABLE * 80e9
    assert longest(LLAMA, setting, 1e9) == 0


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match=r"places is 9; right is 1 to positions \(8\)"):
        StepSetting(positions=8, places=9)
    with pytest.raises(ValueError, match="ttt is 0"):
        StepSetting(positions=8, ttt=0)


@pytest.mark.parametrize(("length", "steps"), [(200, 1), (384, 2), (512, 2), (700, 1)])
def test_a_large_vocabulary_makes_the_teacher_the_fullest_moment(length: int, steps: int) -> None:
    """Chunks of the target's logits outweigh a short row, as with SmolLM2's 49,152 tokens."""
    shape = DraftShape(
        kind="eagle3", hidden=96, target_hidden=96, vocab=16_384, draft_vocab=1024, features=3, heads=4, kv_heads=2,
        head_dim=24, intermediate=256,
    )  # fmt: skip
    setting = StepSetting(positions=length, ttt=steps, bf16=False, state_bytes=4, device="cpu")
    case = random_case(shape, setting)
    predicted = peak(shape, case.setting())
    step = max(total for name, total in predicted.moments.items() if name != "optimizer") - predicted.resident
    assert step == pytest.approx(measure(case).peak, rel=0.10)
    assert max(predicted.moments, key=predicted.moments.__getitem__) == "teacher"
