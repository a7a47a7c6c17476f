"""`labsim eval`: the figures of real decoding, recounted from its steps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from labsim.drafts.load import load_drafter
from labsim.models.load import Target, load_target
from labsim.train.evaluate import bootstrap, chosen, evaluate, prompts_of, summarise


@pytest.fixture(scope="module")
def nano() -> Target:
    return load_target("nano", device="cpu")


def test_rows_and_their_identities(nano: Target) -> None:
    small = load_drafter("small", nano)
    rows = evaluate(nano, small, ["chat", "agent"], k=3, seeds=2, prompts_per_seed=2, max_new_tokens=24)
    assert [row.data for row in rows] == ["chat", "agent"]
    for row in rows:
        assert row.answers == 4 >= row.prompts
        assert row.acceptance_length == pytest.approx(1 + sum(row.survival))
        assert row.interval[0] <= row.acceptance_length <= row.interval[1]
        product = 1.0
        for conditional, survival in zip(row.conditional, row.survival, strict=True):
            product *= conditional
            assert product == pytest.approx(survival)
        assert row.hidden_norm is None, "a small model has no fed-back state"
        assert row.tpot_p95_ms >= row.tpot_mean_ms * 0.5 > 0


def test_seeds_draw_different_prompts_and_the_same_again(nano: Target) -> None:
    prompts = prompts_of("chat")
    first, again, other = (list(chosen(nano, prompts, None, seed, 4, 32)) for seed in (0, 0, 1))
    assert first == again != other


def test_a_context_is_filled_up_to_its_length(nano: Target) -> None:
    for ids in chosen(nano, prompts_of("chat"), 700, 0, 3, 32):
        assert 690 <= len(ids) <= 700
    with pytest.raises(ValueError, match="context 4090: nano has room for 4064 tokens"):
        list(chosen(nano, prompts_of("chat"), 4090, 0, 1, 32))
    with pytest.raises(ValueError, match="more than the context of 10"):
        list(chosen(nano, prompts_of("chat"), 10, 0, 1, 32))


def fake(runs: list[int], tokens: int, seconds: float) -> SimpleNamespace:
    return SimpleNamespace(
        steps=[SimpleNamespace(path=range(run)) for run in runs],
        prompt_tokens=[0] * 7,
        tokens=[0] * tokens,
        seconds=SimpleNamespace(decode=seconds),
    )


def test_figures_by_hand() -> None:
    row = summarise("chat", None, [fake([2, 0, 1], 7, 0.6), fake([2], 4, 0.9)], [], k=2)
    assert row.survival == pytest.approx([3 / 4, 2 / 4])
    assert row.conditional == pytest.approx([3 / 4, 2 / 3])
    assert row.acceptance_length == pytest.approx(1 + 5 / 4)
    assert row.tpot_mean_ms == pytest.approx((100 + 300) / 2)
    assert row.tpot_p95_ms == pytest.approx(290)


def test_the_interval_is_over_prompts() -> None:
    """Many steps of few prompts leave a wide interval; the same steps of equal prompts none."""
    low, high = bootstrap([[3] * 100, [0] * 100, [3] * 100, [0] * 100])
    assert low == pytest.approx(1.0, abs=0.8)
    assert high == pytest.approx(4.0, abs=0.8)
    assert bootstrap([[1, 2]] * 9) == pytest.approx((2.5, 2.5))


def test_a_prompt_drawn_twice_is_one_prompt() -> None:
    """The same answers again are no further evidence: figures and interval stay what they are."""
    once = [fake([2, 0, 1], 7, 0.6), fake([2], 4, 0.9), fake([0, 0], 3, 0.5)]
    row = summarise("chat", None, once, [], k=2, asked=["a", "b", "c"])
    again = summarise("chat", None, once * 3, [], k=2, asked=["a", "b", "c"] * 3)
    assert (row.prompts, row.answers, again.prompts, again.answers) == (3, 3, 3, 9)
    assert again.acceptance_length == pytest.approx(row.acceptance_length)
    assert again.interval == pytest.approx(row.interval)
    assert summarise("chat", None, once, [], k=2).interval == row.interval
    narrow = summarise("chat", None, once * 3, [], k=2).interval
    assert narrow[1] - narrow[0] < row.interval[1] - row.interval[0], "as nine prompts it would be narrower"


def test_unknown_data_is_named() -> None:
    with pytest.raises(ValueError, match=r"'chatt' is neither one of chat, code, agent, document"):
        prompts_of("chatt")
