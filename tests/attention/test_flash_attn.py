"""The adapter to flash-attn on a CPU: a stand-in with the package's signature and layout, computed by the definition.

The package itself is compared on a GPU (`tests/gpu`). Here the layouts, the padding and the arguments are.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from labsim.attention import flash_attn, kernels
from tests.attention.sequence_reference import draws


def forward(
    q, k, v, dropout_p, softmax_scale, causal, window_size_left, window_size_right, softcap, alibi_slopes,
    return_softmax,
):  # fmt: skip
    assert q.shape[-1] % 8 == 0 and all(x.is_contiguous() for x in (q, k, v))
    ours = [x.transpose(1, 2) for x in (q, k, v)]
    out, lse = kernels.reference_forward(*ours, causal, softmax_scale)
    return out.transpose(1, 2), lse, torch.empty(0), torch.empty(2)


def backward(
    dout, q, k, v, out, softmax_lse, dq, dk, dv, dropout_p, softmax_scale, causal, window_size_left,
    window_size_right, softcap, alibi_slopes, deterministic, rng_state=None,
):  # fmt: skip
    ours = [x.transpose(1, 2) for x in (dout, q, k, v, out)]
    for place, found in zip(
        (dq, dk, dv), kernels.reference_backward(*ours, softmax_lse, causal, softmax_scale), strict=True
    ):
        place.copy_(found.transpose(1, 2))
    return torch.empty(0)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(_flash_attn_forward=forward, _flash_attn_backward=backward)
    monkeypatch.setattr(flash_attn, "interface", lambda: module)


@pytest.mark.parametrize("size", [16, 17, 24])
@pytest.mark.parametrize("causal", [True, False])
def test_layout_padding_and_groups(stand_in: None, size: int, causal: bool) -> None:
    q, k, v, dout = (x.float() for x in draws([(2, 6, 9, size), (2, 2, 9, size), (2, 2, 9, size), (2, 6, 9, size)]))
    out, lse = kernels.forward(q, k, v, causal=causal, kernel="flash_attn")
    expected_out, expected_lse = kernels.forward(q, k, v, causal=causal, kernel="cpu_flash")
    torch.testing.assert_close(out, expected_out, rtol=0, atol=1e-5)
    torch.testing.assert_close(lse, expected_lse, rtol=0, atol=1e-5)
    found = kernels.backward(dout, q, k, v, out, lse, causal=causal, kernel="flash_attn")
    exact = kernels.backward(dout, q, k, v, out, lse, causal=causal, kernel="cpu_flash")
    for mine, theirs in zip(found, exact, strict=True):
        assert mine.shape == theirs.shape
        torch.testing.assert_close(mine, theirs, rtol=0, atol=2e-5)


@pytest.mark.skipif(flash_attn.installed(), reason="flash-attn is here")
def test_its_absence_is_said_with_what_to_do() -> None:
    q = torch.zeros(1, 1, 2, 8)
    with pytest.raises(ModuleNotFoundError, match="needs the package flash-attn"):
        kernels.forward(q, q, q, causal=True, kernel="flash_attn")
    assert kernels.choose(q) == "cpu_flash"
