"""benchmarks/usp_gpu.py runs on a CPU too, and a rank among echoes keeps what a rank among ranks keeps."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from labsim.parallel import logical
from labsim.parallel.mesh import Mesh
from labsim.train.ttt.memory import StepSetting

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import usp_gpu

SETTING = StepSetting(positions=16, ttt=3, device="cpu")


@pytest.mark.parametrize("ranks", [2, 4])
def test_an_echo_keeps_what_a_rank_keeps(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = usp_gpu.prepared("nano", "eagle3.1", SETTING, "cpu")
    alone, _ = usp_gpu.rank_step(case, 0, 512, 1, "cpu")
    echo, _ = usp_gpu.rank_step(case, 0, 512, ranks, "cpu")
    drafts = [usp_gpu.prepared("nano", "eagle3.1", SETTING, "cpu") for _ in range(ranks)]
    meshes: dict[int, Mesh] = {}
    monkeypatch.setattr(usp_gpu, "one_of", lambda number: meshes[number])

    def on_a_rank(mesh: Mesh) -> int:
        # `rank_step` asks for a mesh by a number: each thread's own.
        meshes[-1 - mesh.world.rank] = mesh
        return usp_gpu.rank_step(drafts[mesh.world.rank], 0, 512, -1 - mesh.world.rank, "cpu")[0]

    for real in logical.run(on_a_rank, ring=ranks, timeout_seconds=120):
        assert real == pytest.approx(echo, rel=0.01)
    weights = usp_gpu.storage_bytes(list(case.draft.parameters()))
    assert echo - weights < 0.75 * (alone - weights)


def test_a_small_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "cpu", "--target", "nano", "--seq", "64", "--memory", "0.12", "--ttt", "2", "--repeats", "1"]
    monkeypatch.setattr(sys, "argv", ["usp_gpu.py", *options, "--sp", "1,2", "--json"])
    usp_gpu.main()
    report = json.loads(capsys.readouterr().out)
    assert report["rate"]["ranks"]["2"]["fraction"]["median"] > 0
    for found in report["longest"]:
        one, two = (found["ranks"][ranks] for ranks in ("1", "2"))
        assert two["measured_positions"] > 1.5 * one["measured_positions"] > 0
        for row in (one, two):
            assert row["bytes"] <= found["usable_bytes"]
            assert row["bytes"] == pytest.approx(row["bytes_computed"], rel=0.1)
            assert row["measured_positions"] == pytest.approx(row["computed_positions"], rel=0.1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["usp_gpu.py"])
    with pytest.raises(SystemExit):
        usp_gpu.main()
    assert "no CUDA GPU" in capsys.readouterr().err
