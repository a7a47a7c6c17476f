"""Training on a GPU: the losses of the CPU, peak memory counted by the allocator, a draft that decodes there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from labsim.decode.compare import compare
from labsim.drafts.load import load_drafter
from labsim.drafts.shape import Chain
from labsim.models.load import load_target
from labsim.train.ttt.recipe import TTTRecipe
from labsim.train.ttt.run import run

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")


def losses(out: Path) -> list[float]:
    return [float(line.split(",")[2]) for line in (out / "loss.csv").read_text().splitlines()[1:]]


@pytest.mark.parametrize("kind", ["eagle3.1", "mtp", "heads"])
def test_losses_are_those_of_the_cpu(kind: str, tmp_path: Path) -> None:
    recipe = TTTRecipe(draft=kind, ttt=3, steps=8, seq=256, evaluate_every=8, draft_vocab_size=512)
    for device in ("cpu", "cuda"):
        report = run("nano", ["shipped"], recipe, tmp_path / device, device=device)
        assert report["peak_memory_bytes"] > 0
    # The target runs in bf16 on the GPU, so its states differ in the third digit.
    assert losses(tmp_path / "cuda") == pytest.approx(losses(tmp_path / "cpu"), rel=0.03)
    target = load_target("nano", device="cuda", dtype=torch.float32)
    drafter = load_drafter(str(tmp_path / "cuda"), target)
    comparison = compare(target, target.encode_chat("Hello!"), drafter=drafter, shape=Chain(3), max_new_tokens=60)
    assert comparison.identical or comparison.difference.near_tie
