"""Requests that fit, by hand."""

from __future__ import annotations

import pytest

from labsim.sim.memory import requests_that_fit


def test_llama_8b_on_one_h100_by_hand() -> None:
    """0.95 * 80 GB - 16.06 GB of weights - 0.85 GB of head; 131,072 + 4,096 B per token."""
    free = 76e9 - 2 * 8_030_261_248 - 2 * 424.7e6
    for context in (400, 4000, 16000):
        assert requests_that_fit("h100", "llama-3.1-8b", context) == pytest.approx(free / 135_168 / context, abs=1)


def test_weights_that_do_not_fit_leave_no_room() -> None:
    assert requests_that_fit("h100", "llama-3.3-70b", 100, tensor_parallel=1) == 0
    assert requests_that_fit("h100", "llama-3.3-70b", 100, tensor_parallel=4) > 1000


def test_fp8_cache_holds_nearly_twice_as_many() -> None:
    plain, half = (requests_that_fit("h200", "llama-3.1-8b", 1000, kv_dtype=kind) for kind in ("bf16", "fp8"))
    assert 1.9 < half / plain < 2


def test_wrong_values_are_named() -> None:
    with pytest.raises(ValueError, match="context is 0"):
        requests_that_fit("h100", "llama-3.1-8b", 0)
