"""The same code on a GPU: float32 agrees with the CPU, and drafts change no token. `make gpu-check` runs this."""

from __future__ import annotations

import pytest
import torch

from labsim.decode.compare import compare
from labsim.drafts.load import load_drafter
from labsim.drafts.shape import Chain, DynamicTree, Shape
from labsim.models.load import Target, load_target

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
PROMPT = "Write a Python function that counts the words in a text."


@pytest.fixture(scope="module")
def target() -> Target:
    # TF32 products carry 10 bits of mantissa; the comparison is about our code, so it is switched off.
    torch.backends.cuda.matmul.allow_tf32 = False
    return load_target("nano", device="cuda", dtype=torch.float32)


def test_float32_logits_agree_with_the_cpu(target: Target) -> None:
    cpu = load_target("nano", device="cpu", dtype=torch.float32)
    tokens = torch.tensor([cpu.encode_chat(PROMPT)])
    on_cpu, on_gpu = (
        one.model.forward(tokens, one.model.new_cache(1, tokens.shape[1])).logits_BQV.cpu() for one in (cpu, target)
    )
    assert float((on_cpu - on_gpu).abs().max() / on_cpu.abs().max()) < 1e-4


@pytest.mark.parametrize("draft", ["ngram", "small"])
@pytest.mark.parametrize("shape", [Chain(4), DynamicTree(4, 3, 10)], ids=str)
def test_a_draft_changes_no_token(target: Target, draft: str, shape: Shape) -> None:
    comparison = compare(
        target, target.encode_chat(PROMPT), drafter=load_drafter(draft, target), shape=shape, max_new_tokens=200
    )
    assert comparison.identical or comparison.difference.near_tie


def test_a_gpu_gets_bf16_by_default() -> None:
    model = load_target("nano", device="cuda").model
    assert (model.dtype, model.device.type) == (torch.bfloat16, "cuda")
