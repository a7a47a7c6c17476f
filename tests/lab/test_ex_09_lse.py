"""What notebook 09 says by hand, in five forms and on two ranks, is what autograd and one softmax say."""

from __future__ import annotations

import math
import random

import pytest
import torch

from labsim.attention.lse import merge
from labsim.lab import merge_lab as lab
from labsim.lab.exercises import lse_by_hand as hand
from labsim.lab.merge_forms import CORNERS, FORMS, PRECISIONS, Precision, accumulated, corner
from labsim.lab.merge_ranks import attend_to_own_keys
from labsim.parallel import logical

EMPTY = float("-inf")


def tensor(x: object) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64)


@pytest.mark.parametrize("seed", range(20))
def test_streaming_by_hand_is_one_softmax(seed: int) -> None:
    (blocks,) = hand.some_blocks(random.Random(seed))
    scores, values = tensor([pair for block in blocks for pair in block]).T
    out, lse = hand.streamed(blocks)
    assert out == pytest.approx(float(scores.softmax(0) @ values), rel=1e-9, abs=1e-12)
    assert lse == pytest.approx(float(scores.logsumexp(0)), rel=1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_the_merge_by_hand_is_the_packages(seed: int) -> None:
    out_a, lse_a, out_b, lse_b = hand.some_sides(random.Random(seed))
    out, lse = merge(*(tensor(x) for x in (out_a, lse_a, out_b, lse_b)))
    mine = hand.merged(out_a, lse_a, out_b, lse_b)
    torch.testing.assert_close(tensor(mine[0]), out)
    torch.testing.assert_close(tensor(mine[1]), lse)


@pytest.mark.parametrize("seed", range(10))
def test_the_gradient_of_an_lse_by_hand_is_autograds(seed: int) -> None:
    out_a, lse_a, out_b, lse_b, dout = hand.some_merge(random.Random(seed))
    leaf = tensor(lse_a).requires_grad_()
    out, _ = merge(tensor(out_a), leaf, tensor(out_b), tensor(lse_b))
    out.backward(tensor(dout))
    assert hand.lse_gradient(out_a, lse_a, out_b, lse_b, dout) == pytest.approx(float(leaf.grad), rel=1e-9, abs=1e-12)


def test_shares_by_hand_add_up_to_the_gradient_of_one_softmax() -> None:
    q, keys, values = (x[0, 0] for x in lab.qkv(7, 3, queries=1, heads=1, width=3))
    [dout] = lab.drawn((3,), seed=4)
    leaves = [x.clone().requires_grad_() for x in (q[0], keys, values)]
    ((leaves[1] @ leaves[0] * 0.6).softmax(0) @ leaves[2]).backward(dout)
    owns = []
    for k, v in zip(keys.split(3), values.split(3), strict=True):
        s = k @ q[0] * 0.6
        owns.append(((s.softmax(0) @ v).tolist(), float(s.logsumexp(0))))
    whole = owns[0]
    for own in owns[1:]:
        whole = hand.merged(*whole, *own)
    shares = [
        hand.block_share(q[0].tolist(), k.tolist(), v.tolist(), dout.tolist(), 0.6, own, whole)
        for k, v, own in zip(keys.split(3), values.split(3), owns, strict=True)
    ]
    torch.testing.assert_close(sum(tensor(dq) for dq, _, _ in shares), leaves[0].grad)
    for at, leaf in ((1, leaves[1]), (2, leaves[2])):
        torch.testing.assert_close(torch.cat([tensor(share[at]) for share in shares]), leaf.grad)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_merge_where_nothing_is_hard(form: str) -> None:
    q, k, v = lab.qkv(48, 5)
    found = accumulated(lab.parts_of(q, k, v, 6), FORMS[form])[-1]
    for mine, right in zip(found, lab.dense(q, k, v), strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-12, atol=1e-13)


def test_corners_are_those_that_were_measured() -> None:
    """Worked out by hand from the formulas: which of the forms subtract -inf from -inf, and which overflow."""
    found = {form: [corner(FORMS[form], *pair) for pair in CORNERS.values()] for form in FORMS}
    assert found == {
        "guarded": ["right"] * 4,
        "logaddexp": ["right", "right", "right", "out NaN"],
        "sigmoid": ["right", "right", "LSE NaN", "out NaN, LSE NaN"],
        "log1p": ["right", "right", "right", "out NaN, LSE NaN"],
        "bare exp": ["out 0, LSE inf", "right", "out NaN, LSE NaN", "out NaN, LSE NaN"],
    }


def test_a_precision_rounds_the_number_it_names_and_no_other() -> None:
    parts = lab.parts_of(*lab.qkv(64, 6), 8)

    def fits(x: torch.Tensor, dtype: torch.dtype) -> bool:
        return torch.equal(x, x.to(dtype).to(x.dtype))

    for name, fields in {"bfloat16 accumulator": (True, False), "bfloat16 LSE": (False, True)}.items():
        out, lse = accumulated(parts, merge, PRECISIONS[name])[-1]
        assert (fits(out, torch.bfloat16), fits(lse, torch.bfloat16)) == fields
    out, lse = accumulated(parts, merge, PRECISIONS["bfloat16 outputs"])[-1]
    assert not fits(out, torch.bfloat16) and not fits(lse, torch.bfloat16)
    assert accumulated(parts, merge, Precision(torch.float64))[-1][0].dtype == torch.float64


def test_a_detached_lse_leaves_output_and_dv_right_only() -> None:
    given = lab.qkv(24, 7)
    [dout] = lab.drawn(given[0].shape, seed=8)
    right = lab.through_the_merge(given, dout, 3, "reference")
    assert max(right.values()) < 1e-13
    found = lab.through_the_merge(given, dout, 3, "cpu_flash")
    assert found["out"] < 1e-13 and found["dv"] < 1e-13
    assert found["dq"] > 0.05 and found["dk"] > 0.05


def test_only_the_merged_pair_gives_all_gradients() -> None:
    given = lab.qkv(24, 9)
    [dout] = lab.drawn(given[0].shape, seed=10)
    found = {way: lab.block_by_block(given, dout, 4, way) for way in lab.WAYS}
    assert [max(errors.values()) < 1e-13 for errors in found.values()] == [True, False, False, False]
    assert found["own output, merged LSE"]["dv"] < 1e-13 < found["own output, own LSE"]["dv"]
    with pytest.raises(ValueError, match="way is 'both'"):
        lab.block_by_block(given, dout, 4, "both")


def test_keys_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="24 keys do not divide into 5"):
        lab.parts_of(*lab.qkv(24, 0), 5)


