"""The by-hand rules of notebook 06 are the rules of the package."""

from __future__ import annotations

import itertools
import math
import random

import pytest
import torch

from labsim.attention.lse import merge
from labsim.attention.ttt import ttt_attention
from labsim.lab.exercises import ttt_by_hand as hand
from labsim.lab.ttt_lab import attention_bytes, drafted_logits, drafting_difference, masked_attention, unrolled_rows
from labsim.train.ttt.data import Document, PackedRow
from tests.drafts.eagle_cases import make


@pytest.mark.parametrize("step", [0, 1, 3])
@pytest.mark.parametrize("length", [1, 5, 9])
def test_the_mask_by_hand_is_the_attention_of_training(step: int, length: int) -> None:
    """One softmax under that mask equals the history, branch and merge of the package."""
    parts = torch.randn(3 + 2 * step, 1, 2, length, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    q, k, v, *branch = parts
    wanted = ttt_attention(q, k, v, list(zip(branch[0::2], branch[1::2], strict=True)))
    keys, values = torch.cat([k, *branch[0::2]], 2)[0], torch.cat([v, *branch[1::2]], 2)[0]
    torch.testing.assert_close(masked_attention(q[0], keys, values, step), wanted[0])


@pytest.mark.parametrize("variant", ["eagle3", "eagle3.1", "mtp"])
def test_training_is_drafting_in_own_branch_form_only(variant: str) -> None:
    draft = make(variant).draft
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(0, draft.config.vocab_size, (14,), generator=generator).tolist()
    features_TF = torch.randn(14, draft.config.feature_size, generator=generator, dtype=torch.float64)
    own = drafting_difference(draft, tokens, features_TF, [0, 4, 9], 4)
    assert max(own) < 1e-10
    step = drafting_difference(draft, tokens, features_TF, [4, 9], 4, branch="step")
    assert step[0] < 1e-10 < 1e-3 < min(step[1:])


def test_drafting_stops_where_the_text_does() -> None:
    draft = make("mtp").draft
    features_TF = torch.zeros(6, draft.config.feature_size, dtype=torch.float64)
    assert len(drafted_logits(draft, range(6), features_TF, 2, 3)) == 3
    with pytest.raises(ValueError, match="no chain of 4 after position 2"):
        drafted_logits(draft, range(6), features_TF, 2, 4)


@pytest.mark.parametrize("step", [0, 1, 4])
@pytest.mark.parametrize(("length", "start"), [(9, 3), (12, 9), (20, 1)])
def test_the_trained_places_are_the_packages(length: int, start: int, step: int) -> None:
    row = PackedRow.of([Document(("one", 0), "chat", tuple(range(length)), start, greedy=True)])
    assert hand.trained_places(length, start, step) == row.places(step).tolist()


def test_the_table_of_a_step_by_hand() -> None:
    rows = unrolled_rows(["a", "b", "c", "d", "e"], 2, 1)
    assert [row["reads"] for row in rows] == ["c", "d", "e", "-", "-"]
    assert [row["guesses"] for row in rows] == ["d", "e", "-", "-", "-"]
    assert [row["counts"] for row in rows] == ["no", "yes", "no", "no", "no"]
    assert [row["stands at"] for row in rows] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("seed", range(5))
def test_the_merge_by_hand_is_one_softmax(seed: int) -> None:
    rng = random.Random(seed)
    scores, values = ([rng.uniform(-3, 3) for _ in range(7)] for _ in range(2))

    def attention(chosen: range) -> tuple[float, float]:
        weights = [math.exp(scores[i]) for i in chosen]
        mixed = sum(w * values[i] for w, i in zip(weights, chosen, strict=True)) / sum(weights)
        return mixed, math.log(sum(weights))

    (a, lse_a), (b, lse_b), (both, lse) = attention(range(3)), attention(range(3, 7)), attention(range(7))
    out, found = hand.merged([a], lse_a, [b], lse_b)
    assert out == pytest.approx([both]) and found == pytest.approx(lse)
    parts = (torch.tensor(x, dtype=torch.float64) for x in ([[[[a]]]], [[[lse_a]]], [[[[b]]]], [[[lse_b]]]))
    torch_out, torch_lse = merge(*parts)
    assert (float(torch_out), float(torch_lse)) == pytest.approx((both, lse))


@pytest.mark.parametrize("seed", range(6))
def test_accuracies_by_counting_chains(seed: int) -> None:
    (chains,) = hand.some_chains(random.Random(seed))
    depth = len(chains[0])
    alive = len(chains)
    accepted = 0
    for d in range(depth):
        left = sum(all(chain[: d + 1]) for chain in chains)
        assert hand.conditional(chains)[d] == pytest.approx(left / alive if alive else 0.0)
        accepted, alive = accepted + left, left
    assert hand.figures(chains)[1] == pytest.approx(1 + accepted / len(chains))
    assert all(joint <= m for joint, m in zip(hand.survival(chains), hand.marginal(chains), strict=True))


def test_of_independent_guesses_the_product_of_marginals_is_right() -> None:
    """All combinations of two guesses, 2 in 3 right each: only then does nothing get lost."""
    chains = [list(pair) for pair in itertools.product([True, True, False], repeat=2)]
    assert hand.product_of_marginals(chains) == pytest.approx(sum(hand.survival(chains)))
    together = [[True, True], [True, True], [False, False]]
    assert hand.product_of_marginals(together) < sum(hand.survival(together))


def test_memory_is_linear_in_own_branches_and_square_under_a_mask() -> None:
    own = [attention_bytes(n, 2, "branch") for n in (128, 256, 512)]
    mask = [attention_bytes(n, 2, "mask") for n in (128, 256, 512)]
    assert own[2] - own[1] == pytest.approx(2 * (own[1] - own[0]), rel=0.1)
    assert mask[2] / mask[1] > 3.4
    assert own[2] < mask[2] / 4
