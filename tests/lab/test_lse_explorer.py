"""The explorers of notebook 09 draw what one softmax over the row says."""

from __future__ import annotations

import pytest
import torch

from labsim.lab.explorers import lse


@pytest.fixture(scope="module")
def errors():
    return lse.merge_errors()


@pytest.mark.parametrize("scores", lse.ROWS)
@pytest.mark.parametrize("length", lse.LENGTHS)
def test_point_times_stair_is_bar(length: int, scores: str) -> None:
    frame = lse.a_row_in_blocks().set(length=length, scores=scores)
    bar, point, stair = frame.series
    row, _ = lse.row_of(scores)
    right = (row.exp() / row.exp().sum()).tolist()
    assert bar.y == pytest.approx(right, rel=1e-4)
    assert [p * s for p, s in zip(point.y, stair.y, strict=True)] == pytest.approx(right, rel=2e-4)
    assert sum(stair.y[::length]) == pytest.approx(1, rel=1e-4)


def test_the_sentence_names_the_merged_row() -> None:
    row, values = lse.row_of("one loud key")
    text = lse.a_row_in_blocks().set(length=12, scores="one loud key").text
    assert text.startswith("2 blocks of 12 keys")
    assert text.count(f"{float(row.softmax(0) @ values):+.4f}") == 2
    assert text.count(f"{float(row.logsumexp(0)):.4f}") == 2


def test_what_is_broken_and_what_is_not(errors) -> None:
    def broken(**values: str) -> bool:
        return "not a number" in errors.set(**values).text

    for precision in lse.DRAWN:
        for case in lse.CASES:
            assert not broken(form="guarded", precision=precision, case=case)
        assert broken(form="logaddexp", precision=precision, case="two empty sides first")
        assert broken(form="sigmoid", precision=precision, case="an empty accumulator first")
        assert broken(form="bare exp", precision=precision, case="large scores") == (precision != "float64")


def test_an_error_is_the_difference_to_one_softmax(errors) -> None:
    """A masked block that says 0 takes 1 / (1 + exp(lse)) of the weight, and adds log(1 + exp(-lse)) to the LSE."""
    frame = errors.set(form="guarded", precision="float64", case="a masked block with LSE 0 first")
    _, right = lse.prepared("plain")
    output, log = frame.series
    for at, (out, exact) in enumerate(right):
        leak = torch.sigmoid(-exact)
        assert output.y[at] == pytest.approx(float((out * leak[..., None]).abs().max()), rel=1e-3)
        assert log.y[at] == pytest.approx(float(torch.nn.functional.softplus(-exact).max()), rel=1e-3)


def test_nothing_is_drawn_outside_the_axis(errors) -> None:
    for frame in errors.frames.values():
        for series in frame.series:
            assert all(y is None or lse.TINY <= y <= lse.BROKEN for y in series.y)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="scores is 'flat'"):
        lse.row_of("flat")
    with pytest.raises(ValueError, match="case is 'hard'"):
        lse.prepared("hard")


@pytest.mark.parametrize("scores", lse.ROWS)
def test_three_ranks_end_with_the_softmax_of_the_row_and_begin_with_their_own(scores: str) -> None:
    explorer = lse.three_ranks()
    s, v = lse.row_of(scores)
    for met, step in enumerate(lse.STEPS):
        frame = explorer.set(step=step, scores=scores)
        drawn = [y for one in frame.series for y in one.y]
        assert len(frame.series) == 3
        together = 8 * (met + 1)
        expected = [s[:together].softmax(0)] + [s[at : at + 8].softmax(0) for at in range(together, 24, 8)]
        assert drawn == pytest.approx(torch.cat(expected).tolist(), rel=1e-4)
    assert drawn == pytest.approx(s.softmax(0).tolist(), rel=1e-4)
    assert f"ranks 0 to 2: out {float(s.softmax(0) @ v):+.4f}" in frame.text