def test_all_orders_are_tried_and_agree() -> None:
    """Not to the last bit: that is how one sees that the orders were different ones."""
    assert 0 < lab.order_spread(lab.parts_of(*lab.qkv(20, 11), 4)) < 1e-13


def test_the_masked_row_leaks() -> None:
    largest, lse, leak = lab.masked_row()
    assert (largest, lse) == (0.0, 0.0)
    assert leak == pytest.approx(1 / (1 + math.exp(4.7)), rel=1e-5)


@pytest.mark.parametrize("steps", [0, 2])
def test_the_branch_needs_the_merged_pair(steps: int) -> None:
    assert max(lab.branch_parity(steps, 12).values()) < 1e-12
    late, early = (lab.history_backward(steps, 12, merged=merged) for merged in (True, False))
    assert max(late.values()) < 1e-13
    assert (max(early.values()) > 0.05) == (steps > 0)


def test_the_branchs_weight_is_what_the_history_loses() -> None:
    q, k, _, *flat = lab.branch_inputs(3, 13)
    length = q.shape[2]
    scores = q @ torch.cat([k, *flat[0::2]], 2).transpose(-1, -2) / 4
    seen = torch.cat([torch.ones(length, length).tril().bool(), *[torch.eye(length).bool()] * 3], 1)
    weights = scores.masked_fill(~seen, EMPTY).softmax(-1)
    assert lab.branch_weight(3, 13) == pytest.approx(float(weights[..., length:].sum(-1).mean()), rel=1e-9)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_keys_on_several_ranks_are_one_softmax(ranks: int) -> None:
    given = lab.qkv(24, 14, queries=5)
    [dout] = lab.drawn(given[0].shape, seed=15)
    leaves = [x.clone().requires_grad_() for x in given]
    out, lse = lab.dense(*leaves)
    right = torch.autograd.grad(out, leaves, dout)
    found = logical.run(attend_to_own_keys, given, dout, ring=ranks)
    for (mine_out, mine_lse, dq, _, _), sent in found:
        for mine, exact in ((mine_out, out), (mine_lse, lse), (dq, right[0])):
            torch.testing.assert_close(mine, exact.detach(), rtol=1e-11, atol=1e-13)
        assert sum(sent.values()) == (
            0 if ranks == 1 else (ranks - 1) * 8 * 10 * 17 + 2 * (ranks - 1) * 8 * 160 // ranks
        )
    for at, exact in ((3, right[1]), (4, right[2])):
        torch.testing.assert_close(torch.cat([parts[at] for parts, _ in found], 2), exact, rtol=1e-11, atol=1e-13)
