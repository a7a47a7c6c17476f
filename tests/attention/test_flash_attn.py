"""The adapters to flash-attn 2 and 4 and to torch's CUDA operator on a CPU: stand-ins with their signatures and
layouts, computed by the definition.

The kernels themselves are compared on a GPU (`tests/gpu`). Here the layouts, the padding and the arguments are.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from labsim.attention import flash_attn, flash_attn_4, kernels
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


def forward_4(q, k, v, *, softmax_scale=None, causal=False, return_lse=False):
    assert return_lse, "without it there is no log-sum-exp where nothing asks for gradients"
    out, lse, *_ = forward(q, k, v, 0.0, softmax_scale, causal, -1, -1, 0.0, None, False)
    return out, lse, None, None, None


def backward_4(q, k, v, out, dout, lse, softmax_scale=None, causal=False):
    assert lse.dtype == torch.float32 and lse.is_contiguous()
    grads = [torch.empty_like(x) for x in (q, k, v)]
    backward(dout, q, k, v, out, lse, *grads, 0.0, softmax_scale, causal, -1, -1, 0.0, None, False)
    return tuple(grads)


def forward_cuda(q, k, v, dropout_p, is_causal, return_debug_mask, *, scale):
    assert q.shape[-1] % 8 == 0 and q.shape[1] == k.shape[1] == v.shape[1], "what torch's operator asks for"
    return *kernels.reference_forward(q, k, v, is_causal, scale), None, None


def backward_cuda(dout, q, k, v, out, lse, cum_q, cum_k, max_q, max_k, dropout_p, is_causal, seed, offset, *, scale):
    assert all(x.shape[-1] % 8 == 0 and x.shape[1] == q.shape[1] for x in (dout, q, k, v, out))
    return kernels.reference_backward(dout, q, k, v, out, lse, is_causal, scale)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(_flash_attn_forward=forward, _flash_attn_backward=backward)
    monkeypatch.setattr(flash_attn, "interface", lambda: module)
    module_4 = SimpleNamespace(_flash_attn_fwd=forward_4, _flash_attn_bwd=backward_4)
    monkeypatch.setattr(flash_attn_4, "interface", lambda: module_4)
    operators = SimpleNamespace(
        _scaled_dot_product_flash_attention=forward_cuda,
        _scaled_dot_product_flash_attention_backward=backward_cuda,
        _scaled_dot_product_flash_attention_for_cpu=kernels.aten._scaled_dot_product_flash_attention_for_cpu,
        _scaled_dot_product_flash_attention_for_cpu_backward=(
            kernels.aten._scaled_dot_product_flash_attention_for_cpu_backward
        ),
    )
    monkeypatch.setattr(kernels, "aten", operators)


@pytest.mark.parametrize("name", [*kernels.THEIRS, "cuda_flash"])
@pytest.mark.parametrize("size", [16, 17, 24])
@pytest.mark.parametrize("causal", [True, False])
def test_layout_padding_and_groups(stand_in: None, name: str, size: int, causal: bool) -> None:
    q, k, v, dout = (x.float() for x in draws([(2, 6, 9, size), (2, 2, 9, size), (2, 2, 9, size), (2, 6, 9, size)]))
    out, lse = kernels.forward(q, k, v, causal=causal, kernel=name)
    expected_out, expected_lse = kernels.forward(q, k, v, causal=causal, kernel="cpu_flash")
    torch.testing.assert_close(out, expected_out, rtol=0, atol=1e-5)
    torch.testing.assert_close(lse, expected_lse, rtol=0, atol=1e-5)
    found = kernels.backward(dout, q, k, v, out, lse, causal=causal, kernel=name)
    exact = kernels.backward(dout, q, k, v, out, lse, causal=causal, kernel="cpu_flash")
    for mine, theirs in zip(found, exact, strict=True):
        assert mine.shape == theirs.shape
        torch.testing.assert_close(mine, theirs, rtol=0, atol=2e-5)


@pytest.mark.parametrize(("name", "package"), [("flash_attn", "flash-attn"), ("flash_attn_4", "flash-attn-4")])
def test_its_absence_is_said_with_what_to_do(name: str, package: str) -> None:
    if kernels.THEIRS[name].installed():
        pytest.skip(f"{package} is here")
    q = torch.zeros(1, 1, 2, 8)
    with pytest.raises(ModuleNotFoundError, match=f"needs the package {package} "):
        kernels.forward(q, q, q, causal=True, kernel=name)
    assert kernels.choose(q) == "cpu_flash"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"cute/__init__.py"}, {"flash_attn_4"}),
        ({"__init__.py", "flash_attn_interface.py"}, {"flash_attn"}),
        (set(), set()),
    ],
)
def test_each_package_is_known_by_its_own_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: set[str], found: set[str]
) -> None:
    """Version 4 alone makes `import flash_attn` work too, without version 2's functions."""
    for name in files:
        place = tmp_path / "flash_attn" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    monkeypatch.syspath_prepend(tmp_path)
    for name in [one for one in sys.modules if one.partition(".")[0] == "flash_attn"]:
        monkeypatch.delitem(sys.modules, name)
    modules = {"flash_attn": "flash_attn.flash_attn_interface", "flash_attn_4": flash_attn_4.MODULE}
    assert {name for name, module in modules.items() if flash_attn.has_module(module)} == found
    for name in [one for one in sys.modules if one.partition(".")[0] == "flash_attn"]:
        del sys.modules[name]
