"""`benchmarks/ttt_step.py`: what it counts, what it computes, and when it refuses to compare."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from labsim.models.live_bytes import peak_bytes

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import ttt_step
from peers.ttt_case import EPS, Case, draw
from peers.ttt_ours import Ours, teacher_entropy, ttt_loss

SHARED = {
    "name": "tiny",
    "ttt": 7,
    "decay": 0.8,
    "answers": 1.0,
    "device": "cpu",
    "bf16": False,
    "frozen_head": False,
    "threads": 1,
}


def test_memory_counts_storages_once_and_only_while_they_live() -> None:
    outside = torch.ones(1000)

    def work() -> None:
        a = outside * 2  # 4,000 bytes
        view = a.view(10, 100)[2:]
        b = a + 1  # 8,000
        del a, view  # 4,000
        wide = torch.cat([b, b, b])  # 16,000
        del b, wide
        _ = torch.zeros(1500) + 1  # 12,000

    assert peak_bytes(work) == 16_000


def test_memory_counts_what_only_autograd_holds() -> None:
    weight = torch.ones(1000, requires_grad=True)

    def work() -> None:
        loss = weight.exp().exp().sum()  # two results of 4,000 bytes kept for backward, one of 4
        torch.ones(5000)  # 20,000, at once gone
        loss.backward()

    assert peak_bytes(work) == 28_004


def by_hand(case: Case, draft: torch.nn.Module) -> tuple[float, float, list[int]]:
    """(cross-entropy, KL divergence, chains right up to each step), position by position in float64."""
    steps = list(draft.ttt_forward(case.tokens_1T, case.features_1LF, case.ttt))
    cross, divergence = 0.0, 0.0
    right = [[0] * case.ttt for _ in range(case.length)]
    for k in range(case.ttt):
        terms = []
        for t in range(case.length - k):
            y = case.last_1LH[0, t + k].double()
            normed = y / (y.square().mean() + EPS).sqrt() * case.teacher_norm_H.double()
            p = (case.teacher_head_NH.double() @ normed).softmax(0)
            q = draft.logits(steps[k].output_BLH[0, t], k).double().softmax(0)
            right[t][k] = int(p.argmax() == q.argmax() and case.counts_1L[0, t] and (k == 0 or right[t][k - 1]))
            if case.counts_1L[0, t + k]:
                terms.append((float(-(p * q.log()).sum()), float((p * (p / q).log()).sum())))
            else:
                right[t][k] *= -1  # the chain lives on, but this place does not count
        cross += case.decay**k * sum(one for one, _ in terms) / len(terms)
        divergence += case.decay**k * sum(other for _, other in terms) / len(terms)
    return cross, divergence, [sum(max(0, chain[k]) for chain in right) for k in range(case.ttt)]


def test_loss_entropy_and_counts_are_those_of_the_definition() -> None:
    case = draw("tiny", 32, 3, answers=0.6)
    assert 0 < int(case.counts_1L.sum()) < 32
    draft = Ours(case).draft.requires_grad_(False)
    # So that some guesses are right: the teacher speaks through what the draft itself says at step 0.
    first = next(draft.ttt_forward(case.tokens_1T, case.features_1LF, 1)).output_BLH
    case.last_1LH[:, ::2] = first[:, ::2]
    case.teacher_head_NH.copy_(draft.lm_head.weight)
    loss, counts = ttt_loss(draft, case)
    cross, divergence, right = by_hand(case, draft)
    assert float(loss) == pytest.approx(cross, rel=1e-6)
    assert float(loss) - teacher_entropy(case) == pytest.approx(divergence, rel=1e-5)
    assert [int(count) for count in counts] == right and right[0] > 0


@pytest.mark.parametrize(("kernel", "linear"), [("auto", True), ("reference", False)])
def test_bytes_per_token_tell_linear_memory_from_a_score_matrix(kernel: str, linear: bool) -> None:
    def peak(length: int) -> int:
        system = Ours(draw("tiny", length, 4), kernel)
        return peak_bytes(lambda: system.loss().backward())

    rows = [{"positions": n, "systems": {"ours": {"peak_bytes": peak(n)}}} for n in (64, 128, 256)]
    first, second = (step["bytes_per_token"] for step in ttt_step.growth(rows)["ours"])
    assert (second / first == pytest.approx(1, abs=0.02)) if linear else second / first > 1.2


def test_ours_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Two processes, each of which imports torch: one length is enough."""
    options = ["--size", "tiny", "--lengths", "32", "--repeats", "1", "--peer", "none", "--json"]
    monkeypatch.setattr(sys, "argv", ["ttt_step.py", *options])
    assert ttt_step.main() == 0
    result = json.loads(capsys.readouterr().out)
    (row,) = result["lengths"]
    system = Ours(draw("tiny", 32, 7))
    assert row["systems"]["ours"]["peak_bytes"] == pytest.approx(peak_bytes(lambda: system.loss().backward()), rel=0.02)
    assert row["systems"]["ours"]["seconds"]["median"] > 0
    assert row["ratios"] == {} and result["agreement"] == {}


def test_a_shape_that_outgrows_the_limit_does_not_end_the_run() -> None:
    workers = ttt_step.Workers(None, 0.03e9, SHARED)
    rows = ttt_step.measure(workers, ["ours"], [32, 64], 1)
    assert ["did_not_fit" in row["systems"]["ours"] for row in rows] == [True, True]
    assert "not tried" in rows[1]["systems"]["ours"]["did_not_fit"]
    assert ttt_step.growth(rows) == {}


def test_a_peer_that_is_not_there_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"build_speculators\.py makes it.*--peer none"):
        ttt_step.peer_python(tmp_path)


def test_no_ratio_without_agreement(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    apart = {"sdpa": {"agrees": False, "loss_difference": 0.1}}
    monkeypatch.setattr(ttt_step, "peer_python", lambda: Path(sys.executable))
    monkeypatch.setattr(ttt_step, "agreement", lambda *_: apart)
    monkeypatch.setattr(ttt_step, "measure", lambda *_: pytest.fail("measured all the same"))
    monkeypatch.setattr(sys, "argv", ["ttt_step.py", "--size", "tiny", "--lengths", "32", "--json"])
    assert ttt_step.main() == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["agreement"] == apart and "sdpa" in said.err


def test_gradients_that_differ_or_are_missing() -> None:
    same = {"a": torch.ones(4), "b": torch.ones(3, 3)}
    assert ttt_step.furthest(same, dict(same))[1] == 0
    assert ttt_step.furthest(same, same | {"b": torch.ones(3, 3) * 1.25}) == ("b", pytest.approx(0.2))
    assert ttt_step.furthest(same, {"a": torch.ones(4)}) == ("b", float("inf"))
    assert ttt_step.furthest(same, same | {"a": torch.full((4,), float("nan"))}) == ("a", float("inf"))


@pytest.mark.full
def test_the_peer_agrees() -> None:
    try:
        workers = ttt_step.Workers(ttt_step.peer_python(), 4e9, SHARED)
    except ValueError as error:
        pytest.skip(str(error))
    found = ttt_step.agreement(workers, ["ours", "eager", "sdpa"], 40)
    assert all(found[name]["agrees"] for name in ("eager", "sdpa")), found
